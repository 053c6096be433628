//! Scores many quantised queries on cooperative matrices and collects the rows that a screen cannot exclude, in one kernel.

use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::{
    CANDIDATES, COARSE_TEST, COLLECT_TILE, Commands, Gpu, HEIGHT, INTEGERS, KEEP_ROW, Kernel, PIECES_COOP,
    SWEEP_COOP, TileHeight, USABLE, Wanted, wgsl, words,
};
use crate::kernels::blocks::{BLOCK_ROWS, GRANULE_PLACES, OF_BITS, TILE_COOP};
use crate::kernels::intervals::INTERVALS;
use crate::kernels::keys::{KEYS, key_of, value_of};
use crate::kernels::lengths::GRANULES;
use crate::kernels::screen::collect::Round;
use crate::kernels::screen::collect_tile_i8::{
    self, BUFFERS, Buffers, Form, PAIRS, RoundPart, Tile, collects,
};
use crate::kernels::test_tile::{SIDE, TILE_GRANULES, TestTile, unless_it_passes};
use crate::lock::lock;
use crate::screen::certificate::Margin;

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
        PIECES_COOP,
        SWEEP_COOP,
    ])
    .source(wgsl!("screen/collect_tile_coop"))
    .buffers(BUFFERS)
    .overrides(&[("FORM", Form::QUANTIZED), ("HAS_BITSET", &[0, 1]), HEIGHTS, OF_BITS, PAIRS])
    .only(collects)
    .multiplies_matrices()
    .takes_byte_matrices()
    .lengths(&[GRANULES])
    .workgroup(256, 2 * 128 * 10 * 8 + 4 * 1024)
    .holds_tile();

/// The heights of tiles on cooperative matrices. Few queries take a low tile, whose products cost less.
pub(in crate::kernels) const HEIGHTS: (&str, &[u32]) = (HEIGHT, &[32, 64, 128]);

/// The height of tiles for this many queries: the least that holds them, or else the largest, of those that passed their self-test. None for
/// a kernel without heights.
pub(crate) fn height_for(gpu: &Gpu, kernel: &Kernel, of_bits: bool, queries: u32) -> Option<u32> {
    let tested = lock(&gpu.tile_heights);
    let is_right = |height: &u32| tested.contains(&((*height, of_bits), Some(true)));
    let mut right = kernel.heights().iter().copied().filter(is_right);
    right.clone().find(|height| *height >= queries).or(right.next_back())
}

/// Tests the lowest tile, whose kernel is compiled first if need be.
pub(super) async fn is_lowest_right(gpu: &Gpu, form: Form) -> Result<bool> {
    let lowest = KERNEL.heights()[0];
    let tile = TestTile::new(gpu, form.counts_bits()).await?;
    let is_right = is_right(gpu, form, (lowest, false), &tile).await?;
    note(gpu, (lowest, form.counts_bits()), Some(is_right));
    Ok(is_right)
}

/// Whether tiles collect pairs correctly. The first call on a device tests them. None as long as threads compile them, unless the caller waits
/// for that.
pub(crate) async fn are_pairs_right(gpu: &Gpu, form: Form, can_wait: bool) -> Result<Option<bool>> {
    let known = lock(&gpu.pairs_on_matrices).iter().find(|(own, _)| *own == form as u32).copied();
    if let Some((_, known)) = known {
        return Ok(Some(known));
    }
    if !can_wait && !gpu.has_pipeline(&KERNEL, &[form as u32, 0, BLOCK_ROWS, 0, 1]) {
        gpu.compile_ahead(0, || vec![of_pairs(form)]);
        return Ok(None);
    }
    let tile = TestTile::new(gpu, false).await?;
    let is_right = unless_it_passes(is_right(gpu, form, (BLOCK_ROWS, true), &tile).await)?;
    lock(&gpu.pairs_on_matrices).push((form as u32, is_right));
    Ok(Some(is_right))
}

/// The tiles that collect pairs.
pub(crate) fn of_pairs(form: Form) -> Wanted {
    let wanted = Wanted::of(&KERNEL).with("FORM", form as u32).with("HAS_BITSET", 0);
    wanted.with(HEIGHT, BLOCK_ROWS).with(OF_BITS.0, 0).with(PAIRS.0, 1)
}

/// Tests the other tiles whose kernels are compiled by now, and starts to compile the rest: a first search does not wait for them.
pub(super) async fn test_compiled(gpu: &Gpu, form: Form) -> Result<()> {
    for &height in KERNEL.heights() {
        let (of_bits, constant) = (form.counts_bits(), form.counts_bits().into());
        let known = lock(&gpu.tile_heights).iter().find(|(own, _)| *own == (height, of_bits)).copied();
        match known {
            Some((_, Some(_))) => {}
            _ if gpu.has_pipeline(&KERNEL, &[form as u32, 0, height, constant, 0]) => {
                let tile = TestTile::new(gpu, of_bits).await?;
                let is_right = unless_it_passes(is_right(gpu, form, (height, false), &tile).await)?;
                note(gpu, (height, of_bits), Some(is_right));
            }
            Some((_, None)) => {}
            None => {
                note(gpu, (height, of_bits), None);
                let wanted =
                    Wanted::of(&KERNEL).with("FORM", form as u32).with("HAS_BITSET", 0).with(PAIRS.0, 0);
                gpu.compile_ahead(0, || vec![wanted.with(HEIGHT, height)]);
            }
        }
    }
    Ok(())
}

