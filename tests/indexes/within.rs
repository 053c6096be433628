//! Range search finds all rows within a radius, on every path.

use std::sync::Mutex;

use crate::common::Engine::{self, Adapter, Host};
use crate::common::has_kernels;
use crate::support::flat;
use nearfield::{
    Error, Filter, Flat, Index, Ivf, Metric, Neighbor, Quantization, SearchOptions, SearchResult,
    VectorIndex, Vectors,
};
use nearfield_testing::{Random, view};
use test_case::test_matrix;

/// The answer of a search for all rows, cut off at the radius.
fn wanted(index: &dyn VectorIndex, queries: &[f32], dim: usize, radius: f32) -> Vec<Vec<Neighbor>> {
    let options = SearchOptions::new(index.len().max(1)).iterative_scan(true);
    let all = index.search_with(view(queries, dim).into(), &options).expect("all rows").neighbors;
    all.iter().map(|row| row.iter().copied().filter(|hit| hit.distance < radius).collect()).collect()
}

fn check(index: &dyn VectorIndex, queries: &[f32], dim: usize, radius: f32) -> usize {
    let want = wanted(index, queries, dim, radius);
    let queries = Vectors::from(view(queries, dim));
    let search =
        |options: SearchOptions<'_>| index.search_with(queries, &options).expect("a search").neighbors;
    let found = search(SearchOptions::within(radius));
    assert_eq!(found.queries(), want.len());
    assert_eq!(found.offsets().len(), want.len() + 1);
    for (query, want) in want.iter().enumerate() {
        assert_eq!(found.row(query), want, "{}, radius {radius}, query {query}", index.metric());
    }
    assert_eq!(found.hits().len(), want.iter().map(Vec::len).sum::<usize>());
    for k in [1, 7, usize::MAX] {
        let few = search(SearchOptions::new(k).radius(radius));
        assert!(
            few.iter().zip(&want).all(|(few, want)| few == &want[..want.len().min(k)]),
            "{k} of {radius}"
        );
    }
    found.hits().len()
}

