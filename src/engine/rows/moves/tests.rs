//! Rows in slots that no `Flat` chooses: in any order, with gaps before them, far behind the end.

use std::collections::BTreeMap;

use fastrand::Rng;
use test_case::test_case;

use crate::engine::rows::moves::*;
use crate::engine::rows::narrowed::NarrowedRows;
use crate::engine::rows::write::Placing;
use crate::engine::search::pipeline::search;
use crate::engine::search::request::SearchRequest;
use crate::engine::{Device, Queries};
use crate::gpu::words;
use crate::matrix::MatrixView;
use crate::metric::Metric;
use crate::options::device::DeviceOptions;
use crate::screen::Screen;

const DIM: usize = 5;

/// A device with segments of this many rows, and scratch memory for some hundred rows; none without an adapter.
fn device(rows: u64) -> Option<Device> {
    let options =
        DeviceOptions { budget_bytes: 512 << 10, max_segment_bytes: rows * 32, ..Default::default() };
    let name = std::env::var("NEARFIELD_ADAPTER").ok().filter(|name| !name.is_empty());
    let device = Device::open(Some(name.as_deref().unwrap_or("gpu")), options).ok();
    let device = device.filter(|device| device.gpu("a test").is_ok());
    let required = std::env::var("NEARFIELD_REQUIRE_GPU").is_ok_and(|value| value == "1");
    assert!(device.is_some() || !required, "NEARFIELD_REQUIRE_GPU=1, but there is no adapter");
    device
}

/// Up to `count` of these, in any order.
fn some(random: &mut Rng, mut of: Vec<u32>, count: usize) -> Vec<u32> {
    random.shuffle(&mut of);
    of.truncate(count);
    of
}

/// The expected id and row of each slot that has one.
type Model = BTreeMap<u32, (u64, Vec<f32>)>;

fn check(rows: &GpuRows, model: &Model, random: &mut Rng) {
    let gpu = &rows.gpu;
    let end = model.keys().last().map_or(0, |&slot| u64::from(slot) + 1);
    assert_eq!((rows.end(), rows.len()), (end, model.len() as u64));
    let has_gaps = end > model.len() as u64;
    assert_eq!(rows.alive.is_some(), has_gaps, "bits are kept only while there are gaps");
    if let Some(alive) = &rows.alive {
        let ranges = [(&alive.buffer, 0, alive.bits.words().len() as u64 * 4)];
        let read = gpu.block_on(Commands::new(gpu, None).read(&ranges)).expect("bits");
        assert!(
            words::<u32>(&read[0]).eq(alive.bits.words().iter().copied()),
            "the device has the same bits"
        );
        assert!(alive.bits.ones_in_order().eq(model.keys().map(|&slot| slot as usize)));
    }
    let slots = some(random, model.keys().copied().collect(), 700);
    let want: Vec<f32> = slots.iter().flat_map(|slot| model[slot].1.iter().copied()).collect();
    assert_eq!(gpu.block_on(rows.fetch(&slots)).expect("rows"), want);
    // A scan kernel or a tile kernel scores them.
    let count = [2, 34][random.usize(..2)];
    let values: Vec<f32> = (0..count * DIM).map(|_| random.usize(..9) as f32 - 4.0).collect();
    let queries = Queries::from(MatrixView::new(&values, DIM).expect("whole rows"));
    let request = SearchRequest {
        metric: Metric::L2Squared,
        k: 7,
        budget: 512 << 10,
        allowed: None,
        widens: false,
        profile: false,
        forms: crate::engine::FormChoice::Tuned,
        progress: None,
    };
    let found = gpu.block_on(search(rows, &queries, &request)).expect("an answer").neighbors;
    for (query, hits) in values.chunks(DIM).zip(found.iter()) {
        let squared = |row: &[f32]| row.iter().zip(query).map(|(x, q)| (x - q) * (x - q)).sum::<f32>() as u64;
        let mut want: Vec<(u64, u64)> = model.values().map(|(id, row)| (squared(row), *id)).collect();
        want.sort_unstable();
        want.truncate(7);
        assert!(hits.iter().map(|hit| (hit.distance as u64, hit.id)).eq(want));
    }
}

/// No rows yet.
fn empty(device: &Device, screen: Screen, expected: u64) -> GpuRows {
    let gpu = device.gpu("a test").expect("a GPU").clone();
    let narrowed = NarrowedRows::new(&gpu, screen, Metric::L2Squared, DIM).expect("a layout");
    GpuRows::new(gpu, ElementKind::F32, DIM, expected, narrowed).expect("rows")
}

