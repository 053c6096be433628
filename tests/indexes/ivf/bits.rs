//! Lists of rows of bits: among the rows that are probed answers are those of a `Flat`, and lists hold what is near.

use crate::common::Engine::{self, Adapter, Host};
use crate::support::{devices, few_iterations};
use nearfield::{
    AddOptions, Device, ElementKind, Filter, Flat, HostVectors, Ivf, Matrix, Metric, PackedBits, Residency,
    SearchOptions,
};
use nearfield_testing::Random;
use nearfield_testing::living::bits;
use test_case::test_matrix;

/// Rows around 40 centres, an eighth of whose bits differ.
fn clustered(count: usize, dim: usize, seed: u64) -> Matrix {
    let mut centres = Random::new(7);
    let centres: Vec<u8> = (0..40 * dim).map(|_| centres.below(256) as u8).collect();
    let mut random = Random::new(seed);
    let mut values = Vec::with_capacity(count * dim);
    for _ in 0..count {
        let centre = random.below(40);
        values.extend((0..dim).map(|byte| {
            let noise = (0..3).fold(0xff, |noise, _| noise & random.below(256) as u8);
            PackedBits(centres[centre * dim + byte] ^ noise)
        }));
    }
    Matrix::Bits(values, dim)
}

/// An index of these rows in 64 lists.
fn in_lists(device: &Device, rows: &Matrix) -> Ivf {
    let builder = Ivf::builder(device, Metric::Hamming, 8).lists(64);
    let mut ivf = builder.kmeans(few_iterations).train(rows).expect("lists");
    ivf.add(rows).expect("good rows");
    ivf
}

#[test_matrix([Adapter, Host], [Metric::Hamming, Metric::Jaccard])]
fn all_lists_of_bits_are_answered_as_a_flat_index_is(engine: Engine, metric: Metric) {
    // A second GPU would compile all kernels again.
    let Some(all) = devices(engine, if engine == Host { 2 } else { 1 }) else { return };
    let device = &all[0];
    let (rows, queries) = (clustered(9000, 8, 1), clustered(9, 8, 2));
    let mut flat = Flat::builder(device, metric, 8).build().expect("an index");
    flat.add(&rows).expect("good rows");
    let residencies =
        if engine == Host { &[Residency::Device][..] } else { &[Residency::Device, Residency::Host] };
    for &residency in residencies {
        let mut flat = flat.clone_to(device).expect("a copy");
        let builder = Ivf::builder(&all, metric, 8).residency(residency).lists(40);
        let mut ivf = builder.kmeans(few_iterations).train(&rows).expect("lists");
        ivf.add(&rows).expect("good rows");
        assert_eq!((ivf.elements(), ivf.centroids().expect("centroids").len()), (ElementKind::Bits, 40 * 64));
        for probes in [9, 40] {
            let options = SearchOptions::new(10).probes(probes);
            let found = ivf.search_with(&queries, &options).expect("an answer").neighbors;
            let wanted = flat.search(&queries, 10).expect("an answer");
            // Every query lies at a centre, whose rows are in a list or in few.
            assert_eq!(bits(&found), bits(&wanted), "{metric}, {probes} probes, {residency:?}");
        }
        let more = clustered(500, 8, 3);
        let ids: Vec<u64> = (20_000..20_500).collect();
        for index in [&mut flat as &mut dyn nearfield::VectorIndex, &mut ivf] {
            index.add_with((&more).into(), &AddOptions::new().ids(&ids)).expect("good rows");
            index.remove(&[3, 5, 20_001]).expect("there");
            index.update(&[7, 8], HostVectors::from(&more).slice(0..2).into()).expect("there");
        }
        let even: Vec<u64> = flat.ids().expect("ids").into_iter().filter(|id| id % 2 == 0).collect();
        let options = SearchOptions::new(70).filter(Filter::ids(&even));
        let wanted = bits(&flat.search_with(&queries, &options).expect("an answer").neighbors);
        let options = options.probes(40);
        assert_eq!(bits(&ivf.search_with(&queries, &options).expect("an answer").neighbors), wanted);
        let loaded = Ivf::loader(device).load_bytes(&ivf.to_bytes().expect("bytes")).expect("an index");
        assert_eq!(bits(&loaded.search_with(&queries, &options).expect("an answer").neighbors), wanted);
        assert_eq!(loaded.centroids().expect("centroids"), ivf.centroids().expect("centroids"));
        let within = SearchOptions::within(if metric == Metric::Hamming { 14.0 } else { 0.4 });
        let [own, other] = [ivf.search_with(&queries, &within), flat.search_with(&queries, &within)]
            .map(|found| bits(&found.expect("an answer").neighbors));
        assert_eq!(own, other);
    }
}

