//! Scores many quantised queries on cooperative matrices and collects the rows that a screen cannot exclude, in one kernel.

use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::{
    CANDIDATES, COARSE_TEST, COLLECT_TILE, Commands, Gpu, HEIGHT, INTEGERS, KEEP_ROW, Kernel, SWEEP_COOP,
    USABLE, Wanted, wgsl, words,
};
use crate::kernels::blocks::{BLOCK_ROWS, GRANULE_PLACES, TILE_COOP};
use crate::kernels::intervals::INTERVALS;
use crate::kernels::keys::{KEYS, key_of};
use crate::kernels::lengths::GRANULES;
use crate::kernels::screen::collect::Round;
use crate::kernels::screen::collect_tile_i8::{self, BUFFERS, Buffers, Form, RoundPart};
use crate::kernels::test_tile::{SIDE, TILE_GRANULES, TestTile, unless_it_passes};
use crate::lock::lock;
use crate::screen::certificate::{Margin, Terms};

pub use crate::kernels::screen::collect_tile_i8::Params;

/// The declaration. `collect_tile_i8::encode` records it on adapters where `screen_tile_coop::is_usable`.
pub static KERNEL: Kernel = Kernel::new::<Params>("collect_tile_coop")
    .library(&[
        KEYS,
        INTERVALS,
        USABLE,
        CANDIDATES,
        COARSE_TEST,
        COLLECT_TILE,
        KEEP_ROW,
        INTEGERS,
        GRANULE_PLACES,
        TILE_COOP,
        SWEEP_COOP,
    ])
    .source(wgsl!("screen/collect_tile_coop"))
    .buffers(BUFFERS)
    .overrides(OVERRIDES)
    .multiplies_matrices()
    .takes_byte_matrices()
    .lengths(&[GRANULES])
    .workgroup(256, 2 * 128 * 10 * 8 + 4 * 1024)
    .holds_tile();

/// The override constants of kernels that collect tiles on cooperative matrices. Few queries take a low tile, whose products cost less.
pub(in crate::kernels) const OVERRIDES: &[(&str, &[u32])] =
    &[("FORM", Form::QUANTIZED_NUMBERS), ("HAS_BITSET", &[0, 1]), (HEIGHT, &[32, 64, 128])];

/// The height of tiles for this many queries: the least that holds them, or else the largest, of those that passed their self-test. None for
/// a kernel without heights.
pub(crate) fn height_for(gpu: &Gpu, kernel: &Kernel, queries: u32) -> Option<u32> {
    let tested = lock(&gpu.tile_heights);
    let mut right = kernel.heights().iter().copied().filter(|height| tested.contains(&(*height, Some(true))));
    right.clone().find(|height| *height >= queries).or(right.next_back())
}

/// Tests the lowest tile, whose kernel is compiled first if need be.
pub(super) async fn is_lowest_right(gpu: &Gpu, form: Form) -> Result<bool> {
    let lowest = KERNEL.heights()[0];
    let is_right = is_right(gpu, form, lowest, &TestTile::new(gpu).await?).await?;
    note(gpu, lowest, Some(is_right));
    Ok(is_right)
}

/// Tests the other tiles whose kernels are compiled by now, and starts to compile the rest: a first search does not wait for them.
pub(super) async fn test_compiled(gpu: &Gpu, form: Form) -> Result<()> {
    for &height in KERNEL.heights() {
        let known = lock(&gpu.tile_heights).iter().find(|(own, _)| *own == height).copied();
        match known {
            Some((_, Some(_))) => {}
            _ if gpu.has_pipeline(&KERNEL, &[form as u32, 0, height]) => {
                let tile = TestTile::new(gpu).await?;
                let is_right = unless_it_passes(is_right(gpu, form, height, &tile).await)?;
                note(gpu, height, Some(is_right));
            }
            Some((_, None)) => {}
            None => {
                note(gpu, height, None);
                let wanted = Wanted::of(&KERNEL).with("FORM", form as u32).with("HAS_BITSET", 0);
                gpu.compile_ahead(0, || vec![wanted.with(HEIGHT, height)]);
            }
        }
    }
    Ok(())
}

/// Notes what is known of a height.
fn note(gpu: &Gpu, height: u32, is_right: Option<bool>) {
    let mut heights = lock(&gpu.tile_heights);
    heights.retain(|(own, _)| *own != height);
    heights.push((height, is_right));
}

/// Whether the kernel keeps, of a tile's first queries, the rows whose score reaches a threshold. Each form is a kernel of its own to the
/// compiler, so the one that searches need is tested.
fn is_right<'f>(gpu: &'f Gpu, form: Form, height: u32, tile: &'f TestTile) -> Boxed<'f, bool> {
    Box::pin(async move {
        const LEAST: f32 = 100_000.0;
        // Of vectors in steps of 1 without any error, an interval is one number, which f32 represents.
        let terms = Terms { scale: 1.0, ..Terms::default() };
        let distance = |score: f32| Margin::default().interval(form, score.into(), terms, terms)[0] as f32;
        let terms = vec![terms; SIDE];
        let buffer = |words: usize| gpu.create_storage("self-test", words as u64 * 4);
        let (row_terms, thresholds) = (buffer(SIDE * 4)?, buffer(SIDE)?);
        let (counts, candidates) = (buffer(SIDE)?, buffer(3 * SIDE * SIDE)?);
        gpu.upload_bytes(&row_terms, 0, bytemuck::cast_slice(&terms)).await?;
        gpu.upload_bytes(&thresholds, 0, bytemuck::cast_slice(&[key_of(distance(LEAST)); SIDE])).await?;
        let part = RoundPart { segment: 0, round: Round { step: 1, skip: 0 }, base: 0, first: 0, blocks: 1 };
        let TestTile { queries, rows, scores } = tile;
        let params = Params {
            granules: TILE_GRANULES as u32,
            queries: height,
            rows: BLOCK_ROWS,
            capacity: BLOCK_ROWS,
            ..Params::default()
        };
        let buffers = Buffers {
            queries,
            rows,
            row_terms: &row_terms,
            query_terms: &row_terms,
            thresholds: &thresholds,
            allowed: &thresholds,
            counts: (&counts).into(),
            candidates: &candidates,
        };
        let mut commands = Commands::new(gpu, None);
        commands.clear(&counts, 0, SIDE as u64 * 4);
        collect_tile_i8::encode(
            &mut commands,
            (&KERNEL, Some(height)),
            (form, false, false),
            &part,
            params,
            &buffers,
        )?;
        let bytes = u64::from(height) * 4;
        let lists = bytes * SIDE as u64;
        let parts = commands.read(&[(&counts, 0, bytes), (&candidates, 0, 2 * lists)]).await?;
        let entries: Vec<u32> = words(&parts[1]).collect();
        let (slots, lowers) = entries.split_at(entries.len() / 2);
        let mut queries = scores.chunks(SIDE).zip(words::<u32>(&parts[0])).enumerate();
        Ok(queries.all(|(query, (scores, count))| {
            let passing = scores.iter().zip(0u32..).filter(|(score, _)| **score >= LEAST);
            let wanted: Vec<(u32, u32)> =
                passing.map(|(score, row)| (row, key_of(distance(*score)))).collect();
            let own = query * SIDE..query * SIDE + (count as usize).min(SIDE);
            let mut found: Vec<(u32, u32)> =
                slots[own.clone()].iter().copied().zip(lowers[own].iter().copied()).collect();
            found.sort_unstable();
            found == wanted
        }))
    })
}