/// Puts rows into slots, from the host or the device, and gives up others.
fn put(
    device: &Device,
    rows: &mut GpuRows,
    model: &mut Model,
    (slots, ids, freed): (&[u32], &[u64], &[u32]),
    values: &[f32],
    from_device: bool,
) {
    let placing = Placing { slots, ids, freed };
    let view = MatrixView::new(values, DIM).expect("whole rows");
    let change = if from_device {
        let matrix = device.upload(view).expect("good rows");
        device.block_on(rows.prepared_put((&matrix).into(), &placing, &mut |_| ()))
    } else {
        device.block_on(rows.prepared_put(view.into(), &placing, &mut |_| ()))
    };
    rows.apply(change.expect("good rows")).expect("prepared");
    model.extend(
        slots
            .iter()
            .zip(ids.iter().zip(values.chunks(DIM)))
            .map(|(&slot, (&id, row))| (slot, (id, row.to_vec()))),
    );
    freed.iter().for_each(|slot| drop(model.remove(slot)));
}

/// Puts rows into slots, whose numbers are their ids.
fn put_numbered(device: &Device, rows: &mut GpuRows, model: &mut Model, slots: &[u32], values: &[f32]) {
    let ids: Vec<u64> = slots.iter().map(|&slot| slot.into()).collect();
    put(device, rows, model, (slots, &ids, &[]), values, false);
}

fn release(device: &Device, rows: &mut GpuRows, model: &mut Model, freed: &[u32]) {
    let change = device.block_on(rows.prepared_release(freed)).expect("they are there");
    rows.apply(change).expect("prepared");
    freed.iter().for_each(|slot| drop(model.remove(slot)));
}

#[test_case(Screen::None; "found, read and moved")]
#[test_case(Screen::I8; "narrowed where they lie")]
fn rows_in_any_slots_are(screen: Screen) {
    let Some(device) = device(256) else { return };
    let mut rows = empty(&device, screen, 0);
    let (mut model, mut random, mut next) = (Model::new(), Rng::with_seed(0x5107), 0u64);
    for operation in 0..40 {
        let end = rows.end() as u32;
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
                put(&device, &mut rows, &mut model, (&slots, &ids, &freed), &values, operation % 3 == 0);
            }
            2 => {
                let most = [alive.len(), alive.len() / 2, 3][random.usize(..3)].min(900);
                let mut freed = some(&mut random, alive.clone(), most);
                if random.usize(..3) == 0 {
                    // The last rows.
                    freed = alive.into_iter().rev().take(most / 2).collect();
                }
                release(&device, &mut rows, &mut model, &freed);
            }
            _ => {
                let count = random.usize(..alive.len() + 1).min(vacant.len());
                let (from, to) = (some(&mut random, alive, count), some(&mut random, vacant, count));
                let change = device.block_on(rows.prepared_move(&from, &to)).expect("they are copied");
                rows.apply(change).expect("prepared");
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
    let mut rows = empty(&device, Screen::None, 0);
    let (mut model, mut random) = (Model::new(), Rng::with_seed(0xbe));
    let values: Vec<f32> = (0..1000 * DIM).map(|i| (i / DIM % 8) as f32).collect();
    let first: Vec<u32> = (0..1000).filter(|&slot| slot != 5).collect();
    put_numbered(&device, &mut rows, &mut model, &first, &values[DIM..]);
    release(&device, &mut rows, &mut model, &(310..1000).collect::<Vec<u32>>());
    check(&rows, &model, &mut random);
    put_numbered(&device, &mut rows, &mut model, &[900], &values[..DIM]);
    check(&rows, &model, &mut random);
}

#[test]
fn memory_behind_the_end_is_given_up_where_it_is_much() {
    let Some(device) = device(1024) else { return };
    for (screen, expected) in [(Screen::None, 0), (Screen::I8, 0), (Screen::I8, 1800)] {
        let mut rows = empty(&device, screen, expected);
        let (mut model, mut random) = (Model::new(), Rng::with_seed(0x5e));
        let slots: Vec<u32> = (0..3000).collect();
        let values: Vec<f32> = (0..3000 * DIM).map(|i| (i % 7) as f32).collect();
        put_numbered(&device, &mut rows, &mut model, &slots, &values);
        let room = |rows: &GpuRows| rows.segments.iter().map(|segment| segment.capacity).collect::<Vec<_>>();
        assert_eq!(room(&rows), [1024; 3]);
        for (end, wanted) in [
            (2500, vec![1024; 3]),
            (2200, vec![1024, 1024, 256]),
            (1030, vec![1024, 128]),
            (90, vec![128]),
            (0, vec![]),
        ] {
            let freed: Vec<u32> = model.keys().copied().filter(|&slot| slot >= end).collect();
            release(&device, &mut rows, &mut model, &freed);
            rows.shrink().expect("there is memory");
            check(&rows, &model, &mut random);
            // The last segment keeps what is expected to fill it.
            let kept = match (expected, end) {
                (0, _) | (_, 2200..) => wanted,
                (_, 1030) => vec![1024; 2],
                _ => vec![1024],
            };
            assert_eq!(room(&rows), kept, "{end} rows, {expected} expected");
        }
        put_numbered(&device, &mut rows, &mut model, &slots, &values);
        assert_eq!(rows.len(), 3000);
    }
}
