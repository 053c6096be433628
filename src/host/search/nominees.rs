//! Rows that cannot be excluded from a query's nearest ones, and those that were held against each other already.

use std::collections::BinaryHeap;

use crate::kernels::{key_of, value_of};

/// Rows that wait on a list before it is thinned: at least.
const ROOM: usize = 512;

/// What is known of a query's nearest rows while rows go by. Its limit only falls: a row whose lower end lies above it is reported behind k
/// others.
#[derive(Debug)]
pub(crate) struct Nominees {
    /// How many are wanted; none for all within the limit.
    k: Option<usize>,
    pub(crate) limit: f32,
    /// Keys of the k smallest upper ends.
    uppers: BinaryHeap<u32>,
    /// Lower ends and slots.
    list: Vec<(f32, u32)>,
    /// Keys of reported distances, and ids: up to k of them, in order.
    best: Vec<(u32, u64)>,
    /// How many distances were computed.
    pub(crate) rescored: u64,
}

impl Nominees {
    /// For the k nearest rows, k > 0.
    pub(crate) fn nearest(k: usize) -> Self {
        Self {
            k: Some(k),
            limit: f32::INFINITY,
            uppers: BinaryHeap::new(),
            list: vec![],
            best: vec![],
            rescored: 0,
        }
    }

    /// For all rows within a limit.
    pub(crate) fn within(limit: f32) -> Self {
        Self { k: None, limit, ..Self::nearest(1) }
    }

    /// Bytes that one takes. What grows is there twice for a moment, and a list that is settled beside what it was.
    pub(crate) fn bytes(k: usize) -> usize {
        let list = 2 * Self::room(k);
        2 * (list * size_of::<(f32, u32)>() + k * size_of::<u32>()) + (list + k) * size_of::<(u32, u64)>()
    }

    fn room(k: usize) -> usize {
        ROOM.max(k.saturating_mul(2))
    }

    /// Takes a row, by its interval. Returns whether the list has to be settled.
    pub(crate) fn add(&mut self, lower: f32, upper: f32, slot: u32) -> bool {
        self.list.push((lower, slot));
        let Some(k) = self.k else { return self.list.len() >= ROOM };
        let key = key_of(upper);
        if self.uppers.len() < k {
            self.uppers.push(key);
        } else if let Some(mut largest) = self.uppers.peek_mut()
            && key < *largest
        {
            *largest = key;
        }
        if self.uppers.len() == k {
            self.limit = self.uppers.peek().map_or(self.limit, |&largest| self.limit.min(value_of(largest)));
        }
        if self.list.len() < 2 * Self::room(k) {
            return false;
        }
        self.list.retain(|&(lower, _)| lower <= self.limit);
        self.list.len() >= Self::room(k)
    }

    /// Computes the distances of what is on the list, and keeps the nearest.
    pub(crate) fn settle(&mut self, mut distance_of: impl FnMut(u32) -> (u32, u64)) {
        let limit = self.limit;
        let near = self.list.drain(..).filter(|&(lower, _)| lower <= limit);
        let found = near.map(|(_, slot)| distance_of(slot)).inspect(|_| self.rescored += 1);
        let Some(k) = self.k else {
            // Where all rows of a filter were taken, most are far away.
            let most = key_of(limit);
            self.best.extend(found.filter(|&(key, _)| key <= most));
            return;
        };
        self.best.extend(found);
        self.best.sort_unstable();
        self.best.truncate(k);
        if let (Some(&(key, _)), true) = (self.best.last(), self.best.len() == k) {
            self.limit = limit.min(value_of(key));
        }
    }

    /// Takes over what another one knows of other rows for the same query.
    pub(crate) fn merge(&mut self, other: Self) {
        self.limit = self.limit.min(other.limit);
        self.list.extend(other.list);
        self.best.extend(other.best);
        self.rescored += other.rescored;
        for key in other.uppers {
            if self.uppers.len() < self.k.unwrap_or(0) {
                self.uppers.push(key);
            } else if let Some(mut largest) = self.uppers.peek_mut()
                && key < *largest
            {
                *largest = key;
            }
        }
        if self.k.is_some_and(|k| self.uppers.len() == k) {
            self.limit = self.uppers.peek().map_or(self.limit, |&largest| self.limit.min(value_of(largest)));
        }
    }

    /// Keys of distances and ids, nearest first, and how many distances were computed.
    pub(crate) fn finish(mut self, distance_of: impl FnMut(u32) -> (u32, u64)) -> (Vec<(u32, u64)>, u64) {
        self.settle(distance_of);
        self.best.sort_unstable();
        (self.best, self.rescored)
    }
}
