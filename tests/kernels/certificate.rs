//! Certificates: the interval of a pair contains the true and the reported distance, for any vectors. The intervals are
//! those that `collect` writes on the device; `certificate_rounding.rs` covers devices that round worse.

use crate::common::bench::Bench;
use crate::common::quantized::Vectors;
use crate::common::vectors::{Case, METRICS, QUERIES, ROWS, dims, norm};
use nearfield::Metric;
use nearfield::internals::certificate::{Form, Margin, Quantizing, Terms};
use nearfield::internals::kernels::{
    ABSENT, BLOCK_ROWS, collect, distance_scan, distance_tile, key_of, quantize, screen_scan_i8,
    screen_tile_i8, value_of,
};
use nearfield_testing::{Random, view};
use proptest::prelude::*;

const BLOCK: usize = BLOCK_ROWS as usize;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Screen {
    ScanI8 { planes: usize },
    TileI8,
    Scan,
    Tile,
}

const SCREENS: [Screen; 5] =
    [Screen::ScanI8 { planes: 1 }, Screen::ScanI8 { planes: 2 }, Screen::TileI8, Screen::Scan, Screen::Tile];

/// A device's results for a query and a row: both ends of the interval, and the reported distance.
struct Pair {
    query: usize,
    row: usize,
    ends: [f64; 2],
    reported: f64,
}

/// The quantised rows of a case, with zeros up to a block.
fn quantized_rows(bench: Bench<'_>, case: &Case) -> Vectors {
    let mut rows = case.rows.clone();
    rows.resize(BLOCK * case.dim, 0.0);
    Vectors::quantize(bench, case.metric, &rows, &case.centre, (0, 1), None)
}

