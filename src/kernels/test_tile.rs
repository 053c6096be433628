//! What tests the kernels that multiply tiles on cooperative matrices, before searches use them.

use crate::error::{Error, Result};
use crate::gpu::{Buffer, Gpu};
use crate::kernels::blocks::BLOCK_ROWS;
use crate::kernels::screen::{quantize, screen_tile_i8};
use crate::screen::certificate::Terms;

/// Takes an error for a wrong kernel, unless the error passes or ends the device: then the next search tests again.
pub(super) fn unless_it_passes(tested: Result<bool>) -> Result<bool> {
    match tested {
        Err(error @ (Error::OutOfMemory { .. } | Error::DeviceLost { .. } | Error::Interrupted)) => {
            Err(error)
        }
        done => Ok(done.unwrap_or(false)),
    }
}

/// Granules of the vectors of a tested tile: sums of 1,024 products of 127 by 128 come near 2^24.
pub(super) const TILE_GRANULES: usize = 64;

/// A tile of integers, the largest among them, or of bytes of bits.
pub(super) struct TestTile {
    pub(super) queries: Buffer,
    pub(super) rows: Buffer,
    /// The products of its vectors, or the numbers of their common bits, `[queries, rows]`.
    pub(super) scores: Vec<f32>,
    /// The terms of queries and of rows.
    pub(super) terms: [Vec<Terms>; 2],
}

/// Queries, and rows.
pub(super) const SIDE: usize = BLOCK_ROWS as usize;

impl TestTile {
    pub(super) async fn new(gpu: &Gpu, of_bits: bool) -> Result<Self> {
        const DIM: usize = 16 * TILE_GRANULES;
        // A fixed mixture of small, large and opposite numbers.
        let element = |vector: usize, dimension: usize, seed: usize| -> i32 {
            let mixed = (vector * 7919 + dimension * 104_729 + seed).wrapping_mul(2_654_435_761) >> 7;
            match vector % 4 {
                0 => [127, -127][mixed % 2],
                1 => 127,
                _ => (mixed % 255) as i32 - 127,
            }
        };
        let vectors = |seed: usize| -> Vec<Vec<i32>> {
            (0..SIDE).map(|v| (0..DIM).map(|d| element(v, d, seed)).collect()).collect()
        };
        let mut vectors = [vectors(1), vectors(2)];
        // Rows of integers have this code, too.
        vectors[1].iter_mut().flatten().filter(|t| **t == -127).for_each(|t| *t = -128);
        let packed = |vectors: &[Vec<i32>]| {
            let mut bytes = vec![0u8; SIDE * DIM];
            for (v, vector) in vectors.iter().enumerate() {
                for (d, &t) in vector.iter().enumerate() {
                    let offset = if of_bits { 0 } else { 128 };
                    bytes[quantize::place(v, d, TILE_GRANULES)] = (t + offset) as u8;
                }
            }
            bytes
        };
        let buffer = || gpu.create_storage("self-test", (SIDE * DIM) as u64);
        let [queries, rows] = [buffer()?, buffer()?];
        gpu.upload_bytes(&queries, 0, &packed(&vectors[0])).await?;
        gpu.upload_bytes(&rows, 0, &packed(&vectors[1])).await?;
        let common = |query: &[i32], row: &[i32]| {
            query.iter().zip(row).map(|(&q, &x)| ((q & x) as u8).count_ones()).sum::<u32>() as f32
        };
        let score = |query: &[i32], row: &[i32]| match of_bits {
            true => common(query, row),
            false => screen_tile_i8::reference(query, row) as f32,
        };
        let scores =
            vectors[0].iter().flat_map(|query| vectors[1].iter().map(move |row| score(query, row))).collect();
        // Of vectors in steps of 1 without any error, an interval is one number.
        let terms = vectors.each_ref().map(|vectors| {
            let terms = |vector: &Vec<i32>| match of_bits {
                true => Terms::of_bits(common(vector, vector) as u32),
                false => Terms { scale: 1.0, ..Terms::default() },
            };
            vectors.iter().map(terms).collect()
        });
        Ok(Self { queries, rows, scores, terms })
    }
}
