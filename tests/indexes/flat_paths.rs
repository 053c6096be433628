//! A search gives the same bits on every path: batches, segments, budgets, threads, futures, devices.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::common::bench::{Bench, floats_of, ids_of};
use crate::common::truth::Truth;
use crate::common::{Random, confined, gpu, view, without_subgroups};
use nearfield::internals::kernels::distance_pairs::Pairs;
use nearfield::internals::kernels::select_k::{Rows, Select, Selected};
use nearfield::internals::kernels::value_of;
use nearfield::{
    AddOptions, Device, DeviceOptions, Flat, MatrixView, Metric, Neighbors, Output, Route, SearchOptions,
    SearchResult,
};

fn index(device: &Device, metric: Metric, rows: MatrixView<'_, f32>) -> Flat {
    let mut index = Flat::builder(device, metric, rows.dim()).build().expect("an index");
    index.add(rows).expect("good rows");
    index
}

fn search(index: &Flat, queries: MatrixView<'_, f32>, k: usize) -> Neighbors {
    index.search(queries, k).expect("an answer")
}

/// Float rows and queries for the nominating path.
struct Data {
    dim: usize,
    rows: Vec<f32>,
    queries: Vec<f32>,
}

impl Data {
    fn new(seed: u64, rows: usize, dim: usize, queries: usize) -> Self {
        let mut random = Random::new(seed);
        Self { dim, rows: random.floats(rows * dim), queries: random.floats(queries * dim) }
    }

    fn rows(&self) -> MatrixView<'_, f32> {
        view(&self.rows, self.dim)
    }

    fn queries(&self) -> MatrixView<'_, f32> {
        view(&self.queries, self.dim)
    }
}

#[test]
fn a_batch_answers_as_its_queries_do_one_by_one() {
    let Some(device) = gpu() else { return };
    for (rows, dim, queries) in [(300, 10, 7), (6000, 33, 20), (5000, 6, 300)] {
        let data = Data::new(0xba, rows, dim, queries);
        for metric in Metric::ALL {
            let index = index(device, metric, data.rows());
            let all = search(&index, data.queries(), 10);
            for query in (0..queries).step_by(queries / 7) {
                let one = search(&index, data.queries().slice(query..query + 1), 10);
                assert_eq!(one.row(0), all.row(query), "{metric}, query {query} of {queries}");
            }
        }
    }
}

#[test]
fn subgroups_change_nothing() {
    let (Some(device), Some(plain)) = (gpu(), without_subgroups()) else { return };
    let data = Data::new(0x5b, 6000, 50, 3);
    for metric in Metric::ALL {
        let found = search(&index(device, metric, data.rows()), data.queries(), 20);
        assert_eq!(found, search(&index(plain, metric, data.rows()), data.queries(), 20), "{metric}");
    }
}

#[test]
fn small_segments_and_budgets_change_nothing() {
    let Some(device) = gpu() else { return };
    for (segment_bytes, budget) in [(u64::MAX, 1 << 20), (64 << 10, 6 << 20), (128 * 80, 400 << 10)] {
        let Some(small) = confined(segment_bytes, budget) else { return };
        for queries in [2, 30] {
            let data = Data::new(0x5e6, 9001, 17, queries);
            for metric in [Metric::L2Squared, Metric::Cosine, Metric::InnerProduct] {
                let (whole, parted) =
                    (index(device, metric, data.rows()), index(&small, metric, data.rows()));
                for k in [10, 100] {
                    let found = search(&parted, data.queries(), k);
                    let want = search(&whole, data.queries(), k);
                    assert_eq!(found, want, "{metric}, k {k}, segments of {segment_bytes}, budget {budget}");
                }
            }
        }
    }
}

#[test]
fn a_small_budget_takes_several_chunks_and_batches() {
    let Some(device) = gpu() else { return };
    let data = Data::new(0xc4, 40_000, 4, 200);
    let want = search(&index(device, Metric::L2, data.rows()), data.queries(), 10);
    for budget in [40 << 20, 9 << 20, 2 << 20, 300 << 10] {
        let mut index = Flat::builder(device, Metric::L2, 4).budget(budget).build().expect("an index");
        index.add(data.rows()).expect("good rows");
        let plan = index.plan(200, 10).expect("a plan");
        assert!(plan.scratch_bytes <= budget, "{plan}");
        if budget == 9 << 20 {
            assert!(
                u64::from(plan.batch) < 200 || matches!(plan.route, Route::Nominate { chunks: 2.., .. }),
                "{plan}"
            );
        }
        let calls = AtomicUsize::new(0);
        let progress = |_: usize| {
            calls.fetch_add(1, Ordering::Relaxed);
        };
        let SearchResult { neighbors: found, .. } = index
            .search_with(data.queries(), &SearchOptions::new(10).progress(&progress))
            .expect("an answer");
        assert_eq!(found, want, "{plan}");
        assert_eq!(calls.into_inner() as u64, 200u64.div_ceil(plan.batch.into()), "{plan}");
    }
}

