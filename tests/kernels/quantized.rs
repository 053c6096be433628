//! The kernel `quantize` compared with f64, and the integer screens, bit for bit.

use crate::common::bench::{Bench, GUARD, PARTS, columns_of, floats_of, picked_scores};
use crate::common::quantized::{Slots, Vectors, bytes_of_bits, common_bits, integers, packed};
use crate::common::vectors::{METRICS, norm};
use nearfield::internals::certificate::{Form, Quantizing, Terms};
use nearfield::internals::kernels::{
    ABSENT, BLOCK_ROWS, Part, key_of, quantize, screen_scan_i8, screen_tile_coop, screen_tile_i8,
};
use nearfield::{Element, Metric};
use nearfield_testing::Random;
use nearfield_testing::rounded;

const BLOCK: usize = BLOCK_ROWS as usize;
/// Rows that are not quantised, so that the quantised ones lie in two blocks.
const FIRST: usize = 119;

/// The square root of the sum of squares.
fn length(values: &[f64]) -> f64 {
    values.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// Rows that are hard to quantise, behind as many that are skipped.
fn rows(random: &mut Random, dim: usize, centre: &[f32]) -> Vec<f32> {
    let mut rows = vec![0.0; FIRST * dim];
    let mut put = |one: Vec<f32>| rows.extend(one);
    let zeros = vec![0.0; dim];
    let scaled = |one: &[f32], to: f64| -> Vec<f32> {
        one.iter().map(|&x| (f64::from(x) * to / norm(one)) as f32).collect()
    };
    let plain = random.floats(dim);
    put(plain.clone());
    put(zeros.clone());
    put(vec![3.25; dim]);
    put(centre.to_vec());
    put(scaled(&plain, 2f64.powi(-50) * 1.001));
    put(scaled(&plain, 2f64.powi(50) * 0.999));
    // One element that outweighs the others, and a single nonzero element.
    let mut one = plain.clone();
    one[dim / 2] = 60_000.0;
    put(one);
    let mut one = zeros;
    one[dim - 1] = -0.125;
    put(one);
    // Whole steps, and elements half-way between two steps.
    let levels = Quantizing::of(Metric::L2, dim).levels as usize;
    let mut one = random.integers(dim, levels);
    one[0] = levels as f32;
    put(one.clone());
    put(one.iter().map(|x| if *x == levels as f32 { *x } else { x + 0.5 }).collect());
    // Next to the centre: differences by one rounding, and too small to be quantised.
    put(centre.iter().zip(random.floats(dim)).map(|(m, x)| m + m * x * 1e-6).collect());
    let mut one = centre.to_vec();
    one.iter_mut().filter(|x| **x == 0.0).for_each(|x| *x = 2f32.powi(-100));
    if one.iter().any(|&x| x > 1e-9) {
        put(one);
    }
    put(plain.iter().map(|x| -x * 700.0).collect());
    rows
}

fn centres(random: &mut Random, dim: usize) -> [Vec<f32>; 3] {
    // The centre has length 1, so that a row equal to it leaves nothing for cosine, too.
    let mut mean = random.floats(dim);
    let norm = mean.iter().map(|x| x * x).sum::<f32>().sqrt();
    mean.iter_mut().for_each(|x| *x /= norm);
    // Some of its elements are 0.
    let mut far: Vec<f32> = random.floats(dim).iter().map(|x| 500.0 * x).collect();
    far.iter_mut().skip(1).step_by(2).for_each(|x| *x = 0.0);
    [vec![0.0; dim], mean, far]
}

/// A case for `quantize`.
struct Case<'a> {
    metric: Metric,
    rows: &'a [f32],
    centre: &'a [f32],
    planes: usize,
}

