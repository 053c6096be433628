//! Documents as kernels see them: places of neighbouring slots, and the blocks of rows that have any.

use std::ops::Range;

use crate::error::Result;
use crate::host::documents::slots_of;
use crate::kernels::BLOCK_ROWS;
use crate::kernels::maxsim_tile_i8::PlacedBlock;
use crate::memory;

/// Stands for slots between two documents.
pub(super) const NO_DOCUMENT: u32 = u32::MAX;

/// Places side by side: documents, and what lies between them.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// One past the last slot of each. The first begins with a block.
    pub(super) ends: Vec<u32>,
    /// The document of each, by its place in the index.
    pub(super) documents: Vec<u32>,
    /// The blocks that have a slot of a document, ascending.
    pub(super) blocks: Vec<PlacedBlock>,
}

impl Spans {
    /// The spans of the documents in these places of the index, ascending, where each place ends at one of `ends`.
    pub(super) fn new(ends: &[u32], places: &[u32]) -> Result<Self> {
        let mut spans = Self::default();
        memory::reserve(&mut spans.ends, places.len())?;
        memory::reserve(&mut spans.documents, places.len())?;
        let mut before =
            places.first().map_or(0, |&first| slots_of(ends, first).start / BLOCK_ROWS * BLOCK_ROWS);
        for &place in places {
            let Range { start, end } = slots_of(ends, place);
            memory::reserve_more(&mut spans.ends, 2)?;
            memory::reserve_more(&mut spans.documents, 2)?;
            memory::reserve_more(&mut spans.blocks, ((end - start) / BLOCK_ROWS + 2) as usize)?;
            if start > before {
                spans.push(start, NO_DOCUMENT);
            }
            let own = spans.ends.len() as u32;
            let next = spans.blocks.last().map_or(0, |block| block.number + 1);
            for number in next.max(start / BLOCK_ROWS)..end.div_ceil(BLOCK_ROWS) {
                let mut block = PlacedBlock::new(number, own);
                // Places before this one that end in the block: its first row is that of the first of them.
                let first = number * BLOCK_ROWS;
                for &end in spans.ends.iter().rev().take_while(|&&end| end > first) {
                    block.end_at(end - first);
                    block.first_place -= 1;
                }
                spans.blocks.push(block);
            }
            spans.push(end, place);
            before = end;
        }
        Ok(spans)
    }

    /// Appends a place that ends at a slot.
    fn push(&mut self, end: u32, document: u32) {
        if let Some(block) = self.blocks.last_mut()
            && (end - 1) / BLOCK_ROWS == block.number
        {
            block.end_at(end - block.number * BLOCK_ROWS);
        }
        self.ends.push(end);
        self.documents.push(document);
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The numbers, on the list of blocks, of those that have a slot of some places.
    pub(super) fn entries(&self, places: Range<usize>) -> Range<usize> {
        let first = if places.start == 0 { 0 } else { self.ends[places.start - 1] };
        let last = if places.end == 0 { first } else { self.ends[places.end - 1] };
        let from = self.blocks.partition_point(|block| block.number < first / BLOCK_ROWS);
        let to = self.blocks.partition_point(|block| block.number < last.div_ceil(BLOCK_ROWS));
        from..to.max(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_of_a_document_is_in_a_block_and_behind_its_first_place() {
        let lengths = [1u32, 5, 122, 128, 1, 1, 300, 7, 64, 64, 3, 1000, 2];
        let ends: Vec<u32> = lengths
            .iter()
            .scan(0, |end, length| {
                *end += length;
                Some(*end)
            })
            .collect();
        let all: Vec<u32> = (0..ends.len() as u32).collect();
        for places in [all.clone(), vec![0], vec![12], vec![2, 6, 7, 11], vec![1, 3, 5, 9]] {
            let spans = Spans::new(&ends, &places).expect("memory");
            let documents: Vec<u32> =
                spans.documents.iter().copied().filter(|&place| place != NO_DOCUMENT).collect();
            assert_eq!(documents, places);
            assert!(spans.ends.is_sorted());
            for (place, &document) in
                spans.documents.iter().enumerate().filter(|(_, place)| **place != NO_DOCUMENT)
            {
                let slots = ends[document as usize] - lengths[document as usize]..ends[document as usize];
                let entries = spans.entries(place..place + 1);
                for slot in slots {
                    let blocks = &mut spans.blocks[entries.clone()].iter();
                    let block = blocks.find(|block| block.number == slot / BLOCK_ROWS).expect("a block");
                    // The place of a row follows from how many places end before it.
                    let first = block.number * BLOCK_ROWS;
                    let before = (first + 1..=slot).filter(|end| spans.ends.contains(end)).count();
                    assert_eq!(block.first_place as usize + before, place, "slot {slot} of {places:?}");
                    let mut wanted = PlacedBlock::new(block.number, block.first_place);
                    let within = spans.ends.iter().filter(|&&end| end > first && end <= first + BLOCK_ROWS);
                    within.for_each(|end| wanted.end_at(end - first));
                    assert_eq!(*block, wanted);
                }
            }
        }
    }
}
