//! The k smallest on every path, from rows whose ids are positions: in registers, in one pass, through lists, and again when
//! a sample gives no threshold. Each path gets data that favour it and data that defeat it. `select_buckets.rs` tests large k.

use crate::common::bench::{Bench, ids_of};
use crate::common::select::{Case, kinds};
use crate::common::{Random, gpu, without_subgroups};
use nearfield::internals::kernels::{ABSENT, key_of, select_filter, select_row, select_sample};
use nearfield::{BufferSlice, Device, ElementKind};

#[test]
fn short_rows_of_every_kind_are_selected_from() {
    let (Some(device), Some(other)) = (gpu(), without_subgroups()) else { return };
    for length in [1, 2, 31, 127, 128, 129, 511, 512, 513, 1023, 1024, 1025, 2047, 2049, 4095, 4096] {
        let values = kinds(length, length as u64);
        for k in [1, 10, 47, 48, 49, 300, 1000, 1024, 1025, length] {
            if k <= length && (k < 1024 || length > 2000 || k == length) {
                Case::of(&values, length, k).check(device);
            }
        }
        Case::of(&values, length, length.min(20)).check(other);
        Case::of(&values, length, length + 3).check(device);
    }
}

#[test]
fn longer_rows_of_every_kind_are_selected_from() {
    let (Some(device), Some(other)) = (gpu(), without_subgroups()) else { return };
    for length in [4097, 4100, 8191, 8192, 10_003, 20_000] {
        let values = kinds(length, length as u64);
        for k in [1, 10, 48, 256, 1000] {
            let case = Case::of(&values, length, k);
            assert!(case.check(device), "the lists hold the wanted elements");
            Case { has_scratch: false, ..case }.check(device);
        }
        Case::of(&values, length, 20).check(other);
    }
}

#[test]
fn the_longest_rows_of_every_kind_are_selected_from() {
    let (Some(device), Some(other)) = (gpu(), without_subgroups()) else { return };
    for (length, ks) in [(65_536, &[10][..]), (65_537, &[1, 700]), (150_001, &[10, 1000])] {
        let values = kinds(length, length as u64);
        for &k in ks {
            assert!(Case::of(&values, length, k).check(device), "the lists hold the wanted elements");
        }
        Case::of(&values, length, 20).check(other);
    }
}

#[test]
fn rows_that_start_and_end_within_vectors() {
    let Some(device) = gpu() else { return };
    let mut random = Random::new(21);
    for (length, pitch) in [(70_001, 70_003), (70_002, 70_002), (9001, 9003), (5003, 5003), (700, 701)] {
        let words: Vec<u32> = (0..2 * pitch + length).map(|_| random.unit().to_bits()).collect();
        // The wanted elements include the last ones.
        let mut words = words;
        words[2 * pitch + length - 2..].fill((-7.0f32).to_bits());
        words[0] = (-8.0f32).to_bits();
        for k in [3, 600] {
            let case = Case { rows: 3, pitch, ..Case::of(&words, length, k) };
            case.check(device);
            // The same values as keys.
            let keys: Vec<u32> = words.iter().map(|&word| key_of(f32::from_bits(word))).collect();
            Case { words: &keys, floats: false, ..case }.check(device);
            Case { words: &keys, floats: false, has_scratch: false, ..case }.check(device);
        }
    }
}

#[test]
fn any_words_are_keys() {
    let Some(device) = gpu() else { return };
    let mut random = Random::new(22);
    for length in [300, 3000, 6000, 80_000] {
        let mut words: Vec<u32> = (0..length).map(|_| random.next() as u32).collect();
        words.extend((0..length as u32).map(|i| ABSENT - 1 - i % 5));
        words.extend((0..length as u32).map(|i| i % 3));
        for k in [1, 250, 1000] {
            Case { floats: false, ..Case::of(&words, length, k) }.check(device);
        }
    }
}

#[test]
fn many_rows_are_selected_from() {
    let Some(device) = gpu() else { return };
    let mut random = Random::new(23);
    for (rows, length, k) in [(3000, 40, 7), (1500, 513, 3), (520, 4100, 10), (70_000, 3, 2)] {
        let words: Vec<u32> = (0..rows * length).map(|_| random.unit().to_bits()).collect();
        Case::of(&words, length, k).check(device);
    }
}

/// The elements of a row that a sample holds, as `wgsl/lib/select/sample.wgsl` takes them.
fn sampled(length: usize, held: usize, turns: usize) -> Vec<usize> {
    let strata = 256 * held * turns;
    let vectors = length / 4;
    let width = vectors as f32 / strata as f32;
    let scattered = |i: u32| {
        let mut x = i.wrapping_mul(0x9e37_79b9);
        x = (x ^ x >> 16).wrapping_mul(0x7feb_352d);
        x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
        ((x ^ x >> 16) >> 8) as f32 * 5.960_464_5e-8
    };
    let vector = |i: usize| (((i as f32 + scattered(i as u32)) * width) as usize).min(vectors - 1);
    (0..strata).flat_map(|i| (0..4).map(move |element| 4 * vector(i) + element)).collect()
}

/// Vectors held and turns of the samples, for rows of these lengths.
const SAMPLES: [(usize, usize); 4] = [(1, 1), (1, 4), (4, 1), (4, 4)];

/// A row whose samples hold only its largest, or only its smallest elements.
fn defeating(length: usize, samples: &[(usize, usize)], sample_is_small: bool, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut values: Vec<f32> = (0..length).map(|_| random.unit()).collect();
    for &(held, turns) in samples {
        for place in sampled(length, held, turns) {
            values[place] = if sample_is_small { -10.0 } else { 10.0 } + random.unit();
        }
    }
    values.into_iter().map(f32::to_bits).collect()
}