impl Case<'_> {
    fn check<T: Element>(&self, bench: Bench<'_>, values: &[T]) {
        let dim = self.centre.len();
        let quantized =
            Vectors::quantize(bench, self.metric, values, self.centre, (FIRST, self.planes), None);
        let words = bench.read(&quantized.integers);
        let terms = quantized.read_terms(bench);
        let Vectors { granules, plane_words, .. } = quantized;
        let count = self.rows.len() / dim;
        let byte = |plane: usize, row: usize, dimension: usize| {
            let place = plane * plane_words * 4 + quantize::place(row, dimension, granules);
            (words[place / 4] >> (place % 4 * 8) & 255) as i32
        };
        for plane in 0..self.planes {
            let blocks = count.next_multiple_of(BLOCK);
            for row in (0..FIRST).chain(count..blocks) {
                // A word belongs to one row.
                let stray = (0..granules * 16).step_by(4).find(|&dimension| {
                    let place = plane * plane_words * 4 + quantize::place(row, dimension, granules);
                    words[place / 4] != GUARD
                });
                assert_eq!(stray, None, "row {row} must not be quantised");
                assert_eq!(terms[row].scale.to_bits(), GUARD);
            }
            for row in FIRST..count {
                let padding = (dim..granules * 16).find(|&dimension| byte(plane, row, dimension) != 128);
                assert_eq!(padding, None, "dim {dim}, row {row}: padding stands for 0");
            }
        }
        for (row, &terms) in terms.iter().enumerate().take(count).skip(FIRST) {
            let integers: Vec<Vec<i32>> = (0..self.planes)
                .map(|plane| (0..dim).map(|dimension| byte(plane, row, dimension) - 128).collect())
                .collect();
            self.check_row(row, &integers, terms);
        }
    }

    /// Integers and terms of a row against f64.
    fn check_row(&self, row: usize, integers: &[Vec<i32>], terms: Terms) {
        let dim = self.centre.len();
        let Quantizing { levels, finer, inflation, step_error, unit_error, tiny, smallest } =
            Quantizing::of(self.metric, dim);
        let [inflation, step_error, unit_error] = [inflation, step_error, unit_error].map(f64::from);
        let (levels, unit) = (f64::from(levels), 2f64.powi(-23));
        let vector = &self.rows[row * dim..][..dim];
        let wide: Vec<f64> = vector.iter().map(|&x| x.into()).collect();
        let unit_of = if self.metric == Metric::Cosine && length(&wide) > 0.0 { length(&wide) } else { 1.0 };
        let y: Vec<f64> = wide.iter().map(|x| x / unit_of).collect();
        let left: Vec<f64> = y.iter().zip(self.centre).map(|(y, &m)| y - f64::from(m)).collect();
        let (reference, [want_scale, want_length, _, want_bias]) =
            quantize::reference(self.metric, vector, self.centre);
        let said = || format!("{}, dim {dim}, row {}, {} planes", self.metric, row - FIRST, self.planes);
        let [scale, found_length, residual, bias] =
            [terms.scale, terms.length, terms.residual, terms.bias].map(f64::from);

        let steps = |d: usize| {
            let finer = integers.get(1).map_or(0.0, |plane| f64::from(plane[d]) / f64::from(finer));
            f64::from(integers[0][d]) + finer
        };
        // The rounding error of an element from dividing by the norm and subtracting the centre.
        let off = |d: usize| y[d].abs() * unit_error + (y[d].abs() + f64::from(self.centre[d]).abs()) * unit;
        let most = (0..dim).map(off).fold(0.0, f64::max);
        let is_tiny = terms.scale == 0.0;
        let [most_left, smallest] = [want_scale * levels, smallest.into()];
        let is_right = if is_tiny { most_left <= smallest + most } else { most_left >= smallest - most };
        assert!(is_right, "{}: {most_left:e} left, tiny: {is_tiny}", said());
        if is_tiny {
            assert!((0..dim).all(|d| steps(d) == 0.0), "{}", said());
        }
        // A vector that equals the centre up to rounding leaves only rounding errors.
        for d in (0..dim).filter(|_| !is_tiny && most_left > most) {
            let want = left[d] / want_scale;
            let tolerance = (off(d) + most) / want_scale + 8.0 * unit * levels;
            let found = integers[0][d];
            assert!(f64::from(found).abs() <= levels, "{}", said());
            assert!((f64::from(found) - want).abs() <= 0.5 + tolerance, "{}: {found}, not {want}", said());
            if (want.fract().abs() - 0.5).abs() > tolerance {
                assert_eq!(found, reference[d], "{}: element {d}, {want}", said());
            }
            if let Some(second) = integers.get(1) {
                assert!(f64::from(second[d]).abs() <= levels, "{}", said());
                let step = 1.0 / f64::from(finer);
                let rest = (want - steps(d)).abs();
                // Half-way between two steps the last step of the second plane may be cut off.
                assert!(rest <= step * (if levels < 127.0 { 2.0 } else { 1.0 }) + tolerance, "{}", said());
            }
        }
        if !is_tiny {
            let bound = most + 8.0 * unit * want_scale * levels;
            assert!((scale - want_scale).abs() * levels <= bound, "{}: scale {scale}", said());
        }

        // Upper bounds hold, and are no looser than documented.
        let rests: Vec<f64> = left.iter().enumerate().map(|(d, left)| left - scale * steps(d)).collect();
        let want_residual = length(&rests);
        let loose = inflation * inflation + 16.0 * unit;
        assert!(found_length >= want_length, "{}: length {found_length}, {want_length}", said());
        assert!(residual >= want_residual, "{}: residual {residual}, {want_residual}", said());
        let tiny = if is_tiny { f64::from(tiny) * 1.001 } else { 0.0 };
        let most = want_length * loose + 2.0 * unit_error * 1.01 + tiny;
        assert!(found_length <= most, "{}: length {found_length} over {most}", said());
        // The centre's rounding counts as part of the steps' error if much is left, and not otherwise.
        let taken_off = length(&(0..dim).map(off).collect::<Vec<f64>>());
        let most = want_residual * loose + 2.0 * (step_error * found_length + unit_error + taken_off) + tiny;
        assert!(residual <= most, "{}: residual {residual} over {most}", said());
        let share = (0.5 * dim as f64 + 32.0) * unit;
        let m: Vec<f64> = self.centre.iter().map(|&m| m.into()).collect();
        let scale = match self.metric {
            Metric::L2 | Metric::L2Squared => want_bias * share + 4.0 * want_length * taken_off,
            _ => (share + unit_error) * length(&y) * length(&m),
        };
        let floor = dim as f64 * 2f64.powi(-126);
        assert!((bias - want_bias).abs() <= scale + floor, "{}: bias {bias}, not {want_bias}", said());
    }
}

