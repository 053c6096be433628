//! A search gives the same bits on every path: batches, segments, budgets, threads, futures, devices.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::common::Engine::Adapter;
use crate::common::{confined, gpu, without_subgroups};
use crate::support::{flat, numbered};
use nearfield::{
    AddOptions, Device, DeviceMatrix, Flat, MatrixView, Metric, Neighbors, Quantization, Route,
    SearchOptions, SearchResult,
};
use nearfield_testing::truth::Truth;
use nearfield_testing::{Random, view};

fn search(index: &Flat, queries: MatrixView<'_, f32>, k: usize) -> Neighbors {
    index.search(queries, k).expect("an answer")
}

/// Float rows and queries for the screening path.
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
fn a_small_budget_takes_several_chunks_and_batches() {
    let Some(device) = gpu() else { return };
    let data = Data::new(0xc4, 40_000, 4, 200);
    let want = search(&flat(device, Metric::L2, data.rows(), Quantization::None), data.queries(), 10);
    for budget in [40 << 20, 9 << 20, 2 << 20, 300 << 10] {
        let mut index = Flat::builder(device, Metric::L2, 4).budget(budget).build().expect("an index");
        index.add(data.rows()).expect("good rows");
        let plan = index.plan(200, 10).expect("a plan");
        assert!(plan.scratch_bytes <= budget, "{plan}");
        if budget == 9 << 20 {
            assert!(
                u64::from(plan.batch) < 200 || matches!(plan.route(), Route::Screened { chunks: 2.., .. }),
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
fn segments_and_chunks_of_fewer_rows_than_k_change_nothing() {
    let (Some(device), Some(small)) = (gpu(), confined(128 * 32, 4 << 20)) else { return };
    let rows: Vec<f32> = (0..4000).map(|row| ((row * 7919) % 4001) as f32).collect();
    let truth = Truth::new(view(&[0.0f32], 1), view(&rows, 1));
    for (device, budget, ks) in
        [(&small, 4 << 20, &[500, 1000, 1024, 1500, 3000][..]), (device, 70 << 10, &[1000])]
    {
        let builder = Flat::builder(device, Metric::L2Squared, 1).budget(budget);
        let mut index = builder.build().expect("an index");
        index.add(view(&rows, 1)).expect("good rows");
        for &k in ks {
            let found = search(&index, view(&[0.0f32], 1), k);
            let verdict = truth.judge_exact(Metric::L2Squared, &numbered(4000), k, &found);
            assert_eq!(verdict, Ok(()), "{:?}", index.plan(1, k));
        }
    }
}

#[test]
fn queries_on_the_device_are_searched_again_where_lists_overflow() {
    let Some(device) = gpu() else { return };
    // Half of the queries have every row at the same distance.
    let rows: Vec<f32> = (0..40_000).flat_map(|row| [row as f32, 0.0]).collect();
    let queries = [0.0, 1.0, 1.0, 0.0, 0.0, 5.0, 2.0, 1.0];
    let index = flat(device, Metric::InnerProduct, view(&rows, 2), Quantization::None);
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
    let now = flat(device, Metric::Cosine, data.rows(), Quantization::None);
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
fn devices_of_the_caller_and_without_subgroups_answer_as_ours() {
    let (Some(device), Some(plain)) = (gpu(), without_subgroups()) else { return };
    let whole = Adapter.of_wgpu(|adapter| adapter.limits(), wgpu::Features::SUBGROUP).expect("a device");
    // Kernels of such a device are those of ours.
    assert_eq!(whole.capabilities().subgroup_sizes, device.capabilities().subgroup_sizes);
    // The limits of WebGPU, and no feature at all.
    let least = Adapter.of_wgpu(|_| wgpu::Limits::default(), wgpu::Features::empty()).expect("a device");
    assert_eq!(least.capabilities().subgroup_sizes, None);
    let data = Data::new(0x0f, 6000, 10, 20);
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        for count in [3, 20] {
            let queries = data.queries().slice(0..count);
            let want = search(&flat(device, metric, data.rows(), Quantization::None), queries, 10);
            for (device, name) in [(&least, "least"), (plain, "no subgroups")] {
                let found = search(&flat(device, metric, data.rows(), Quantization::None), queries, 10);
                assert_eq!(found, want, "{metric}, {name}");
            }
        }
    }
}

#[test]
fn vectors_in_a_buffer_of_the_caller_are_added_and_searched_as_others() {
    let Some(device) = gpu() else { return };
    let wgpu_device = device.wgpu_device().expect("a GPU");
    let buffer = |values: &[f32], usage| {
        let contents = wgpu::util::BufferInitDescriptor {
            label: None,
            contents: bytemuck::cast_slice(values),
            usage: wgpu::BufferUsages::COPY_SRC | usage,
        };
        wgpu::util::DeviceExt::create_buffer_init(wgpu_device, &contents)
    };
    // Vectors of 10 elements start 12 elements hybrid.
    let data = Data::new(0x10, 3000, 10, 4);
    let padded = |values: &[f32]| -> Vec<f32> {
        values.chunks_exact(10).flat_map(|row| row.iter().copied().chain([0.0; 2])).collect()
    };
    let storage = wgpu::BufferUsages::STORAGE;
    let rows =
        DeviceMatrix::from_wgpu(device, &buffer(&padded(&data.rows), storage), 3000, 10).expect("rows");
    let queries = DeviceMatrix::from_wgpu(device, &buffer(&padded(&data.queries), storage), 4, 10);
    let queries = queries.expect("queries");
    let want = search(&flat(device, Metric::L2, data.rows(), Quantization::None), data.queries(), 10);
    let mut index =
        Flat::builder(device, Metric::L2, 10).quantization(Quantization::None).build().expect("an index");
    index.add(&rows).expect("rows of the caller's buffer");
    assert_eq!(index.search(&queries, 10).expect("an answer"), want);

    let refused = |buffer: &wgpu::Buffer, rows, dim| {
        DeviceMatrix::from_wgpu(device, buffer, rows, dim).expect_err("refused").to_string()
    };
    let few = buffer(&[1.0; 24], storage);
    assert!(refused(&few, 4, 8).starts_with("buffer: needed 128 bytes for 4 rows of 8 elements"));
    assert_eq!(refused(&few, 1, 0), "dim: needed at least 1, given 0");
    assert!(refused(&buffer(&[1.0; 24], wgpu::BufferUsages::COPY_DST), 3, 8).contains("STORAGE"));
    let spoilt = [1.0, 1.0, 1.0, 1.0, 1.0, f32::NAN, 1.0, 1.0];
    assert!(refused(&buffer(&spoilt, storage), 2, 4).contains("row 1 holds a NaN"));
    let error = DeviceMatrix::from_wgpu(&Device::host(), &few, 3, 8).expect_err("no GPU");
    assert!(error.to_string().starts_with("a matrix in a buffer: needs a GPU"), "{error}");
}
