//! Every row against every row: graphs, pairs and duplicates are what searches of single rows say. 20 s.

use std::collections::BTreeMap;

use crate::common::Engine::{self, Adapter, Host};
use crate::support::{flat, flat_with_ids};
use nearfield::{
    Device, DuplicateOptions, Duplicates, ElementKind, Error, Flat, HostVectors, Ivf, Keep, KnnGraph, Matrix,
    Metric, Neighbor, Pair, Quantization, SearchOptions, Symmetry,
};
use nearfield_testing::{Random, view};
use test_case::test_matrix;

/// The other rows of each row that is allowed, nearest first, by searches for all rows.
fn all_others(
    index: &Flat,
    is_allowed: &(impl Fn(u64) -> bool + Send + Sync),
) -> BTreeMap<u64, Vec<Neighbor>> {
    let ids: Vec<u64> = index.ids().expect("ids").into_iter().filter(|&id| is_allowed(id)).collect();
    let values = index.get(&ids).expect("rows");
    let queries = Matrix::F32(values, index.dim());
    let is_float = ElementKind::F32 == index.elements() || index.elements() == ElementKind::F16;
    let queries = if is_float { queries } else { queries.to_kind(index.elements()) };
    let options = SearchOptions::new(index.len()).filter(is_allowed);
    let found = index.search_with(&queries, &options).expect("a search").neighbors;
    let others =
        |(&id, row): (&u64, &[Neighbor])| (id, row.iter().filter(|hit| hit.id != id).copied().collect());
    ids.iter().zip(&found).map(others).collect()
}

fn check_graph(graph: &KnnGraph, others: &BTreeMap<u64, Vec<Neighbor>>, k: usize, what: &str) {
    assert!(graph.ids().iter().eq(others.keys()), "{what}: the rows");
    for (&id, row) in graph.ids().iter().zip(graph.neighbors()) {
        let want = &others[&id];
        assert_eq!(row, &want[..want.len().min(k)], "{what}: row {id}, k {k}");
    }
}

fn pairs_of(others: &BTreeMap<u64, Vec<Neighbor>>, radius: f32) -> Vec<Pair> {
    let near = |(&a, row): (&u64, &Vec<Neighbor>)| {
        let mut near: Vec<Pair> = row
            .iter()
            .filter(|hit| hit.id > a && hit.distance < radius)
            .map(|hit| Pair { a, b: hit.id, distance: hit.distance })
            .collect();
        near.sort_unstable_by_key(|pair| pair.b);
        near
    };
    others.iter().flat_map(near).collect()
}

/// Checks graphs and pairs of an index whose distances have many ties.
fn check(index: &Flat, what: &str) {
    let all = |_: u64| true;
    let some = |id: u64| id % 3 != 1;
    let others = all_others(index, &all);
    for k in [4, 10_000] {
        check_graph(&index.knn_graph(k).expect("a graph"), &others, k, what);
    }
    let radius = others.values().filter_map(|row| row.get(3)).map(|hit| hit.distance).fold(0.0, f32::max);
    let pairs = pairs_of(&others, radius);
    assert!(!pairs.is_empty(), "{what}");
    assert_eq!(index.pairs_within(radius).expect("pairs"), pairs, "{what}");
    assert_eq!(index.count_pairs_within(radius).expect("pairs"), pairs.len() as u64, "{what}");
    let restricted = all_others(index, &some);
    let options = SearchOptions::new(5).filter(&some);
    check_graph(&index.knn_graph_with(&options).expect("a graph"), &restricted, 5, what);
    let mut pieces: Vec<(u64, Vec<Neighbor>)> = vec![];
    index
        .visit_knn_graph(&options, &mut |ids, found| {
            pieces.extend(ids.iter().zip(&found).map(|(&id, row)| (id, row.to_vec())));
            Ok(())
        })
        .expect("a graph");
    assert!(
        pieces.iter().all(|(id, row)| row[..] == restricted[id][..5]) && pieces.len() == restricted.len(),
        "{what}"
    );
    let mut found = vec![];
    let within = SearchOptions::within(radius).filter(&some);
    index
        .visit_pairs(&within, &mut |pairs| {
            found.extend_from_slice(pairs);
            Ok(())
        })
        .expect("pairs");
    assert_eq!(found, pairs_of(&restricted, radius), "{what}");
    // All rows within the radius, in place of k of them.
    let graph = index.knn_graph_with(&SearchOptions::within(radius)).expect("a graph");
    assert_eq!(graph.neighbors().hits().len(), 2 * pairs.len(), "{what}");
    let [directed, both] =
        [Symmetry::Directed, Symmetry::Intersection].map(|symmetry| graph.to_csr(symmetry).expect("memory"));
    assert_eq!(directed, both, "{what}");
}

