//! The k smallest on every path, from rows whose ids are positions: in registers, in one pass, through lists, and again when
//! a sample gives no threshold. Each path gets data that favour it and data that defeat it. `select_buckets.rs` tests large k.

use crate::common::bench::Bench;
use crate::common::select::{Case, kinds, scattered};
use crate::common::{gpu, is_nightly, without_subgroups};
use nearfield::internals::kernels::{ABSENT, key_of, select_row, select_sample};
use nearfield_testing::Random;

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
fn long_rows_of_every_kind_are_selected_from() {
    let (Some(device), Some(other)) = (gpu(), without_subgroups()) else { return };
    for (length, ks) in [
        (4097, &[1, 48, 1000][..]),
        (8192, &[1, 48, 1000]),
        (10_003, &[1, 48, 1000]),
        (20_000, &[1, 48, 1000]),
        (65_536, &[10]),
        (65_537, &[1, 700]),
        (150_001, &[10, 1000]),
    ] {
        if !is_nightly() && [8192, 10_003, 65_536].contains(&length) {
            continue;
        }
        let values = kinds(length, length as u64);
        for &k in ks {
            let case = Case::of(&values, length, k);
            assert!(case.check(device), "the lists hold the wanted elements");
            if length <= 20_000 {
                Case { has_scratch: false, ..case }.check(device);
            }
        }
        Case::of(&values, length, 20).check(other);
    }
}

/// In registers, one pass and lists, and for the large ks in buckets.
#[test]
fn rows_that_start_and_end_within_vectors() {
    let Some(device) = gpu() else { return };
    let mut random = Random::new(21);
    for (length, pitch, large) in [
        (70_001, 70_003, Some(20_000)),
        (70_002, 70_002, None),
        (9001, 9003, Some(9001)),
        (5003, 5003, Some(1030)),
        (700, 701, None),
    ] {
        let mut words: Vec<u32> = (0..2 * pitch + length).map(|_| random.unit().to_bits()).collect();
        // The wanted elements include the last ones.
        words[2 * pitch + length - 2..].fill((-7.0f32).to_bits());
        words[0] = (-8.0f32).to_bits();
        // The same values as keys.
        let keys: Vec<u32> = words.iter().map(|&word| key_of(f32::from_bits(word))).collect();
        for k in [Some(3), Some(600), large].into_iter().flatten() {
            let case = Case { rows: 3, pitch, ..Case::of(&words, length, k) };
            let of_keys = Case { words: &keys, floats: false, ..case };
            let held = [case, of_keys].map(|case| case.check(device));
            assert!(held == [true; 2] || k <= 600, "{length} elements, k {k}");
            if k <= 600 {
                Case { has_scratch: false, ..of_keys }.check(device);
            }
        }
    }
}

#[test]
fn any_words_are_keys() {
    let Some(device) = gpu() else { return };
    let mut random = Random::new(22);
    for (length, ks) in [
        (300, [1, 250, 1000]),
        (3000, [1, 250, 1000]),
        (6000, [1, 250, 1000]),
        (80_000, [1, 250, 1000]),
        (50_000, [1500, 30_000, 50_000]),
    ] {
        if !is_nightly() && [300, 6000].contains(&length) {
            continue;
        }
        let mut words: Vec<u32> = (0..length).map(|_| random.next() as u32).collect();
        // ABSENT itself only for buckets.
        let largest = if ks[0] == 1 { ABSENT - 1 } else { ABSENT };
        words.extend((0..length as u32).map(|i| largest - i % 5));
        words.extend((0..length as u32).map(|i| i % 3));
        for k in ks {
            let held = Case { floats: false, ..Case::of(&words, length, k) }.check(device);
            assert!(held || ks[0] == 1, "{length} elements, k {k}");
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

/// Runs `select_row` alone on rows of 60,000 elements: counts of results, or the mark of failure.
fn counts_of(bench: Bench<'_>, words: &[u32], range: [u32; 2]) -> Vec<u32> {
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
    let buffers = [&values, &values, &values, &values, &keys, &ids, &counts];
    bench.dispatch(&select_row::KERNEL, &[1, 1, 0], &params, &buffers, [rows, 1]);
    bench.read(&keys);
    bench.read(&ids);
    bench.read(&counts)
}

#[test]
fn one_pass_marks_the_rows_in_which_it_failed() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(31);
    let mut words: Vec<u32> = (0..60_000).map(|_| random.unit().to_bits()).collect();
    words.extend(defeating(60_000, &[(1, 4)], true, 1));
    words.extend(defeating(60_000, &[(1, 4)], false, 2));
    words.extend(vec![f32::NAN.to_bits(); 60_000]);
    words.extend(vec![1.5f32.to_bits(); 60_000]);
    assert_eq!(counts_of(bench, &words, [30, 40]), [100, u32::MAX, u32::MAX, 0, 100]);
    // With the one rank far too few pass, with the other far too many, unless the sample holds all small elements.
    assert_eq!(counts_of(bench, &words, [1, 1]), [u32::MAX, u32::MAX, u32::MAX, 0, u32::MAX]);
    assert_eq!(counts_of(bench, &words, [600, 700]), [u32::MAX, 100, u32::MAX, 0, u32::MAX]);
}