fn quantizes(dims: &[usize]) {
    let Some(bench) = Bench::open() else { return };
    for (turn, &dim) in dims.iter().enumerate() {
        let mut random = Random::new(0x4a + dim as u64);
        for (number, centre) in centres(&mut random, dim).iter().enumerate() {
            for (which, metric) in METRICS.into_iter().enumerate() {
                let rows = rows(&mut random, dim, centre);
                // All combinations at small dims, one after the other at large ones.
                let all = dim < 100;
                for form in (0..4).filter(|form| all || form % 2 == (turn + number + which) % 2) {
                    let planes = 1 + form / 2;
                    if form % 2 == 0 {
                        Case { metric, rows: &rows, centre, planes }.check(bench, &rows);
                    } else {
                        let finite: Vec<f32> = rows.iter().map(|x| x.clamp(-60_000.0, 60_000.0)).collect();
                        let (halves, rows) = rounded(&finite);
                        Case { metric, rows: &rows, centre, planes }.check(bench, &halves);
                    }
                }
            }
        }
    }
}

#[test]
fn quantized_vectors_are_within_their_terms_at_small_dims() {
    quantizes(&[1, 3, 4, 5, 17, 31, 32, 33]);
}

#[test]
fn quantized_vectors_are_within_their_terms_at_large_dims() {
    quantizes(&[384, 768, 1536, 2049, 4096]);
}

