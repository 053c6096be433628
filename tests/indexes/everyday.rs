//! What callers have is what indexes take; indexes are measured, merged, and asked in any batch, whatever their kind.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use crate::common::Engine::{self, Adapter, Host};
use crate::support::few_iterations;
use nearfield::{
    AddOptions, Device, Element, ElementKind, Error, Flat, Index, Ivf, Matrix, MatrixView, Metric,
    Quantization, Residency, SavedIndex, SearchOptions, VectorIndex, Vectors, to_ids,
};
use nearfield_testing::living::bits;
use nearfield_testing::{Random, view};
use test_case::test_matrix;

const DIM: usize = 12;

fn whole(rows: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..rows * DIM).map(|_| random.below(9) as f32 - 4.0).collect()
}

/// The same rows in an index of either kind.
fn both(device: &Device, rows: &[f32], kind: ElementKind) -> [Index; 2] {
    let rows = Matrix::F32(rows.to_vec(), DIM).to_kind(kind);
    let flat = Flat::builder(device, Metric::L2Squared, DIM).elements(kind).quantization(Quantization::Int8);
    let ivf =
        Ivf::builder(device, Metric::L2Squared, DIM).elements(kind).quantization(Quantization::Int8).lists(7);
    let ivf = ivf.kmeans(few_iterations);
    let mut both = [flat.build().expect("an index").into(), ivf.train(&rows).expect("trains").into()];
    both.iter_mut().for_each(|index: &mut Index| index.add(&rows).expect("rows"));
    both
}

/// What a program does that knows no more of an index than the trait.
fn used(index: &mut dyn VectorIndex, path: &Path) {
    let rows = whole(30, 4);
    let row = |number: usize| &rows[number * DIM..][..DIM];
    index.remove(&index.ids().expect("memory")).expect("rows");
    assert!(index.is_empty() && index.dim() == DIM && index.metric() == Metric::L2Squared);
    let ids: Vec<u64> = (500..530).collect();
    index.add_with(view(&rows, DIM).into(), &AddOptions::new().ids(&ids)).expect("added");
    index.remove(&[503, 504]).expect("rows");
    index.update(&[505], row(3).into()).expect("a row");
    assert_eq!(index.get(&[505, 500]).expect("rows"), [row(3), row(0)].concat());
    assert!(index.len() == 28 && index.contains(529) && !index.contains(503));
    let found = index.search_with(row(3).into(), &SearchOptions::within(0.5)).expect("an answer");
    assert!(found.neighbors.ids().contains(&505), "{found:?}");
    assert!(index.memory().total() > 0);
    index.save(path).expect("saved");
}

#[test_matrix([Adapter, Host])]
fn indexes_of_any_kind_are_used_behind_the_trait(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let file = tempfile::NamedTempFile::new().expect("a file");
    let [flat, ivf] = both(device, &whole(70, 3), ElementKind::F32);
    let any = flat.clone_to(device).expect("a copy");
    let (Index::Flat(flat), Index::Ivf(ivf)) = (flat, ivf) else { unreachable!("they were made so") };
    let mut indexes: [Box<dyn VectorIndex>; 3] = [Box::new(flat), Box::new(ivf), Box::new(any)];
    for index in &mut indexes {
        used(&mut **index, file.path());
        let loaded = Index::load(device, file.path()).expect("an index");
        assert_eq!(loaded.ids().expect("memory"), index.ids().expect("memory"));
    }
}

#[test]
fn rows_that_take_several_pieces_are_merged_under_their_ids() {
    // 16 KiB a row: pieces have about a thousand.
    const WIDE: usize = 4096;
    let device = Device::host();
    let mut indexes = [0, 1].map(|half| {
        let mut index = Flat::builder(&device, Metric::L2Squared, WIDE)
            .quantization(Quantization::None)
            .build()
            .expect("an index");
        let ids: Vec<u64> = (0..2500).filter(|id| id % 2 == half).collect();
        for ids in ids.chunks(250) {
            let rows: Vec<f32> =
                ids.iter().flat_map(|&id| (0..WIDE as u64).map(move |i| (id * 31 + i % 7) as f32)).collect();
            index.add_with(view(&rows, WIDE), &AddOptions::new().ids(ids)).expect("added");
        }
        index
    });
    let [merged, other] = &mut indexes;
    merged.merge(other).expect("merged");
    assert!(merged.ids().expect("memory").into_iter().eq(0..2500));
    for id in [1, 0, 2047, 2499] {
        assert_eq!(
            merged.get(&[id]).expect("a row")[..8],
            [0, 1, 2, 3, 4, 5, 6, 0].map(|i| (id * 31 + i) as f32)
        );
    }
}

