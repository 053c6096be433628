//! The slots of each list of an `Ivf`, as kernels read them.

use std::ops::Range;

use crate::bits::Bits;
use crate::engine::lists::centroids::Centroids;
use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, Gpu, words};
pub(crate) use crate::kernels::PAGE;
use crate::kernels::{NO_PAGE, PAGES};
use crate::options::residency::Residency;
use crate::usage::Memory;

/// The lists of rows on a GPU.
#[derive(Debug)]
pub(crate) struct GpuLists {
    pub(crate) centroids: Centroids,
    /// None before the first row, and where they did not fit the device's memory.
    pub(crate) tables: Option<ListTables>,
}

impl GpuLists {
    pub(crate) fn measure(&self, memory: &mut Memory) {
        self.centroids.measure(memory);
        self.tables.iter().for_each(|tables| tables.measure(memory));
    }
}

/// The pages of all lists, segment by segment.
#[derive(Debug)]
pub(crate) struct ListTables {
    pub(crate) segments: Vec<SegmentTables>,
    /// Rows of each list.
    pub(crate) sizes: Vec<u32>,
    /// Entry `n` is the largest number of rows of `n` lists.
    largest: Vec<u64>,
    /// A bit for each slot, all set up to the last row: used while there are no tombstones.
    pub(crate) full: Buffer,
}

/// The tiles of a segment: up to four pages of one list each.
#[derive(Debug)]
pub(crate) struct SegmentTables {
    /// Where the tiles of each list start, `[lists + 1]`, u32; and from `tiles` on four pages for each tile, u32.
    pub(crate) tables: Buffer,
    /// Place of the tiles, in words.
    pub(crate) tiles: u32,
    /// The number of tiles.
    pub(crate) count: u64,
    /// Entry `n` is the largest number of tiles of `n` lists.
    largest: Vec<u64>,
}

/// A slice of a buffer starts at a multiple of this many words.
pub(crate) const ALIGNED_WORDS: usize = 64;

/// Entry `n` is the sum of the `n` largest numbers.
fn sums_of_largest(mut numbers: Vec<u32>) -> Vec<u64> {
    numbers.sort_unstable();
    let mut total = 0;
    let sums = numbers.into_iter().rev().map(|number| {
        total += u64::from(number);
        total
    });
    std::iter::once(0).chain(sums).collect()
}

impl ListTables {
    /// Makes the tables from the pages of each list, which ascend, and the number of its rows. The rows have an end, and lie in segments
    /// of these slots.
    pub(crate) async fn new(
        gpu: &Gpu,
        (slots, end): (Vec<Range<u32>>, u64),
        pages: &[Vec<u32>],
        sizes: Vec<u32>,
    ) -> Result<Self> {
        let mut segments = vec![];
        for slots in slots {
            let range = slots.start / PAGE..slots.end / PAGE;
            let mut tiles: Vec<[u32; PAGES]> = vec![];
            let mut starts = vec![0];
            let mut counts = vec![];
            for list in pages {
                let before = tiles.len();
                let here: Vec<u32> = list.iter().copied().filter(|page| range.contains(page)).collect();
                for pages in here.chunks(PAGES) {
                    let mut tile = [NO_PAGE; PAGES];
                    tile[..pages.len()].copy_from_slice(pages);
                    tiles.push(tile);
                }
                starts.push(tiles.len() as u32);
                counts.push((tiles.len() - before) as u32);
            }
            let first = starts.len().next_multiple_of(ALIGNED_WORDS);
            starts.resize(first, 0);
            // A slice has at least one tile.
            let words = first + tiles.len().max(1) * PAGES;
            let tables = gpu.create_storage("tables of lists", words as u64 * 4)?;
            gpu.upload_bytes(&tables, 0, bytemuck::cast_slice(&starts)).await?;
            gpu.upload_bytes(&tables, first as u64 * 4, bytemuck::cast_slice(&tiles)).await?;
            let (count, largest) = (tiles.len() as u64, sums_of_largest(counts));
            segments.push(SegmentTables { tables, tiles: first as u32, count, largest });
        }
        // The last page may have slots behind the last row. They hold nothing, or rows that were removed.
        let bits = Bits::ones(end as usize)?;
        let full = gpu.create_storage("all slots", bits.words().len() as u64 * 4)?;
        gpu.upload_bytes(&full, 0, bytemuck::cast_slice(bits.words())).await?;
        Ok(Self { segments, largest: sums_of_largest(sizes.clone()), sizes, full })
    }

    /// Rows that a batch scored, from what was read of it: the lists of each query, or how many queries probed each list, round by round.
    pub(crate) fn scored(&self, probed: &[u8], counts: &[u8]) -> u64 {
        let size_of = |list: u64| self.sizes.get(list as usize).copied().map_or(0, u64::from);
        let by_query: u64 = words::<u64>(probed).map(size_of).sum();
        let round = self.sizes.len().next_multiple_of(ALIGNED_WORDS);
        let by_list = words::<u32>(counts).enumerate();
        by_query
            + by_list
                .map(|(place, queries)| u64::from(queries) * size_of((place % round) as u64))
                .sum::<u64>()
    }

    pub(crate) fn most_rows(&self, lists: u32) -> u64 {
        self.largest[(lists as usize).min(self.sizes.len())]
    }

    fn measure(&self, memory: &mut Memory) {
        let tables: u64 = self.segments.iter().map(|segment| segment.tables.size()).sum();
        memory.add("lists", Residency::Device, tables + self.full.size());
        memory.add_vec("lists", &self.sizes);
        memory.add_vec("lists", &self.largest);
    }
}

impl SegmentTables {
    /// Where the tiles of each list start.
    pub(crate) fn starts(&self) -> BufferSlice<'_> {
        BufferSlice::range(&self.tables, 0, u64::from(self.tiles) * 4)
    }

    pub(crate) fn pages(&self) -> BufferSlice<'_> {
        BufferSlice::range(&self.tables, u64::from(self.tiles) * 4, self.count.max(1) * 4 * PAGES as u64)
    }

    /// The largest number of blocks of a tile and up to `height` queries when each query probes `probes` lists.
    pub(crate) fn most_blocks(&self, queries: u32, probes: u32, height: u32) -> u64 {
        // Every tile may have one block that is not full. Full blocks are most if the longest lists are probed.
        let full = u64::from(queries / height);
        self.count + full * self.largest[(probes as usize).min(self.largest.len() - 1)]
    }
}
