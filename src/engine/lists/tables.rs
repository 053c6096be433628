//! Which slots each list of an `Ivf` has, as the device reads it.

use crate::bits::Bits;
use crate::engine::rows::segments::GpuRows;
use crate::error::Result;
use crate::gpu::Gpu;
pub(crate) use crate::kernels::PAGE;
use crate::kernels::{NO_PAGE, PAGES};

/// The pages of all lists, segment by segment.
#[derive(Debug)]
pub(crate) struct ListTables {
    pub(crate) segments: Vec<SegmentTables>,
    /// Rows of each list.
    pub(crate) sizes: Vec<u32>,
    /// The same, the largest first, summed up: entry `n` is what `n` lists have at most.
    largest: Vec<u64>,
    /// A bit a slot, set up to the last that has a row: for when every slot before it has one.
    pub(crate) full: wgpu::Buffer,
}

/// Tiles of up to four pages, none of which holds rows of two lists.
#[derive(Debug)]
pub(crate) struct SegmentTables {
    /// Where the tiles of each list start, `[lists + 1]`.
    pub(crate) list_tiles: wgpu::Buffer,
    /// Four pages each.
    pub(crate) tiles: wgpu::Buffer,
    /// How many tiles there are.
    pub(crate) count: u64,
    /// Tiles of lists, the most first, summed up: entry `n` is what `n` lists have at most.
    largest: Vec<u64>,
}

/// Sums of the first 0, 1, … of the numbers, the largest first.
fn sums_of_largest(mut numbers: Vec<u32>) -> Vec<u64> {
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    let mut total = 0;
    let sums = numbers.into_iter().map(|number| {
        total += u64::from(number);
        total
    });
    std::iter::once(0).chain(sums).collect()
}

impl ListTables {
    /// From the pages of each list, ascending, and how many rows it has.
    pub(crate) async fn new(rows: &GpuRows, pages: &[Vec<u32>], sizes: Vec<u32>) -> Result<Self> {
        let gpu: &Gpu = &rows.gpu;
        let mut segments = vec![];
        for segment in &rows.segments {
            let range = segment.first_slot / PAGE..(segment.first_slot + segment.capacity) / PAGE;
            let mut tiles: Vec<[u32; PAGES]> = vec![];
            let mut starts = vec![0];
            let mut counts = vec![];
            for list in pages {
                let before = tiles.len();
                let here: Vec<u32> = list.iter().copied().filter(|page| range.contains(page)).collect();
                for some in here.chunks(PAGES) {
                    let mut tile = [NO_PAGE; PAGES];
                    tile[..some.len()].copy_from_slice(some);
                    tiles.push(tile);
                }
                starts.push(tiles.len() as u32);
                counts.push((tiles.len() - before) as u32);
            }
            let list_tiles = gpu.create_storage("tiles of lists", starts.len() as u64 * 4)?;
            gpu.upload_bytes(&list_tiles, 0, bytemuck::cast_slice(&starts)).await?;
            let buffer = gpu.create_storage("tiles", tiles.len() as u64 * 16)?;
            gpu.upload_bytes(&buffer, 0, bytemuck::cast_slice(&tiles)).await?;
            let (count, largest) = (tiles.len() as u64, sums_of_largest(counts));
            segments.push(SegmentTables { list_tiles, tiles: buffer, count, largest });
        }
        // Behind the last slot that has a row, in its page, there are none: what lies there is of no row, or of one that left.
        let bits = Bits::ones(rows.end() as usize);
        let full = gpu.create_storage("all slots", bits.words().len() as u64 * 4)?;
        gpu.upload_bytes(&full, 0, bytemuck::cast_slice(bits.words())).await?;
        Ok(Self { segments, largest: sums_of_largest(sizes.clone()), sizes, full })
    }

    /// Rows that so many lists have at most.
    pub(crate) fn most_rows(&self, lists: u32) -> u64 {
        self.largest[(lists as usize).min(self.sizes.len())]
    }
}

impl SegmentTables {
    /// Blocks of scores of so many queries that probe so many lists each: at most. A block has `height` queries.
    pub(crate) fn most_blocks(&self, queries: u32, probes: u32, height: u32) -> u64 {
        // Every list has one that is not full, and what is full is most where the longest lists are probed.
        let full = u64::from(queries.div_ceil(height));
        self.count + full * self.largest[(probes as usize).min(self.largest.len() - 1)]
    }
}
