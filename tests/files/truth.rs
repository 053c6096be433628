//! Real embeddings, compared with their true neighbours in f64.

use std::path::PathBuf;

use crate::common::{gpu, view};
use nearfield::io::{VectorFile, read_distances, read_ids, read_values};
use nearfield::{ElementKind, Flat, Matrix, MatrixView, Metric};

/// f32 distances of unit vectors are off by less; larger ones by as much of their size.
const CLOSE: f64 = 2e-6;

const TRUTHS: [(&str, Metric); 4] = [
    ("l2sq", Metric::L2Squared),
    ("l2sq", Metric::L2),
    ("cosine", Metric::Cosine),
    ("dot", Metric::InnerProduct),
];

struct Set {
    folder: PathBuf,
    base: Matrix,
    queries: Matrix,
    scales: Vec<f32>,
}

impl Set {
    fn open(folder: PathBuf, query_count: usize) -> Self {
        let read = |name: &str| VectorFile::open(folder.join(name)).expect("the file is there");
        let base = read("base.f16.npy").read_all().expect("rows");
        let queries = read("query.f16.npy").read(0..query_count).expect("queries");
        let scales = read_values(folder.join("scale.f32.npy")).expect("factors");
        Self { folder, base, queries, scales }
    }

    /// Base and queries in f32, as they are or each row by its factor.
    fn floats(&self, scaled: bool) -> [Vec<f32>; 2] {
        let (rows, dim) = (self.base.rows(), self.base.dim());
        let all_rows = self.base.clone().into_f32();
        let all_queries = self.queries.clone().into_f32();
        if !scaled {
            return [all_rows, all_queries];
        }
        let by = |values: Vec<f32>, factors: &[f32]| -> Vec<f32> {
            values.iter().enumerate().map(|(place, x)| x * factors[place / dim]).collect()
        };
        [by(all_rows, &self.scales[..rows]), by(all_queries, &self.scales[rows..])]
    }

    fn check(&self, index: &Flat, queries: MatrixView<'_, f32>, variant: &str, truth: &str, k: usize) {
        let path = self.folder.join(format!("groundtruth-{variant}-{truth}.npz"));
        let ids = read_ids(&path).expect("true ids");
        let (distances, width) = read_distances(&path).expect("true distances").expect("they are there");
        assert_eq!(ids.width, width);
        let found = index.search(queries, k).expect("an answer");
        for (query, hits) in found.iter().enumerate() {
            let metric = index.metric();
            let fault = format!("{variant} {metric}, k {k}, query {query}");
            assert_eq!(hits.len(), k, "{fault}");
            // The distance of a place in the truth, by our sign and root.
            let exact = |place: usize| {
                let distance = f64::from(distances[query * width + place]);
                match metric {
                    Metric::InnerProduct => -distance,
                    Metric::L2 => distance.sqrt(),
                    _ => distance,
                }
            };
            for (place, hit) in hits.iter().enumerate() {
                let close = |a: f64, b: f64| (a - b).abs() < CLOSE * b.abs().max(1.0);
                assert!(close(hit.distance.into(), exact(place)), "{fault}: {hit:?} at {place}");
                // Another row may stand here when it is as near as the right one. Who is not in the truth at all is
                // no nearer than its last.
                let row = &ids.values[query * width..][..width];
                let real = row.iter().position(|&id| id == hit.id as i64).unwrap_or(width - 1);
                assert!(real == place || close(exact(real), exact(place)), "{fault}: {hit:?} at {place}");
            }
        }
    }
}

fn small() -> Set {
    Set::open(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/data"), 200)
}

#[test]
fn the_small_set_is_answered_right_by_every_metric() {
    let Some(device) = gpu() else { return };
    let set = small();
    let dim = set.base.dim();
    for (variant, scaled) in [("normalised", false), ("scaled", true)] {
        let [rows, queries] = set.floats(scaled);
        for (truth, metric) in TRUTHS {
            let mut index = Flat::builder(device, metric, dim).build().expect("an index");
            index.add(view(&rows, dim)).expect("good rows");
            for k in [10, 20] {
                set.check(&index, view(&queries, dim), variant, truth, k);
            }
        }
    }
}

#[test]
fn f16_rows_of_the_small_set_are_answered_right() {
    let Some(device) = gpu() else { return };
    let set = small();
    let Matrix::F16(rows, dim) = &set.base else { panic!("the file holds f16") };
    let [_, queries] = set.floats(false);
    for (truth, metric) in TRUTHS {
        let mut index =
            Flat::builder(device, metric, *dim).elements(ElementKind::F16).build().expect("an index");
        index.add(view(rows, *dim)).expect("good rows");
        set.check(&index, view(&queries, *dim), "normalised", truth, 10);
    }
}

#[test]
fn the_large_set_is_answered_right_by_every_metric() {
    let Some(device) = gpu() else { return };
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    if !folder.join("base.f16.npy").exists() {
        println!("skipped: {} is not there", folder.display());
        return;
    }
    let set = Set::open(folder, 100);
    let dim = set.base.dim();
    for (variant, scaled) in [("normalised", false), ("scaled", true)] {
        let [rows, queries] = set.floats(scaled);
        for (truth, metric) in TRUTHS {
            let mut index = Flat::builder(device, metric, dim).build().expect("an index");
            index.add(view(&rows, dim)).expect("good rows");
            for (count, k) in [(100, 10), (100, 20), (3, 100)] {
                set.check(&index, view(&queries[..count * dim], dim), variant, truth, k);
            }
        }
    }
}
