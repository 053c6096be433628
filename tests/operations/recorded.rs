//! Recordings that do not fit their buffers are refused when they are recorded, and no contents of a buffer keep a kernel from
//! ending.

use crate::common::bench::{Bench, floats_of, ids_of};
use nearfield::internals::kernels::{prefix_sum, value_of};
use nearfield::recording::{Candidates, Pairs, Refine, Rows, Scratch, Select, Selected, scratch_bytes};
use nearfield::{BufferSlice, DistanceOptions, ElementKind, Metric, Output, wgpu};
use nearfield_testing::{Random, view};

#[test]
fn slices_that_wgpu_would_refuse_later_are_refused() {
    let Some(bench) = Bench::open() else { return };
    let (counts, offsets) = (bench.input(&[1u32; 1024]), bench.output(1024));
    let usage = wgpu::BufferUsages::COPY_DST;
    let descriptor = wgpu::BufferDescriptor { label: None, size: 4096, usage, mapped_at_creation: false };
    let unusable = bench.device.wgpu_device().expect("a GPU").create_buffer(&descriptor);
    let slice = |offset, bytes| BufferSlice::range(&counts, offset, bytes);
    for (start, given) in [
        ("counts: needed a range within the buffer's 4096 bytes", slice(4096, 16)),
        ("counts: needed a range within", slice(u64::MAX - 3, 16)),
        ("counts: needed an offset that is a multiple of", slice(4, 16)),
        ("counts: needed bytes in whole words", slice(0, 18)),
        ("counts: needed a buffer with usage STORAGE", BufferSlice::all(&unusable)),
        ("offsets: needed a buffer that", offsets.slice()),
    ] {
        bench.refuses(start, |recorder| recorder.prefix_sum(given, 4, 9, offsets.slice()));
    }
    bench.refuses("counts: needed bytes", |recorder| recorder.prefix_sum(slice(0, 0), 0, 9, offsets.slice()));
    bench.run(|recorder| recorder.prefix_sum(slice(0, 16), 4, 9, offsets.slice()));
    assert_eq!(bench.read(&offsets)[..5], [0, 1, 2, 3, 4], "a good recording runs after the bad ones");
}

#[test]
fn counts_that_no_buffer_holds_are_refused() {
    let Some(bench) = Bench::open() else { return };
    let (input, output, others) = (bench.input(&[1.0f32; 64]), bench.output(64), bench.output(64));
    let (all, keys, ids) = (BufferSlice::all(&input), output.slice(), others.slice());
    bench.refuses("counts: needed", |recorder| recorder.prefix_sum(all, u32::MAX, 9, keys));
    bench.refuses("rows: needed", |recorder| recorder.norms(all, ElementKind::F32, u32::MAX, 1, keys, ids));
    let range = |count| Candidates::Dense { first: 0, count, found_pitch: 0, found_first: 0, allowed: None };
    let good = Refine {
        metric: Metric::L2Squared,
        queries: all,
        count: 1,
        rows: all,
        elements: ElementKind::F32,
        in_blocks: false,
        integral: false,
        vectors: 1,
        row_count: 8,
        first_slot: 0,
        ids: all,
        candidates: range(8),
        keys,
        found_ids: ids,
        mark_absent: true,
    };
    for (start, bad) in [
        ("queries: needed", Refine { vectors: u32::MAX - 3, ..good }),
        ("rows: needed", Refine { row_count: u32::MAX, ..good }),
        ("keys: needed", Refine { candidates: range(u32::MAX), ..good }),
    ] {
        bench.refuses(start, |recorder| recorder.refine(&bad));
    }
    bench.run(|recorder| recorder.refine(&good));
}

#[test]
fn a_selection_from_offsets_that_fall_ends() {
    let Some(bench) = Bench::open() else { return };
    let keys = bench.input(&[3u32, 1, 2, 0]);
    let (offsets, counts) = (bench.input(&[0u32, 3, 2, 4_000_000_000]), bench.output(3));
    let (selected_keys, selected_ids) = (bench.output(3 * 2), bench.output(3 * 2 * 2));
    let select = Select {
        keys: BufferSlice::all(&keys),
        ids: None,
        floats: false,
        rows: Rows::Csr { offsets: BufferSlice::all(&offsets) },
        count: 3,
        k: 2,
        selected: Selected { keys: selected_keys.slice(), ids: selected_ids.slice() },
        selected_pitch: 2,
        selected_counts: counts.slice(),
        spare: None,
        scratch: None,
    };
    bench.run(|recorder| recorder.select(&select));
    assert_eq!(bench.read(&counts)[..2], [2, 0], "a row that ends before it starts is empty");
    assert_eq!(bench.read(&selected_keys)[..2], [1, 2]);
    let bad = Select { rows: Rows::Equal { length: u32::MAX, pitch: 0 }, ..select };
    bench.refuses("keys: needed", |recorder| recorder.select(&bad));
}

