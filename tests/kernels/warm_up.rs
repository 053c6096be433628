//! Kernels that are compiled ahead: which of them searches need, and the files that keep them from one process to the next.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::task::{Context, Waker};

use crate::common::Engine::Adapter;
use crate::common::options;
use nearfield::{
    AdapterKind, Device, ElementKind, Filter, Flat, Index, Ivf, Matrix, Metric, Quantization, Residency,
    SearchOptions,
};
use nearfield_testing::{Random, rounded, view};
use test_case::test_case;

const ROWS: usize = 2_500;
const DIM: usize = 32;
const QUERIES: usize = 1024;

/// A GPU of its own, whose compiled kernels nobody else counts, with this directory for them.
fn opened(directory: Option<&Path>) -> Option<Device> {
    Adapter.open(options().cache_dir(directory.map(Path::to_path_buf)))
}

/// Searches with many shapes, each of which may need other kernels.
fn search_in_every_way(index: &Index, queries: &[f32]) {
    // A software driver takes its time, and smaller batches.
    let is_software = index.device().adapter().kind == AdapterKind::Software;
    let most = if is_software { 257 } else { QUERIES };
    for (count, k) in [(1, 10), (1, 100), (2, 1), (3, 10), (8, 10), (33, 10), (100, 100), (most, 10)] {
        let some = view(&queries[..count * DIM], DIM);
        index.search(some, k).expect("an answer");
        match index.lists() {
            Some(lists) => [1, lists].map(|probes| SearchOptions::new(k).probes(probes)).to_vec(),
            None => vec![SearchOptions::within(3.0)],
        }
        .iter()
        .for_each(|options| drop(index.search_with(some, options).expect("an answer")));
    }
    for (count, share) in [(1, 2), (1, 50), (100, 2), (100, 50), (500, 2)] {
        let some: Vec<u64> = (0..ROWS as u64 / share).collect();
        let options = SearchOptions::new(10).filter(Filter::ids(&some));
        index.search_with(view(&queries[..count * DIM], DIM), &options).expect("an answer");
    }
    index.search(view(&queries[..DIM], DIM), 1024).expect("an answer");
    let (halves, _) = rounded(&queries[..DIM]);
    index.search(view(&halves, DIM), 10).expect("an answer");
    index.search(&[1i8; DIM], 10).expect("an answer");
}

#[test_case(Metric::L2, ElementKind::F32, Quantization::Int8, None, Residency::Device)]
#[test_case(Metric::Cosine, ElementKind::F16, Quantization::Int8, None, Residency::Device)]
#[test_case(Metric::L2, ElementKind::U8, Quantization::Int8, Some(64), Residency::Device)]
#[test_case(Metric::Cosine, ElementKind::I8, Quantization::None, None, Residency::Device)]
#[test_case(Metric::InnerProduct, ElementKind::F32, Quantization::None, None, Residency::Device)]
#[test_case(Metric::InnerProduct, ElementKind::F16, Quantization::Int8, Some(64), Residency::Device)]
#[test_case(Metric::L2, ElementKind::F32, Quantization::None, Some(64), Residency::Device)]
#[test_case(Metric::L2, ElementKind::F32, Quantization::Int8, None, Residency::Host)]
#[test_case(Metric::Cosine, ElementKind::F16, Quantization::Int8, Some(64), Residency::Host)]
fn no_search_compiles_a_kernel_after_warming_up(
    metric: Metric,
    elements: ElementKind,
    quantization: Quantization,
    lists: Option<usize>,
    place: Residency,
) {
    let Some(device) = opened(None) else { return };
    let mut random = Random::new(1);
    let scale = if elements.is_integer() { 40.0 } else { 1.0 };
    let rows: Vec<f32> = random.floats(ROWS * DIM).iter().map(|x| x * scale).collect();
    let rows = Matrix::F32(rows, DIM).to_kind(elements);
    let queries = random.floats(QUERIES * DIM);
    let mut index = match lists {
        None => {
            let builder = Flat::builder(&device, metric, DIM).elements(elements).quantization(quantization);
            Index::from(builder.residency(place).build().expect("an index"))
        }
        Some(lists) => {
            let builder =
                Ivf::builder(&device, metric, DIM).elements(elements).quantization(quantization).lists(lists);
            Index::from(builder.residency(place).train(&rows).expect("trains"))
        }
    };
    index.add(&rows).expect("good rows");
    index.warm_up().expect("good kernels");
    let warm = device.compiled_kernels();
    search_in_every_way(&index, &queries);
    assert_eq!(device.compiled_kernels(), warm, "a search compiled kernels");
    index.warm_up().expect("nothing to do");
    assert_eq!(device.compiled_kernels(), warm);
}