/// Notes what is known of a height, of tiles of integers or of bits.
fn note(gpu: &Gpu, height: TileHeight, is_right: Option<bool>) {
    let mut heights = lock(&gpu.tile_heights);
    heights.retain(|(own, _)| *own != height);
    heights.push((height, is_right));
}

/// Whether the kernel keeps, of a tile's first queries, the rows whose score reaches a threshold, or pairs of them. Each form is a kernel of
/// its own to the compiler, so the one that searches need is tested.
fn is_right<'f>(
    gpu: &'f Gpu,
    form: Form,
    (height, of_pairs): (u32, bool),
    tile: &'f TestTile,
) -> Boxed<'f, bool> {
    Box::pin(async move {
        let TestTile { queries, rows, scores, terms } = tile;
        let distance = |query: usize, row: usize| {
            let score = scores[query * SIDE + row].into();
            Margin::default().interval(form, score, terms[0][query], terms[1][row])[0]
        };
        let all = || (0..height as usize).flat_map(|query| (0..SIDE).map(move |row| (query, row)));
        // A fifth or a tenth of the rows pass: those below the middle of two distances that lie apart.
        let mut distances: Vec<f64> = all().map(|(query, row)| distance(query, row)).collect();
        distances.sort_unstable_by(f64::total_cmp);
        let apart = |share: usize| {
            let mut gaps = distances.windows(2).skip(distances.len() / share);
            let gap = gaps.find(|pair| pair[1] - pair[0] > 1e-5);
            gap.map_or(0.0, |pair| (pair[0] + pair[1]) / 2.0) as f32
        };
        // Lists of pairs have different thresholds.
        let limits = [apart(5), apart(if of_pairs { 10 } else { 5 })];
        let threshold = |list: usize| limits[list % 2];
        let keys: Vec<u32> = (0..SIDE).map(|list| key_of(threshold(list))).collect();
        let buffer = |words: usize| gpu.create_storage("self-test", words as u64 * 4);
        let [query_terms, row_terms] = [buffer(SIDE * 4)?, buffer(SIDE * 4)?];
        let (thresholds, counts, candidates) = (buffer(SIDE)?, buffer(SIDE)?, buffer(3 * SIDE * SIDE)?);
        gpu.upload_bytes(&query_terms, 0, bytemuck::cast_slice(&terms[0])).await?;
        gpu.upload_bytes(&row_terms, 0, bytemuck::cast_slice(&terms[1])).await?;
        gpu.upload_bytes(&thresholds, 0, bytemuck::cast_slice(&keys)).await?;
        let part = RoundPart { segment: 0, round: Round { step: 1, skip: 0 }, base: 0, first: 0, blocks: 1 };
        let params = Params {
            granules: TILE_GRANULES as u32,
            queries: height,
            rows: BLOCK_ROWS,
            capacity: BLOCK_ROWS,
            plane: height * BLOCK_ROWS,
            ..Params::default()
        };
        let buffers = Buffers {
            queries,
            rows,
            row_terms: &row_terms,
            query_terms: &query_terms,
            thresholds: &thresholds,
            allowed: &thresholds,
            counts: (&counts).into(),
            candidates: &candidates,
        };
        let mut commands = Commands::new(gpu, None);
        commands.clear(&counts, 0, SIDE as u64 * 4);
        collect_tile_i8::encode(
            &mut commands,
            &KERNEL,
            Tile { form, has_bitset: false, of_pairs, height: Some(height) },
            &part,
            params,
            &buffers,
        )?;
        let bytes = u64::from(height) * 4;
        let lists = bytes * SIDE as u64;
        let parts = commands.read(&[(&counts, 0, bytes), (&candidates, 0, 2 * lists)]).await?;
        let entries: Vec<u32> = words(&parts[1]).collect();
        let (slots, lowers) = entries.split_at(entries.len() / 2);
        Ok(words::<u32>(&parts[0]).enumerate().all(|(list, count)| {
            // The row of a pair with the smaller number is the query.
            let distance = |row: usize| match of_pairs && row < list {
                true => distance(row, list),
                false => distance(list, row),
            };
            let own = list * SIDE..list * SIDE + (count as usize).min(SIDE);
            let mut found: Vec<(u32, u32)> =
                slots[own.clone()].iter().copied().zip(lowers[own].iter().copied()).collect();
            found.sort_unstable();
            let is_other = |row: &usize| !of_pairs || *row != list;
            let wanted = (0..SIDE).filter(is_other).filter(|&row| distance(row) <= threshold(list).into());
            // Adapters divide in different ways.
            let is_same = |(&(slot, key), row): (&(u32, u32), usize)| {
                let off = (f64::from(value_of(key)) - distance(row)).abs();
                slot as usize == row && if form == Form::Jaccard { off < 1e-6 } else { off == 0.0 }
            };
            found.len() == wanted.clone().count() && found.iter().zip(wanted).all(is_same)
        }))
    })
}