/// Whole numbers, so that distances tie, and some rows that are the same.
fn tied(random: &mut Random, rows: usize, dim: usize) -> Vec<f32> {
    let mut values: Vec<f32> = (0..rows * dim).map(|_| random.below(5) as f32 - 2.0).collect();
    values.copy_within(0..20 * dim, 40 * dim);
    values[100 * dim..130 * dim].fill(1.0);
    values
}

#[test_matrix([Adapter, Host])]
fn graphs_and_pairs_are_those_of_searches_under_every_metric(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(71);
    for (metric, dim) in Metric::ALL.into_iter().zip([36, 33, 64, 20]) {
        let values = tied(&mut random, 300, dim);
        let quantization = if metric == Metric::Cosine { Quantization::None } else { Quantization::Int8 };
        let index = flat(device, metric, view(&values, dim), quantization);
        check(&index, &format!("{metric}, {quantization:?}"));
    }
}

#[test_matrix([Adapter, Host])]
fn integers_and_bits_have_graphs(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(72);
    let values = tied(&mut random, 300, 48);
    for (metric, elements) in [
        (Metric::L2, ElementKind::I8),
        (Metric::InnerProduct, ElementKind::I8),
        (Metric::Cosine, ElementKind::F16),
    ] {
        let mut index = Flat::builder(device, metric, 48).elements(elements).build().expect("an index");
        index.add(&Matrix::F32(values.clone(), 48).to_kind(elements)).expect("rows");
        check(&index, &format!("{metric}, {elements}"));
    }
    let bits = HostVectors::from(view(&values, 48)).quantized(ElementKind::Bits).expect("bits");
    for metric in Metric::OF_BITS {
        let mut index = Flat::builder(device, metric, 6).build().expect("an index");
        index.add(&bits).expect("rows");
        check(&index, &format!("{metric}"));
    }
}

#[test_matrix([Adapter, Host])]
fn rows_under_ids_of_any_order_and_among_removed_ones_have_graphs(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(73);
    let values = tied(&mut random, 350, 16);
    let ids: Vec<u64> = (0..350).map(|row| (row * 7919) % 100_003 + 5).collect();
    let mut index = flat_with_ids(device, Metric::L2Squared, view(&values, 16), Quantization::Int8, &ids);
    index.remove(&ids[30..120]).expect("rows to remove");
    check(&index, "ids of any order");
}

#[test]
fn several_devices_and_small_indexes_have_graphs() {
    let devices = [Device::host(), Device::host()];
    let values = tied(&mut Random::new(74), 300, 8);
    let mut index = Flat::builder(&devices[..], Metric::L2, 8).build().expect("an index");
    index.add(view(&values, 8)).expect("rows");
    check(&index, "two devices");
    let mut index = flat(&devices[0], Metric::L2, view(&values[..8], 8), Quantization::Auto);
    let graph = index.knn_graph(3).expect("a graph");
    assert_eq!((graph.ids(), graph.neighbors().hits().len()), (&[0][..], 0));
    assert_eq!(index.pairs_within(9.0).expect("no pairs"), []);
    index.remove(&[0]).expect("a row");
    assert_eq!(index.knn_graph(3).expect("a graph"), KnnGraph::default());
    assert_eq!(index.duplicates(&DuplicateOptions::new(1.0)).expect("none"), Duplicates::default());
}