#[test_matrix([Adapter, Host])]
fn a_graph_of_bits_probes_the_lists_that_searches_do(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let rows = clustered(9000, 8, 6);
    let ivf = in_lists(device, &rows);
    // Of the rows that are compared, most of a row's own lie in its list.
    let some: Vec<u64> = (0..9000).filter(|id| id % 7 == 2).collect();
    let mut options = SearchOptions::new(4).probes(3).filter(Filter::ids(&some));
    let graph = ivf.knn_graph_with(&options).expect("a graph");
    assert_eq!(graph.ids(), some);
    let Matrix::Bits(values, dim) = rows else { unreachable!("rows are bits") };
    let of_row = |&id: &u64| values[id as usize * dim..][..dim].iter().copied();
    let queries = Matrix::Bits(some.iter().flat_map(of_row).collect(), dim);
    options.k = 5;
    let found = ivf.search_with(&queries, &options).expect("an answer").neighbors;
    for (place, id) in some.iter().enumerate() {
        let others = found.row(place).iter().filter(|hit| hit.id != *id).take(4);
        assert!(others.eq(graph.neighbors().row(place)), "row {id}");
    }
}

#[test_matrix([Adapter, Host])]
fn probes_for_a_recall_are_measured_with_bits(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let ivf = in_lists(device, &clustered(9000, 8, 4));
    let queries = clustered(20, 8, 5);
    let probes = ivf.probes_for_recall(&queries, 5, 0.9).expect("a measurement");
    assert!((1..64).contains(&probes), "{probes}");
    let found = ivf.search_with(&queries, &SearchOptions::new(5).recall(0.9)).expect("an answer");
    assert_eq!(found.neighbors.queries(), 20);
    ivf.search_with(&queries, &SearchOptions::new(5).recall(0.9)).expect("an answer of a second search");
}

#[test]
fn centroids_are_the_means_of_bits() {
    let host = Device::host();
    let rows = Matrix::Bits([0b1000_0001, 0b1000_0011, 0b0111_0000, 0b0111_0000].map(PackedBits).to_vec(), 1);
    let ivf = Ivf::builder(&host, Metric::Hamming, 1).lists(2).train(&rows).expect("lists");
    let centroids = ivf.centroids().expect("centroids");
    let mut lists: Vec<&[f32]> = centroids.chunks(8).collect();
    lists.sort_by(|a, b| b[0].total_cmp(&a[0]));
    assert_eq!(lists, [[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 1.0], [0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]]);
}

#[test]
fn samples_of_numbers_and_of_bits_are_not_mixed() {
    let host = Device::host();
    let bits = Matrix::Bits(vec![PackedBits(1); 4], 2);
    let numbers = Matrix::F32(vec![1.0; 32], 16);
    let of_bits = Ivf::builder(&host, Metric::Jaccard, 2).lists(1).train(&numbers).expect_err("numbers");
    assert_eq!(of_bits.to_string(), "sample: needed bits, as the index stores, given numbers");
    let of_numbers = Ivf::builder(&host, Metric::L2, 16).lists(1).train(&bits).expect_err("bits");
    assert_eq!(of_numbers.to_string(), "sample: needed numbers, as the index stores, given bits");
}