/// All pairs of a case, by the device's kernels; `edit` may falsify the terms of quantised vectors.
fn pairs(
    bench: Bench<'_>,
    (case, x): (&Case, &Vectors),
    screen: Screen,
    margin: impl Fn(Margin) -> Margin,
    edit: Option<&dyn Fn(Terms) -> Terms>,
) -> Vec<Pair> {
    let planes = if let Screen::ScanI8 { planes } = screen { planes } else { 1 };
    let is_quantized = matches!(screen, Screen::ScanI8 { .. } | Screen::TileI8);
    let tiles = matches!(screen, Screen::TileI8 | Screen::Tile);
    let room = if tiles { BLOCK } else { QUERIES.next_multiple_of(4) };
    let mut queries = case.queries.clone();
    queries.resize(room * case.dim, 0.0);
    let q = Vectors::quantize(bench, case.metric, &queries, &case.centre, (0, planes), None);
    let form = match case.metric {
        metric if is_quantized => Form::quantized(metric),
        Metric::Cosine => Form::Cosine,
        Metric::InnerProduct => Form::InnerProduct,
        _ if screen == Screen::Scan => Form::Direct,
        _ => Form::L2,
    };
    let margin = margin(match is_quantized {
        true => Margin::around(form, &case.centre),
        false => Margin::of_rounding(form, case.dim),
    });
    let edited = |vectors: &Vectors| {
        let terms = vectors.read_terms(bench).into_iter().map(edit.unwrap_or(&|terms| terms));
        bench.input(&terms.collect::<Vec<Terms>>())
    };
    let row_terms = if is_quantized { edited(x) } else { bench.input(&bench.read(&x.norms)) };
    let query_terms = if is_quantized { edited(&q) } else { bench.input(&bench.read(&q.norms)) };
    let unused = bench.input(&[0u32]);
    let thresholds = bench.input(&[key_of(f32::MIN); QUERIES]);
    let (scores, counts) = (bench.output(room * BLOCK), bench.filled(&[0; QUERIES]));
    let lists = bench.output(3 * QUERIES * BLOCK);
    let (granules, vectors, room) = (q.granules as u32, q.vectors, room as u32);
    let (column_first, block_first, block_step) = (0, 0, 1);
    let quantized = [&q.integers, &x.integers, &scores];
    let whole = [&q.values, &x.values, &scores];
    match screen {
        Screen::ScanI8 { planes } => {
            let fraction = 1.0 / Quantizing::of(case.metric, case.dim).finer as f32;
            let query_plane = q.plane_words as u32 / 4;
            let params = screen_scan_i8::Params {
                granules,
                query_plane,
                queries: QUERIES as u32,
                room,
                block_step,
                blocks: 1,
                rows: ROWS as u32,
                fraction,
                ..screen_scan_i8::Params::of(margin)
            };
            let best = bench.output(2 * QUERIES);
            let buffers = [&q.integers, &x.integers, &scores, &row_terms, &query_terms, &unused, &best];
            let constants = [8, planes as u32, form as u32, 0, 0];
            bench.dispatch(&screen_scan_i8::KERNEL, &constants, &params, &buffers, [1, 1]);
        }
        Screen::TileI8 => {
            let params = screen_tile_i8::Params { granules, room, column_first, block_first, block_step };
            bench.dispatch(&screen_tile_i8::KERNEL, &[0], &params, &quantized, [1, 1]);
        }
        Screen::Scan | Screen::Tile => {
            let part_columns = BLOCK_ROWS;
            let params =
                distance_scan::Params { vectors, room, part_columns, column_first, block_first, block_step };
            let (kernel, constants, grid) = match screen {
                Screen::Scan => (&distance_scan::KERNEL, vec![(form == Form::Direct).into(), 4, 0], [4, 2]),
                _ => (&distance_tile::KERNEL, vec![0], [1, 1]),
            };
            bench.dispatch(kernel, &constants, &params, &whole, grid);
        }
    }
    let params = collect::Params {
        queries: QUERIES as u32,
        room,
        groups: BLOCK_ROWS / collect::GROUP,
        block_step,
        rows: ROWS as u32,
        round_step: 1,
        sampled: BLOCK_ROWS,
        capacity: BLOCK_ROWS,
        plane: QUERIES as u32 * BLOCK_ROWS,
        ..collect::Params::of(margin)
    };
    let buffers = [&scores, &row_terms, &query_terms, &thresholds, &unused, &counts, &lists];
    let grid = [1, (QUERIES as u32).div_ceil(collect::queries_each(true))];
    bench.dispatch(&collect::KERNEL, &[form as u32, 0, 1], &params, &buffers, grid);
    let [all_queries, all_rows] = [&case.queries, &case.rows].map(|values| view(values, case.dim));
    let nearest = bench.device.nearest(all_queries, all_rows, case.metric, ROWS).expect("an answer");
    assert_eq!(bench.read(&counts), [BLOCK_ROWS; QUERIES]);
    let lists = bench.read(&lists);
    let end = |query: usize, row: usize, which: usize| {
        let key = lists[(which * QUERIES + query) * BLOCK + row];
        assert_ne!(key, ABSENT, "a number");
        value_of(key).into()
    };
    let all = nearest.iter().enumerate().flat_map(|(query, hits)| hits.iter().map(move |hit| (query, hit)));
    let pairs = all.map(|(query, hit)| {
        let row = hit.id as usize;
        Pair { query, row, ends: [1, 2].map(|which| end(query, row, which)), reported: hit.distance.into() }
    });
    let pairs: Vec<Pair> = pairs.collect();
    assert_eq!(pairs.len(), QUERIES * ROWS);
    pairs
}