#[test]
fn a_graph_whose_candidates_exceed_the_budget_is_the_same() {
    let values = tied(&mut Random::new(75), 3000, 12);
    let build = |budget| {
        let mut index =
            Flat::builder(&Device::host(), Metric::L2, 12).budget(budget).build().expect("an index");
        index.add(view(&values, 12)).expect("rows");
        index.knn_graph(6).expect("a graph")
    };
    assert_eq!(build(256 << 20), build(1 << 20));
}

#[test]
fn lists_find_most_of_a_graph_and_all_of_it_in_all_lists() {
    let values = Random::new(76).floats(2000 * 12);
    let (rows, device) = (view(&values, 12), Device::host());
    let mut ivf = Ivf::builder(&device, Metric::L2, 12).lists(16).train(rows).expect("lists");
    ivf.add(rows).expect("rows");
    let exact = flat(&device, Metric::L2, rows, Quantization::Auto).knn_graph(5).expect("a graph");
    let probed = |probes| ivf.knn_graph_with(&SearchOptions::new(5).probes(probes)).expect("a graph");
    assert_eq!(probed(16), exact);
    let some = probed(4);
    let both = some.neighbors().iter().zip(exact.neighbors());
    let found: usize = both.map(|(some, all)| some.iter().filter(|hit| all.contains(hit)).count()).sum();
    assert!((6000..10_000).contains(&found), "{found} of 10,000");
}

#[test]
fn options_that_a_graph_cannot_have_are_refused_by_name() {
    let index = flat(&Device::host(), Metric::L2, view(&[0.0, 1.0], 1), Quantization::Auto);
    let argument = |error: Error| match error {
        Error::Argument { argument, .. } => argument,
        other => panic!("{other}"),
    };
    let graph =
        |options: SearchOptions<'_>| argument(index.knn_graph_with(&options).expect_err("no such graph"));
    assert_eq!(graph(SearchOptions::new(0)), "k");
    assert_eq!(graph(SearchOptions::new(1).probes(3)), "probes");
    assert_eq!(graph(SearchOptions::new(1).profile(true)), "profile");
    let pairs = |options: SearchOptions<'_>| {
        argument(index.visit_pairs(&options, &mut |_| Ok(())).expect_err("no such pairs"))
    };
    assert_eq!(pairs(SearchOptions::new(1)), "radius");
    assert_eq!(pairs(SearchOptions::new(1).radius(1.0)), "radius");
    assert_eq!(pairs(SearchOptions::within(f32::NAN)), "radius");
    let duplicates = |order: &[u64]| index.duplicates(&DuplicateOptions::new(1.0).order(order));
    assert!(matches!(duplicates(&[0]), Err(Error::Argument { argument: "order", .. })));
    assert!(matches!(duplicates(&[0, 7]), Err(Error::UnknownId { id: 7 })));
    assert!(matches!(duplicates(&[1, 1]), Err(Error::DuplicateId { id: 1 })));
    let ended = index.visit_pairs(&SearchOptions::within(5.0), &mut |_| Err(Error::Interrupted));
    assert!(matches!(ended, Err(Error::Interrupted)), "an error of the caller's comes back");
}

/// Groups, rows to keep, and the others with the rows near them.
struct Naive {
    groups: Vec<Vec<u64>>,
    kept: Vec<u64>,
    removed: Vec<(u64, u64)>,
}

/// The rules, word for word, over all pairs.
fn naive(pairs: &[Pair], order: &[u64], keep: Keep) -> Naive {
    let rank = |id: u64| order.iter().position(|&other| other == id).expect("a row");
    let near = |id: u64| {
        pairs.iter().filter_map(move |pair| match id {
            id if id == pair.a => Some((pair.distance, pair.b)),
            id if id == pair.b => Some((pair.distance, pair.a)),
            _ => None,
        })
    };
    let nearest = |id: u64, is_before: bool| {
        let some = near(id).filter(|&(_, other)| (rank(other) < rank(id)) == is_before);
        some.min_by(|a, b| a.0.total_cmp(&b.0).then(rank(a.1).cmp(&rank(b.1)))).map(|(_, other)| other)
    };
    let (mut groups, mut seen) = (vec![], vec![]);
    for &id in order {
        if seen.contains(&id) || near(id).next().is_none() {
            continue;
        }
        let mut group = vec![id];
        let mut next = 0;
        while next < group.len() {
            let of_next: Vec<u64> =
                near(group[next]).map(|(_, other)| other).filter(|other| !group.contains(other)).collect();
            group.extend(of_next);
            next += 1;
        }
        group.sort_unstable_by_key(|&id| rank(id));
        seen.extend_from_slice(&group);
        groups.push(group);
    }
    let is_kept = |&id: &u64| match keep {
        Keep::OneOfGroup => groups.iter().all(|group| group[0] == id || !group.contains(&id)),
        _ => nearest(id, true).is_none(),
    };
    let (kept, gone): (Vec<u64>, Vec<u64>) = order.iter().copied().partition(|id| is_kept(id));
    let removed =
        gone.iter().map(|&id| (id, nearest(id, true).or(nearest(id, false)).expect("a near row"))).collect();
    Naive { groups, kept, removed }
}

