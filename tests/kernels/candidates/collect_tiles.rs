//! The kernels that score a tile and collect from it: `collect_tile_i8` and `collect_tile_coop`.

use super::{FORMS, FORMS_OF_BITS, Lists, Quantized, WIDE, bitset, has};
use crate::common::bench::Bench;
use crate::common::quantized::packed;
use nearfield::internals::certificate::{Form, Margin};
use nearfield::internals::kernels::{
    BLOCK_ROWS, Kernel, collect_tile_coop, collect_tile_i8, key_of, quantize, value_of,
};
use nearfield_testing::Random;

const BLOCK: usize = BLOCK_ROWS as usize;
const BLOCKS: usize = 7;
/// The segment's last block is not full.
const ROWS: usize = BLOCKS * BLOCK - 50;
const FIRST_SLOT: u32 = 70;
/// Number of the segment's first block in the index.
const BASE: u32 = 6;

/// The blocks that a dispatch takes: step, ratio, and the numbers of the segment's blocks that follow from them.
type Round = (u32, u32, &'static [usize]);
const ROUNDS: [Round; 4] =
    [(1, 0, &[0, 1, 2, 3, 4, 5, 6]), (2, 0, &[0, 2, 4, 6]), (2, 2, &[0, 4]), (1, 4, &[0, 1, 3, 4, 5])];

fn quantized(form: Form, dim: usize, queries: usize) -> Quantized {
    Quantized::new(&mut Random::new((dim * 31 + queries) as u64), form, dim, [queries, BLOCKS * BLOCK])
}

/// A kernel, and the height of its tiles where there are several.
type TileKernel = (&'static Kernel, Option<u32>);

/// Both kernels, where the device has them, and all heights of tiles.
fn kernels(bench: Bench<'_>) -> Vec<TileKernel> {
    let mut kernels: Vec<TileKernel> = vec![(&collect_tile_i8::KERNEL, None)];
    match bench.device.capabilities().matrix_side() {
        Some(_) => {
            let kernel = &collect_tile_coop::KERNEL;
            kernels.extend(kernel.heights().iter().map(|&height| (kernel, Some(height))));
        }
        None => println!("skipped: no cooperative matrices of f16"),
    }
    kernels
}

/// Checks all kernels.
fn check(bench: Bench<'_>, quantized: &Quantized, round: Round, allowed: Option<&[u32]>) {
    let usable =
        |row: &usize| *row < ROWS && allowed.is_none_or(|words| has(words, FIRST_SLOT + *row as u32));
    let rows = round.2.iter().flat_map(|block| block * BLOCK..(block + 1) * BLOCK).filter(usable);
    let slots: Vec<u32> = rows.map(|row| FIRST_SLOT + row as u32).collect();
    for kernel in kernels(bench) {
        quantized.check_collecting(
            FIRST_SLOT,
            |_| slots.clone(),
            |thresholds, capacity| {
                collected(bench, kernel, quantized, round, allowed, (thresholds, capacity))
            },
            |query, lowers| threshold(quantized, &lowers[(lowers.len() - 1) * (query % 5) / 7..]),
        );
    }
}

/// A threshold not below the first of these lower ends, which ascend. Rounding decides about a row whose end is the threshold
/// (docs/certified-search.md), and may do so either way: so the threshold lies half-way to the next end. Ends of bits are exact.
fn threshold(quantized: &Quantized, lowers: &[u32]) -> u32 {
    if quantized.is_of_bits() {
        return lowers[0];
    }
    let values: Vec<f32> = lowers.iter().map(|&key| value_of(key)).collect();
    let gap = values.windows(2).find(|ends| ends[1] - ends[0] > 1e-4 * ends[0].abs().max(10.0));
    key_of(gap.map_or(f32::MAX, |ends| (ends[0] + ends[1]) / 2.0))
}

fn collected(
    bench: Bench<'_>,
    (kernel, height): TileKernel,
    quantized: &Quantized,
    (step, ratio, blocks): Round,
    allowed: Option<&[u32]>,
    (thresholds, capacity): (&[u32], usize),
) -> Lists {
    let Quantized { form, dim, margin, ref queries, ref rows, ref terms } = *quantized;
    let count = queries.len();
    let zero = if quantized.is_of_bits() { 0 } else { 128 };
    let [queries, rows] = [queries, rows].map(|vectors| bench.input(&packed(vectors, dim, zero)));
    let [query_terms, row_terms] = [0, 1].map(|which| bench.input(&terms[which]));
    let (limits, bits) = (bench.input(thresholds), bench.input(allowed.unwrap_or(&[0])));
    let lists = Lists::empty(count, capacity);
    let (counts, candidates) = (bench.filled(&lists.counts), bench.filled(&lists.words));
    let params = collect_tile_i8::Params {
        granules: quantize::granules(dim),
        queries: count as u32,
        rows: ROWS as u32,
        first_slot: FIRST_SLOT,
        // Blocks of the round before the segment's first.
        first: BASE.div_ceil(step) - if ratio > 0 { BASE.div_ceil(ratio * step) } else { 0 },
        step,
        ratio,
        base: BASE,
        capacity: capacity as u32,
        plane: (count * capacity) as u32,
        ..collect_tile_i8::Params::of(margin)
    };
    let buffers = [&queries, &rows, &row_terms, &query_terms, &limits, &bits, &counts, &candidates];
    let constants = [form as u32, allowed.is_some().into()].into_iter().chain(height);
    let constants: Vec<u32> = constants.chain([quantized.is_of_bits().into(), 0]).collect();
    let grid = [(count as u32).div_ceil(height.unwrap_or(BLOCK_ROWS)), blocks.len() as u32];
    bench.dispatch(kernel, &constants, &params, &buffers, grid);
    Lists { counts: bench.read(&counts), words: bench.read(&candidates), ..lists }
}

#[test]
fn a_tile_keeps_exactly_the_rows_that_thresholds_do_not_exclude() {
    let Some(bench) = Bench::open() else { return };
    let allowed = bitset(40);
    let mut turn = 0;
    for form in FORMS.into_iter().chain(FORMS_OF_BITS) {
        for (dim, queries) in [(1, 3), (33, 130), (100, 40), (384, 5)] {
            let quantized = quantized(form, dim, queries);
            check(bench, &quantized, ROUNDS[turn % 4], None);
            check(bench, &quantized, ROUNDS[(turn + 1) % 4], Some(&allowed));
            turn += 1;
        }
    }
}

#[test]
fn blocks_without_an_allowed_row_keep_nothing() {
    let Some(bench) = Bench::open() else { return };
    // The last row of block 0, and the range from the last row of block 3 to the first of block 5. Blocks share words of bits.
    let rows = [BLOCK - 1..BLOCK, 4 * BLOCK - 1..5 * BLOCK + 1];
    let mut allowed = vec![0u32; 40];
    for slot in rows.into_iter().flatten().map(|row| FIRST_SLOT as usize + row) {
        allowed[slot / 32] |= 1 << (slot % 32);
    }
    for form in FORMS.into_iter().chain(FORMS_OF_BITS) {
        let quantized = quantized(form, 64, 20);
        ROUNDS.iter().for_each(|round| check(bench, &quantized, *round, Some(&allowed)));
    }
}

/// Lengths and residuals of very different size in one block: the bound that its rows share is far from most of them.
#[test]
fn a_bound_that_rows_share_loses_none_of_them() {
    let Some(bench) = Bench::open() else { return };
    for form in FORMS {
        let mut quantized = quantized(form, 64, 20);
        quantized.margin = Margin { relative: 1e-5, ..WIDE };
        for (number, terms) in quantized.terms[1].iter_mut().enumerate() {
            let factor = [1.0, 1e-3, 1e-6, 30.0][number % 4];
            terms.length *= factor;
            terms.residual *= factor;
            terms.scale *= factor;
            if form == Form::QuantizedL2 {
                terms.bias *= factor * factor;
            }
        }
        check(bench, &quantized, ROUNDS[0], None);
    }
}

/// The slot of the first query, where queries are rows: two tiles of them.
const FIRST_QUERY: usize = 3 * BLOCK;

#[test]
fn both_rows_of_a_pair_take_each_other() {
    let Some(bench) = Bench::open() else { return };
    let is_high = |(_, height): &TileKernel| height.is_none_or(|height| height == BLOCK_ROWS);
    for form in FORMS {
        let quantized = quantized(form, 100, 150);
        kernels(bench).into_iter().filter(is_high).for_each(|kernel| check_pairs(bench, kernel, &quantized));
    }
}

fn check_pairs(bench: Bench<'_>, kernel: TileKernel, quantized: &Quantized) {
    let count = quantized.queries.len();
    // Without thresholds each query takes all rows. What its list has of a row is what lists have of the pair.
    let none = vec![key_of(f32::MAX); count];
    let whole = collected(bench, kernel, quantized, (1, 0, ROUNDS[0].2), None, (&none, ROWS));
    let of_query: Vec<_> = (0..count).map(|query| whole.by_slot(query)).collect();
    let ends = of_query.iter().flat_map(|list| list.values().map(|entry| entry[1]));
    let mut lowers: Vec<u32> = ends.collect();
    lowers.sort_unstable();
    lowers.dedup();
    // Half-way between two ends, with few or many ends below it.
    let mut random = Random::new(quantized.form as u64);
    let mut limit = |row: usize| {
        let place = random.below(lowers.len() / [40, 11, 3, 1][row % 4] - 1);
        let [one, next] = [0, 1].map(|step| value_of(lowers[place + step]));
        key_of((one + next) / 2.0)
    };
    let thresholds: Vec<u32> = (0..ROWS).map(&mut limit).collect();
    for capacity in [ROWS, 9] {
        let lists = pairs(bench, kernel, quantized, (&thresholds, capacity));
        for (list, &threshold) in thresholds.iter().enumerate() {
            let rows = (list + 1..ROWS).map(|row| (list, row));
            let pairs = (FIRST_QUERY..list).map(|query| (query, list)).chain(rows);
            let of_queries = pairs.filter_map(|(query, row)| {
                let query = query.checked_sub(FIRST_QUERY).filter(|&query| query < count)?;
                let [_, lower, upper] = of_query[query][&(FIRST_SLOT + row as u32)];
                let other = if row == list { FIRST_QUERY + query } else { row };
                (lower <= threshold).then_some([other as u32, lower, upper])
            });
            let mut wanted: Vec<[u32; 3]> = of_queries.collect();
            wanted.sort_unstable();
            let said = format!("{:?}, {:?}, list {list}", quantized.form, kernel.1);
            assert_eq!(lists.counts[list] as usize, wanted.len(), "{said}");
            let mut found = lists.of(list);
            found.sort_unstable();
            match capacity == ROWS {
                true => assert_eq!(found, wanted, "{said}"),
                false => assert!(found.iter().all(|entry| wanted.contains(entry)), "{said}"),
            }
        }
    }
}

/// The list of each row, where queries are rows from [`FIRST_QUERY`] on.
fn pairs(
    bench: Bench<'_>,
    (kernel, height): TileKernel,
    quantized: &Quantized,
    (thresholds, capacity): (&[u32], usize),
) -> Lists {
    let Quantized { form, dim, margin, ref queries, ref rows, ref terms } = *quantized;
    let count = queries.len() as u32;
    let [queries, rows] = [queries, rows].map(|vectors| bench.input(&packed(vectors, dim, 128)));
    let [query_terms, row_terms] = [0, 1].map(|which| bench.input(&terms[which]));
    let (limits, unused) = (bench.input(thresholds), bench.input(&[0u32]));
    let lists = Lists::empty(ROWS, capacity);
    let (counts, candidates) = (bench.filled(&lists.counts), bench.filled(&lists.words));
    let params = collect_tile_i8::Params {
        granules: quantize::granules(dim),
        queries: count,
        rows: ROWS as u32,
        step: 1,
        capacity: capacity as u32,
        plane: (ROWS * capacity) as u32,
        first_query: FIRST_QUERY as u32,
        ..collect_tile_i8::Params::of(margin)
    };
    let buffers = [&queries, &rows, &row_terms, &query_terms, &limits, &unused, &counts, &candidates];
    let constants: Vec<u32> = [form as u32, 0].into_iter().chain(height).chain([0, 1]).collect();
    bench.dispatch(kernel, &constants, &params, &buffers, [count.div_ceil(BLOCK_ROWS), BLOCKS as u32]);
    Lists { counts: bench.read(&counts), words: bench.read(&candidates), ..lists }
}