/// The judge: returns the first fault in the intervals of a case.
fn judge(case: &Case, pairs: &[Pair]) -> Result<(), String> {
    for pair in pairs {
        let exact = case.metric.exact(case.query(pair.query), case.row(pair.row));
        for (what, value) in [("true", exact), ("reported", pair.reported)] {
            let (Pair { query, row, ends, .. }, metric) = (pair, case.metric);
            if !(ends[0] <= value && value <= ends[1]) {
                return Err(format!(
                    "{metric}, query {query}, row {row}: {what} {value:e} is not in {ends:?}"
                ));
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_intervals_of_a_device_hold_both_distances(seed: u64, dim in dims(), centre in 0usize..3) {
        if let Some(bench) = Bench::open() {
            for metric in METRICS {
                let case = Case::new(seed, metric, dim, centre);
                let x = quantized_rows(bench, &case);
                for screen in SCREENS {
                    let found = judge(&case, &pairs(bench, (&case, &x), screen, |margin| margin, None));
                    prop_assert_eq!(found, Ok(()), "{:?}", screen);
                }
            }
        }
    }
}

#[test]
fn the_intervals_of_long_vectors_hold_both_distances() {
    let Some(bench) = Bench::open() else { return };
    for (dim, metric) in [16_384, 9000, 12_001].into_iter().zip(METRICS) {
        let case = Case::new(dim as u64, metric, dim, dim % 3);
        let x = quantized_rows(bench, &case);
        for screen in [Screen::ScanI8 { planes: 2 }, Screen::TileI8] {
            let found = judge(&case, &pairs(bench, (&case, &x), screen, |margin| margin, None));
            assert_eq!(found, Ok(()), "dim {dim}, {screen:?}");
        }
    }
}

/// Normally distributed vectors of a common dim, with a centre or without.
fn plain(metric: Metric, offset: f32) -> Case {
    let (dim, mut random) = (384, Random::new(0x91a1));
    let [mut queries, mut rows] = [QUERIES, ROWS].map(|count| random.floats(count * dim));
    queries.iter_mut().chain(&mut rows).for_each(|x| *x += offset);
    let unit = if metric == Metric::Cosine { norm(&rows[..dim]) as f32 } else { 1.0 };
    Case { metric, dim, queries, rows, centre: vec![offset / unit; dim] }
}

#[test]
fn intervals_of_ordinary_vectors_are_as_quantize_as_their_residuals() {
    let Some(bench) = Bench::open() else { return };
    for metric in METRICS {
        for offset in [0.0, 10.0] {
            let case = plain(metric, offset);
            let x = quantized_rows(bench, &case);
            let [one, two] = [1, 2].map(|planes| {
                let found = pairs(bench, (&case, &x), Screen::ScanI8 { planes }, |margin| margin, None);
                assert_eq!(judge(&case, &found), Ok(()));
                found
            });
            for (one, two) in one.iter().zip(&two) {
                let terms = |vector| quantize::reference(metric, vector, &case.centre).1;
                let (q, x) = (terms(case.query(one.query)), terms(case.row(one.row)));
                let factor = if metric == Metric::L2Squared { 2.0 } else { 1.0 };
                let Quantizing { step_error, unit_error, .. } = Quantizing::of(metric, case.dim);
                let added = |length: f64| 1.1 * (f64::from(step_error) * length + f64::from(unit_error));
                let width = |q_residual: f64| {
                    let residuals = [q_residual + added(q[1]), x[2] + added(x[1])];
                    2.0 * factor * (residuals[0] * x[1] + (q[1] + residuals[0]) * residuals[1])
                };
                let Margin { relative, centre_length, .. } =
                    Margin::around(Form::quantized(metric), &case.centre);
                let reach = (q[1] + f64::from(centre_length)) * (x[1] + f64::from(centre_length));
                let rounding = 2.0 * f64::from(relative) * reach.max(q[1] * q[1] + x[1] * x[1]);
                let said = format!("{metric}, offset {offset}");
                let (found, want) = (one.ends[1] - one.ends[0], width(q[2]) * 1.02 + rounding);
                assert!(found <= want, "{said}: {found}, not {want}");
                // The sum of two integer vectors leaves almost no residual of the query.
                let (found, want) = (two.ends[1] - two.ends[0], width(q[2] / 100.0) * 1.02 + rounding);
                assert!(found <= want, "{said}, two planes: {found}, not {want}");
                // In numbers: a fiftieth of what the vectors' lengths allow.
                assert!(one.ends[1] - one.ends[0] <= 0.02 * 2.0 * factor * q[1] * x[1] + rounding, "{said}");
            }
        }
    }
}

#[test]
fn the_judge_finds_margins_that_are_too_small() {
    let Some(bench) = Bench::open() else { return };
    let without_rounding = |margin| Margin { relative: 0.0, floor: 0.0, ..margin };
    for metric in METRICS {
        let case = plain(metric, 0.0);
        let x = quantized_rows(bench, &case);
        let without_residual = |terms| Terms { residual: 0.0, ..terms };
        for screen in &SCREENS[..3] {
            let found = pairs(bench, (&case, &x), *screen, |margin| margin, Some(&without_residual));
            assert!(judge(&case, &found).is_err(), "{metric}, {screen:?}: residuals count");
        }
        // Far from the origin: only rounding is left of the products.
        let mut case = plain(metric, 1000.0);
        case.centre = vec![case.centre[0] * 1.000_001; case.dim];
        let x = quantized_rows(bench, &case);
        let screens = match metric {
            Metric::L2Squared => &SCREENS[4..],
            _ => &SCREENS[..],
        };
        for screen in screens {
            let found = pairs(bench, (&case, &x), *screen, without_rounding, None);
            assert!(judge(&case, &found).is_err(), "{metric}, {screen:?}: rounding counts");
        }
    }
}