#[test]
fn rows_that_defeat_their_sample_are_selected_from_again() {
    let Some(device) = gpu() else { return };
    // One pass over the row, lists, buckets.
    for (length, k, has_lists) in [(60_000, 10, false), (300_000, 10, true), (300_000, 3000, true)] {
        let mut words = vec![];
        for row in 0..4 {
            words.extend(defeating(length, &SAMPLES, row % 2 == 1, row));
        }
        words.extend((0..length).map(|column| (column as f32).to_bits()));
        // A small sample lets too few pass only if many are wanted.
        for k in [k, 40 * k] {
            let held = Case::of(&words, length, k).check(device);
            assert!(!has_lists || !held, "{length} elements, k {k}: the sample was not defeated");
            if !has_lists {
                Case { has_scratch: false, ..Case::of(&words, length, k) }.check(device);
            }
        }
    }
}

/// Counts of results that `select_row` alone gives for rows of 60,000 elements, or its mark of failure.
fn counts_of(device: &Device, words: &[u32], range: [u32; 2]) -> Vec<u32> {
    let bench = Bench::new(device);
    let (rows, k) = (words.len() as u32 / 60_000, 100);
    let values = bench.input(words);
    let (keys, ids, counts) = (bench.output(k * 10), bench.output(2 * k * 10), bench.output(rows as usize));
    let params = select_sample::Params {
        rows,
        length: 60_000,
        pitch: 60_000,
        k: k as u32,
        selected_pitch: k as u32,
        turns: 4,
        fewest: range[0],
        most: range[1],
        ..Default::default()
    };
    bench.run(|recorder| {
        let values = BufferSlice::all(&values);
        let buffers = [values, values, values, values, keys.slice(), ids.slice(), counts.slice()];
        let kernel = &select_row::KERNEL;
        recorder.dispatch(kernel, ElementKind::F32, &[1, 1, 0], &params, &buffers, [rows, 1])
    });
    bench.read(&keys);
    bench.read(&ids);
    bench.read(&counts)
}

#[test]
fn one_pass_marks_the_rows_in_which_it_failed() {
    let Some(device) = gpu() else { return };
    let mut random = Random::new(31);
    let mut words: Vec<u32> = (0..60_000).map(|_| random.unit().to_bits()).collect();
    words.extend(defeating(60_000, &[(1, 4)], true, 1));
    words.extend(defeating(60_000, &[(1, 4)], false, 2));
    words.extend(vec![f32::NAN.to_bits(); 60_000]);
    words.extend(vec![1.5f32.to_bits(); 60_000]);
    assert_eq!(counts_of(device, &words, [30, 40]), [100, u32::MAX, u32::MAX, 0, 100]);
    // With the one rank far too few pass, with the other far too many, unless the sample holds all small elements.
    assert_eq!(counts_of(device, &words, [1, 1]), [u32::MAX, u32::MAX, u32::MAX, 0, u32::MAX]);
    assert_eq!(counts_of(device, &words, [600, 700]), [u32::MAX, 100, u32::MAX, 0, u32::MAX]);
}

#[test]
fn lists_have_what_passes_the_threshold() {
    let (Some(device), Some(other)) = (gpu(), without_subgroups()) else { return };
    let (length, capacity) = (50_001u32, 20_000u32);
    let words = kinds(length as usize, 41);
    let rows = words.len() as u32 / length;
    for (device, many, held) in [(device, 0, 1), (device, 1, 4), (other, 1, 1)] {
        let bench = Bench::new(device);
        let values = bench.input(&words);
        let entries = (rows * capacity) as usize;
        let (states, keys, ids) =
            (bench.output(4 * rows as usize), bench.output(entries), bench.output(2 * entries));
        let params = select_sample::Params {
            rows,
            length,
            pitch: length,
            turns: 4,
            fewest: 50,
            most: 60,
            capacity,
            piece: 2048,
            ..Default::default()
        };
        bench.run(|recorder| {
            let (values, kind) = (BufferSlice::all(&values), ElementKind::F32);
            let buffers = [values, states.slice()];
            recorder.dispatch(&select_sample::KERNEL, kind, &[1, held], &params, &buffers, [rows, 1])?;
            let buffers = [values, values, states.slice(), keys.slice(), ids.slice()];
            let grid = [length.div_ceil(4 * 2048), rows];
            recorder.dispatch(&select_filter::KERNEL, kind, &[1, many], &params, &buffers, grid)
        });
        let (states, keys, ids) = (bench.read(&states), bench.read(&keys), ids_of(&bench.read(&ids)));
        for row in 0..rows as usize {
            let all = Case::of(&words, length as usize, 1).keys(row);
            let [key, place, count] = [0, 1, 2].map(|word| states[4 * row + word]);
            let want = select_filter::reference(&all, (key, place));
            assert_eq!(count as usize, want.len(), "row {row}");
            let list = row * capacity as usize..row * capacity as usize + want.len();
            let mut found: Vec<(u32, u32)> =
                keys[list.clone()].iter().copied().zip(ids[list].iter().map(|&id| id as u32)).collect();
            found.sort_unstable_by_key(|&(_, place)| place);
            assert!(found == want, "row {row}");
            // The sample holds one in three or one in twelve elements, and 50 to 60 of those pass.
            assert!(row > 3 || (80..1500).contains(&count), "row {row}: {count} pass");
        }
    }
}