#[test]
fn segments_of_fewer_rows_than_k_change_nothing() {
    let Some(small) = confined(128 * 16, 64 << 20) else { return };
    let rows: Vec<f32> = (0..4000).map(|row| ((row * 7919) % 4001) as f32).collect();
    let truth = Truth::new(view(&[0.0f32], 1), view(&rows, 1));
    let ids: Vec<u64> = (0..4000).collect();
    let index = index(&small, Metric::L2Squared, view(&rows, 1));
    for k in [500, 1000, 1024, 1500, 3000] {
        let found = search(&index, view(&[0.0f32], 1), k);
        assert_eq!(truth.judge_exact(Metric::L2Squared, &ids, k, &found), Ok(()), "k {k}");
    }
}

#[test]
fn chunks_of_fewer_rows_than_k_change_nothing() {
    let Some(device) = gpu() else { return };
    let rows: Vec<f32> = (0..4000).map(|row| ((row * 7919) % 4001) as f32).collect();
    let truth = Truth::new(view(&[0.0f32], 1), view(&rows, 1));
    let ids: Vec<u64> = (0..4000).collect();
    let mut index = Flat::builder(device, Metric::L2Squared, 1).budget(70 << 10).build().expect("an index");
    index.add(view(&rows, 1)).expect("good rows");
    let found = search(&index, view(&[0.0f32], 1), 1000);
    assert_eq!(truth.judge_exact(Metric::L2Squared, &ids, 1000, &found), Ok(()), "{:?}", index.plan(1, 1000));
}

#[test]
fn rows_added_in_pieces_answer_as_rows_added_at_once() {
    let Some(device) = gpu() else { return };
    let Some(small) = confined(32 << 10, 64 << 20) else { return };
    let data = Data::new(0xadd, 5000, 6, 3);
    for metric in [Metric::L2Squared, Metric::Cosine] {
        let want = search(&index(device, metric, data.rows()), data.queries(), 12);
        for device in [device, &small] {
            let mut pieces = Flat::builder(device, metric, 6).build().expect("an index");
            let mut random = Random::new(9);
            let mut start = 0;
            while start < 5000 {
                let end = (start + random.below(400)).min(5000);
                pieces.add(data.rows().slice(start..end)).expect("good rows");
                start = end;
                assert_eq!(pieces.len(), end);
            }
            assert_eq!(search(&pieces, data.queries(), 12), want, "{metric}");
        }
    }
}

#[test]
fn eight_threads_are_answered_as_one_is() {
    // So little scratch memory that searches wait for each other.
    let Some(device) = confined(u64::MAX, 5 << 20) else { return };
    let data = Data::new(0x8, 6000, 12, 40);
    let index = index(&device, Metric::L2Squared, data.rows());
    let want: Vec<Neighbors> =
        [1, 4, 20].map(|count| search(&index, data.queries().slice(0..count), 10)).into();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (index, data, want) = (&index, &data, &want);
            scope.spawn(move || {
                for turn in 0..6 {
                    let which = (thread + turn) % 3;
                    let count = [1, 4, 20][which];
                    let found = search(index, data.queries().slice(0..count), 10);
                    assert_eq!(found, want[which], "thread {thread}, turn {turn}");
                }
            });
        }
    });
}

#[test]
fn queries_on_the_device_answer_as_queries_on_the_host() {
    let Some(device) = gpu() else { return };
    for (rows, queries) in [(500, 5), (6000, 3), (6000, 300)] {
        let data = Data::new(0xde, rows, 7, queries);
        let uploaded = device.upload(data.queries()).expect("good queries");
        for metric in Metric::ALL {
            let index = index(device, metric, data.rows());
            let found = index.search(&uploaded, 10).expect("an answer");
            assert_eq!(found, search(&index, data.queries(), 10), "{metric}, {queries} queries");
        }
    }
}

#[test]
fn queries_on_the_device_are_searched_again_where_lists_overflow() {
    let Some(device) = gpu() else { return };
    // Half of the queries have every row at the same distance.
    let rows: Vec<f32> = (0..40_000).flat_map(|row| [row as f32, 0.0]).collect();
    let queries = [0.0, 1.0, 1.0, 0.0, 0.0, 5.0, 2.0, 1.0];
    let index = index(device, Metric::InnerProduct, view(&rows, 2));
    let uploaded = device.upload(view(&queries, 2)).expect("good queries");
    let SearchResult { neighbors: found, statistics, .. } =
        index.search_with(&uploaded, &SearchOptions::new(5)).expect("an answer");
    assert_eq!(statistics.searched_again, 2);
    assert_eq!(found, search(&index, view(&queries, 2), 5));
    assert_eq!(found.row(2).iter().map(|hit| hit.id).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

/// Runs a future the way a foreign executor does: the thread sleeps until it is woken.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        std::thread::park();
    }
}

fn send<F: Future + Send>(future: F) -> F {
    future
}