#[test]
fn integers_are_their_own_codes() {
    fn check<T: Element>(bench: Bench<'_>, metric: Metric, dim: usize) {
        let mut random = Random::new(dim as u64);
        let middle = if T::nearest(-1.0).widen() < 0.0 { 0.0 } else { 128.0 };
        let limits = [T::nearest(-1e9), T::nearest(1e9)];
        let mut rows: Vec<T> = (0..40 * dim)
            .map(|at| {
                if at % 3 == 0 {
                    limits[random.below(2)]
                } else {
                    T::nearest(random.below(256) as f32 - 128.0 + middle)
                }
            })
            .collect();
        rows[..dim].fill(T::nearest(0.0));
        rows[dim..2 * dim].fill(T::nearest(middle));
        let centre = vec![middle; dim];
        let quantized = Vectors::quantize(bench, metric, &rows, &centre, (0, 1), None);
        let (words, terms) = (bench.read(&quantized.integers), quantized.read_terms(bench));
        for (number, (row, terms)) in rows.chunks(dim).zip(terms).enumerate() {
            let said = format!("{metric}, {}, dim {dim}, row {number}: {terms:?}", T::KIND);
            let codes: Vec<f64> = row.iter().map(|x| f64::from(x.widen() - middle)).collect();
            for (dimension, code) in codes.iter().enumerate() {
                let place = quantize::place(number, dimension, quantized.granules);
                let byte = words[place / 4] >> (place % 4 * 8) & 255;
                assert_eq!(f64::from(byte) - 128.0, *code, "{said}");
            }
            let unit = if metric == Metric::Cosine && length(&codes) > 0.0 { length(&codes) } else { 1.0 };
            let wanted = length(&codes) / unit;
            let [scale, residual, own] = [terms.scale, terms.residual, terms.length].map(f64::from);
            if wanted > 0.0 {
                assert!((scale * unit - 1.0).abs() < 1e-6, "{said}");
                assert!(own >= wanted && own < wanted * 1.001 && residual < wanted * 1e-3, "{said}");
            }
            let bias = match metric {
                Metric::Cosine => 0.0,
                Metric::InnerProduct => {
                    codes.iter().map(|t| (t + f64::from(middle)) * f64::from(middle)).sum()
                }
                _ => wanted * wanted,
            };
            assert!((f64::from(terms.bias) - bias).abs() <= 1e-6 * bias.abs(), "{said}, bias {bias}");
        }
    }
    let Some(bench) = Bench::open() else { return };
    for dim in [4, 32, 100, 1032] {
        for metric in [Metric::L2, Metric::InnerProduct, Metric::Cosine] {
            check::<i8>(bench, metric, dim);
        }
        check::<u8>(bench, Metric::L2, dim);
        check::<u8>(bench, Metric::InnerProduct, dim);
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Screen {
    /// Queries that a workgroup takes at a time, and planes.
    Scan(usize, usize),
    Tile,
    Coop,
}

/// What codes are.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Codes {
    Integers,
    Bits,
}

/// Scores of queries and rows of such codes, bit for bit, and nothing written elsewhere.
fn check_scores(bench: Bench<'_>, (screen, codes): (Screen, Codes), count: usize, dim: usize, part: &Part) {
    let mut random = Random::new((dim * 131 + count) as u64);
    let Quantizing { levels, finer, .. } = Quantizing::of(Metric::L2, dim);
    let blocks = (part.block_first + (part.blocks - 1) * part.block_step + 1) as usize;
    let zero = if codes == Codes::Bits { 0 } else { 128 };
    let mut made = |count: usize| match codes {
        Codes::Integers => integers(&mut random, count, dim, levels as usize),
        Codes::Bits => bytes_of_bits(&mut random, count, dim),
    };
    let rows = made(blocks * BLOCK);
    let granules = quantize::granules(dim);
    let plane_bytes = quantize::plane_bytes(count as u64, dim);
    let (at_once, planes) =
        if let Screen::Scan(at_once, planes) = screen { (at_once, planes) } else { (BLOCK, 1) };
    let queries: Vec<Vec<Vec<i32>>> = (0..planes).map(|_| made(count)).collect();
    let score = |query: usize, row: usize| match codes {
        Codes::Integers => {
            let vectors: Vec<&[i32]> = queries.iter().map(|plane| &plane[query][..]).collect();
            screen_scan_i8::reference(&vectors, finer, &rows[row])
        }
        Codes::Bits => common_bits(&queries[0][query], &rows[row]) as f32,
    };
    let bytes: Vec<u8> = queries.iter().flat_map(|plane| packed(plane, dim, zero)).collect();
    let (query_buffer, row_buffer) = (bench.input(&bytes), bench.input(&packed(&rows, dim, zero)));
    let written = if at_once == BLOCK { count.next_multiple_of(BLOCK) } else { count };
    let room = (written + 4).next_multiple_of(4);
    let columns = (part.column_first / BLOCK_ROWS + part.blocks + 1) as usize;
    let scores = bench.output(columns * room * BLOCK);
    let buffers = [&query_buffer, &row_buffer, &scores];
    // Inner products in steps of 1 without any error, and numbers of bits where no query has any: an interval is the negative score, or
    // twice that and the number of the row's bits, which the scan counts.
    let own = |row: usize| match codes {
        Codes::Integers => 0.0,
        Codes::Bits => common_bits(&rows[row], &rows[row]) as f32,
    };
    let terms = bench.input(&vec![Terms { scale: 1.0, ..Terms::default() }; rows.len().max(count)]);
    let bits: Vec<u32> = (0..rows.len() as u32).map(|word| word.wrapping_mul(0x9e37_79b9) | 0x0100).collect();
    let (allowed, best) = (bench.input(&bits), bench.output(2 * count * columns));
    let (row_count, first_slot) = (rows.len() - 50, 33);
    let Part { block_first, block_step, column_first, .. } = *part;
    let groups = written.div_ceil(at_once) as u32;
    let room_u32 = room as u32;
    let tile = screen_tile_i8::Params { granules, room: room_u32, column_first, block_first, block_step };
    let grid = [groups, part.blocks];
    match screen {
        Screen::Scan(..) => {
            let params = screen_scan_i8::Params {
                granules,
                query_plane: (plane_bytes / 16) as u32,
                queries: count as u32,
                room: room_u32,
                column_first,
                block_first,
                block_step,
                blocks: columns as u32,
                rows: row_count as u32,
                first_slot,
                fraction: 1.0 / finer as f32,
                ..Default::default()
            };
            let (form, of_bits, per_score) = match codes {
                Codes::Integers => (Form::QuantizedInnerProduct, 0, -1.0),
                Codes::Bits => (Form::Hamming, 1, -2.0),
            };
            let constants = [at_once as u32, planes as u32, form as u32, 1, of_bits];
            let buffers = [&query_buffer, &row_buffer, &scores, &terms, &terms, &allowed, &best];
            bench.dispatch(&screen_scan_i8::KERNEL, &constants, &params, &buffers, grid);
            let found = bench.read_records::<2>(&best);
            let is_usable = |row: &usize| {
                let slot = row + first_slot as usize;
                *row < row_count && bits[slot / 32] >> (slot % 32) & 1 == 1
            };
            for (place, found) in found.into_iter().enumerate() {
                let (query, column) = (place / columns, place % columns);
                let number = column.wrapping_sub(column_first as usize / BLOCK);
                let want = if number < part.blocks as usize {
                    let block = block_first as usize + number * block_step as usize;
                    let usable = (block * BLOCK..(block + 1) * BLOCK).filter(is_usable);
                    usable.map(|row| key_of(own(row) + per_score * score(query, row))).min().unwrap_or(ABSENT)
                } else {
                    GUARD
                };
                let said =
                    format!("{screen:?} of {codes:?}, dim {dim}, {part:?}, query {query}, block {column}");
                assert_eq!(found, [want; 2], "{said}");
            }
        }
        Screen::Tile => {
            bench.dispatch(&screen_tile_i8::KERNEL, &[u32::from(codes == Codes::Bits)], &tile, &buffers, grid)
        }
        Screen::Coop => bench.dispatch(&screen_tile_coop::KERNEL, &[], &tile, &buffers, grid),
    }
    let found = floats_of(&picked_scores(&bench.read(&scores), part, room, count, written));
    let places = (0..count).flat_map(|query| columns_of(part).map(move |(_, row)| (query, row)));
    for ((query, row), found) in places.zip(found) {
        let want = score(query, row);
        assert!(want.abs() <= 2f32.powi(24) * 1.01, "sums stay in the range of exact f32 integers");
        let said = || format!("{screen:?} of {codes:?}, dim {dim}, {part:?}, query {query}, row {row}");
        assert_eq!(found.to_bits(), (want + 0.0).to_bits(), "{}: {found}, not {want}", said());
    }
}

/// Sums reach 2^24 at dim 4096, and nearly so at 1040, the last dim of 127 steps.
const SUMS: [usize; 3] = [1040, 1041, 4096];
const ONE_BLOCK: Part = Part { segment: 0, block_first: 1, block_step: 1, blocks: 1, column_first: 128 };

#[test]
fn scans_are_exact_in_every_variant() {
    let Some(bench) = Bench::open() else { return };
    let mut turn = 0;
    for at_once in [1, 2, 4, 8] {
        for (planes, codes) in [(1, Codes::Integers), (2, Codes::Integers), (1, Codes::Bits)] {
            let screen = (Screen::Scan(at_once, planes), codes);
            for dim in [1, 16, 31, 32, 33, 129, 384] {
                for count in [1, at_once, at_once + 1] {
                    check_scores(bench, screen, count, dim, &PARTS[turn % 4]);
                    turn += 1;
                }
            }
            check_scores(bench, screen, at_once.min(3), SUMS[turn % 3], &ONE_BLOCK);
        }
    }
    check_scores(bench, (Screen::Scan(8, 1), Codes::Integers), 37, 17, &PARTS[2]);
}

fn check_tiles(bench: Bench<'_>, screen: Screen, codes: Codes) {
    for (turn, dim) in [1, 16, 31, 32, 33, 129].into_iter().enumerate() {
        for count in [1, 8, 130] {
            check_scores(bench, (screen, codes), count, dim, &PARTS[(turn + count) % 4]);
        }
        check_scores(bench, (screen, codes), 128, dim, &PARTS[3]);
    }
    for dim in SUMS {
        check_scores(bench, (screen, codes), 5, dim, &ONE_BLOCK);
    }
}

#[test]
fn tiles_are_exact_with_and_without_cooperative_matrices() {
    let Some(bench) = Bench::open() else { return };
    check_tiles(bench, Screen::Tile, Codes::Integers);
    check_tiles(bench, Screen::Tile, Codes::Bits);
    match bench.device.capabilities().matrix_side() {
        Some(_) => check_tiles(bench, Screen::Coop, Codes::Integers),
        None => println!("skipped: no cooperative matrices of f16"),
    }
}

/// Staged rows quantise into any slots of a segment with the same bits as in place, and nothing else is written.
#[test]
fn rows_quantize_into_their_slots_as_in_place() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(0x510e);
    for dim in [1, 4, 33, 384] {
        for centre in centres(&mut random, dim) {
            let values = rows(&mut random, dim, &centre);
            let count = values.len() / dim;
            // Some of them are slots of the segments before and after.
            let room = 300;
            let first = 1000;
            let mut list: Vec<u32> = (first - 40..first + room as u32 + 40).collect();
            random.shuffle(&mut list);
            list.truncate(count);
            for metric in METRICS {
                let in_place = Vectors::quantize(bench, metric, &values, &centre, (0, 1), None);
                let slots = Slots { list: &list, first, rows: room };
                let to_slots = Vectors::quantize(bench, metric, &values, &centre, (0, 1), Some(slots));
                let (want, found) = (bench.read(&in_place.integers), bench.read(&to_slots.integers));
                let [want_terms, found_terms] =
                    [&in_place, &to_slots].map(|made| bench.read_records::<4>(&made.terms));
                let granules = in_place.granules;
                for (row, &terms) in found_terms.iter().enumerate().take(room) {
                    let position = list.iter().position(|&slot| slot == first + row as u32);
                    for dimension in (0..granules * 16).step_by(4) {
                        let word = position.map(|from| want[quantize::place(from, dimension, granules) / 4]);
                        let place = quantize::place(row, dimension, granules) / 4;
                        assert_eq!(found[place], word.unwrap_or(GUARD), "{metric}, dim {dim}, row {row}");
                    }
                    let wanted = position.map_or([GUARD; 4], |from| want_terms[from]);
                    assert_eq!(terms, wanted, "{metric}, dim {dim}, row {row}");
                }
            }
        }
    }
}
