//! Rows in slots that no `Flat` chooses: in any order, with tombstones before them, far behind the end.

use std::collections::BTreeMap;

use fastrand::Rng;
use nearfield::internals::slots::Slots;
use nearfield::{Device, Metric, Quantization};
use nearfield_testing::view;
use test_case::test_case;

use crate::common::{confined, gpu};

const DIM: usize = 5;

/// A device with segments of this many rows, and scratch memory for some hundred rows; none without an adapter.
fn device(rows: u64) -> Option<Device> {
    confined(rows * 32, 512 << 10)
}

/// Up to `count` of these, in any order.
fn some(random: &mut Rng, mut of: Vec<u32>, count: usize) -> Vec<u32> {
    random.shuffle(&mut of);
    of.truncate(count);
    of
}

/// The expected id and row of each slot that has one.
type Model = BTreeMap<u32, (u64, Vec<f32>)>;

fn check(rows: &Slots, model: &Model, random: &mut Rng) {
    let end = model.keys().last().map_or(0, |&slot| u64::from(slot) + 1);
    assert_eq!(rows.end_and_len(), [end, model.len() as u64]);
    let alive = rows.alive().expect("the device has the bits of the host");
    assert_eq!(alive.is_some(), end > model.len() as u64, "bits are kept only while there are tombstones");
    if let Some(words) = alive {
        let has_row = |slot: &u32| words[*slot as usize / 32] >> (slot % 32) & 1 == 1;
        assert!((0..words.len() as u32 * 32).filter(has_row).eq(model.keys().copied()));
    }
    let slots = some(random, model.keys().copied().collect(), 700);
    let want: Vec<f32> = slots.iter().flat_map(|slot| model[slot].1.iter().copied()).collect();
    assert_eq!(rows.fetch(&slots).expect("rows"), want);
    // A scan kernel or a tile kernel scores them.
    let count = [2, 34][random.usize(..2)];
    let values: Vec<f32> = (0..count * DIM).map(|_| random.usize(..9) as f32 - 4.0).collect();
    let found = rows.search(view(&values, DIM), 7).expect("an answer").neighbors;
    for (query, hits) in values.chunks(DIM).zip(found.iter()) {
        let squared = |row: &[f32]| row.iter().zip(query).map(|(x, q)| (x - q) * (x - q)).sum::<f32>() as u64;
        let mut want: Vec<(u64, u64)> = model.values().map(|(id, row)| (squared(row), *id)).collect();
        want.sort_unstable();
        want.truncate(7);
        assert!(hits.iter().map(|hit| (hit.distance as u64, hit.id)).eq(want));
    }
}

fn empty(device: &Device, quantization: Quantization, expected: u64) -> Slots {
    Slots::new(device, Metric::L2Squared, DIM, quantization, expected).expect("no rows")
}

/// Puts rows into slots, from the host or the device, and gives up others.
fn put(
    rows: &mut Slots,
    model: &mut Model,
    (slots, ids, freed): (&[u32], &[u64], &[u32]),
    values: &[f32],
    device: Option<&Device>,
) {
    let view = view(values, DIM);
    match device.map(|device| device.upload(view).expect("good rows")) {
        Some(there) => rows.put(&there, (slots, ids), freed),
        None => rows.put(view, (slots, ids), freed),
    }
    .expect("good rows");
    model.extend(
        slots
            .iter()
            .zip(ids.iter().zip(values.chunks(DIM)))
            .map(|(&slot, (&id, row))| (slot, (id, row.to_vec()))),
    );
    freed.iter().for_each(|slot| drop(model.remove(slot)));
}

/// Puts rows into slots, whose numbers are their ids.
fn put_numbered(rows: &mut Slots, model: &mut Model, slots: &[u32], values: &[f32]) {
    let ids: Vec<u64> = slots.iter().map(|&slot| slot.into()).collect();
    put(rows, model, (slots, &ids, &[]), values, None);
}

fn release(rows: &mut Slots, model: &mut Model, freed: &[u32]) {
    rows.release(freed).expect("they are there");
    freed.iter().for_each(|slot| drop(model.remove(slot)));
}

