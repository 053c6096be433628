//! The largest similarity of each token of queries with the tokens of each document, by their codes.

use bytemuck::{Pod, Zeroable};

use crate::error::Result;
use crate::gpu::{self, Buffer, BufferSlice, Commands, Grid, Kernel, PLACES, buffers, params, wgsl};
use crate::kernels::blocks::{BLOCK_ROWS, PRODUCTS, TILE_I8};
use crate::kernels::keys::KEYS;
use crate::kernels::lengths::GRANULES;
use crate::screen::certificate::Terms;

params! {
    /// Parameters of `maxsim_tile_i8`, and of `maxsim_tile_coop`.
    pub struct Params {
        /// Granules of 16 dimensions per quantised vector, an even number.
        granules: u32,
        /// Tokens of all queries.
        queries: u32,
        /// Number of the first block on the list.
        first_entry: u32,
        /// The segment's first block in the index.
        first_block: u32,
        /// Rows of the segment.
        rows: u32,
        /// The places of the chunk.
        first_place: u32,
        end_place: u32,
        /// Distance between the results of two places.
        pitch: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("maxsim_tile_i8")
    .library(&[KEYS, PRODUCTS, TILE_I8, PLACES])
    .source(wgsl!("maxsim/maxsim_tile_i8"))
    .buffers(BUFFERS)
    .overrides(&[(gpu::OF_BITS, &[0])])
    .lengths(&[GRANULES])
    .workgroup(256, 2 * 8 * 33 * 16 + BLOCK_ROWS * 4)
    .holds_tile();

/// A block of rows, and the places of its rows.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default, Pod, Zeroable)]
pub struct PlacedBlock {
    /// Its number in the index.
    pub number: u32,
    /// The place of its first row.
    pub first_place: u32,
    padding: [u32; 2],
    /// One bit a row: 1 for the last row of a place.
    ends: [u32; BLOCK_ROWS as usize / 32],
}

impl PlacedBlock {
    /// A block in one place.
    pub fn new(number: u32, first_place: u32) -> Self {
        Self { number, first_place, ..Self::default() }
    }

    /// Notes that a place ends before row `end` of the block, which is not 0.
    pub fn end_at(&mut self, end: u32) {
        self.ends[(end as usize - 1) / 32] |= 1 << ((end - 1) % 32);
    }
}

buffers! {
    /// The codes to multiply, and the documents of the rows.
    pub(crate) struct Buffers<'a> {
        queries: Read &'a Buffer,
        rows: Read &'a Buffer,
        row_terms: Read &'a Buffer,
        query_terms: Read &'a Buffer,
        blocks: Read &'a Buffer,
        nearest: Write BufferSlice<'a>,
    }
}

/// Records this kernel, or `maxsim_tile_coop` with its height, for `blocks` blocks of the list, no more than a grid has rows.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    (kernel, height): (&'static Kernel, Option<u32>),
    params: &Params,
    blocks: u32,
    buffers: &Buffers<'_>,
) -> Result<()> {
    let constants: Vec<u32> = height.into_iter().chain([0]).collect();
    let pipeline = commands.gpu().pipeline(kernel, &constants)?;
    let grid = Grid::Tiles(params.queries.div_ceil(height.unwrap_or(BLOCK_ROWS)), blocks);
    commands.dispatch(&pipeline, params, &buffers.slices(), grid)
}

/// The largest similarity of a quantised token with those of a document, without the query's own part.
pub fn reference((query, own): (&[i32], Terms), document: &[(Vec<i32>, Terms)]) -> f64 {
    let similarity = |(row, terms): &(Vec<i32>, Terms)| {
        let score: i64 = query.iter().zip(row).map(|(&q, &x)| i64::from(q) * i64::from(x)).sum();
        f64::from(own.scale) * f64::from(terms.scale) * score as f64 + f64::from(terms.bias)
    };
    document.iter().map(similarity).fold(f64::NEG_INFINITY, f64::max)
}
