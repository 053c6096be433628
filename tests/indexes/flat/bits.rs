//! Indexes of bits: distances are exact on every engine, so ids and bits of distances are those of a count, ties by the smaller id.

use crate::common::Engine::{self, Adapter, Host};
use crate::common::gpu;
use nearfield::{
    AddOptions, Device, ElementKind, Filter, Flat, HostVectors, Ivf, KMeans, Matrix, MatrixView, Metric,
    PackedBits, Quantization, Residency, Route, ScreenKernel, SearchOptions, io,
};
use nearfield_testing::Random;
use nearfield_testing::living::bits;
use test_case::test_matrix;

/// Bits, few in some rows and many in others, none in the third row and all in the fourth. Every fifth row is that before it.
fn vectors(count: usize, dim: usize, seed: u64) -> Matrix {
    let mut random = Random::new(seed);
    let mut values = vec![];
    for row in 0..count {
        for _ in 0..dim {
            let [a, b] = [0, 1].map(|_| random.below(256) as u8);
            values.push(match row {
                2 => 0,
                3 => 255,
                row => [a, a & b, a | b][row % 3],
            });
        }
        if row % 5 == 4 {
            values.copy_within((row - 1) * dim..row * dim, row * dim);
        }
    }
    Matrix::Bits(values.into_iter().map(PackedBits).collect(), dim)
}

fn bytes(vectors: &Matrix) -> Vec<Vec<u8>> {
    let Matrix::Bits(values, dim) = vectors else { panic!("they are bits") };
    values.chunks(*dim).map(|row| row.iter().map(|byte| byte.0).collect()).collect()
}

/// The distance by its definition, rounded once.
fn distance(metric: Metric, query: &[u8], row: &[u8]) -> f32 {
    let count =
        |of: fn(u8, u8) -> u8| query.iter().zip(row).map(|(&q, &x)| of(q, x).count_ones()).sum::<u32>();
    let (different, either) = (count(|q, x| q ^ x), count(|q, x| q | x));
    match metric {
        Metric::Hamming => different as f32,
        _ if either == 0 => 1.0,
        _ => (f64::from(different) / f64::from(either)) as f32,
    }
}

/// The nearest of the rows with these ids, by a count of every pair.
fn nearest(metric: Metric, queries: &Matrix, rows: &[(u64, Vec<u8>)], k: usize) -> Vec<Vec<(u64, u32)>> {
    let of_query = |query: Vec<u8>| {
        let mut found: Vec<(u64, f32)> =
            rows.iter().map(|(id, row)| (*id, distance(metric, &query, row))).collect();
        found.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        found.into_iter().take(k).map(|(id, distance)| (id, distance.to_bits())).collect()
    };
    bytes(queries).into_iter().map(of_query).collect()
}

fn numbered(rows: &Matrix) -> Vec<(u64, Vec<u8>)> {
    (0..).zip(bytes(rows)).collect()
}

/// The rows wherever an engine may have them.
fn indexes(device: &Device, metric: Metric, rows: &Matrix) -> Vec<Flat> {
    let builder = Flat::builder(device, metric, rows.dim());
    let mut indexes = vec![builder.clone().build().expect("an index")];
    if device.kernel_forms().is_some() {
        for residency in [Residency::Host, Residency::Streamed, Residency::Auto] {
            indexes.push(builder.clone().residency(residency).build().expect("an index"));
        }
        indexes.push(builder.clone().keep_host_copy(true).build().expect("an index"));
    } else {
        indexes.push(builder.quantization(Quantization::None).build().expect("an index"));
    }
    indexes.iter_mut().for_each(|index| index.add(rows).expect("good rows"));
    indexes
}

#[test_matrix([Adapter, Host], [Metric::Hamming, Metric::Jaccard])]
fn distances_of_bits_are_exact(engine: Engine, metric: Metric) {
    let Some(device) = engine.device() else { return };
    for (count, dim) in [(700, 5), (3000, 96), (2000, 33), (300, 1024)] {
        let rows = vectors(count, dim, dim as u64);
        let numbered = numbered(&rows);
        for index in indexes(device, metric, &rows) {
            for (queries, k) in [(1, 1), (3, 20), (45, 10), (140, 100), (5, count)] {
                let queries = vectors(queries, dim, 9);
                let found = index.search(&queries, k).expect("an answer");
                assert_eq!(
                    bits(&found),
                    nearest(metric, &queries, &numbered, k),
                    "{k} of {count}, {dim}, {}",
                    index.residency()
                );
            }
        }
    }
}

