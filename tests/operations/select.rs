//! Selection of the k smallest: RAFT's tables of shapes, ties, infinities, explicit ids, CSR segments.

use crate::common::Engine::{self, Adapter, Host};
use crate::common::bench::Bench;
use crate::common::select::{Case, kinds};
use crate::common::{gpu, has_kernels};
use nearfield::internals::kernels::select_k::{Rows, SORTED_MAX, Select, Selected};
use nearfield::internals::kernels::{ABSENT, key_of, value_of};
use nearfield::{Device, Metric, Output};
use nearfield_testing::{Random, rounded, view};
use proptest::prelude::*;
use test_case::test_matrix;

/// Compares `Device::top_k` with a sort on the host by value and column. NaN is left out.
fn check(device: &Device, values: &[f32], length: usize, k: usize) {
    let found = device.top_k(view(values, length), k).expect("a selection");
    assert_eq!(found.queries(), values.len() / length);
    for (row, values) in values.chunks_exact(length).enumerate() {
        let mut want: Vec<u64> = (0..length as u64)
            .filter(|&column| !values[column as usize].is_nan())
            .map(|column| u64::from(key_of(values[column as usize])) << 32 | column)
            .collect();
        let k = k.min(want.len());
        if k > 0 && k < want.len() {
            want.select_nth_unstable(k - 1);
        }
        want.truncate(k);
        want.sort_unstable();
        let hits = found.row(row);
        assert_eq!(hits.len(), k, "row {row} of {length} values");
        for (place, (hit, want)) in hits.iter().zip(want).enumerate() {
            let said = (value_of((want >> 32) as u32).to_bits(), want & 0xffff_ffff);
            assert_eq!((hit.distance.to_bits(), hit.id), said, "row {row} of {length}, place {place} of {k}");
        }
    }
}

/// Rows on the device, or of f16, give what the same rows on the host do.
#[test_matrix([Adapter, Host])]
fn rows_anywhere_are_selected_from(engine: Engine) {
    let (Some(device), Some(small)) = (engine.device(), engine.confined(u64::MAX, 1 << 17)) else { return };
    for device in [device, &small] {
        for (rows, length) in [(300, 131), (5, 3000)] {
            let values = spread(14, rows * length);
            let host = view(&values, length);
            let on_device = device.upload(host).expect("good rows");
            let (halves, widened) = rounded(&values);
            for k in [1, 40, 200] {
                let want = device.top_k(host, k).expect("a selection");
                assert_eq!(device.top_k(&on_device, k).expect("a selection"), want);
                let want = device.top_k(view(&widened, length), k).expect("a selection");
                assert_eq!(device.top_k(view(&halves, length), k).expect("a selection"), want);
            }
        }
    }
    let (queries, rows) = (spread(15, 7 * 12), spread(16, 5001 * 12));
    let [queries, rows] = [queries, rows].map(|values| device.upload(view(&values, 12)).expect("good rows"));
    let distances = device.distances(&queries, &rows, Metric::L2, Output::Distance).expect("distances");
    let on_host = device.read(&distances).expect("the distances");
    let want = device.top_k(view(&on_host, 5001), 30).expect("a selection");
    assert_eq!(device.top_k(&distances, 30).expect("a selection"), want);
    // All devices of the host engine are the same device.
    if has_kernels(device) {
        let error = small.top_k(&distances, 30).expect_err("the distances are not there");
        assert!(error.to_string().starts_with("rows: "), "{error}");
    }
}

/// Values around 10, spread by 100.
fn spread(seed: u64, count: usize) -> Vec<f32> {
    let mut values = Random::new(seed).floats(count);
    values.iter_mut().for_each(|x| *x = *x * 100.0 + 10.0);
    values
}