#[test_matrix([Adapter, Host])]
fn an_index_tells_the_memory_of_its_parts(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let rows = whole(5000, 5);
    let place = if engine == Host { Residency::Host } else { Residency::Device };
    for index in both(device, &rows, ElementKind::F32) {
        let memory = index.memory();
        let part = |name: &str| {
            let mut parts = memory.parts().iter().filter(|part| part.name == name && part.residency == place);
            parts.next().map_or(0, |part| part.bytes)
        };
        assert!(part("rows") >= 5000 * DIM as u64 * 4, "{memory}");
        assert!(part("norms") >= 5000 * 8 && part("ids") >= 5000 * 8, "{memory}");
        assert_eq!(part("integers") >= 5000 * DIM as u64, index.is_quantized(), "{memory}");
        assert_eq!(part("centroids") > 0 && part("lists") > 0, index.lists().is_some(), "{memory}");
        assert_eq!(memory.total(), memory.at(Residency::Device) + memory.at(Residency::Host));
        assert!(memory.total() < 40 * 5000 * DIM as u64, "{memory}");

        // What the file says before it is loaded.
        let file = tempfile::NamedTempFile::new().expect("a file");
        index.save(file.path()).expect("saved");
        let about = SavedIndex::read(file.path()).expect("an index");
        if let Ok(loaded) = Index::load(device, file.path())
            && engine == Adapter
        {
            let (told, taken) = (about.device_bytes() as f64, loaded.memory().at(Residency::Device) as f64);
            assert!((told / taken - 1.0).abs() < 0.2, "{told} of {taken}: {}", loaded.memory());
        }
    }
}

/// Alone, in a part of a batch and in the whole, on any thread.
#[test_matrix([Adapter, Host], [Metric::L2], [true])]
#[test_matrix([Adapter, Host], [Metric::Cosine], [false])]
#[test_matrix([Adapter, Host], [Metric::L2], [false] => ignore["nightly"])]
#[test_matrix([Adapter, Host], [Metric::Cosine], [true] => ignore["nightly"])]
#[test_matrix([Adapter, Host], [Metric::InnerProduct], [false, true] => ignore["nightly"])]
fn a_query_has_the_same_bits_whatever_batch_and_thread_it_is_in(
    engine: Engine,
    metric: Metric,
    is_ivf: bool,
) {
    let Some(device) = engine.device() else { return };
    let (dim, mut random) = (33, Random::new(0xba));
    let (rows, queries) = (random.floats(6000 * dim), random.floats(300 * dim));
    let (rows, queries) = (view(&rows, dim), view(&queries, dim));
    for (quantization, place) in [
        (Quantization::Int8, Residency::Device),
        (Quantization::Int8, Residency::Host),
        (Quantization::None, Residency::Device),
    ] {
        let mut index: Index = if is_ivf {
            let builder =
                Ivf::builder(device, metric, dim).lists(24).quantization(quantization).residency(place);
            builder.kmeans(few_iterations).train(rows.slice(0..1000)).expect("trains").into()
        } else {
            Flat::builder(device, metric, dim)
                .quantization(quantization)
                .residency(place)
                .build()
                .expect("an index")
                .into()
        };
        index.add(rows).expect("good rows");
        let mut options = SearchOptions::new(10);
        options.probes = is_ivf.then_some(5);
        let search =
            |queries: Vectors<'_>| bits(&index.search_with(queries, &options).expect("an answer").neighbors);
        let all = search(queries.into());
        assert_eq!(search((&device.upload(queries).expect("good queries")).into()), all, "from the device");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (search, all) = (&search, &all);
                scope.spawn(move || {
                    for first in (thread * 37..300).step_by(150) {
                        for count in [1, 20] {
                            let end = 300.min(first + count);
                            assert_eq!(
                                search(queries.slice(first..end).into()),
                                all[first..end],
                                "{quantization:?}"
                            );
                        }
                    }
                });
            }
        });
    }
}

/// Generic code compiles for every element type.
fn nearest<T: Element>(index: &Index, query: MatrixView<'_, T>) -> u64 {
    index.search(query, 1).expect("an answer").row(0)[0].id
}

