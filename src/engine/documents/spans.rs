//! Documents as kernels see them: places of neighbouring slots, and the blocks of rows that have any.

use crate::error::Result;
use crate::kernels::BLOCK_ROWS;
use crate::memory;

/// Stands for slots between two documents.
pub(super) const NO_DOCUMENT: u32 = u32::MAX;

/// Places side by side: documents, and what lies between them.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// The first slot of the first place.
    pub(super) start: u32,
    /// One past the last slot of each.
    pub(super) ends: Vec<u32>,
    /// The document of each, by its place in the index.
    pub(super) documents: Vec<u32>,
    /// The blocks of the index that have a slot of a document, ascending, and the place of the first slot of each.
    pub(super) blocks: Vec<[u32; 2]>,
}

impl Spans {
    /// The spans of the documents in these places of the index, ascending, where each place ends at one of `ends`.
    pub(super) fn new(ends: &[u32], places: &[u32]) -> Result<Self> {
        let start_of = |place: u32| if place == 0 { 0 } else { ends[place as usize - 1] };
        let mut spans = Self { start: places.first().map_or(0, |&first| start_of(first)), ..Self::default() };
        memory::reserve(&mut spans.ends, places.len())?;
        memory::reserve(&mut spans.documents, places.len())?;
        let mut before = spans.start;
        for &place in places {
            let (start, end) = (start_of(place), ends[place as usize]);
            memory::reserve_more(&mut spans.ends, 2)?;
            memory::reserve_more(&mut spans.documents, 2)?;
            if start > before {
                spans.ends.push(start);
                spans.documents.push(NO_DOCUMENT);
            }
            let own = spans.ends.len() as u32;
            spans.ends.push(end);
            spans.documents.push(place);
            let next = spans.blocks.last().map_or(0, |&[block, _]| block + 1);
            memory::reserve_more(&mut spans.blocks, ((end - start) / BLOCK_ROWS + 2) as usize)?;
            for block in next.max(start / BLOCK_ROWS)..end.div_ceil(BLOCK_ROWS) {
                // The place of its first slot: this one, or one that ends in the block.
                let first = block * BLOCK_ROWS;
                let place = own - spans.ends[..own as usize].iter().rev().take_while(|&&end| end > first).count() as u32;
                spans.blocks.push([block, place]);
            }
            before = end;
        }
        Ok(spans)
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of ends, of blocks, and of a length and a residual for each place.
    pub(super) fn bytes(&self) -> [u64; 3] {
        [4 * self.len(), 8 * self.blocks.len(), 8 * self.len()].map(|bytes| bytes as u64)
    }

    /// The numbers, on the list of blocks, of those that have a slot of some places.
    pub(super) fn entries(&self, places: std::ops::Range<usize>) -> std::ops::Range<usize> {
        let first = if places.start == 0 { self.start } else { self.ends[places.start - 1] };
        let last = if places.end == 0 { first } else { self.ends[places.end - 1] };
        let from = self.blocks.partition_point(|&[block, _]| (block + 1) * BLOCK_ROWS <= first);
        let to = self.blocks.partition_point(|&[block, _]| block * BLOCK_ROWS < last);
        from..to.max(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_of_a_document_is_in_a_block_and_behind_its_first_place() {
        let lengths = [1u32, 5, 122, 128, 1, 1, 300, 7, 64, 64, 3, 1000, 2];
        let ends: Vec<u32> = lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        }).collect();
        let all: Vec<u32> = (0..ends.len() as u32).collect();
        for places in [all.clone(), vec![0], vec![12], vec![2, 6, 7, 11], vec![1, 3, 5, 9]] {
            let spans = Spans::new(&ends, &places).expect("memory");
            let documents: Vec<u32> = spans.documents.iter().copied().filter(|&place| place != NO_DOCUMENT).collect();
            assert_eq!(documents, places);
            assert!(spans.ends.is_sorted() && spans.blocks.is_sorted());
            for (place, &document) in spans.documents.iter().enumerate().filter(|(_, document)| **document != NO_DOCUMENT) {
                let slots = ends[document as usize] - lengths[document as usize]..ends[document as usize];
                let entries = spans.entries(place..place + 1);
                for slot in slots {
                    let entry = entries.clone().find(|&entry| spans.blocks[entry][0] == slot / BLOCK_ROWS);
                    let [block, first] = spans.blocks[entry.expect("a block")];
                    assert!(first as usize <= place, "{first} {place}");
                    // No place before the first reaches into the block.
                    assert!(first == 0 || spans.ends[first as usize - 1] <= (block * BLOCK_ROWS).max(spans.start));
                }
            }
        }
    }
}