/// RAFT's tables of shapes, and the sorted size: rows, lengths, ks. `largesize` has 10 rows instead of 100, 3,000 instead of
/// 100,000, and one row of a million instead of 10^9; `largek` has 2 rows instead of 100. A software adapter and a sort without
/// optimisation take minutes for those.
const SHAPES: [(usize, usize, &[usize]); 18] = [
    // `longlist`.
    (1, 130, &[15]),
    (1, 128, &[15]),
    (20, 700, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16]),
    (100, 1700, &[17, 31, 32, 33, 63, 64, 65, 255, 256, 511, 512, 1023, 1024, 1700]),
    // `largesize`.
    (2, 100_000, &[1, 2, 3, 7, 16, 31, 32, 60, 200]),
    (10, 100_000, &[100]),
    (3000, 100, &[100]),
    (1, 1_000_000, &[1, 16, 64, 128, 256]),
    // `largek`.
    (2, 100_000, &[1000, 1237, 2000, 2048]),
    (1, 100_000, &[100_000]),
    // Around the sorted size, and k beyond the length.
    (2, 1, &AROUND),
    (2, 1022, &AROUND),
    (2, 1023, &AROUND),
    (2, 1025, &AROUND),
    (2, 2047, &AROUND),
    (2, 2049, &AROUND),
    (2, 4097, &AROUND),
    (2, 9000, &AROUND),
];
const AROUND: [usize; 8] = [1, 1023, 1024, 1025, 2048, 2049, 4097, 20_000];

#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn rows_of_every_shape_are_selected_from(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for (rows, length, ks) in SHAPES {
        let values = spread(length as u64, rows * length);
        ks.iter().for_each(|&k| check(device, &values, length, k));
    }
}

/// NaN is never selected, infinities are values like others, and ties are selected by column. 10,000 is a length of RAFT's
/// `many_infs`.
#[test_matrix([Adapter, Host])]
fn rows_of_every_kind_are_selected_from(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for (length, ks) in
        [(4, [1, 3, 4]), (1025, [900, 1024, 1025]), (6000, [3, 1024, 2000]), (10_000, [1, 32, 256])]
    {
        let values: Vec<f32> = kinds(length, 10).into_iter().map(f32::from_bits).collect();
        ks.into_iter().for_each(|k| check(device, &values, length, k));
    }
}

#[test]
fn equal_keys_are_selected_by_their_ids_beyond_32_bits() {
    let Some(device) = gpu() else { return };
    for length in [5, 1024, 1025, 3000] {
        // Descending, so that positions and ids disagree; then ids that differ in only one of their two words.
        let descending: Vec<u64> = (0..length as u64).map(|i| (length as u64 - i) * 0x1_0000_0001).collect();
        let high: Vec<u64> = (0..length as u64).map(|i| (i * 7919 % 104_729) << 32 | 5).collect();
        let low: Vec<u64> = (0..length as u64).map(|i| 9 << 40 | (i * 7919 % 104_729)).collect();
        let top: Vec<u64> = (0..length as u64).map(|i| (1 << 63) - 1 - (i * 7 % length as u64)).collect();
        for ids in [descending, high, low, top] {
            for k in [1, 4, 1000, 1024, 1025, 2500] {
                Case::with_ids(&vec![77; length], &ids, length, k).check(device);
            }
        }
    }
}

#[test]
fn csr_segments_of_any_length_are_selected_from() {
    let Some(device) = gpu() else { return };
    let lengths = [0, 3, 1, 0, 0, 1024, 1025, 700, 5000, 0, 1023, 2, 2048, 2049, 0, 127, 128, 129, 40];
    let mut offsets = vec![0];
    lengths.iter().for_each(|length| offsets.push(offsets[offsets.len() - 1] + length));
    let count = offsets[lengths.len()] as usize;
    let mut random = Random::new(12);
    let keys: Vec<u32> = (0..count).map(|_| random.below(300) as u32 * 0x00d0_0001).collect();
    let ids: Vec<u64> = (0..count as u64).map(|place| (count as u64 - place) << 20).collect();
    for k in [1, 2, 100, 1023, 1024, 1025, 2048, 2049, 4097, 6000] {
        let case = Case::with_ids(&keys, &ids, count, k);
        Case { rows: lengths.len(), offsets: Some(&offsets), ..case }.check(device);
    }
}

#[test]
fn lists_of_any_length_are_selected_from() {
    let Some(device) = gpu() else { return };
    let pitch = 4500;
    // The last list has overflowed.
    let counts = [0, 1, 3, 127, 128, 129, 255, 256, 700, 1024, 1025, 4096, 4097, 4500, 9000];
    let mut random = Random::new(13);
    let few: Vec<u32> = (0..counts.len() * pitch).map(|_| random.below(300) as u32 * 0x00d0_0001).collect();
    let many: Vec<u32> = few.iter().map(|_| random.next() as u32).collect();
    // Ids differ in both of their words, so keys that tie are told apart by all digits.
    let ids: Vec<u64> = (0..few.len() as u64).map(|place| (place * 7919 % 4099) << 32 | place).collect();
    for keys in [&few, &many, &vec![77; few.len()]] {
        // Equal elements are as many as other ids.
        for ids in [&ids, &vec![5; ids.len()]] {
            for k in [1, 64, 128, 129] {
                let case = Case::with_ids(keys, ids, pitch, k);
                Case { counts: Some(&counts), ..case }.check(device);
            }
        }
    }
}