#[test]
fn vectors_in_any_shape_are_taken() {
    let device = Device::host();
    let mut index: Index = Flat::builder(&device, Metric::L2, 2).build().expect("an index").into();
    index.add(&[[0.0f32, 0.0], [1.0, 0.0]][..]).expect("arrays");
    index.add(&vec![[2.0f32, 0.0]]).expect("a vector of arrays");
    index.add(&Matrix::from_rows(&[vec![3.0f32, 0.0], vec![4.0, 0.0]]).expect("a matrix")).expect("vectors");
    index.add(&[5.0f32, 0.0]).expect("one vector");
    assert_eq!(index.len(), 6);
    for row in 0..6u8 {
        let one = [f32::from(row), 0.0];
        assert_eq!(index.search(&one, 1).expect("an answer").row(0)[0].id, u64::from(row));
        let half = one.map(half::f16::from_f32);
        assert_eq!(nearest(&index, MatrixView::new(&half, 2).expect("a view")), u64::from(row));
    }
    let ragged = Matrix::from_rows(&[vec![1.0f32, 2.0], vec![3.0]]);
    assert!(
        ragged.is_err_and(|error| error.to_string().contains("2 elements, as the first, given 1 in row 1"))
    );
    assert!(Matrix::from_rows::<f32>(&[[0.0; 0]]).is_err());
}

#[test]
fn a_filter_is_made_of_ids_a_set_or_a_function() {
    let device = Device::host();
    let mut index = Flat::builder(&device, Metric::L2, 1).build().expect("an index");
    let rows: Vec<[f32; 1]> = (0..10u8).map(|row| [row.into()]).collect();
    index.add_with(&rows, &AddOptions::new().ids(&to_ids(10..20i32).expect("ids"))).expect("rows");
    let found =
        |options: SearchOptions<'_>| index.search_with(&[0.0f32], &options).expect("an answer").neighbors;
    let options = || SearchOptions::new(9);
    let (list, set) = (vec![12, 15, 99], HashSet::from([12u64, 15, 99]));
    let wanted = found(options().filter(&list));
    assert_eq!(wanted.ids(), [12, 15]);
    assert_eq!(found(options().filter(&set)), wanted);
    assert_eq!(found(options().filter(&[15, 12])), wanted);
    assert_eq!(found(options().filter(&|id| set.contains(&id))), wanted);
    assert!(matches!(to_ids([1u64 << 63]), Err(Error::IdTooLarge { .. })));
    assert!(to_ids([3i8, -2]).is_err_and(|error| error.to_string().contains("-2 at 1")));
}

/// A recall that was measured on some queries holds for others.
#[test]
#[ignore = "nightly"]
fn probes_for_a_recall_are_enough_for_other_queries() {
    let device = Device::host();
    let mut random = Random::new(8);
    let rows: Vec<f32> = random.floats(4000 * DIM);
    let rows = view(&rows, DIM);
    let means = Ivf::builder(&device, Metric::L2, DIM).lists(100).kmeans(|means| means.iterations(3));
    let mut index = means.train(rows).expect("trains");
    index.add(rows).expect("rows");
    let queries: Vec<f32> = random.floats(4000 * DIM);
    let queries = view(&queries, DIM);
    let truth = index.search_with(queries, &SearchOptions::new(10).probes(100)).expect("the truth").neighbors;
    let recall = |probes| {
        let found =
            index.search_with(queries, &SearchOptions::new(10).probes(probes)).expect("an answer").neighbors;
        let same = |(found, truth): (&[nearfield::Neighbor], &[nearfield::Neighbor])| {
            truth.iter().filter(|hit| found.iter().any(|one| one.id == hit.id)).count()
        };
        found.iter().zip(&truth).map(same).sum::<usize>() as f64 / 40_000.0
    };
    // A recall that some number of probes just reaches: the mean alone would take too few half of the time.
    let wanted = recall(20);
    let mut recalls = BTreeMap::from([(20, wanted)]);
    let mut below = 0;
    for sample in 0..20 {
        let some = queries.slice(sample * 200..(sample + 1) * 200);
        let probes = index.probes_for_recall(some, 10, wanted).expect("probes");
        assert!(probes < 40, "{probes} probes");
        below += usize::from(*recalls.entry(probes).or_insert_with(|| recall(probes)) < wanted);
    }
    assert!(below <= 3, "{below} of 20 samples gave too few probes");
}
