//! Indexes of integers: distances to queries of integers are exact and rounded once, so ids and bits are the same on every engine; queries
//! of floats are answered within the bounds of all rows.

use crate::common::Engine::{self, Adapter, Host};
use crate::common::gpu;
use crate::support::few_iterations;
use nearfield::{
    Device, Element, ElementKind, Error, Flat, HostVectors, Index, Ivf, Matrix, MatrixView, Metric,
    Neighbors, Quantization, Residency, SearchOptions, io,
};
use nearfield_testing::truth::Truth;
use nearfield_testing::{Random, view};
use test_case::test_matrix;

/// Numbers over the whole range of a type. Every ninth row is like the one before it, so that distances are equal.
fn vectors<T: Element>(count: usize, dim: usize, seed: u64) -> Matrix {
    let mut random = Random::new(seed);
    let mut values: Vec<f32> =
        (0..count * dim).map(|_| T::nearest(random.below(400) as f32 - 140.0).widen()).collect();
    for row in (1..count).filter(|row| row % 9 == 0) {
        values.copy_within((row - 1) * dim..row * dim, row * dim);
    }
    Matrix::F32(values, dim).to_kind(T::KIND)
}

/// The k nearest rows by (distance, number), from sums in i64.
fn nearest(metric: Metric, queries: &Matrix, rows: &Matrix, k: usize) -> Vec<Vec<(u64, u32)>> {
    let [queries, rows] = [queries, rows].map(|vectors| HostVectors::from(vectors).to_f32());
    let dim = queries.len() / 3;
    let whole = |row: &[f32]| row.iter().map(|&x| x as i64).collect::<Vec<i64>>();
    let distance = |query: &[i64], row: &[i64]| {
        let pairs = query.iter().zip(row);
        match metric {
            Metric::InnerProduct => -pairs.map(|(q, x)| q * x).sum::<i64>() as f32 + 0.0,
            _ => pairs.map(|(q, x)| (q - x) * (q - x)).sum::<i64>() as f32,
        }
    };
    let rows: Vec<Vec<i64>> = rows.chunks(dim).map(whole).collect();
    queries
        .chunks(dim)
        .map(|query| {
            let query = whole(query);
            let mut found: Vec<(f32, u64)> =
                rows.iter().zip(0..).map(|(row, id)| (distance(&query, row), id)).collect();
            found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let root = |distance: f32| if metric == Metric::L2 { distance.sqrt() } else { distance };
            found.into_iter().take(k).map(|(distance, id)| (id, root(distance).to_bits())).collect()
        })
        .collect()
}

fn bits(found: &Neighbors) -> Vec<Vec<(u64, u32)>> {
    nearfield_testing::living::bits(found)
}

/// The same rows in every kind of index that an engine has.
fn indexes(device: &Device, metric: Metric, rows: &Matrix) -> Vec<Index> {
    let mut indexes = vec![];
    for quantization in [Quantization::None, Quantization::Int8] {
        let flat = Flat::builder(device, metric, rows.dim()).elements(rows.kind()).quantization(quantization);
        let ivf = Ivf::builder(device, metric, rows.dim()).elements(rows.kind()).quantization(quantization);
        indexes.push(flat.clone().build().expect("an index").into());
        indexes.push(ivf.lists(5).kmeans(few_iterations).train(rows).expect("trains").into());
        if device.kernel_forms().is_some() && quantization == Quantization::Int8 {
            indexes.push(flat.clone().residency(Residency::Host).build().expect("an index").into());
            indexes.push(flat.residency(Residency::Streamed).build().expect("an index").into());
        }
    }
    indexes.iter_mut().for_each(|index: &mut Index| index.add(rows).expect("good rows"));
    indexes
}

fn check<T: Element>(device: &Device, metric: Metric, dim: usize) {
    let rows = vectors::<T>(700, dim, dim as u64);
    // Integers of the other type count, too.
    for queries in [vectors::<T>(3, dim, 9), vectors::<i8>(3, dim, 8), vectors::<u8>(3, dim, 7)] {
        let wanted = nearest(metric, &queries, &rows, 20);
        for index in indexes(device, metric, &rows) {
            let mut options = SearchOptions::new(20);
            options.probes = index.lists();
            let found = index.search_with(&queries, &options).expect("an answer").neighbors;
            let said = format!("{metric}, {} of {}, dim {dim}, {index:?}", queries.kind(), rows.kind());
            assert_eq!(bits(&found), wanted, "{said}");
            assert!(
                index
                    .get(&[0, 131, 699])
                    .expect("rows")
                    .chunks(dim)
                    .zip([0, 131, 699])
                    .all(|(row, id)| { row == &HostVectors::from(&rows).to_f32()[id * dim..][..dim] }),
                "{said}"
            );
        }
    }
}

#[test_matrix([Adapter, Host], [Metric::L2Squared, Metric::L2, Metric::InnerProduct])]
fn distances_of_integers_are_exact_and_rounded_once(engine: Engine, metric: Metric) {
    let Some(device) = engine.device() else { return };
    check::<i8>(device, metric, 1000);
    check::<u8>(device, metric, 5);
}