#[test]
fn a_gpu_counts_bits_and_has_them_once() {
    let Some(device) = gpu() else { return };
    let mut index = Flat::builder(device, Metric::Hamming, 128).capacity(8192).build().expect("an index");
    index.add(&vectors(8192, 128, 1)).expect("good rows");
    // The bits, 16 bytes of terms, and norms and ids.
    assert_eq!(
        (index.elements(), index.memory().at(Residency::Device)),
        (ElementKind::Bits, 8192 * (128 + 16 + 16))
    );
    for (queries, wanted) in [(1, ScreenKernel::ScanBits), (200, ScreenKernel::TileBits)] {
        let plan = index.plan(queries, 10).expect("a plan");
        assert!(matches!(plan.route(), Route::Screened { kernel, .. } if kernel == wanted), "{plan}");
    }
}

#[test_matrix([Adapter, Host], [Metric::Hamming, Metric::Jaccard])]
fn filters_radii_changes_and_files_of_bits(engine: Engine, metric: Metric) {
    let Some(device) = engine.device() else { return };
    let (rows, queries) = (vectors(2500, 24, 1), vectors(7, 24, 2));
    let folder = tempfile::tempdir().expect("a folder");
    for mut index in indexes(device, metric, &rows) {
        let mut there = numbered(&rows);
        index.remove(&[0, 7, 100]).expect("there");
        there.retain(|(id, _)| ![0, 7, 100].contains(id));
        let more = vectors(40, 24, 3);
        let ids: Vec<u64> = (5000..5040).collect();
        index.add_with(&more, &AddOptions::new().ids(&ids)).expect("good rows");
        there.extend(ids.into_iter().zip(bytes(&more)));
        let other = vectors(1, 24, 4);
        index.update(&[12], &other).expect("there");
        there.iter_mut().filter(|(id, _)| *id == 12).for_each(|(_, row)| row.clone_from(&bytes(&other)[0]));
        assert_eq!(
            bits(&index.search(&queries, 30).expect("an answer")),
            nearest(metric, &queries, &there, 30)
        );
        assert_eq!(index.get(&[12]).expect("a row"), HostVectors::from(&other).to_f32());

        let even: Vec<u64> = there.iter().map(|(id, _)| *id).filter(|id| id % 2 == 0).collect();
        let allowed: Vec<_> = there.iter().filter(|(id, _)| id % 2 == 0).cloned().collect();
        let options = SearchOptions::new(30).filter(Filter::ids(&even));
        let found = index.search_with(&queries, &options).expect("an answer").neighbors;
        assert_eq!(bits(&found), nearest(metric, &queries, &allowed, 30), "{}", index.residency());

        let radius = if metric == Metric::Hamming { 80.0 } else { 0.6 };
        let found = index.search_with(&queries, &SearchOptions::within(radius)).expect("an answer").neighbors;
        let mut within = nearest(metric, &queries, &there, there.len());
        within.iter_mut().for_each(|row| row.retain(|(_, distance)| f32::from_bits(*distance) < radius));
        assert_eq!(bits(&found), within, "{}", index.residency());

        let path = folder.path().join("bits.nf");
        index.save(&path).expect("saved");
        let about = nearfield::SavedIndex::read(&path).expect("an index");
        assert_eq!((about.elements, about.metric, about.dim), (ElementKind::Bits, metric, 24));
        let loaded = Flat::load(device, &path).expect("an index");
        let mapped = Flat::builder(device, metric, 24).mapped(&path).build().expect("an index");
        for again in [loaded, mapped] {
            assert_eq!(
                bits(&again.search(&queries, 30).expect("an answer")),
                nearest(metric, &queries, &there, 30)
            );
        }
    }
}

#[test]
fn rows_of_bits_are_mapped_from_files_of_bytes() {
    let (rows, queries) = (vectors(300, 12, 5), vectors(3, 12, 6));
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["rows.u8bin", "rows.npy"] {
        let path = folder.path().join(name);
        let mut writer = io::VectorWriter::create(&path, [300, 12]).expect("a file");
        writer.write(&bytes(&rows).concat()).expect("written");
        writer.finish().expect("in its place");
        for device in [gpu(), Host.device()].into_iter().flatten() {
            let index = Flat::builder(device, Metric::Hamming, 12).mapped(&path).build().expect("an index");
            let found = index.search(&queries, 7).expect("an answer");
            assert_eq!(
                bits(&found),
                nearest(Metric::Hamming, &queries, &numbered(&rows), 7),
                "{name}, {device:?}"
            );
        }
    }
}