#[test_case(Quantization::None; "found, read and moved")]
#[test_case(Quantization::Int8; "quantised where they lie")]
fn rows_in_any_slots_are(quantization: Quantization) {
    let Some(device) = device(256) else { return };
    let mut rows = empty(&device, quantization, 0);
    let (mut model, mut random, mut next) = (Model::new(), Rng::with_seed(0x5107), 0u64);
    for operation in 0..40 {
        let end = rows.end_and_len()[0] as u32;
        let (alive, vacant): (Vec<u32>, Vec<u32>) = (0..end + 600).partition(|slot| model.contains_key(slot));
        match random.usize(..4) {
            0 | 1 => {
                let room = [500, 40, 1][random.usize(..3)];
                let count = random.usize(..room) + 1;
                let slots = some(&mut random, vacant, count);
                let most = alive.len().min(30);
                let most = [0, most][random.usize(..2)];
                let freed = some(&mut random, alive, most);
                let values: Vec<f32> = (0..slots.len() * DIM)
                    .map(|_| random.usize(..9) as f32 + 96.0 * f32::from(operation % 2 == 0))
                    .collect();
                let ids: Vec<u64> = (0..slots.len() as u64).map(|i| (next + i) ^ 0x155).collect();
                next += 1 << 12;
                let there = (operation % 3 == 0).then_some(&device);
                put(&mut rows, &mut model, (&slots, &ids, &freed), &values, there);
            }
            2 => {
                let most = [alive.len(), alive.len() / 2, 3][random.usize(..3)].min(900);
                let mut freed = some(&mut random, alive.clone(), most);
                if random.usize(..3) == 0 {
                    // The last rows.
                    freed = alive.into_iter().rev().take(most / 2).collect();
                }
                release(&mut rows, &mut model, &freed);
            }
            _ => {
                let count = random.usize(..alive.len() + 1).min(vacant.len());
                let (from, to) = (some(&mut random, alive, count), some(&mut random, vacant, count));
                rows.relocate(&from, &to).expect("they are copied");
                for (from, to) in from.iter().zip(&to) {
                    let row = model.remove(from).expect("a row");
                    model.insert(*to, row);
                }
            }
        }
        check(&rows, &model, &mut random);
    }
}

#[test]
fn slots_behind_an_earlier_end_have_no_rows() {
    let Some(device) = device(256) else { return };
    let mut rows = empty(&device, Quantization::None, 0);
    let (mut model, mut random) = (Model::new(), Rng::with_seed(0xbe));
    let values: Vec<f32> = (0..1000 * DIM).map(|i| (i / DIM % 8) as f32).collect();
    let first: Vec<u32> = (0..1000).filter(|&slot| slot != 5).collect();
    put_numbered(&mut rows, &mut model, &first, &values[DIM..]);
    release(&mut rows, &mut model, &(310..1000).collect::<Vec<u32>>());
    check(&rows, &model, &mut random);
    put_numbered(&mut rows, &mut model, &[900], &values[..DIM]);
    check(&rows, &model, &mut random);
}

#[test]
fn memory_behind_the_end_is_given_up_where_it_is_much() {
    let Some(device) = device(1024) else { return };
    for (quantization, expected) in
        [(Quantization::None, 0), (Quantization::Int8, 0), (Quantization::Int8, 1800)]
    {
        let mut rows = empty(&device, quantization, expected);
        let (mut model, mut random) = (Model::new(), Rng::with_seed(0x5e));
        let slots: Vec<u32> = (0..3000).collect();
        let values: Vec<f32> = (0..3000 * DIM).map(|i| (i % 7) as f32).collect();
        put_numbered(&mut rows, &mut model, &slots, &values);
        assert_eq!(rows.capacities(), [1024; 3]);
        for (end, wanted) in [
            (2500, vec![1024; 3]),
            (2200, vec![1024, 1024, 256]),
            (1030, vec![1024, 128]),
            (90, vec![128]),
            (0, vec![]),
        ] {
            let freed: Vec<u32> = model.keys().copied().filter(|&slot| slot >= end).collect();
            release(&mut rows, &mut model, &freed);
            rows.shrink().expect("there is memory");
            check(&rows, &model, &mut random);
            // The last segment keeps what is expected to fill it.
            let kept = match (expected, end) {
                (0, _) | (_, 2200..) => wanted,
                (_, 1030) => vec![1024; 2],
                _ => vec![1024],
            };
            assert_eq!(rows.capacities(), kept, "{end} rows, {expected} expected");
        }
        put_numbered(&mut rows, &mut model, &slots, &values);
        assert_eq!(rows.end_and_len(), [3000; 2]);
    }
}

#[test]
fn a_search_without_tables_finds_rows_of_all_lists_and_says_so() {
    // The host engine always has tables.
    let Some(device) = gpu() else { return };
    let mut rows = Slots::new(device, Metric::L2Squared, 1, Quantization::None, 0).expect("no rows");
    // Each list has a page of 32 slots, with one row.
    rows.put(view(&[1.0f32, 2.0], 1), (&[0, 32], &[7, 8]), &[]).expect("good rows");
    let mut search = |lists: Option<(&[Vec<u32>], &[u32])>| {
        let found = rows.search_lists(view(&[1.0, 2.0], 1), lists, view(&[1.0f32], 1), 2).expect("an answer");
        let ids: Vec<u64> = found.neighbors.row(0).iter().map(|hit| hit.id).collect();
        (ids, found.statistics.tables_missing)
    };
    assert_eq!(search(None), (vec![7, 8], true));
    assert_eq!(search(Some((&[vec![0], vec![1]], &[1, 1]))), (vec![7], false));
}