/// A k beyond the results' buffers would overwrite those of other rows, or count for ever.
#[test]
fn what_a_loop_would_not_end_at_is_refused() {
    let Some(bench) = Bench::open() else { return };
    let keys = bench.input(&vec![1u32; 100_000]);
    let [selected_keys, spare_keys] = [0; 2].map(|_| bench.output(15));
    let [selected_ids, spare_ids] = [0; 2].map(|_| bench.output(30));
    let counts = bench.output(2);
    let [states, lists, samples] =
        scratch_bytes(1, 100_000, u32::MAX).map(|bytes| bench.output(bytes as usize / 4 + 1));
    let select = Select {
        keys: BufferSlice::all(&keys),
        ids: None,
        floats: false,
        rows: Rows::Equal { length: 10, pitch: 10 },
        count: 2,
        k: 5,
        selected: Selected { keys: selected_keys.slice(), ids: selected_ids.slice() },
        selected_pitch: 5,
        selected_counts: counts.slice(),
        spare: Some(Selected { keys: spare_keys.slice(), ids: spare_ids.slice() }),
        scratch: Some(Scratch { states: states.slice(), lists: lists.slice(), samples: samples.slice() }),
    };
    bench.refuses("k: needed at most 5, the selected_pitch", |recorder| {
        recorder.select(&Select { k: 10, ..select })
    });
    let long = Select { rows: Rows::Equal { length: 100_000, pitch: 100_000 }, count: 1, ..select };
    for selected_pitch in [5, u32::MAX] {
        let endless = Select { k: u32::MAX, selected_pitch, ..long };
        bench.refuses(if selected_pitch == 5 { "k: needed" } else { "selected keys: needed" }, |recorder| {
            recorder.select(&endless)
        });
    }
    bench.refuses("count: needed at most 2147483648, given 2147483649", |recorder| {
        let params = prefix_sum::Params { count: (1 << 31) + 1, limit: 1 };
        let buffers = [BufferSlice::all(&keys), counts.slice()];
        recorder.dispatch(&prefix_sum::KERNEL, ElementKind::F32, &[], &params, &buffers, [1, 1])
    });
    bench.run(|recorder| recorder.select(&select));
    assert_eq!(bench.read(&counts)[..2], [5, 5]);
    assert_eq!(bench.read(&selected_keys)[..10], [1; 10]);
}

#[test]
fn kernels_of_one_recording_read_what_the_kernels_before_them_wrote() {
    let Some(bench) = Bench::open() else { return };
    let (device, mut random) = (bench.device, Random::new(0xec));
    let [queries, rows] = [5, 700].map(|count| random.floats(count * 6));
    let [queries, rows] =
        [queries, rows].map(|values| device.upload(view(&values, 6)).expect("good vectors"));
    let distances = bench.output(5 * 700);
    let (keys, ids, counts) = (bench.output(5 * 8), bench.output(5 * 16), bench.output(5));
    bench.run(|recorder| {
        recorder.distances(&Pairs {
            options: DistanceOptions::new(Metric::L2),
            unit_vectors: false,
            norms: None,
            halves: None,
            queries: queries.as_slice().expect("a GPU"),
            query_count: 5,
            query_stride: queries.stride() as u32,
            rows: rows.as_slice().expect("a GPU"),
            row_count: 700,
            row_stride: rows.stride() as u32,
            dim: rows.stride() as u32,
            distances: distances.slice(),
            distance_stride: 700,
        })?;
        recorder.select(&Select {
            keys: distances.slice(),
            ids: None,
            floats: true,
            rows: Rows::Equal { length: 700, pitch: 700 },
            count: 5,
            k: 8,
            selected: Selected { keys: keys.slice(), ids: ids.slice() },
            selected_pitch: 8,
            selected_counts: counts.slice(),
            spare: None,
            scratch: None,
        })
    });
    let all = floats_of(&bench.read(&distances));
    let whole = device.distances(&queries, &rows, Metric::L2, Output::Distance).expect("distances");
    assert_eq!(device.read(&whole).expect("distances"), all);
    assert_eq!(bench.read(&counts), [8; 5]);
    let found = ids_of(&bench.read(&ids)).into_iter().zip(bench.read(&keys).into_iter().map(value_of));
    let smallest = device.top_k(view(&all, 700), 8).expect("the smallest");
    assert!(smallest.iter().flatten().map(|hit| (hit.id, hit.distance)).eq(found));
}
