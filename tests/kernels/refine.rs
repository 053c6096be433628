//! The kernel `refine`: the distances of candidates that are found through slots.

use crate::common::Engine::Adapter;
use crate::common::bench::{Bench, GUARD, ids_of};
use crate::common::{DIMS, options, padded};
use nearfield::internals::kernels::refine::{Candidates, Refine, exact_key, reference};
use nearfield::internals::kernels::{ABSENT, value_of};
use nearfield::{BufferSlice, Element, Metric, PackedBits};
use nearfield_testing::{Random, rounded, view};
use proptest::prelude::*;

const NOBODY: u64 = u64::MAX;

/// Keys and ids of candidates.
type Found = (Vec<u32>, Vec<u64>);

/// Slots with rows in some of them, queries, and the entries of `slots` that each query looks at.
struct Case {
    dim: usize,
    queries: Vec<f32>,
    /// `[capacity, dim]`. Slots without a row hold NaN, so that reading one shows.
    storage: Vec<f32>,
    slots: Vec<u32>,
    candidates: Vec<u32>,
    offsets: Vec<u32>,
}

/// The id of the row in a slot: any u64.
fn id_of(slot: u32) -> u64 {
    (u64::from(slot) << 33) + 7
}

impl Case {
    /// Rows in the given slots of a storage of `capacity`; all other slots are NaN.
    fn new(dim: usize, queries: Vec<f32>, rows: &[f32], slots: &[u32], capacity: usize) -> Self {
        let mut storage = vec![f32::NAN; capacity * dim];
        for (row, &slot) in rows.chunks_exact(dim).zip(slots) {
            storage[slot as usize * dim..][..dim].copy_from_slice(row);
        }
        Self { dim, queries, storage, slots: slots.to_vec(), candidates: vec![], offsets: vec![0] }
    }

    /// The next query looks at these entries.
    fn looks_at(mut self, entries: impl IntoIterator<Item = u32>) -> Self {
        self.candidates.extend(entries);
        self.offsets.push(self.candidates.len() as u32);
        self
    }

    /// Keys and ids of all candidates, from storage in segments of this many slots.
    fn run(&self, bench: Bench<'_>, metric: Metric, segment: usize) -> Found {
        self.run_on(bench, metric, segment, &self.storage)
    }

    fn run_on<T: Element>(&self, bench: Bench<'_>, metric: Metric, segment: usize, storage: &[T]) -> Found {
        let (slots, offsets) = (bench.input(&self.slots), bench.input(&self.offsets));
        let (candidates, total) = (bench.input(&self.candidates), self.candidates.len());
        let candidates = Candidates::Csr {
            candidates: candidates.slice(),
            offsets: offsets.slice(),
            slots: Some((slots.slice(), self.slots.len() as u32)),
            total: total as u32,
        };
        self.refined(bench, metric, [0, segment], storage, candidates, total)
    }

    /// Keys and ids of candidates in this many places, from segments that start at the slot `first`.
    fn refined<T: Element>(
        &self,
        bench: Bench<'_>,
        metric: Metric,
        [first, segment]: [usize; 2],
        storage: &[T],
        candidates: Candidates<'_>,
        places: usize,
    ) -> Found {
        let queries = bench.input(&padded(&self.queries, self.dim));
        let (keys, found_ids) = (bench.output(places), bench.output(2 * places));
        let segments: Vec<_> = storage
            .chunks(segment * self.dim)
            .enumerate()
            .map(|(number, rows)| {
                let (start, count) = ((number * segment) as u32, (rows.len() / self.dim) as u32);
                let ids: Vec<u64> = (start..start + count).map(id_of).collect();
                (first as u32 + start, count, bench.input(&padded(rows, self.dim)), bench.input(&ids))
            })
            .collect();
        bench.run(|recorder| {
            for (first_slot, row_count, rows, ids) in &segments {
                recorder.refine(&Refine {
                    metric,
                    queries: queries.slice(),
                    count: self.offsets.len() as u32 - 1,
                    rows: rows.slice(),
                    elements: T::KIND,
                    in_blocks: false,
                    integral: T::KIND.is_integer(),
                    vectors: self.dim.div_ceil(4) as u32,
                    row_count: *row_count,
                    first_slot: *first_slot,
                    ids: ids.slice(),
                    candidates,
                    keys: keys.slice(),
                    found_ids: found_ids.slice(),
                    mark_absent: *first_slot as usize == first,
                })?;
            }
            Ok(())
        });
        (bench.read(&keys), ids_of(&bench.read(&found_ids)))
    }