#[test]
fn duplicates_follow_their_rules_in_any_order() {
    let mut random = Random::new(77);
    let values = random.floats(150 * 3);
    let index = flat(&Device::host(), Metric::L2, view(&values, 3), Quantization::Auto);
    let mut order: Vec<u64> = (0..150).collect();
    for threshold in [0.0, 0.1, 0.25, 0.4] {
        let pairs = index.pairs_within(threshold).expect("pairs");
        for keep in [Keep::Earliest, Keep::OneOfGroup] {
            let options = DuplicateOptions::new(threshold).order(&order).keep(keep);
            let found = index.duplicates(&options).expect("duplicates");
            let Naive { groups, kept, removed } = naive(&pairs, &order, keep);
            assert_eq!((&found.groups, &found.kept), (&groups, &kept), "{threshold}, {keep:?}");
            let why: Vec<(u64, u64)> = found.removed.iter().map(|one| (one.id, one.near)).collect();
            assert_eq!(why, removed, "{threshold}, {keep:?}");
            assert!(found.removed.iter().all(|one| one.distance < threshold));
            assert_eq!(kept.len() + removed.len(), 150);
        }
        for place in (1..150).rev() {
            order.swap(place, random.below(place + 1));
        }
    }
}

#[test]
fn symmetric_graphs_have_each_edge_both_ways() {
    let mut random = Random::new(78);
    let values = tied(&mut random, 300, 6);
    let ids: Vec<u64> = (0..300).map(|row| 3 * row + 1000).collect();
    let index = flat_with_ids(&Device::host(), Metric::L2, view(&values, 6), Quantization::Auto, &ids);
    let graph = index.knn_graph(4).expect("a graph");
    let edges = |symmetry| {
        let csr = graph.to_csr(symmetry).expect("memory");
        assert_eq!((csr.indptr.len(), csr.indices.len()), (301, csr.data.len()));
        let mut edges = BTreeMap::new();
        for row in 0..300u32 {
            let range = csr.indptr[row as usize] as usize..csr.indptr[row as usize + 1] as usize;
            assert!(csr.data[range.clone()].is_sorted(), "row {row} has its nearest first");
            edges.extend(range.map(|place| ((row, csr.indices[place]), csr.data[place])));
        }
        assert_eq!(edges.len(), csr.indices.len(), "no edge twice");
        edges
    };
    let directed = edges(Symmetry::Directed);
    assert_eq!(directed.len(), 1200);
    let has = |&(a, b): &(u32, u32)| directed.contains_key(&(a, b));
    let all = (0..300).flat_map(|a| (0..300).map(move |b| (a, b)));
    let distance = |a: u32, b: u32| *directed.get(&(a, b)).or(directed.get(&(b, a))).expect("an edge");
    for (symmetry, is_edge) in [
        (Symmetry::Union, &(|a, b| has(&(a, b)) || has(&(b, a))) as &dyn Fn(u32, u32) -> bool),
        (Symmetry::Intersection, &|a, b| has(&(a, b)) && has(&(b, a))),
    ] {
        let want = all.clone().filter(|&(a, b)| is_edge(a, b)).map(|(a, b)| ((a, b), distance(a, b)));
        assert!(edges(symmetry).into_iter().eq(want), "{symmetry:?}");
    }
}