#[test]
fn futures_of_a_foreign_executor_answer_as_blocking_calls() {
    let Some(device) = gpu() else { return };
    let data = Data::new(0xa5, 6000, 9, 20);
    let mut later = Flat::builder(device, Metric::Cosine, 9).build().expect("an index");
    let (first, second) = (data.rows().slice(0..2000), data.rows().slice(2000..6000));
    let ids: Vec<u64> = (2000..6000).collect();
    block_on(send(later.add_async(first))).expect("good rows");
    block_on(send(later.add_with_async(second, &AddOptions::new().ids(&ids)))).expect("good rows");
    let now = index(device, Metric::Cosine, data.rows());
    for count in [2, 20] {
        let queries = data.queries().slice(0..count);
        let found = block_on(send(later.search_async(queries, 10))).expect("an answer");
        assert_eq!(found, search(&now, queries, 10));
        let uploaded = block_on(send(device.upload_async(queries))).expect("good queries");
        let options = SearchOptions::new(10);
        let SearchResult { neighbors: again, .. } =
            block_on(send(later.search_with_async(&uploaded, &options))).expect("an answer");
        assert_eq!(again, found);
    }
    let values = data.rows().values();
    let smallest = block_on(send(device.top_k_async(view(values, values.len()), 5))).expect("the smallest");
    assert_eq!(smallest, device.top_k(view(values, values.len()), 5).expect("the smallest"));
}

#[test]
fn a_dropped_future_leaves_the_index_and_the_budget_as_they_were() {
    let Some(device) = confined(u64::MAX, 6 << 20) else { return };
    let data = Data::new(0xd0, 6000, 9, 4);
    let mut index = index(&device, Metric::L2Squared, data.rows());
    let want = search(&index, data.queries(), 10);
    let poll_once =
        |future: &mut dyn FnMut(&mut Context<'_>)| future(&mut Context::from_waker(Waker::noop()));
    for _ in 0..20 {
        let mut searching = Box::pin(index.search_async(data.queries(), 10));
        poll_once(&mut |context| drop(searching.as_mut().poll(context)));
        drop(searching);
        let mut adding = Box::pin(index.add_async(data.rows()));
        poll_once(&mut |context| drop(adding.as_mut().poll(context)));
        drop(adding);
        if index.len() != 6000 {
            return; // The device was quicker than one poll: then the rows are in.
        }
        assert_eq!(search(&index, data.queries(), 10), want);
    }
}

/// A wgpu device that this test made, of the adapter that the others use.
fn own_device(limits: impl Fn(&wgpu::Adapter) -> wgpu::Limits, features: wgpu::Features) -> Option<Device> {
    let wanted = gpu()?.adapter();
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()))
        .into_iter()
        .find(|adapter| {
            adapter.get_info().name == wanted.name && adapter.get_info().backend.to_str() == wanted.backend
        })
        .expect("the adapter is there");
    let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
        required_limits: limits(&adapter),
        required_features: adapter.features() & features,
        ..Default::default()
    }))
    .expect("a device");
    Some(Device::from_wgpu(device, queue, DeviceOptions::default()))
}

#[test]
fn a_device_of_the_caller_answers_as_ours() {
    let Some(device) = gpu() else { return };
    let Some(whole) = own_device(|adapter| adapter.limits(), wgpu::Features::SUBGROUP) else { return };
    // The limits of WebGPU, and no feature at all.
    let Some(least) = own_device(|_| wgpu::Limits::default(), wgpu::Features::empty()) else { return };
    assert_eq!(least.capabilities().subgroup_sizes, None);
    let data = Data::new(0x0f, 6000, 10, 20);
    for metric in Metric::ALL {
        for count in [3, 20] {
            let queries = data.queries().slice(0..count);
            let want = search(&index(device, metric, data.rows()), queries, 10);
            assert_eq!(search(&index(&whole, metric, data.rows()), queries, 10), want, "{metric}");
            assert_eq!(search(&index(&least, metric, data.rows()), queries, 10), want, "{metric}, least");
        }
    }
}

#[test]
fn kernels_run_in_the_encoder_of_the_caller_between_its_own_commands() {
    let Some(device) = gpu() else { return };
    let bench = Bench::new(device);
    let data = Data::new(0xec, 700, 6, 5);
    let (queries, rows) =
        (device.upload(data.queries()).expect("queries"), device.upload(data.rows()).expect("rows"));
    let distances = bench.output(5 * 700);
    let (keys, ids, counts) = (bench.output(5 * 8), bench.output(5 * 16), bench.output(5));
    bench.run(|recorder| {
        recorder.distances(&Pairs {
            metric: Metric::L2,
            unit_vectors: false,
            output: Output::Distance,
            queries: queries.as_slice().expect("a GPU"),
            query_count: 5,
            query_stride: queries.stride() as u32,
            rows: rows.as_slice().expect("a GPU"),
            row_count: 700,
            row_stride: rows.stride() as u32,
            dim: 6,
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
    let (keys, ids) = (bench.read(&keys), ids_of(&bench.read(&ids)));
    let smallest = device.top_k(view(&all, 700), 8).expect("the smallest");
    let hits = smallest.iter().flatten().map(|hit| (hit.id, hit.distance));
    assert!(hits.eq(ids.into_iter().zip(keys.into_iter().map(value_of))));
}
