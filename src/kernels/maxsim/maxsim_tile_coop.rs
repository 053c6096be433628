//! The largest similarity of each token of queries with the tokens of each document, by their codes, on cooperative matrices.

use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::{self, Commands, Gpu, INTEGERS, Kernel, PIECES_COOP, PLACES, wgsl, words};
use crate::kernels::blocks::{GRANULE_PLACES, TILE_COOP};
use crate::kernels::keys::{KEYS, value_of};
use crate::kernels::lengths::GRANULES;
use crate::kernels::maxsim::maxsim_tile_i8::{self, BUFFERS, Buffers, PlacedBlock};
use crate::kernels::screen::collect_tile_coop::HEIGHTS;
use crate::kernels::test_tile::{SIDE, TILE_GRANULES, TestTile, unless_it_passes};
use crate::lock::lock;

pub use crate::kernels::maxsim::maxsim_tile_i8::{Params, reference};

/// The declaration. `maxsim_tile_i8::encode` records it on adapters that multiply matrices correctly.
pub static KERNEL: Kernel = Kernel::new::<Params>("maxsim_tile_coop")
    .library(&[KEYS, INTEGERS, GRANULE_PLACES, TILE_COOP, PIECES_COOP, PLACES])
    .source(wgsl!("maxsim/maxsim_tile_coop"))
    .buffers(BUFFERS)
    .overrides(&[HEIGHTS, (gpu::OF_BITS, &[0])])
    .multiplies_matrices()
    .takes_byte_matrices()
    .lengths(&[GRANULES])
    .workgroup(256, 2 * 128 * 10 * 8 + 4 * 1024)
    .holds_tile();

/// The height of tiles for this many tokens, if its kernel computes correctly: the least that holds them, or else the largest. The first call of
/// a height on a device compiles and tests it. Matrices themselves were tested before.
pub(crate) async fn height_for(gpu: &Gpu, tokens: u32) -> Result<Option<u32>> {
    let heights = KERNEL.heights();
    let Some(height) = heights.iter().copied().find(|&height| height >= tokens).or(heights.last().copied())
    else {
        return Ok(None);
    };
    let known = lock(&gpu.maxsim_heights).iter().find(|(own, _)| *own == height).copied();
    let is_known_right = match known {
        Some((_, is_right)) => is_right,
        None => {
            let is_right = unless_it_passes(is_right(gpu, height).await)?;
            lock(&gpu.maxsim_heights).push((height, is_right));
            is_right
        }
    };
    Ok(is_known_right.then_some(height))
}

/// Whether a tile finds the largest products of three documents: of one token, of some, and of the others.
fn is_right(gpu: &Gpu, height: u32) -> Boxed<'_, bool> {
    Box::pin(async move {
        const ENDS: [usize; 3] = [1, 41, SIDE];
        let TestTile { queries, rows, scores, terms } = TestTile::new(gpu, false).await?;
        let buffer = |words: usize| gpu.create_storage("self-test", words as u64 * 4);
        let [query_terms, row_terms] = [buffer(SIDE * 4)?, buffer(SIDE * 4)?];
        let (blocks, nearest) = (buffer(8)?, buffer(ENDS.len() * SIDE)?);
        gpu.upload_bytes(&query_terms, 0, bytemuck::cast_slice(&terms[0])).await?;
        gpu.upload_bytes(&row_terms, 0, bytemuck::cast_slice(&terms[1])).await?;
        let mut block = PlacedBlock::default();
        ENDS.iter().for_each(|&end| block.end_at(end as u32));
        gpu.upload_bytes(&blocks, 0, bytemuck::bytes_of(&block)).await?;
        let places = ENDS.len() as u32;
        let params = Params {
            granules: TILE_GRANULES as u32,
            queries: height,
            first_entry: 0,
            first_block: 0,
            rows: SIDE as u32,
            first_place: 0,
            end_place: places,
            pitch: height,
        };
        let buffers = Buffers {
            queries: &queries,
            rows: &rows,
            row_terms: &row_terms,
            query_terms: &query_terms,
            blocks: &blocks,
            nearest: (&nearest).into(),
        };
        let mut commands = Commands::new(gpu, None);
        let bytes = u64::from(places * height) * 4;
        commands.clear(&nearest, 0, bytes);
        maxsim_tile_i8::encode(&mut commands, (&KERNEL, Some(height)), &params, 1, &buffers)?;
        let read = commands.read(&[(&nearest, 0, bytes)]).await?;
        let found: Vec<f32> = words(&read[0]).map(value_of).collect();
        let starts = [0].into_iter().chain(ENDS);
        let wanted = starts.zip(ENDS).flat_map(|(start, end)| {
            let scores = &scores;
            (0..height as usize).map(move |query| {
                let own = &scores[query * SIDE + start..query * SIDE + end];
                own.iter().copied().fold(f32::NEG_INFINITY, f32::max)
            })
        });
        Ok(found.iter().copied().eq(wanted))
    })
}
