//! Spanning trees and clusters by density are what their definitions say of all distances. 5 s.

use crate::common::Engine::{self, Adapter, Host};
use crate::support::{flat, flat_with_ids};
use nearfield::{
    DensityClusters, Device, Error, Flat, Index, Ivf, Metric, Quantization, SearchOptions, SpanningTree,
};
use nearfield_testing::{Random, spanning_lengths, view};
use test_case::test_matrix;

/// The distances of all rows that are allowed, by ascending id.
struct All {
    ids: Vec<u64>,
    distances: Vec<Vec<f32>>,
}

impl All {
    fn of(index: &Flat, is_allowed: &(impl Fn(u64) -> bool + Send + Sync)) -> Self {
        let options = SearchOptions::new(index.len()).filter(is_allowed);
        let graph = index.knn_graph_with(&options).expect("a graph");
        let ids = graph.ids().to_vec();
        let mut distances = vec![vec![f32::NEG_INFINITY; ids.len()]; ids.len()];
        for (row, hits) in graph.neighbors().iter().enumerate() {
            for hit in hits {
                distances[row][ids.binary_search(&hit.id).expect("a row")] = hit.distance;
            }
        }
        Self { ids, distances }
    }

    fn core(&self, row: usize, k: usize) -> f32 {
        let mut sorted = self.distances[row].clone();
        sorted.sort_unstable_by(f32::total_cmp);
        // The row itself comes first.
        sorted[k]
    }

    /// Mutual reachability distances.
    fn reachability(&self, k: usize) -> Vec<Vec<f32>> {
        let core: Vec<f32> = (0..self.ids.len()).map(|row| self.core(row, k)).collect();
        let far = |a: usize, b: usize| self.distances[a][b].max(core[a]).max(core[b]);
        (0..core.len()).map(|a| (0..core.len()).map(|b| far(a, b)).collect()).collect()
    }
}

fn check_tree(tree: &SpanningTree, all: &All, k: usize, what: &str) {
    assert_eq!(tree.ids(), all.ids, "{what}");
    let far = all.reachability(k);
    let found: Vec<f32> = tree.edges().iter().map(|edge| edge.distance).collect();
    assert_eq!(found, spanning_lengths(&far), "{what}, k {k}: the lengths of edges");
    let place = |id| all.ids.binary_search(&id).expect("a row");
    for edge in tree.edges() {
        assert!(edge.a < edge.b, "{what}");
        assert_eq!(edge.distance, far[place(edge.a)][place(edge.b)], "{what}, k {k}: {edge:?}");
    }
    // Every merge makes two clusters one, and the last has all rows.
    let merges = tree.merges().expect("memory");
    let mut rows = vec![1; all.ids.len()];
    for merge in &merges {
        let [a, b] = merge.clusters.map(|cluster| std::mem::take(&mut rows[cluster as usize]));
        assert!(a > 0 && b > 0 && merge.rows == a + b, "{what}: {merge:?}");
        rows.push(merge.rows);
    }
    assert_eq!(rows.last().copied(), Some(all.ids.len() as u32), "{what}");
}

/// Groups of rows around centres that are far from each other, some rows twice, and some far from all.
fn grouped(random: &mut Random, rows: usize, dim: usize, groups: usize, spread: f32) -> Vec<f32> {
    let centres: Vec<f32> = (0..groups * dim).map(|_| random.below(200) as f32).collect();
    let mut values = vec![];
    for row in 0..rows {
        let centre = row % groups;
        let spread = if row % 29 == 0 { 20.0 * spread } else { spread };
        values.extend(
            centres[centre * dim..][..dim].iter().map(|at| at + (spread * random.floats(1)[0]).round() / 4.0),
        );
    }
    values.copy_within(0..10 * dim, 20 * dim);
    values
}

#[test_matrix([Adapter, Host])]
fn trees_have_the_shortest_edges(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(91);
    for (groups, spread) in [(1, 40.0), (3, 8.0), (40, 4.0)] {
        let values = grouped(&mut random, 400, 8, groups, spread);
        let index = flat(device, Metric::L2, view(&values, 8), Quantization::Auto);
        let all = All::of(&index, &|_| true);
        for k in [1, 5, 30] {
            let tree = index.spanning_tree(k).expect("a tree");
            check_tree(&tree, &all, k, &format!("{groups} groups"));
        }
    }
}

#[test]
fn trees_under_every_metric_of_some_rows_under_any_ids() {
    let mut random = Random::new(92);
    let values = grouped(&mut random, 300, 6, 5, 8.0);
    let ids: Vec<u64> = (0..300).map(|row| (row * 7919) % 100_003 + 5).collect();
    for metric in Metric::ALL {
        let mut index = flat_with_ids(&Device::host(), metric, view(&values, 6), Quantization::Auto, &ids);
        index.remove(&ids[30..60]).expect("rows to remove");
        let all = All::of(&index, &|_| true);
        check_tree(&index.spanning_tree(4).expect("a tree"), &all, 4, &format!("{metric}"));
        let some = |id: u64| id % 3 != 1;
        let tree = index.spanning_tree_with(&SearchOptions::new(2).filter(&some)).expect("a tree");
        check_tree(&tree, &All::of(&index, &some), 2, &format!("{metric}, some rows"));
    }
}