#[test]
fn rows_at_a_pitch_are_selected_from() {
    let Some(device) = gpu() else { return };
    let mut random = Random::new(13);
    let keys: Vec<u32> = (0..5 * 1300).map(|_| random.next() as u32).collect();
    let ids: Vec<u64> = (0..5 * 1300).map(|_| random.next() >> 1).collect();
    for length in [10, 1024, 1200] {
        for k in [7, 1024, 1100, 1300] {
            Case { length, ..Case::with_ids(&keys, &ids, 1300, k) }.check(device);
        }
    }
}

#[test]
fn absent_elements_push_nobody_out() {
    let Some(device) = gpu() else { return };
    for (length, present) in [(1100, 100), (1100, 900), (5000, 10), (5000, 4000)] {
        // The present elements last, like a chunk behind a search's best so far, and then anywhere.
        let mut keys = vec![ABSENT; length - present];
        keys.extend((0..present as u32).map(|i| i * 7919 % 10_007));
        let mut ids = vec![u64::MAX; length - present];
        ids.extend(0..present as u64);
        let mut random = Random::new(length as u64);
        let mut mixed: Vec<(u32, u64)> = keys.iter().copied().zip(ids.iter().copied()).collect();
        random.shuffle(&mut mixed);
        let (mixed_keys, mixed_ids): (Vec<u32>, Vec<u64>) = mixed.into_iter().unzip();
        for k in [present + 1, 1000.max(present), 1024, 1090, length - 1, length, length + 1] {
            Case::with_ids(&keys, &ids, length, k).check(device);
            let case = Case::with_ids(&mixed_keys, &mixed_ids, length, k);
            Case { offsets: Some(&[0, length as u32]), ..case }.check(device);
        }
    }
}

#[test]
fn more_rows_than_a_dispatch_has_columns_of_workgroups() {
    let Some(device) = gpu() else { return };
    let count = 65_535 + 70;
    let keys: Vec<u32> = (0..2 * count as u32).map(|place| place ^ 1).collect();
    let ids: Vec<u64> = (0..2 * count as u64).collect();
    Case::with_ids(&keys, &ids, 2, 1).check(device);
}

#[test]
fn a_k_of_0_and_a_large_k_without_a_spare_place_are_refused() {
    let Some(bench) = Bench::open() else { return };
    let (keys, found, counts) = (bench.input(&[0u32; 64]), bench.output(4000), bench.output(1));
    for k in [0, SORTED_MAX + 1] {
        let select = Select {
            keys: keys.slice(),
            ids: None,
            floats: false,
            rows: Rows::Equal { length: 64, pitch: 64 },
            count: 1,
            k,
            selected: Selected { keys: found.slice(), ids: found.slice() },
            selected_pitch: k,
            selected_counts: counts.slice(),
            spare: None,
            scratch: None,
        };
        bench.refuses(if k == 0 { "k: " } else { "spare: " }, |recorder| recorder.select(&select));
    }
}

#[test_matrix([Adapter, Host])]
fn a_selection_of_no_values_is_refused(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let error = device.top_k(view(&[1.0f32, 2.0], 2), 0).expect_err("k 0");
    assert_eq!(error.to_string(), "k: needed at least 1, given 0");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 75, ..ProptestConfig::default() })]

    #[test]
    fn few_distinct_values_are_selected_by_column(
        seed in any::<u64>(), length in 1usize..3000, rows in 1usize..4, k in 1usize..3200, distinct in 1usize..6,
    ) {
        for device in [Adapter, Host].into_iter().filter_map(Engine::device) {
            let mut random = Random::new(seed);
            let values: Vec<f32> = (0..rows * length).map(|_| random.below(distinct) as f32 - 2.0).collect();
            check(device, &values, length, k);
        }
    }
}
