//! The k smallest for a large k, from rows whose ids are positions: a sample sort, and its fallback for rows on which the
//! sample fails.

use crate::common::bench::{Bench, Output};
use crate::common::select::{Case, kinds};
use crate::common::{Random, gpu, without_subgroups};
use nearfield::internals::kernels::{
    ABSENT, key_of, sample_runs, scatter_buckets, select_sample, sort_buckets,
};
use nearfield::{BufferSlice, Device, ElementKind};

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
            // The sample of shorter rows, and of rows of which most is wanted, is not filtered.
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
    for (length, ks) in [(40_000, &[1100, 4000, 39_000, 40_000][..]), (131_072, &[13_000, 131_072])] {
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

#[test]
fn pieces_of_rows_are_sorted_by_splitters() {
    let Some(device) = gpu() else { return };
    let mut random = Random::new(54);
    for (length, pitch, k) in [(70_001, 70_003, 20_000), (9001, 9003, 9001), (5003, 5003, 1030)] {
        let mut words: Vec<u32> = (0..2 * pitch + length).map(|_| random.unit().to_bits()).collect();
        words[2 * pitch + length - 2..].fill((-7.0f32).to_bits());
        words[0] = (-8.0f32).to_bits();
        let case = Case { rows: 3, pitch, ..Case::of(&words, length, k) };
        assert!(case.check(device));
        let keys: Vec<u32> = words.iter().map(|&word| key_of(f32::from_bits(word))).collect();
        assert!(Case { words: &keys, floats: false, ..case }.check(device));
    }
    // Any words are keys, ABSENT included.
    let mut keys: Vec<u32> = (0..50_000).map(|_| random.next() as u32).collect();
    keys.extend((0..50_000).map(|i| ABSENT - i % 3));
    keys.extend((0..50_000).map(|i| i % 3));
    for k in [1500, 30_000, 50_000] {
        assert!(Case { floats: false, ..Case::of(&keys, 50_000, k) }.check(device), "k {k}");
    }
}

/// The place of each stratum's element in the parts of a sample, as `wgsl/select/sample_runs.wgsl` takes them.
fn sampled(length: u32, parts: u32, turns: u32) -> Vec<Vec<usize>> {
    let scattered = |i: u32| {
        let mut x = i.wrapping_mul(0x9e37_79b9);
        x = (x ^ x >> 16).wrapping_mul(0x7feb_352d);
        x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
        ((x ^ x >> 16) >> 8) as f32 * 5.960_464_5e-8
    };
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
    for (k, want) in [(20_000, [false, false, false, true]), (15_000, [false, false, false, true])] {
        let (held, kernels) = Case::of(&words, length, k).check_rows(device);
        assert_eq!(held, want, "k {k}");
        assert!(kernels.is_none_or(|kernels| SORT.iter().all(|name| kernels.contains(name))));
    }
    // Without subgroups, and with so many rows that a workgroup looks at several.
    let (Some(other), rows) = (without_subgroups(), 6) else { return };
    let (held, _) = Case { rows: 4, ..Case::of(&words, length, 15_000) }.check_rows(other);
    assert_eq!(held, [false, false, false, true]);
    let many: Vec<u32> = (0..rows).flat_map(|_| words.iter().copied()).collect();
    let (held, _) = Case::of(&many, length, 15_000).check_rows(device);
    assert_eq!(held.iter().filter(|&&held| held).count(), rows);
}

/// Runs the three kernels on rows of 5,000 whole numbers, 2,000 of them wanted, and checks the sample, the states and the buckets.
fn three_steps(device: &Device, words: &[u32], filter: Option<u32>) {
    let (length, parts, buckets, k, turns) = (5000u32, 3, 9, 2000u32, 4);
    let rows = words.len() as u32 / length;
    let bench = Bench::new(device);
    let values = bench.input(words);
    let entries = (rows * parts * 1024) as usize;
    let mut first = vec![0u32; (rows * (4 + parts + buckets)) as usize];
    first.chunks_exact_mut(4).take(rows as usize).for_each(|state| {
        state.copy_from_slice(&[filter.unwrap_or(7), 4000, 0, 9]);
    });
    let states = bench.filled(&first);
    let (sample_keys, sample_ids) = (bench.output(entries), bench.output(2 * entries));
    let bucket_words = (rows * buckets * 1024 * 2) as usize;
    let elements = bench.output(bucket_words);
    let wanted = 1400;
    let params = sample_runs::Params {
        rows,
        length,
        pitch: length,
        k,
        selected_pitch: k,
        is_filtered: filter.is_some().into(),
        parts,
        turns,
        wanted,
        buckets,
        piece: 4096,
        shift: 0,
        first_step: 8,
    };
    let value = BufferSlice::all(&values);
    let read_pairs = |keys: &Output, ids: &Output| -> Vec<(u32, u32)> {
        let ids = bench.read(ids);
        bench.read(keys).into_iter().zip(ids.chunks_exact(2).map(|id| id[0])).collect()
    };
    bench.run(|recorder| {
        let buffers = [value, states.slice(), sample_keys.slice(), sample_ids.slice()];
        recorder.dispatch(&sample_runs::KERNEL, ElementKind::F32, &[0], &params, &buffers, [parts, rows])
    });
    let sample = read_pairs(&sample_keys, &sample_ids);
    let filled = bench.read(&states);
    let limit = filter.map_or((ABSENT - 1, u32::MAX), |key| (key, 4000));
    let mut sorted = vec![];
    for row in 0..rows as usize {
        let keys = &words[row * length as usize..][..length as usize];
        let mut all = vec![];
        for (part, places) in sampled(length, parts, turns).into_iter().enumerate() {
            let elements: Vec<_> = places.iter().map(|&place| (keys[place], place as u32)).collect();
            let want = sample_runs::reference(&elements, limit);
            let run = &sample[(row * parts as usize + part) * 1024..][..1024];
            assert_eq!(run[..want.len()], want, "row {row}, part {part}");
            assert!(run[want.len()..].iter().all(|&rest| rest == (ABSENT, u32::MAX)), "row {row}");
            assert_eq!(filled[rows as usize * 4 + row * 3 + part] as usize, want.len());
            all.extend(want);
        }
        all.sort_unstable();
        all.resize(parts as usize * 1024, (ABSENT, u32::MAX));
        sorted.extend(all);
    }
    // The host sorts the sample.
    let sorted_keys = bench.input(&sorted.iter().map(|element| element.0).collect::<Vec<_>>());
    let sorted_ids = bench.input(&sorted.iter().flat_map(|element| [element.1, 0]).collect::<Vec<_>>());
    let [found_keys, found_ids, counts] =
        [rows * k, 2 * rows * k, rows].map(|words| bench.output(words as usize));
    bench.run(|recorder| {
        let buffers = [
            value,
            states.slice(),
            BufferSlice::all(&sorted_keys),
            BufferSlice::all(&sorted_ids),
            elements.slice(),
        ];
        let grid = [length.div_ceil(4096), rows];
        recorder.dispatch(&scatter_buckets::KERNEL, ElementKind::F32, &[0, 0], &params, &buffers, grid)?;
        let buffers =
            [states.slice(), elements.slice(), found_keys.slice(), found_ids.slice(), counts.slice()];
        recorder.dispatch(&sort_buckets::KERNEL, ElementKind::F32, &[64], &params, &buffers, [buckets, rows])
    });
    let (filled, elements) = (bench.read(&states), bench.read(&elements));
    let (found, counts) = (read_pairs(&found_keys, &found_ids), bench.read(&counts));
    for row in 0..rows as usize {
        let keys = &words[row * length as usize..][..length as usize];
        let sample = &sorted[row * parts as usize * 1024..][..parts as usize * 1024];
        let there = sample.iter().take_while(|element| element.0 != ABSENT).count() as u32;
        let reached = there.min(wanted);
        let of_rank = |rank: u32| select_sample::reference(sample, rank as usize).expect("a rank from 1 on");
        let ends = |bucket: u32| bucket * (reached / buckets) + bucket.min(reached % buckets);
        let splitters: Vec<_> =
            (1..buckets).filter(|_| reached > 0).map(|bucket| of_rank(ends(bucket))).collect();
        let limit = if there >= wanted { of_rank(wanted) } else { limit };
        assert_eq!((filled[4 * row], filled[4 * row + 1]), limit, "row {row}");
        let mut want = scatter_buckets::reference(keys, &splitters, limit);
        want.resize(buckets as usize, vec![]);
        for (bucket, want) in want.iter().enumerate() {
            let number = row * buckets as usize + bucket;
            let count = filled[(rows * (4 + parts)) as usize + number] as usize;
            assert_eq!(count, want.len(), "row {row}, bucket {bucket}");
            let pairs = elements[number * 2048..][..2 * count.min(1024)].chunks_exact(2);
            let mut found: Vec<_> = pairs.map(|pair| (pair[0], pair[1])).collect();
            found.sort_unstable_by_key(|element| element.1);
            assert!(count > 1024 || found == *want, "row {row}, bucket {bucket}");
        }
        let all: usize = want.iter().map(Vec::len).sum();
        let everything = limit == (ABSENT - 1, u32::MAX);
        let failed = want.iter().any(|bucket| bucket.len() > 1024) || (all < k as usize && !everything);
        println!("row {row}: {there} in the sample, {all} in buckets, failed: {failed}");
        assert_eq!(filled[4 * row + 3], u32::from(failed), "row {row}");
        if failed {
            assert_eq!(counts[row], u32::MAX, "row {row}");
            continue;
        }
        let want = sort_buckets::reference(&want, k as usize);
        assert_eq!(counts[row] as usize, want.len(), "row {row}");
        let found: Vec<_> =
            found[row * k as usize..][..want.len()].iter().map(|&(key, id)| (key, id.into())).collect();
        assert!(found == want, "row {row}");
    }
}

#[test]
fn each_step_does_what_its_reference_does() {
    let (Some(device), Some(other)) = (gpu(), without_subgroups()) else { return };
    let mut random = Random::new(56);
    // Whole numbers with ties, few distinct ones, a single one, mostly ABSENT ones, and only ABSENT ones.
    let mut words: Vec<u32> = (0..5000).map(|_| random.below(3000) as u32).collect();
    words.extend((0..5000).map(|_| random.below(4) as u32));
    words.extend(vec![5; 5000]);
    words.extend((0..5000).map(|_| if random.below(20) == 0 { random.below(3) as u32 } else { ABSENT }));
    words.extend(vec![ABSENT; 5000]);
    for (device, filter) in [(device, None), (device, Some(2)), (device, Some(1500)), (other, None)] {
        three_steps(device, &words, filter);
    }
}