#[test]
fn trees_of_lists_go_through_all_rows_and_small_ones_have_no_edges() {
    // Groups so large that each is searched for by itself.
    let values = grouped(&mut Random::new(93), 900, 6, 3, 8.0);
    let (rows, device) = (view(&values, 6), Device::host());
    let mut ivf = Ivf::builder(&device, Metric::L2, 6).lists(16).train(rows).expect("lists");
    ivf.add(rows).expect("rows");
    let flat = flat(&device, Metric::L2, rows, Quantization::Auto);
    let all = All::of(&flat, &|_| true);
    check_tree(&ivf.spanning_tree(3).expect("a tree"), &all, 3, "lists");
    let mut index = Index::from(Flat::builder(&device, Metric::L2, 1).build().expect("an index"));
    assert_eq!(index.spanning_tree(3).expect("a tree"), SpanningTree::default());
    assert_eq!(index.dbscan(&SearchOptions::within(1.0), 3).expect("clusters"), DensityClusters::default());
    index.add(view(&[5.0], 1)).expect("a row");
    assert_eq!(index.spanning_tree(3).expect("a tree").edges(), []);
    index.add(view(&[7.0], 1)).expect("a row");
    assert_eq!(index.spanning_tree(1).expect("a tree").edges().len(), 1);
    assert!(matches!(index.spanning_tree(2), Err(Error::Argument { argument: "k", .. })));
    assert!(matches!(index.spanning_tree(0), Err(Error::Argument { argument: "k", .. })));
    for (name, options) in [
        ("radius", SearchOptions::new(1).radius(1.0)),
        ("probes", SearchOptions::new(1).probes(1)),
        ("recall", SearchOptions::new(1).recall(0.5)),
        ("profile", SearchOptions::new(1).profile(true)),
    ] {
        let refused = index.spanning_tree_with(&options);
        assert!(matches!(refused, Err(Error::Argument { argument, .. }) if argument == name), "{name}");
    }
    let clusters = |options: &SearchOptions<'_>, min_samples| match index.dbscan(options, min_samples) {
        Err(Error::Argument { argument, .. }) => argument,
        other => panic!("{other:?}"),
    };
    assert_eq!(clusters(&SearchOptions::within(1.0), 0), "min_samples");
    assert_eq!(clusters(&SearchOptions::new(1), 3), "radius");
    let graph = index.knn_graph(1).expect("a graph");
    assert_eq!(graph.core_distances(1).expect("distances"), [2.0, 2.0]);
    assert!(matches!(graph.core_distances(2), Err(Error::Argument { argument: "k", .. })));
}

/// DBSCAN by its definition, clusters in the order of their first core rows.
fn naive(all: &All, radius: f32, min_samples: usize) -> DensityClusters {
    let rows = all.ids.len();
    let near = |a: usize| (0..rows).filter(move |&b| all.distances[a][b] < radius);
    let is_core: Vec<bool> = (0..rows).map(|row| near(row).count() >= min_samples).collect();
    let mut found = DensityClusters::default();
    found.labels = vec![None; rows];
    for row in 0..rows {
        if !is_core[row] || found.labels[row].is_some() {
            continue;
        }
        let mut next = vec![row];
        while let Some(row) = next.pop() {
            for other in near(row).filter(|&other| found.labels[other].is_none()).collect::<Vec<_>>() {
                found.labels[other] = Some(found.count);
                next.extend(is_core[other].then_some(other));
            }
        }
        found.count += 1;
    }
    (found.ids, found.is_core) = (all.ids.clone(), is_core);
    found
}

#[test_matrix([Adapter, Host])]
fn clusters_by_density_are_those_of_the_definition(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(94);
    let values = grouped(&mut random, 400, 4, 6, 30.0);
    let ids: Vec<u64> = (0..400).map(|row| (row * 7919) % 100_003 + 5).collect();
    let mut index = flat_with_ids(device, Metric::L2, view(&values, 4), Quantization::Int8, &ids);
    index.remove(&ids[90..120]).expect("rows to remove");
    let some = |id: u64| id % 4 != 1;
    let (all, fewer) = (All::of(&index, &|_| true), All::of(&index, &some));
    let mut seen = 0;
    for radius in [0.0, 3.0, 5.0, 8.0, 500.0] {
        for min_samples in [1, 2, 5, 20] {
            let options = SearchOptions::within(radius);
            let found = index.dbscan(&options, min_samples).expect("clusters");
            assert_eq!(found, naive(&all, radius, min_samples), "radius {radius}, {min_samples}");
            seen += found
                .labels
                .iter()
                .zip(&found.is_core)
                .filter(|(label, core)| label.is_some() && !*core)
                .count();
            let found = index.dbscan(&options.filter(&some), min_samples).expect("clusters");
            assert_eq!(
                found,
                naive(&fewer, radius, min_samples),
                "radius {radius}, {min_samples}, some rows"
            );
        }
    }
    assert!(seen > 50, "{seen} border rows");
}
