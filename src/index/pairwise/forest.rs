//! Groups of rows that steps connect: union-find over places of rows.

use crate::error::Result;
use crate::memory;

/// Which group each row is in. A group's first row, the one with the smallest place, stands for it.
pub(super) struct Forest {
    /// The first row of each row's group, or a step towards it.
    parents: Vec<u32>,
}

impl Forest {
    /// Rows that are groups of their own.
    pub(super) fn new(rows: usize) -> Result<Self> {
        Ok(Self { parents: memory::collect(0..rows as u32)? })
    }

    /// The first row of a row's group. Halves the way there.
    pub(super) fn first(&mut self, mut row: u32) -> u32 {
        while self.parents[row as usize] != row {
            let next = self.parents[self.parents[row as usize] as usize];
            self.parents[row as usize] = next;
            row = next;
        }
        row
    }

    /// Makes the groups of two rows one. False if they were one already.
    pub(super) fn join(&mut self, a: u32, b: u32) -> bool {
        let [a, b] = [self.first(a), self.first(b)];
        self.parents[a.max(b) as usize] = a.min(b);
        a != b
    }
}