    /// Runs the kernel for every metric and compares with the reference, bit for bit if `whole`.
    fn check(&self, bench: Bench<'_>, whole: bool) {
        let (queries, rows) = (view(&self.queries, self.dim), view(&self.storage, self.dim));
        for metric in Metric::ALL {
            let (keys, ids) = self.run(bench, metric, usize::MAX / self.dim);
            let squared = if metric == Metric::L2 { Metric::L2Squared } else { metric };
            let want = reference(metric, queries, rows, &self.slots, &self.candidates, &self.offsets);
            assert_eq!(want.len(), keys.len());
            let query_of = |place: usize| self.offsets[1..].partition_point(|&end| end as usize <= place);
            for (place, (distance, slot)) in want.into_iter().enumerate() {
                let said = format!("{metric}, dim {}, candidate {place} in slot {slot}", self.dim);
                assert_eq!(ids[place], id_of(slot), "{said}");
                if whole && squared != Metric::Cosine {
                    assert_eq!(keys[place], exact_key(distance), "{said}");
                }
                let bound = squared.error_bound(queries.row(query_of(place)), rows.row(slot as usize));
                let found = f64::from(value_of(keys[place]));
                assert!(
                    (found - distance).abs() <= bound,
                    "{said}: {found:e}, not {distance:e} within {bound:e}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rows in any slots, read through `slots` in any order; queries with a thousand candidates and with none.
    #[test]
    fn each_query_sees_its_own_candidates_through_their_slots(
        seed: u64, dim in 1usize..70, rows in 1usize..300, most in 0usize..1000,
        queries in prop::sample::select(vec![1, 2, 7, 100]), whole: bool,
    ) {
        if let Some(bench) = Bench::open() {
            let mut random = Random::new(seed);
            let mut slots: Vec<u32> = (0..2 * rows as u32).collect();
            random.shuffle(&mut slots);
            slots.truncate(rows);
            let [values, mut own] = [rows, queries]
                .map(|count| if whole { random.integers(count * dim, 5) } else { random.adversarial(count, dim) });
            if whole {
                // Each query starts with a number of its own, so no other query's distance can be taken for its own.
                own.iter_mut().step_by(dim).enumerate().for_each(|(query, x)| *x = query as f32 * 16.0);
            }
            let mut case = Case::new(dim, own, &values, &slots, 2 * rows);
            for query in 0..queries {
                let count = if query % 3 == 1 { 0 } else { random.below(most / queries.isqrt() + 1) };
                case = case.looks_at((0..count).map(|_| random.below(rows) as u32));
            }
            case.check(bench, whole);
        }
    }
}

#[test]
fn every_dim_is_summed_whole() {
    let Some(bench) = Bench::open() else { return };
    for dim in DIMS.into_iter().chain([63, 64, 65, 67, 130]) {
        let mut random = Random::new(dim as u64);
        let slots: Vec<u32> = (0..50).map(|entry| entry * 2 + 1).collect();
        let (rows, queries) = (random.floats(50 * dim), random.floats(3 * dim));
        let floats = Case::new(dim, queries, &rows, &slots, 101);
        floats.looks_at(0..20).looks_at(40..50).looks_at(0..50).check(bench, false);
        let (rows, queries) = (random.integers(50 * dim, 4), random.integers(2 * dim, 4));
        Case::new(dim, queries, &rows, &slots, 101).looks_at(7..50).looks_at(0..9).check(bench, true);
    }
}

#[test]
fn entries_and_slots_out_of_range_are_absent() {
    let Some(bench) = Bench::open() else { return };
    let rows = [1.0, 2.0, 3.0, 4.0];
    let mut case = Case::new(1, vec![0.0, 0.0], &rows, &[0, 1, 2, 3], 4);
    case.slots.extend([4, 1000, u32::MAX]);
    let case = case.looks_at([0, 7, u32::MAX, 4]).looks_at([5, 3, 6, 1 << 31, 2]);
    for metric in Metric::ALL {
        let (keys, ids) = case.run(bench, metric, 4);
        let present: Vec<usize> = (0..keys.len()).filter(|&place| keys[place] != ABSENT).collect();
        assert_eq!(present, [0, 5, 8], "{metric}");
        let mut want = vec![NOBODY; 9];
        (want[0], want[5], want[8]) = (id_of(0), id_of(3), id_of(2));
        assert_eq!(ids, want, "{metric}");
    }
}

#[test]
fn segments_together_answer_as_one() {
    let Some(bench) = Bench::open() else { return };
    let mut random = Random::new(7);
    let slots: Vec<u32> = (0..90).rev().collect();
    let mut case = Case::new(21, random.floats(3 * 21), &random.floats(90 * 21), &slots, 90);
    case.slots.push(90);
    let case = case.looks_at(0..91).looks_at([90, 3, 44]).looks_at((0..90).step_by(7));
    for metric in Metric::ALL {
        let whole = case.run(bench, metric, 90);
        assert_eq!(whole.0.iter().filter(|&&key| key == ABSENT).count(), 2);
        for segment in [1, 13, 45, 89] {
            assert_eq!(case.run(bench, metric, segment), whole, "{metric}, segments of {segment}");
        }
    }
}

/// On software drivers the kernel has a text of its own.
#[test]
fn the_text_for_hardware_gives_the_same_bits_on_any_driver() {
    let Some(bench) = Bench::open() else { return };
    let device = Adapter.open(options().cache_dir(None)).expect("the same adapter");
    device.write_for_hardware();
    let hardware = Bench::new(&device);
    for dim in [1, 21, 64, 100, 385] {
        let mut random = Random::new(10);
        let slots: Vec<u32> = (0..300).collect();
        // More candidates than all workgroups take in one turn.
        let case = Case::new(dim, random.floats(40 * dim), &random.floats(300 * dim), &slots, 300);
        let case = (0..40).fold(case, |case, query| case.looks_at(query..query + 160));
        case.check(bench, false);
        let all = Candidates::Dense { first: 0, count: 300, found_pitch: 300, found_first: 0, allowed: None };
        for metric in Metric::ALL {
            let [own, other] = [bench, hardware].map(|bench| {
                let dense = case.refined(bench, metric, [0, 300], &case.storage, all, 40 * 300);
                (case.run(bench, metric, 170), dense)
            });
            assert!(own == other, "{metric}, dim {dim}");
        }
    }
}

#[test]
fn f16_rows_give_the_bits_of_their_f32_values() {
    let Some(bench) = Bench::open() else { return };
    for dim in [1, 6, 64, 385] {
        let mut random = Random::new(8);
        let mut rows = random.floats(40 * dim);
        rows.iter_mut().step_by(5).for_each(|x| *x *= 2f32.powi(-16));
        let (halves, widened) = rounded(&rows);
        let slots: Vec<u32> = (0..40).collect();
        let case =
            Case::new(dim, random.floats(2 * dim), &widened, &slots, 40).looks_at(0..40).looks_at(5..12);
        case.check(bench, false);
        for metric in Metric::ALL {
            let want = case.run(bench, metric, 40);
            assert_eq!(case.run_on(bench, metric, 16, &halves), want, "{metric}, dim {dim}");
        }
    }
}

#[test]
fn lists_of_a_fixed_pitch_and_ranges_of_slots_give_the_same_bits() {
    let Some(bench) = Bench::open() else { return };
    let (dim, rows) = (19, 70);
    let mut random = Random::new(9);
    let (queries, values) = (random.floats(3 * dim), random.floats(rows * dim));
    let slots: Vec<u32> = (0..70).collect();
    let case = Case::new(dim, queries, &values, &slots, rows).looks_at(0..70).looks_at(0..70).looks_at(0..70);
    for metric in Metric::ALL {
        let all = case.run(bench, metric, rows);
        // The key and the id of a query and a slot.
        let of = |query: usize, slot: u32| match slot.checked_sub(1000) {
            Some(row @ 0..70) => (all.0[query * rows + row as usize], id_of(row)),
            _ => (ABSENT, NOBODY),
        };
        // Each query has this many result places. `wanted` has `None` where a place must stay unchanged.
        let check = |candidates, pitch: usize, wanted: &dyn Fn(usize, usize) -> Option<(u32, u64)>| {
            let (keys, ids) = case.refined(bench, metric, [1000, rows], &values, candidates, 3 * pitch);
            for (place, found) in keys.into_iter().zip(ids).enumerate() {
                match wanted(place / pitch, place % pitch) {
                    Some(wanted) => assert_eq!(found, wanted, "{metric}, {candidates:?}, place {place}"),
                    None => assert_eq!(found.0, GUARD, "{metric}, {candidates:?}, place {place}"),
                }
            }
        };
        // The last list overflowed and fills its room.
        let lists: [Vec<u32>; 3] = [(1005..1015).collect(), vec![u32::MAX; 10], (1060..1070).collect()];
        let (candidates, counts) = (bench.input(&lists.concat()), bench.input(&[4u32, 0, 17]));
        let pitched = Candidates::Lists {
            candidates: candidates.slice(),
            counts: counts.slice(),
            slots: None,
            pitch: 10,
        };
        check(pitched, 10, &|query, place| {
            (place < [4, 0, 10][query]).then(|| of(query, lists[query][place]))
        });

        // One list for all queries, from its place 3 on, in any order; some of its slots do not exist.
        let shared: Vec<u32> = (0..40).map(|place| 1000 + (place * 37 + 11) % 90).collect();
        let list = bench.input(&shared);
        let slots = BufferSlice::range(&list, 0, 40 * 4);
        let candidates = Candidates::Shared { slots, first: 3, count: 30, found_pitch: 33, found_first: 1 };
        check(candidates, 33, &|query, place| (1..31).contains(&place).then(|| of(query, shared[2 + place])));

        // Slots 1055 .. 1075, which do not exist from 1070 on, behind two places that stay as they are.
        let words: Vec<u32> = (0..34).map(|word| 0xffff_0f0f ^ word).collect();
        let bits = bench.input(&words);
        for allowed in [None, Some(BufferSlice::range(&bits, 0, 34 * 4))] {
            let dense =
                Candidates::Dense { first: 1055, count: 20, found_pitch: 23, found_first: 2, allowed };
            check(dense, 23, &|query, place| {
                let slot = 1053 + place as u32;
                let is_allowed = allowed.is_none() || words[slot as usize / 32] >> (slot % 32) & 1 == 1;
                (2..22).contains(&place).then(|| if is_allowed { of(query, slot) } else { (ABSENT, NOBODY) })
            });
        }
    }
}

#[test]
fn integers_are_summed_exactly_and_rounded_once() {
    fn check<T: Element>(bench: Bench<'_>, dim: usize) {
        let mut random = Random::new(dim as u64);
        // The limits of the type come often, so that sums are as large as they get.
        let mut vectors = |count: usize| {
            let one = || [T::nearest(-1e9), T::nearest(1e9), T::nearest(random.below(256) as f32 - 60.0)];
            let mut values: Vec<T> = std::iter::repeat_with(one).flatten().take(count * dim).collect();
            random.shuffle(&mut values);
            values
        };
        let (rows, queries) = (vectors(30), vectors(3));
        let wide = |values: &[T]| values.iter().map(|value| value.widen()).collect::<Vec<f32>>();
        let slots: Vec<u32> = (0..30).collect();
        let case = Case::new(dim, wide(&queries), &wide(&rows), &slots, 30);
        let case = case.looks_at(0..30).looks_at(7..12).looks_at(0..30);
        for metric in Metric::ALL {
            let (keys, ids) = case.run_on(bench, metric, 11, &rows);
            let [values, storage] = [&case.queries, &case.storage].map(|values| view(values, dim));
            let want = reference(metric, values, storage, &case.slots, &case.candidates, &case.offsets);
            for ((key, id), (distance, slot)) in keys.into_iter().zip(ids).zip(want) {
                assert_eq!(id, id_of(slot));
                let said = format!("{metric}, {}, dim {dim}, slot {slot}", T::KIND);
                match metric {
                    Metric::Cosine => {
                        assert!((f64::from(value_of(key)) - distance).abs() < dim as f64 * 2e-7, "{said}")
                    }
                    _ => assert_eq!(key, exact_key(distance), "{said}"),
                }
            }
        }
    }
    let Some(bench) = Bench::open() else { return };
    let device = Adapter.open(options().cache_dir(None)).expect("the same adapter");
    device.write_for_hardware();
    for bench in [bench, Bench::new(&device)] {
        for dim in [1, 6, 64, 385, 1024, 20_000] {
            check::<i8>(bench, dim);
            check::<u8>(bench, dim);
        }
    }
}

/// Vectors with the first bits set: of two of them, the shares of bits are all fractions of small numbers.
#[test]
fn bits_are_counted_and_their_shares_are_the_nearest_f32() {
    let Some(bench) = Bench::open() else { return };
    let with = |dim: usize, bits: usize| {
        (0..dim).map(move |byte| {
            PackedBits((255u32 << 8usize.saturating_sub(bits.saturating_sub(8 * byte))) as u8)
        })
    };
    for (dim, counts) in [
        (13, (0..=104).collect::<Vec<usize>>()),
        // Beside powers of two, where quotients have few digits or many.
        (1 << 14, vec![0, 1, 2, 3, 1000, 65_537, 99_991, 131_071, 131_072]),
    ] {
        let all: Vec<PackedBits> = counts.iter().flat_map(|&bits| with(dim, bits)).collect();
        let wide: Vec<f32> = all.iter().map(|byte| byte.widen()).collect();
        let slots: Vec<u32> = (0..counts.len() as u32).collect();
        let case = Case::new(dim, wide, &[], &slots, 0);
        let case = counts.iter().fold(case, |case, _| case.looks_at(slots.clone()));
        for metric in Metric::OF_BITS {
            let (keys, _) = case.run_on(bench, metric, counts.len(), &all);
            for (place, key) in keys.into_iter().enumerate() {
                let [q, x] = [counts[place / counts.len()], counts[place % counts.len()]];
                let wanted = match metric {
                    Metric::Hamming => q.abs_diff(x) as f32,
                    _ if q.max(x) == 0 => 1.0,
                    _ => (q.abs_diff(x) as f64 / q.max(x) as f64) as f32,
                };
                assert_eq!(value_of(key), wanted, "{metric} of {q} and {x} bits");
            }
        }
    }
}
