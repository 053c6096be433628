//! The k smallest for a large k, from rows whose ids are positions: a sample sort, and its fallback for rows on which the
//! sample fails.

use crate::common::select::{Case, kinds, scattered};
use crate::common::{gpu, is_nightly, without_subgroups};
use nearfield_testing::Random;

const SORT: [&str; 6] =
    ["sample_runs", "merge_runs", "scatter_buckets", "sort_buckets", "select_k", "sort_places"];

#[test]
fn rows_of_every_kind_are_sorted_by_splitters() {
    let (Some(device), Some(other)) = (gpu(), without_subgroups()) else { return };
    for (length, ks) in [(4097, &[1025, 4000, 4097, 4200][..]), (10_000, &[2048, 9999]), (30_001, &[5000])] {
        let values = kinds(length, length as u64);
        for &k in ks {
            let (held, kernels) = Case::of(&values, length, k).check_rows(device);
            assert!(held.iter().all(|&held| held), "{length} elements, k {k}: {held:?}");
            let Some(mut kernels) = kernels else { continue };
            kernels.sort_unstable();
            let mut want = SORT.to_vec();
            // The sample is filtered only where the row is long and less than half of it is wanted.
            want.extend((length > 20_000).then_some("select_sample"));
            want.sort_unstable();
            assert_eq!(kernels, want, "{length} elements, k {k}");
        }
    }
    let values = kinds(5000, 3);
    Case::of(&values, 5000, 1500).check(other);
    let (_, kernels) = Case { has_scratch: false, ..Case::of(&values, 5000, 1500) }.check_rows(device);
    assert!(kernels.is_none_or(|kernels| kernels == ["select_k", "sort_places", "merge_runs"]));
}

/// Blocks of small values at the start, in the middle and at the end; few distinct values; and long runs of equal values.
fn blocks(length: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut values = vec![];
    for start in [0, length / 2, length - length / 10] {
        let inside = start..start + length / 10;
        values.extend((0..length).map(|i| random.unit() - if inside.contains(&i) { 3.0 } else { 0.0 }));
    }
    values.extend((0..length).map(|_| random.below(3) as f32));
    values.extend((0..length).map(|i| (i / 700 * 7919 % 31) as f32));
    // 49 of 50 values tie with the threshold, and a few lie at distant scales.
    values.extend((0..length).map(|_| if random.below(50) == 0 { random.unit() } else { 2.0 }));
    values.extend((0..length).map(|_| (random.unit() * 160.0 - 80.0).exp2()));
    values.into_iter().map(f32::to_bits).collect()
}

#[test]
fn blocks_and_ties_are_sorted_by_splitters() {
    let (Some(device), Some(other)) = (gpu(), without_subgroups()) else { return };
    let long = (131_072, &[13_000, 131_072][..]);
    let shapes =
        [(40_000, &[1100, 4000, 39_000, 40_000][..])].into_iter().chain(is_nightly().then_some(long));
    for (length, ks) in shapes {
        let words = blocks(length, 51);
        for &k in ks {
            assert!(Case::of(&words, length, k).check(device), "{length} elements, k {k}");
        }
    }
    Case::of(&blocks(20_000, 52), 20_000, 2000).check(other);
}

#[test]
fn more_buckets_than_workgroup_memory_has_splitters() {
    let Some(device) = gpu() else { return };
    let length = 300_000;
    let mut random = Random::new(53);
    let mut words: Vec<u32> = (0..length).map(|_| random.unit().to_bits()).collect();
    words.extend((0..length).map(|_| if random.below(3) == 0 { f32::NAN } else { -1.5 }.to_bits()));
    for k in [length, length - 20_000] {
        assert!(Case::of(&words, length, k).check(device), "k {k}");
    }
}

/// The place of each stratum's element in the parts of a sample, as `wgsl/select/sample_runs.wgsl` takes them.
fn sampled(length: u32, parts: u32, turns: u32) -> Vec<Vec<usize>> {
    let strata = parts * turns * 256;
    let (width, wider) = (length / strata, length % strata);
    let place = |part: u32, slot: u32| {
        let turn = (scattered(slot) * parts as f32) as u32;
        let stratum = slot * parts + (part + turn) % parts;
        let own = width + u32::from(stratum < wider);
        let offset = ((scattered(!stratum) * own as f32) as u32).min(own - 1);
        (stratum * width + stratum.min(wider) + offset) as usize
    };
    (0..parts).map(|part| (0..turns * 256).map(|slot| place(part, slot)).collect()).collect()
}

#[test]
fn rows_that_defeat_their_splitters_are_selected_from_again() {
    let Some(device) = gpu() else { return };
    let length = 20_000;
    let mut random = Random::new(55);
    let mut words = vec![];
    // Rows of 20,000 have a sample of 2 x 1,024, which here holds only the smallest elements, the largest, or both ends.
    for kind in 0..4 {
        let mut values: Vec<f32> = (0..length).map(|_| random.unit()).collect();
        for (number, &place) in sampled(length as u32, 2, 4).iter().flatten().enumerate() {
            let side = [-10.0, 10.0, [-10.0, 10.0][number % 2], 0.0][kind];
            values[place] = side + random.unit();
        }
        words.extend(values.into_iter().map(f32::to_bits));
    }
    for k in [20_000, 15_000] {
        let (held, kernels) = Case::of(&words, length, k).check_rows(device);
        assert_eq!(held, [false, false, false, true], "k {k}");
        assert!(kernels.is_none_or(|kernels| SORT.iter().all(|name| kernels.contains(name))));
    }
    // Without subgroups, and with more rows than workgroups.
    let (Some(other), rows) = (without_subgroups(), 6) else { return };
    let (held, _) = Case { rows: 4, ..Case::of(&words, length, 15_000) }.check_rows(other);
    assert_eq!(held, [false, false, false, true]);
    let many: Vec<u32> = (0..rows).flat_map(|_| words.iter().copied()).collect();
    let (held, _) = Case::of(&many, length, 15_000).check_rows(device);
    assert_eq!(held.iter().filter(|&&held| held).count(), rows);
}