/// Searches that share a batch, also of rows that the host has without codes.
#[test_matrix([Adapter, Host], [Metric::Hamming, Metric::Jaccard])]
fn callers_that_are_searched_for_together_have_their_own_answers(engine: Engine, metric: Metric) {
    let Some(device) = engine.device() else { return };
    // The host joins searches only where one takes all threads.
    let count = if engine == Host { 4 * 4096 * rayon::current_num_threads() + 100 } else { 1000 };
    let (rows, queries) = (vectors(count, 16, 1), vectors(8, 16, 2));
    let wanted = nearest(metric, &queries, &numbered(&rows), 100);
    for index in indexes(device, metric, &rows) {
        std::thread::scope(|scope| {
            for (query, wanted) in bytes(&queries).into_iter().zip(&wanted) {
                let (index, query) = (&index, query.into_iter().map(PackedBits).collect::<Vec<_>>());
                scope.spawn(move || {
                    for _ in 0..4 {
                        let found = index.search(&query, 100).expect("an answer");
                        assert_eq!(&bits(&found)[0], wanted, "{}", index.residency());
                    }
                });
            }
        });
    }
}

/// Rows and codes lie apart beyond 8,192 bytes.
#[test]
fn long_rows_of_bits_have_a_copy_that_is_screened() {
    let Some(device) = gpu() else { return };
    for metric in Metric::OF_BITS {
        let (rows, queries) = (vectors(300, 8200, 1), vectors(20, 8200, 2));
        let mut index = Flat::builder(device, metric, 8200).build().expect("an index");
        index.add(&rows).expect("good rows");
        assert_eq!(
            bits(&index.search(&queries, 7).expect("an answer")),
            nearest(metric, &queries, &numbered(&rows), 7)
        );
    }
}

/// More rows at one distance than a list of candidates holds.
#[test_matrix([Adapter, Host])]
fn many_rows_at_one_distance_are_told_apart_by_their_ids(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let rows = Matrix::Bits(vec![PackedBits(0b1010_0101); 40_000 * 8], 8);
    let mut index = Flat::builder(device, Metric::Jaccard, 8).build().expect("an index");
    index.add(&rows).expect("good rows");
    let found = index.search(&[PackedBits(0b1111_0000); 8], 3).expect("an answer");
    let ids: Vec<u64> = found.row(0).iter().map(|hit| hit.id).collect();
    assert_eq!((ids, found.row(0)[2].distance), (vec![0, 1, 2], 4.0 / 6.0));
}

/// The message of an error.
fn refused<T: std::fmt::Debug>(result: nearfield::Result<T>) -> String {
    result.expect_err("refused").to_string()
}

#[test]
fn bits_and_numbers_are_told_apart() {
    let device = Device::host();
    let (row, number) = (vectors(1, 2, 1), Matrix::F32(vec![1.0, 2.0], 2));
    let builder = |metric| Flat::builder(&device, metric, 2);
    let told = refused(builder(Metric::Hamming).elements(ElementKind::U8).build());
    assert_eq!(told, "elements: needed bits for the metric hamming, given u8");
    let told = refused(builder(Metric::L2).elements(ElementKind::Bits).build());
    assert_eq!(told, "metric: needed hamming or jaccard for bits, given l2");
    let mut index = builder(Metric::Hamming).build().expect("an index");
    assert_eq!(
        refused(index.add(&number)),
        "rows: needed bits rows, because the index stores bits, given f32 rows"
    );
    index.add(&row).expect("a row of bits");
    assert_eq!(refused(index.search(&number, 1)), "queries: needed bits, as the index stores, given f32");
    let mut numbers = builder(Metric::L2).build().expect("an index");
    assert_eq!(
        refused(numbers.add(&row)),
        "rows: needed f32 rows, because the index stores f32, given bits rows"
    );
    numbers.add(&number).expect("a row");
    assert_eq!(refused(numbers.search(&row, 1)), "queries: needed numbers, as the index stores, given bits");

    let needed = "needed numbers: only an index takes bits, given bits";
    assert_eq!(refused(device.upload(&row)), format!("rows: {needed}"));
    assert_eq!(refused(device.nearest(&row, &number, Metric::L2, 1)), format!("queries: {needed}"));
    let compares = "metric: needed l2sq, l2, cosine or ip: only an index compares bits, given hamming";
    assert_eq!(refused(device.nearest(&row, &row, Metric::Hamming, 1)), compares);
    assert_eq!(refused(KMeans::new(Metric::L2, 1).train(&device, &row)), format!("rows: {needed}"));
    let view = MatrixView::new(&[PackedBits(1), PackedBits(2)], 2).expect("a row");
    assert_eq!(refused(device.reduce().sum_rows(view)), format!("values: {needed}"));
    let lists = Ivf::builder(&device, Metric::L2, 2).elements(ElementKind::Bits).lists(1).train(&number);
    assert_eq!(refused(lists), "metric: needed hamming or jaccard for bits, given l2");
}
