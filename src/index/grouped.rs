//! Rows by the list that they belong to.

use crate::error::Result;
use crate::memory;

/// Rows list by list, ascending within a list.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Grouped {
    pub(crate) order: Vec<u32>,
    /// The start of each list in `order`, `[lists + 1]`.
    pub(crate) offsets: Vec<u32>,
}

impl Grouped {
    /// Groups rows by the list of each, by counting.
    pub(crate) fn new(list_of: impl ExactSizeIterator<Item = u32> + Clone, lists: usize) -> Result<Self> {
        let mut grouped = Self::default();
        grouped.group(list_of, lists)?;
        Ok(grouped)
    }

    /// Groups other rows in the same memory: fresh memory for a million rows takes longer than grouping them.
    pub(crate) fn group(
        &mut self,
        list_of: impl ExactSizeIterator<Item = u32> + Clone,
        lists: usize,
    ) -> Result<()> {
        let Self { order, offsets } = self;
        order.clear();
        offsets.clear();
        memory::resize(order, list_of.len(), 0)?;
        memory::resize(offsets, lists + 1, 0)?;
        list_of.clone().for_each(|list| offsets[list as usize + 1] += 1);
        for list in 0..lists {
            offsets[list + 1] += offsets[list];
        }
        let mut next = memory::copied(offsets)?;
        for (row, list) in (0..).zip(list_of) {
            let place = &mut next[list as usize];
            order[*place as usize] = row;
            *place += 1;
        }
        Ok(())
    }

    pub(crate) fn rows(&self, list: usize) -> &[u32] {
        &self.order[self.offsets[list] as usize..self.offsets[list + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::Grouped;

    #[test]
    fn rows_ascend_within_their_lists() {
        let grouped = Grouped::new([3, 0, 3, 1, 0, 3].into_iter(), 5).expect("memory");
        assert_eq!(grouped, Grouped { order: vec![1, 4, 3, 0, 2, 5], offsets: vec![0, 2, 3, 3, 6, 6] });
        assert_eq!((grouped.rows(3), grouped.rows(2)), (&[0, 2, 5][..], &[][..]));
    }

    #[test]
    fn rows_are_grouped_again_in_the_same_memory() {
        let mut grouped = Grouped::new([3, 0, 3, 1].into_iter(), 5).expect("memory");
        for (lists, of) in [(2, &[1, 1, 0][..]), (7, &[6, 0, 6, 3, 3, 1]), (1, &[])] {
            grouped.group(of.iter().copied(), lists).expect("memory");
            assert_eq!(grouped, Grouped::new(of.iter().copied(), lists).expect("memory"));
        }
    }
}