#[test_matrix([Adapter, Host])]
fn all_rows_within_a_radius_are_found_by_every_screen_and_metric(engine: Engine) {
    let (Some(device), Some(plain)) = (engine.device(), engine.without_subgroups()) else { return };
    let dim = 24;
    let mut random = Random::new(5);
    let rows = random.floats(3000 * dim);
    let queries = random.floats(40 * dim);
    for metric in Metric::ALL {
        for (device, quantization) in
            [(device, Quantization::Int8), (device, Quantization::None), (plain, Quantization::Int8)]
        {
            let index = flat(device, metric, view(&rows, dim), quantization);
            // The distances of some row: that one is not within, because nearer is meant strictly.
            let ranked = index.search(view(&queries, dim), 300).expect("a search");
            for (count, rank) in [(1, 0), (1, 40), (3, 299), (40, 120)] {
                let radius = ranked.row(0)[rank].distance;
                let hits = check(&index, &queries[..count * dim], dim, radius);
                assert!(count > 1 || hits == rank, "{metric}: {hits} rows before number {rank}");
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn ties_at_the_radius_are_all_out_and_below_it_all_in(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let dim = 16;
    let mut random = Random::new(6);
    let rows = random.integers(5000 * dim, 2);
    let queries = random.integers(20 * dim, 2);
    for quantization in [Quantization::Int8, Quantization::None] {
        for metric in [Metric::L2Squared, Metric::InnerProduct, Metric::L2] {
            let index = flat(device, metric, view(&rows, dim), quantization);
            for radius in [-8.0, 0.0, 4.0, 5.0, 20.0, 31.5] {
                check(&index, &queries, dim, radius);
            }
        }
    }
}

#[test_matrix([Adapter, Host])]
fn rows_whose_squares_differ_are_ordered_by_them_where_their_roots_are_equal(engine: Engine) {
    let Some(device) = engine.device() else { return };
    // Row 0 has the squared distance 16,000,002 and row 1 16,000,001; both roots round to 4,000 + 2^-12. The others are farther.
    let near = [[4000.0, 1.0, 1.0], [4000.0, 1.0, 0.0]].into_iter();
    let rows: Vec<f32> = near.chain([[9000.0; 3]; 998]).flatten().collect();
    for quantization in [Quantization::Int8, Quantization::None] {
        let index = flat(device, Metric::L2, view(&rows, 3), quantization);
        // The filter leaves so few rows that the distances of all of them are computed.
        let within = SearchOptions::within(4001.0);
        for options in [within.clone(), within.filter(Filter::ids(&[0, 1]))] {
            let found = index.search_with(&[0.0f32; 3], &options).expect("a search").neighbors;
            assert_eq!(found.ids(), [1, 0]);
            assert_eq!(found.distances(), [4000.0 + 1.0 / 4096.0; 2]);
        }
    }
}

#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn lists_that_overflow_grow_and_then_every_row_is_computed(engine: Engine) {
    let Some(device) = engine.confined(1 << 20, 4 << 20) else { return };
    let dim = 32;
    let mut random = Random::new(7);
    let rows = random.floats(20_000 * dim);
    let queries = random.floats(6 * dim);
    for quantization in [Quantization::Int8, Quantization::None] {
        // Rows of several segments.
        let index = flat(&device, Metric::Cosine, view(&rows, dim), quantization);
        let ranked = index.search(view(&queries, dim), 12_000).expect("a search");
        for rank in [100, 6000, 11_999] {
            check(&index, &queries, dim, ranked.row(2)[rank].distance);
        }
        let all = index
            .search_with(view(&queries, dim), &SearchOptions::within(f32::INFINITY))
            .expect("a search")
            .neighbors;
        assert!(all.iter().all(|row| row.len() == 20_000));
        let SearchResult { neighbors: found, statistics, .. } = index
            .search_with(view(&queries, dim), &SearchOptions::within(ranked.row(0)[6000].distance))
            .expect("a search");
        assert_eq!(found.row(0).len(), 6000);
        if has_kernels(&device) {
            assert!(statistics.searched_again > 0 || statistics.searched_exhaustively > 0, "{statistics:?}");
        }
    }
}

#[test_matrix([Adapter, Host])]
fn odd_radii_and_empty_indexes_have_clear_answers(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let rows = [0.0f32, 0.0, 1.0, 0.0, 0.0, 2.0];
    let queries = [0.0f32, 0.0, 3.0, 4.0];
    let index = flat(device, Metric::L2, view(&rows, 2), Quantization::Int8);
    assert!(matches!(
        index.search_with(view(&queries, 2), &SearchOptions::within(f32::NAN)),
        Err(Error::Argument { .. })
    ));
    assert!(index.search_with(view(&queries, 1), &SearchOptions::within(1.0)).is_err());
    assert!(index.search_with(view(&[f32::NAN, 0.0], 2), &SearchOptions::within(1.0)).is_err());
    for radius in [f32::NEG_INFINITY, -1.0, -0.0, 0.0] {
        assert!(
            index
                .search_with(view(&queries, 2), &SearchOptions::within(radius))
                .expect("a search")
                .neighbors
                .hits()
                .is_empty()
        );
    }
    for radius in [f32::MAX, f32::INFINITY] {
        assert_eq!(
            index
                .search_with(view(&queries, 2), &SearchOptions::within(radius))
                .expect("a search")
                .neighbors
                .hits()
                .len(),
            6
        );
    }
    let tiny = index
        .search_with(view(&queries, 2), &SearchOptions::within(f32::MIN_POSITIVE))
        .expect("a search")
        .neighbors;
    assert_eq!(tiny.row(0), [Neighbor { id: 0, distance: 0.0 }]);
    assert!(
        index
            .search_with(view(&[0.0f32; 0], 2), &SearchOptions::within(1.0))
            .expect("no query")
            .neighbors
            .offsets()
            == [0]
    );
    let empty = Flat::builder(device, Metric::L2, 2).build().expect("builds");
    assert_eq!(
        empty
            .search_with(view(&queries, 2), &SearchOptions::within(1.0))
            .expect("a search")
            .neighbors
            .offsets(),
        [0, 0, 0]
    );
}

#[test_matrix([Adapter, Host])]
fn lists_are_all_searched_within_a_radius_and_probes_beside_it_are_refused(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(8);
    let (values, queries) = (random.floats(9000 * 8), random.floats(5 * 8));
    let rows = view(&values, 8);
    let mut lists = Ivf::builder(device, Metric::L2, 8).lists(64).train(rows).expect("trains");
    lists.add(rows).expect("good rows");
    let exact = flat(device, Metric::L2, rows, Quantization::Int8);
    let radius = exact.search(view(&queries, 8), 200).expect("an answer").row(0)[199].distance;
    let any = Index::from(lists.clone_to(device).expect("a copy"));
    let mut indexes: [Box<dyn VectorIndex>; 3] = [Box::new(exact), Box::new(lists), Box::new(any)];
    for index in &mut indexes {
        assert!(check(&**index, &queries, 8, radius) > 199);
        let options = SearchOptions::new(9).radius(radius).probes(3);
        let said = index.search_with(view(&queries, 8).into(), &options).expect_err("probes").to_string();
        assert!(said.starts_with("probes: needed none") && said.ends_with("given 3"), "{said}");
        index.remove(&[0]).expect("a row");
        assert_eq!(check(&**index, &queries, 8, f32::INFINITY), 5 * 8999);
    }
}

#[test_matrix([Adapter, Host])]
fn progress_ends_with_all_queries(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(9);
    let (rows, queries) = (random.floats(20_000 * 8), random.floats(300 * 8));
    let builder =
        Flat::builder(device, Metric::L2Squared, 8).quantization(Quantization::None).budget(4 << 20);
    let mut index = builder.build().expect("an index");
    index.add(view(&rows, 8)).expect("good rows");
    let seen = Mutex::new(vec![]);
    let progress = |count: usize| seen.lock().expect("one thread").push(count);
    index.search_with(view(&queries, 8), &SearchOptions::within(1.0).progress(&progress)).expect("a search");
    let seen = seen.into_inner().expect("one thread");
    assert!(seen.is_sorted() && seen.last() == Some(&300), "{seen:?}");
}