#[test_matrix([Adapter, Host])]
fn queries_of_floats_and_cosines_are_within_the_bounds_of_all_rows(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let dim = 33;
    let ids: Vec<u64> = (0..700).collect();
    for rows in [vectors::<i8>(700, dim, 1), vectors::<u8>(700, dim, 2)] {
        let floats = Matrix::F32(Random::new(3).floats(3 * dim).iter().map(|x| x * 60.0).collect(), dim);
        let wide = HostVectors::from(&rows).to_f32();
        for (metric, queries) in [
            (Metric::L2, floats.clone()),
            (Metric::InnerProduct, floats.clone()),
            (Metric::Cosine, floats),
            (Metric::Cosine, vectors::<u8>(3, dim, 4)),
        ] {
            let values = HostVectors::from(&queries).to_f32();
            let truth = Truth::new(view(&values, dim), view(&wide, dim));
            for index in indexes(device, metric, &rows) {
                let mut options = SearchOptions::new(20);
                options.probes = index.lists();
                let found = index.search_with(&queries, &options).expect("an answer").neighbors;
                assert_eq!(truth.judge(metric, &ids, 20, &found), Ok(()), "{metric}, {index:?}");
            }
        }
    }
}

/// Whole slices of 32 elements, 16 bytes of terms, and norms and ids.
#[test]
fn a_gpu_has_integers_once() {
    let Some(device) = gpu() else { return };
    for (elements, metric, copies) in [
        (ElementKind::I8, Metric::Cosine, 1),
        (ElementKind::U8, Metric::L2, 1),
        (ElementKind::U8, Metric::Cosine, 2),
        (ElementKind::I8, Metric::InnerProduct, 1),
    ] {
        let builder = Flat::builder(device, metric, 768).elements(elements).quantization(Quantization::Int8);
        let mut index = builder.capacity(1024).build().expect("an index");
        index.add(&Matrix::F32(vec![3.0; 1024 * 768], 768).to_kind(elements)).expect("good rows");
        let bytes = index.memory().at(Residency::Device);
        assert_eq!(bytes, 1024 * (copies * 768 + 16 + 16), "{elements}, {metric}");
        let folder = tempfile::tempdir().expect("a folder");
        index.save(folder.path().join("index.nf")).expect("saved");
        let about = nearfield::SavedIndex::read(folder.path().join("index.nf")).expect("an index");
        assert_eq!(about.device_bytes(), bytes, "{elements}, {metric}");
    }
}

#[test]
fn rows_of_a_file_of_integers_are_mapped() {
    let devices: Vec<&Device> = [gpu(), Host.device()].into_iter().flatten().collect();
    let folder = tempfile::tempdir().expect("a folder");
    let rows = vectors::<u8>(300, 12, 5);
    let Matrix::U8(values, dim) = &rows else { unreachable!("they are u8") };
    let queries = vectors::<u8>(3, 12, 6);
    let wanted = nearest(Metric::L2Squared, &queries, &rows, 7);
    for name in ["rows.u8bin", "rows.npy"] {
        let path = folder.path().join(name);
        let mut writer = io::VectorWriter::create(&path, [300, 12]).expect("a file");
        writer.write(values).expect("written");
        writer.finish().expect("in its place");
        let read = io::VectorFile::open(&path).and_then(|file| file.read_all()).expect("vectors");
        assert_eq!(read, rows);
        for &device in &devices {
            let builder = Flat::builder(device, Metric::L2Squared, *dim).quantization(Quantization::Int8);
            let index = builder.mapped(&path).build().expect("an index");
            assert_eq!((index.elements(), index.len()), (ElementKind::U8, 300));
            let found = index.search(&queries, 7).expect("an answer");
            assert_eq!(bits(&found), wanted, "{name}, {device:?}");
        }
    }
}

#[test]
fn an_index_of_integers_refuses_rows_that_it_cannot_hold() {
    let device = Device::host();
    let row = [1.0f32, 2.0];
    for (own, given, needed) in [
        (ElementKind::I8, Matrix::F32(row.to_vec(), 2), "i8 rows, because the index stores i8"),
        (ElementKind::I8, Matrix::U8(vec![1, 2], 2), "i8 rows, because the index stores i8"),
        (ElementKind::U8, Matrix::I8(vec![1, 2], 2), "u8 rows, because the index stores u8"),
        (ElementKind::F16, Matrix::F32(row.to_vec(), 2), "f16 rows, because the index stores f16"),
        (
            ElementKind::F16,
            Matrix::F32(row.to_vec(), 2).to_kind(ElementKind::BF16),
            "f16 rows, because the index stores f16",
        ),
    ] {
        let mut index = Flat::builder(&device, Metric::L2, 2).elements(own).build().expect("an index");
        let error = index.add(&given).expect_err("refused");
        let Error::Argument { argument: "rows", needed: told, .. } = &error else { panic!("{error}") };
        assert_eq!(told, needed);
    }
    // Types that hold all numbers of another take them.
    for own in [ElementKind::F32, ElementKind::F16, ElementKind::BF16] {
        let mut index = Flat::builder(&device, Metric::L2, 2).elements(own).build().expect("an index");
        index.add(MatrixView::new(&[-128i8, 127], 2).expect("a row")).expect("they fit");
        index.add(MatrixView::new(&[255u8, 0], 2).expect("a row")).expect("they fit");
        assert_eq!(index.get(&[0, 1]).expect("rows"), [-128.0, 127.0, 255.0, 0.0]);
    }
}
