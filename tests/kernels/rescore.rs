//! The kernel `rescore`: the distances of candidates that are found through slots.

use crate::common::bench::{Bench, Output, ids_of};
use crate::common::{DIMS, Random, gpu, padded, rounded, view};
use nearfield::internals::kernels::rescore::{Candidates, Rescore, exact_key, reference};
use nearfield::internals::kernels::{ABSENT, value_of};
use nearfield::{BufferSlice, Element, Metric};

const NOBODY: u64 = u64::MAX;

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
    /// Rows in the given slots of a storage of `capacity`, the rest of which is NaN.
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
    fn run(&self, bench: Bench<'_>, metric: Metric, segment: usize) -> (Vec<u32>, Vec<u64>) {
        self.run_on(bench, metric, segment, &self.storage)
    }

    fn run_on<T: Element>(
        &self,
        bench: Bench<'_>,
        metric: Metric,
        segment: usize,
        storage: &[T],
    ) -> (Vec<u32>, Vec<u64>) {
        let queries = bench.input(&padded(&self.queries, self.dim));
        let (slots, offsets) = (bench.input(&self.slots), bench.input(&self.offsets));
        let candidates = bench.input(&self.candidates);
        let total = self.candidates.len();
        let (keys, found_ids) = (bench.output(total), bench.output(2 * total));
        let segments: Vec<_> = storage
            .chunks(segment * self.dim)
            .enumerate()
            .map(|(number, rows)| {
                let first = (number * segment) as u32;
                let count = (rows.len() / self.dim) as u32;
                let ids: Vec<u64> = (first..first + count).map(id_of).collect();
                (first, count, bench.input(&padded(rows, self.dim)), bench.input(&ids))
            })
            .collect();
        bench.run(|recorder| {
            for (first, count, rows, ids) in &segments {
                recorder.rescore(&Rescore {
                    metric,
                    queries: BufferSlice::all(&queries),
                    count: self.offsets.len() as u32 - 1,
                    rows: BufferSlice::all(rows),
                    elements: T::KIND,
                    vectors: self.dim.div_ceil(4) as u32,
                    row_count: *count,
                    first_slot: *first,
                    ids: BufferSlice::all(ids),
                    candidates: Candidates::Csr {
                        candidates: BufferSlice::all(&candidates),
                        offsets: BufferSlice::all(&offsets),
                        slots: Some((BufferSlice::all(&slots), self.slots.len() as u32)),
                        total: total as u32,
                    },
                    keys: keys.slice(),
                    found_ids: found_ids.slice(),
                    mark_absent: *first == 0,
                })?;
            }
            Ok(())
        });
        read(bench, &keys, &found_ids)
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

fn read(bench: Bench<'_>, keys: &Output, ids: &Output) -> (Vec<u32>, Vec<u64>) {
    (bench.read(keys), ids_of(&bench.read(ids)))
}

#[test]
fn sparse_storage_is_read_through_its_slots() {
    let Some(device) = gpu() else { return };
    let slots: Vec<u32> = (0..10).map(|entry| 2 * entry).collect();
    let mut rows = Random::new(1).integers(40, 3);
    rows[..8].copy_from_slice(&[1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
    rows[12..16].copy_from_slice(&[0.0, 1.0, 0.0, 0.0]);
    let queries = vec![1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0];
    let case = Case::new(4, queries, &rows, &slots, 20).looks_at(0..3).looks_at(3..5);
    let bench = Bench::new(device);
    case.check(bench, true);
    let (keys, ids) = case.run(bench, Metric::L2Squared, 20);
    assert_eq!((value_of(keys[0]), value_of(keys[1]), value_of(keys[3])), (0.0, 2.0, 0.0));
    assert_eq!(ids, [0, 2, 4, 6, 8].map(id_of));
}

#[test]
fn one_query_has_a_thousand_candidates() {
    let Some(device) = gpu() else { return };
    let mut random = Random::new(2);
    let rows = random.integers(1000 * 9, 5);
    let mut slots: Vec<u32> = (0..1000).map(|entry| entry * 3 % 1501).collect();
    slots.reverse();
    Case::new(9, random.integers(9, 5), &rows, &slots, 1501)
        .looks_at(0..1000)
        .check(Bench::new(device), true);
}

#[test]
fn a_hundred_queries_see_their_own_candidates_alone() {
    let Some(device) = gpu() else { return };
    let mut random = Random::new(3);
    // Each query starts with a number of its own, so no other query's distance can be taken for its own.
    let mut queries = random.integers(100 * 6, 3);
    queries.iter_mut().step_by(6).enumerate().for_each(|(query, x)| *x = query as f32 * 16.0);
    let slots: Vec<u32> = (0..300).rev().collect();
    let mut case = Case::new(6, queries, &random.integers(300 * 6, 3), &slots, 300);
    for query in 0..100 {
        case = case.looks_at((0..10).map(|place| (query * 31 + place * 7) % 300));
    }
    case.check(Bench::new(device), true);
}

#[test]
fn every_dim_is_summed_whole() {
    let Some(device) = gpu() else { return };
    for dim in DIMS.into_iter().chain([63, 64, 65, 67, 130]) {
        let mut random = Random::new(dim as u64);
        let slots: Vec<u32> = (0..50).map(|entry| entry * 2 + 1).collect();
        let (rows, queries) = (random.floats(50 * dim), random.floats(3 * dim));
        let floats = Case::new(dim, queries, &rows, &slots, 101);
        floats.looks_at(0..20).looks_at(40..50).looks_at(0..50).check(Bench::new(device), false);
        let (rows, queries) = (random.integers(50 * dim, 4), random.integers(2 * dim, 4));
        Case::new(dim, queries, &rows, &slots, 101)
            .looks_at(7..50)
            .looks_at(0..9)
            .check(Bench::new(device), true);
    }
}

#[test]
fn slots_lie_in_any_order_with_gaps() {
    let Some(device) = gpu() else { return };
    let mut random = Random::new(5);
    let mut free: Vec<u32> = (0..2000).collect();
    let slots: Vec<u32> = (0..200).map(|_| free.swap_remove(random.below(free.len()))).collect();
    let (rows, queries) = (random.adversarial(200, 10), random.adversarial(4, 10));
    let mut case = Case::new(10, queries, &rows, &slots, 2000);
    for _ in 0..4 {
        case = case.looks_at((0..60).map(|_| random.below(200) as u32));
    }
    case.check(Bench::new(device), false);
}

#[test]
fn entries_and_slots_out_of_range_are_absent() {
    let Some(device) = gpu() else { return };
    let rows = [1.0, 2.0, 3.0, 4.0];
    let mut case = Case::new(1, vec![0.0, 0.0], &rows, &[0, 1, 2, 3], 4);
    case.slots.extend([4, 1000, u32::MAX]);
    let case = case.looks_at([0, 7, u32::MAX, 4]).looks_at([5, 3, 6, 1 << 31, 2]);
    for metric in Metric::ALL {
        let (keys, ids) = case.run(Bench::new(device), metric, 4);
        let present: Vec<usize> = (0..keys.len()).filter(|&place| keys[place] != ABSENT).collect();
        assert_eq!(present, [0, 5, 8], "{metric}");
        for (place, id) in ids.into_iter().enumerate() {
            let want = match place {
                0 => id_of(0),
                5 => id_of(3),
                8 => id_of(2),
                _ => NOBODY,
            };
            assert_eq!(id, want, "{metric}, candidate {place}");
        }
    }
}

#[test]
fn queries_without_candidates_are_skipped() {
    let Some(device) = gpu() else { return };
    let mut random = Random::new(6);
    let rows = random.integers(30 * 5, 3);
    let slots: Vec<u32> = (0..30).collect();
    let none = || std::iter::empty();
    let case = Case::new(5, random.integers(7 * 5, 3), &rows, &slots, 30);
    let case = case.looks_at(none()).looks_at(0..3).looks_at(none()).looks_at(none());
    case.looks_at(9..10).looks_at(20..30).looks_at(none()).check(Bench::new(device), true);
    let case = Case::new(5, random.integers(10, 3), &rows, &slots, 30).looks_at(none()).looks_at(none());
    case.check(Bench::new(device), true);
}

#[test]
fn segments_together_answer_as_one() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
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

#[test]
fn f16_rows_give_the_bits_of_their_f32_values() {
    let Some(device) = gpu() else { return };
    for dim in [1, 6, 64, 385] {
        let mut random = Random::new(8);
        let mut rows = random.floats(40 * dim);
        rows.iter_mut().step_by(5).for_each(|x| *x *= 2f32.powi(-16));
        let (halves, widened) = rounded(&rows);
        let slots: Vec<u32> = (0..40).collect();
        let case =
            Case::new(dim, random.floats(2 * dim), &widened, &slots, 40).looks_at(0..40).looks_at(5..12);
        case.check(Bench::new(device), false);
        for metric in Metric::ALL {
            let want = case.run(Bench::new(device), metric, 40);
            assert_eq!(case.run_on(Bench::new(device), metric, 16, &halves), want, "{metric}, dim {dim}");
        }
    }
}

#[test]
fn lists_of_a_fixed_pitch_and_ranges_of_slots_give_the_same_bits() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let (dim, rows, first_slot) = (19, 70, 1000);
    let mut random = Random::new(9);
    let (queries, values) = (random.floats(3 * dim), random.floats(rows * dim));
    let slots: Vec<u32> = (0..rows as u32).collect();
    let case = Case::new(dim, queries, &values, &slots, rows).looks_at(5..9).looks_at([]).looks_at(60..70);
    let (query_buffer, row_buffer) =
        (bench.input(&padded(&case.queries, dim)), bench.input(&padded(&values, dim)));
    let ids: Vec<u64> = slots.iter().map(|&slot| id_of(slot)).collect();
    let id_buffer = bench.input(&ids);
    for metric in Metric::ALL {
        let want = case.run(bench, metric, rows);
        let rescored = |candidates: Candidates<'_>, places: usize| {
            let (keys, found_ids) = (bench.output(places), bench.output(2 * places));
            bench.run(|recorder| {
                recorder.rescore(&Rescore {
                    metric,
                    queries: BufferSlice::all(&query_buffer),
                    count: 3,
                    rows: BufferSlice::all(&row_buffer),
                    elements: f32::KIND,
                    vectors: dim.div_ceil(4) as u32,
                    row_count: rows as u32,
                    first_slot,
                    ids: BufferSlice::all(&id_buffer),
                    candidates,
                    keys: keys.slice(),
                    found_ids: found_ids.slice(),
                    mark_absent: true,
                })
            });
            read(bench, &keys, &found_ids)
        };
        // The last list overflowed and fills its room.
        let pitch = 10;
        let mut lists = vec![u32::MAX; 3 * pitch];
        for (query, ends) in case.offsets.windows(2).enumerate() {
            for (place, entry) in (ends[0]..ends[1]).enumerate() {
                lists[query * pitch + place] = first_slot + case.candidates[entry as usize];
            }
        }
        let (lists, counts) = (bench.input(&lists), bench.input(&[4u32, 0, 17]));
        let pitched = Candidates::Lists {
            candidates: BufferSlice::all(&lists),
            counts: BufferSlice::all(&counts),
            pitch: pitch as u32,
        };
        let (keys, ids) = rescored(pitched, 3 * pitch);
        let places: Vec<usize> = (0..4).chain(2 * pitch..3 * pitch).collect();
        let picked = (0..places.len()).map(|place| (keys[places[place]], ids[places[place]]));
        assert!(picked.eq(want.0.iter().copied().zip(want.1.iter().copied())), "{metric}");
        let untouched = (4..2 * pitch).all(|place| keys[place] == crate::common::bench::GUARD);
        assert!(untouched, "{metric}: nothing behind the end of a list");

        // One list for all queries, from its place 3 on, in any order; some of its slots do not exist.
        let shared: Vec<u32> = (0..40).map(|place| 1000 + (place * 37 + 11) % 90).collect();
        let list = bench.input(&shared);
        let slots = BufferSlice::range(&list, 0, 40 * 4);
        let candidates = Candidates::Shared { slots, first: 3, count: 30, found_pitch: 33, found_first: 1 };
        let (keys, ids) = rescored(candidates, 3 * 33);
        for query in 0..3 {
            let row = query * 33;
            let is_left = |place: usize| keys[row + place] == crate::common::bench::GUARD;
            assert!([0, 31, 32].into_iter().all(is_left), "{metric}");
            for place in 0..30 {
                let slot = shared[3 + place];
                let (key, id) = (keys[row + 1 + place], ids[row + 1 + place]);
                if slot >= 1070 {
                    assert_eq!((key, id), (ABSENT, NOBODY), "{metric}, slot {slot}");
                    continue;
                }
                assert_eq!(id, id_of(slot - 1000), "{metric}, slot {slot}");
                if query == 2 && slot >= 1060 {
                    assert_eq!(key, want.0[(4 + slot - 1060) as usize], "{metric}, slot {slot}");
                }
            }
        }

        // Slots 1055 .. 1075, which do not exist from 1070 on, behind two places that stay as they are.
        let words: Vec<u32> = (0..34).map(|word| 0xffff_0f0f ^ word).collect();
        let allowed = bench.input(&words);
        for allowed in [None, Some(BufferSlice::range(&allowed, 0, 34 * 4))] {
            let dense =
                Candidates::Dense { first: 1055, count: 20, found_pitch: 23, found_first: 2, allowed };
            let (keys, ids) = rescored(dense, 3 * 23);
            for query in 0..3 {
                let row = query * 23;
                assert!(
                    [row, row + 1, row + 22].iter().all(|&place| keys[place] == crate::common::bench::GUARD)
                );
                for place in 0..20 {
                    let slot = 1055 + place as u32;
                    let is_allowed = allowed.is_none() || words[slot as usize / 32] >> (slot % 32) & 1 == 1;
                    let (key, id) = (keys[row + 2 + place], ids[row + 2 + place]);
                    if slot >= 1070 || !is_allowed {
                        assert_eq!((key, id), (ABSENT, NOBODY), "{metric}, slot {slot}");
                        continue;
                    }
                    assert_eq!(id, id_of(slot - 1000), "{metric}, slot {slot}");
                    if query == 2 && slot >= 1060 {
                        assert_eq!(key, want.0[(4 + slot - 1060) as usize], "{metric}, slot {slot}");
                    }
                }
            }
        }
    }
}