/// An index without rows warms up too, and from a future.
#[test]
fn an_empty_index_warms_up() {
    let Some(device) = opened(None) else { return };
    let mut index = Flat::builder(&device, Metric::L2, DIM).build().expect("an index");
    pollster::block_on(index.warm_up_async()).expect("good kernels");
    let warm = device.compiled_kernels();
    assert!(warm > 10, "{warm} kernels");
    let rows = Random::new(2).floats(ROWS * DIM);
    index.add(view(&rows, DIM)).expect("good rows");
    index.search(view(&rows[..DIM], DIM), 10).expect("an answer");
    assert_eq!(device.compiled_kernels(), warm);
}

/// Threads that compile end with the device, and dropping it waits for them.
#[test]
fn a_device_is_dropped_while_its_kernels_are_compiled() {
    let Some(device) = opened(None) else { return };
    let index = Flat::builder(&device, Metric::L2, DIM).build().expect("an index");
    let mut warming = Box::pin(index.warm_up_async());
    assert!(warming.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(warming);
    drop((index, device));
}

#[test]
fn many_threads_compile_a_kernel_once() {
    let Some(device) = opened(None) else { return };
    let index = Flat::builder(&device, Metric::L2, DIM).build().expect("an index");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| index.warm_up().expect("good kernels"));
        }
    });
    let together = device.compiled_kernels();
    let alone = opened(None).expect("the same adapter");
    Flat::builder(&alone, Metric::L2, DIM).build().expect("an index").warm_up().expect("good kernels");
    assert_eq!(together, alone.compiled_kernels());
}

/// The files of a directory for compiled kernels.
fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return vec![] };
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// Uses a device whose compiled kernels lie in `directory`, and drops it.
fn use_kernels(directory: Option<&Path>) {
    let device = opened(directory).expect("the adapter that was there before");
    let rows = Random::new(3).floats(100 * DIM);
    let mut index = Flat::builder(&device, Metric::L2, DIM).build().expect("an index");
    index.add(view(&rows, DIM)).expect("good rows");
    let found = index.search(view(&rows[..DIM], DIM), 1).expect("an answer");
    assert_eq!(found.row(0)[0].id, 0);
}

#[test]
fn kernels_lie_in_the_directory_and_damaged_files_do_no_harm() {
    let Some(device) = opened(None) else { return };
    let temporary = tempfile::tempdir().expect("a directory");
    let directory = temporary.path().join("not").join("there yet");
    use_kernels(Some(&directory));
    let written = files(&directory);
    if device.adapter().backend != "vulkan" {
        assert!(written.is_empty(), "{written:?}");
        return;
    }
    let [file] = &written[..] else { panic!("one file for the adapter, not {written:?}") };
    let good = fs::read(file).expect("the file");
    // Cut, changed in its data, of another program, and empty.
    let mut changed = good.clone();
    *changed.last_mut().expect("data") ^= 0xff;
    for bad in [&good[..good.len() / 2], &changed, &[7; 4096], &[]] {
        fs::write(file, bad).expect("written");
        use_kernels(Some(&directory));
        assert_eq!(files(&directory), written, "nothing else is left behind");
        assert_ne!(fs::read(file).expect("the file"), bad, "replaced by a good one");
    }
    // A good file is read, and left alone when nothing is new. Some drivers have something new a few times, SwiftShader always.
    let used = || {
        use_kernels(Some(&directory));
        let written = fs::metadata(file).expect("there").modified().expect("a time");
        (written, fs::read(file).expect("the file"))
    };
    let seen: Vec<_> = (0..8).map(|_| used()).collect();
    let mut pairs = seen.windows(2);
    let is_left_alone = pairs.any(|pair| pair[0].0 == pair[1].0);
    assert!(is_left_alone || seen.windows(2).all(|pair| pair[0].1 != pair[1].1));
}

#[test]
fn a_directory_that_cannot_be_written_is_no_error() {
    if opened(None).is_none() {
        return;
    }
    let temporary = tempfile::tempdir().expect("a directory");
    let in_the_way = temporary.path().join("a file");
    fs::write(&in_the_way, "stays").expect("written");
    use_kernels(Some(&in_the_way));
    use_kernels(Some(&in_the_way.join("below")));
    assert_eq!(fs::read(&in_the_way).expect("there"), b"stays");
    use_kernels(None);
}
