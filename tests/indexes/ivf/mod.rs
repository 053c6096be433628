//! `Ivf` answers like `Flat` when it probes all lists, and exactly among the rows of the probed lists when it probes fewer.

mod bits;
mod recall;
mod screen;

use crate::common::Engine::{self, Adapter, Host};
use crate::common::{has_kernels, with_bindings_of};
use crate::support::{few_iterations, flat, run_within};
use nearfield::{
    Device, Error, Filter, Flat, Ivf, KMeans, MatrixView, Metric, Quantization, SearchOptions, SearchResult,
};
use nearfield_testing::living::bits;
use nearfield_testing::{Random, view};
use test_case::test_matrix;

const METRICS: [Metric; 4] = [Metric::L2Squared, Metric::L2, Metric::Cosine, Metric::InnerProduct];

/// Whole numbers around some points: many equal distances.
fn numbers(rows: usize, dim: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..rows)
        .flat_map(|_| {
            let middle = random.below(9) as f32 * 3.0 - 12.0;
            (0..dim).map(|_| middle + random.below(5) as f32 - 2.0).collect::<Vec<f32>>()
        })
        .collect()
}

fn ivf(
    device: &Device,
    metric: Metric,
    rows: MatrixView<'_, f32>,
    lists: usize,
    quantization: Quantization,
) -> Ivf {
    let builder = Ivf::builder(device, metric, rows.dim()).lists(lists).quantization(quantization);
    let mut index = builder.kmeans(few_iterations).train(rows).expect("trains");
    index.add(rows).expect("rows");
    assert_eq!(index.list_sizes().iter().sum::<usize>(), rows.rows());
    index
}

#[test_matrix([Adapter, Host])]
fn with_all_probes_it_answers_as_flat_bit_for_bit(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for (turn, (rows, dim, lists)) in
        [(900, 24, 40), (400, 33, 7), (150, 5, 150), (257, 64, 1)].into_iter().enumerate()
    {
        let values = numbers(rows, dim, 1);
        let queries = numbers(70, dim, 2);
        for (quantization, metric) in
            [(Quantization::None, METRICS[turn]), (Quantization::Int8, METRICS[(turn + 1) % 4])]
        {
            let exact = flat(device, metric, view(&values, dim), quantization);
            let index = ivf(device, metric, view(&values, dim), lists, quantization);
            // By candidates, and list by list.
            for (count, k) in [1, 10, 70, 1500].into_iter().flat_map(|k| [(1, k), (70, k)]) {
                let some = view(&queries[..count * dim], dim);
                let found = index
                    .search_with(some, &SearchOptions::new(k).probes(lists))
                    .expect("an answer")
                    .neighbors;
                let wanted = exact.search(some, k).expect("an answer");
                let case =
                    format!("{rows} x {dim}, {lists} lists, {metric:?}, {quantization:?}, {count}, k {k}");
                assert_eq!(bits(&found), bits(&wanted), "{case}");
            }
        }
    }
}

#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn recall_rises_with_the_probes_and_the_fewest_for_a_recall_are_found(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(16);
    let mut values =
        |rows: usize| -> Vec<f32> { (0..rows * 12).map(|_| random.below(1000) as f32 * 1e-3).collect() };
    let (values, queries) = (values(1500), values(80));
    let (rows, queries) = (view(&values, 12), view(&queries, 12));
    let index = ivf(device, Metric::L2, rows, 20, Quantization::Int8);
    let truth = flat(device, Metric::L2, rows, Quantization::None).search(queries, 10).expect("an answer");
    let found = |probes| {
        let found = index.search_with(queries, &SearchOptions::new(10).probes(probes)).expect("an answer");
        let hits = found.neighbors.iter().zip(&truth).map(|(found, truth)| {
            found.iter().filter(|hit| truth.iter().any(|other| other.id == hit.id)).count()
        });
        (hits.sum::<usize>(), found.statistics.scored)
    };
    let all: Vec<(usize, u64)> = (1..=20).map(found).collect();
    assert!(all.is_sorted_by(|less, more| less.0 <= more.0 && less.1 < more.1), "{all:?}");
    assert_eq!(all[19], (800, 80 * 1500));
    let recall = |probes: usize| all[probes - 1].0 as f64 / 800.0;
    for wanted in [0.0, 0.8, 1.0] {
        let probes = index.probes_for_recall(queries, 10, wanted).expect("probes");
        assert!(recall(probes) >= wanted, "{wanted}: {probes} probes");
        // The margin for 80 queries is some hundredths.
        assert!(probes == 1 || recall(probes - 1) < wanted + 0.05, "{wanted}: {probes} probes");
    }
    for wrong in [-0.1, 1.1, f64::NAN] {
        assert!(matches!(index.probes_for_recall(queries, 10, wrong), Err(Error::Argument { .. })));
    }
}

#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn queries_do_not_see_each_others_lists(engine: Engine) {
    let Some(device) = engine.device() else { return };
    // Two clusters far from each other, ids of one even, of the other odd.
    let mut random = Random::new(8);
    let at = |number: usize| if number.is_multiple_of(2) { 500.0 } else { -500.0 };
    let values: Vec<f32> = (0..1000 * 20).map(|i| at(i / 20) + random.below(10) as f32).collect();
    let queries: Vec<f32> = (0..300 * 20).map(|i| at(i / 20) + random.below(10) as f32).collect();
    let index = ivf(device, Metric::L2, view(&values, 20), 2, Quantization::Int8);
    assert_eq!(index.list_sizes(), [500, 500]);
    for count in [2, 300] {
        let found = index
            .search_with(view(&queries[..count * 20], 20), &SearchOptions::new(600).probes(1))
            .expect("an answer")
            .neighbors;
        for query in 0..count {
            assert_eq!(found.row(query).len(), 500, "the rows of one list");
            assert!(found.row(query).iter().all(|hit| hit.id as usize % 2 == query % 2), "query {query}");
        }
    }
}

#[test_matrix([Adapter, Host])]
fn lists_of_one_row_duplicates_and_many_queries_of_few_candidates(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let values: Vec<f32> = (0..100).flat_map(|row| [row as f32 * 10.0, 1.0]).collect();
    let index = ivf(device, Metric::L2, view(&values, 2), 100, Quantization::Int8);
    let mut sizes = index.list_sizes();
    sizes.sort_unstable();
    assert_eq!(sizes, [1; 100]);
    let found =
        index.search_with(view(&values, 2), &SearchOptions::new(3).probes(1)).expect("an answer").neighbors;
    for row in 0..100 {
        assert_eq!(bits(&found)[row], [(row as u64, 0)]);
    }
    // More probes than one workgroup sorts.
    let many: Vec<f32> = (0..1200).map(|row| row as f32).collect();
    let index = ivf(device, Metric::L2, view(&many, 1), 1200, Quantization::None);
    for probes in [1100, 1200] {
        let found = index
            .search_with(view(&many[..2], 1), &SearchOptions::new(1200).probes(probes))
            .expect("an answer")
            .neighbors;
        assert!(found.row(0).iter().map(|hit| hit.id).eq(0..probes as u64));
    }
    // Equal rows: ties go to the smaller id.
    let same = vec![2.0f32; 600 * 8];
    let index = ivf(device, Metric::Cosine, view(&same, 8), 3, Quantization::Int8);
    let found = index
        .search_with(view(&same[..80 * 8], 8), &SearchOptions::new(5).probes(3))
        .expect("an answer")
        .neighbors;
    assert!((0..80).all(|row| found.row(row).iter().map(|hit| hit.id).eq(0..5)));
}

#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn queries_may_be_more_than_are_searched_at_a_time(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let values: Vec<f32> = (0..1000).map(|row| row as f32).collect();
    let index = ivf(device, Metric::L2, view(&values, 1), 100, Quantization::None);
    let queries: Vec<f32> = (0..17_000).map(|query| (query % 1000) as f32).collect();
    let found =
        index.search_with(view(&queries, 1), &SearchOptions::new(1).probes(1)).expect("an answer").neighbors;
    assert!((0..17_000).all(|query| found.row(query)[0].id == query as u64 % 1000));
}

#[test_matrix([Adapter, Host])]
fn what_does_not_fit_is_refused(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let values = numbers(64, 8, 14);
    let index = ivf(device, Metric::L2, view(&values, 8), 4, Quantization::None);
    let one = view(&values[..8], 8);
    for (k, probes) in [(0, 1), (1, 0), (1, 5)] {
        assert!(
            matches!(
                index.search_with(one, &SearchOptions::new(k).probes(probes)),
                Err(Error::Argument { .. })
            ),
            "k {k}, {probes} probes"
        );
    }
    assert!(matches!(
        index.search_with(view(&values[..4], 4), &SearchOptions::new(1).probes(1)),
        Err(Error::Argument { argument: "queries", .. })
    ));
    let bad = [f32::INFINITY; 8];
    assert!(matches!(
        index.search_with(view(&bad, 8), &SearchOptions::new(1).probes(1)),
        Err(Error::NotFinite { row: 0, .. })
    ));
    let train = |dim, lists, sample: &[f32], width| {
        Ivf::builder(device, Metric::L2, dim).lists(lists).train(view(sample, width))
    };
    assert!(train(8, 65, &values, 8).is_err());
    assert!(train(8, 0, &values, 8).is_err());
    assert!(train(4, 2, &values, 8).is_err());
    // Nothing was added yet.
    let empty = train(8, 4, &values, 8).expect("trains");
    assert!(
        empty
            .search_with(one, &SearchOptions::new(3).probes(2))
            .expect("an answer")
            .neighbors
            .row(0)
            .is_empty()
    );
}

#[test_matrix([Adapter, Host])]
fn what_is_set_of_means_is_all_but_their_metric_and_lists(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let values = numbers(300, 8, 15);
    let train = |set: fn(KMeans<'_>) -> KMeans<'_>| {
        let builder = Ivf::builder(device, Metric::L2, 8).lists(5).kmeans(|means| set(means).seed(3));
        builder.train(view(&values, 8)).expect("trains").centroids().expect("centroids")
    };
    assert_eq!(train(|_| KMeans::new(Metric::Cosine, 9)), train(|means| means));
}

#[test_matrix([Adapter, Host])]
fn a_recall_that_is_reached_exactly_is_enough(engine: Engine) {
    let Some(device) = engine.device() else { return };
    // 55 of 100 rows are in the list of the query, and 0.55 times 100 is rounded up.
    let values: Vec<f32> =
        (0..55).map(|i| i as f32 * 0.01).chain((0..45).map(|i| 9.0 + i as f32 * 0.01)).collect();
    let index = ivf(device, Metric::L2, view(&values, 1), 2, Quantization::None);
    let queries = [0.0f32; 300];
    let probes = |count: usize, recall| {
        index.probes_for_recall(view(&queries[..count], 1), 100, recall).expect("probes")
    };
    assert_eq!([probes(300, 0.55), probes(300, 0.56)], [1, 2]);
    // Rows stand in for queries that are missing: 45 of them have 44 of their 99 neighbours in their own list.
    assert_eq!([probes(299, 0.48), probes(299, 0.55)], [1, 2]);
}

/// The budget that an error names is enough, and small.
#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn a_budget_that_an_error_asks_for_is_enough(engine: Engine) {
    for (dim, lists, count, probes) in [(768, 8, 1, 8), (8, 300, 70, 2)] {
        let Some(device) = engine.confined(u64::MAX, 8 << 20) else { return };
        let values = numbers(400, dim, 17);
        let rows = view(&values, dim);
        let file = tempfile::NamedTempFile::new().expect("a file");
        let index = ivf(&device, Metric::L2, rows, lists, Quantization::Int8);
        index.save(file.path()).expect("a saved index");
        let queries = rows.slice(0..count);
        let wanted =
            index.search_with(queries, &SearchOptions::new(3).probes(probes)).expect("an answer").neighbors;
        let (found, budget) = run_within(1 << 15, 4, |budget| {
            let device = engine.confined(u64::MAX, budget).expect("it was there");
            let options = SearchOptions::new(3).probes(probes);
            let found = Ivf::load(&device, file.path())
                .and_then(|index| Ok(index.search_with(queries, &options)?.neighbors));
            if let Err(Error::Budget { purpose, .. }) = &found {
                let is_known = purpose.starts_with("a search") || purpose.starts_with("rows on their way");
                assert!(is_known, "{purpose}");
            }
            found
        });
        assert_eq!(bits(&found), bits(&wanted));
        assert!(budget < 1 << 18, "dim {dim}, {count} queries: {budget} bytes");
    }
}

/// The budget of an index is for its searches: rows are sent under that of the device.
#[test_matrix([Adapter, Host])]
fn rows_are_added_whatever_the_budget_of_searches(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let values = numbers(400, 8, 17);
    let builder = Ivf::builder(device, Metric::L2, 8).lists(300).budget(100 << 10);
    let mut index = builder.train(view(&values, 8)).expect("trains");
    index.add(view(&values, 8)).expect("rows");
    index.update(&[7], &values[..8]).expect("another row");
    assert_eq!(
        index
            .search_with(view(&values[..8], 8), &SearchOptions::new(1).probes(2))
            .expect("an answer")
            .neighbors
            .row(0)[0]
            .id,
        0
    );
}

/// The rows of all lists together may be more than a binding has room for, or the budget: then all rows are searched as in `Flat`.
#[test]
#[ignore = "nightly"]
fn all_lists_are_probed_however_many_rows_they_have() {
    let Some(device) = with_bindings_of(1 << 17) else { return };
    let values = numbers(20_000, 4, 18);
    let rows = view(&values, 4);
    let builder = Ivf::builder(&device, Metric::L2, 4).lists(20).quantization(Quantization::None);
    let mut index = builder.kmeans(|means| means.iterations(1)).train(rows).expect("trains");
    index.add(rows).expect("rows");
    let exact = flat(&device, Metric::L2, rows, Quantization::None);
    for count in [1, 70] {
        let queries = rows.slice(0..count);
        let found =
            index.search_with(queries, &SearchOptions::new(5).probes(20)).expect("an answer").neighbors;
        assert_eq!(bits(&found), bits(&exact.search(queries, 5).expect("an answer")), "{count} queries");
        let few = [3, 77, 19_999];
        let options = SearchOptions::new(5).filter(Filter::ids(&few));
        let SearchResult { neighbors: found, .. } =
            index.search_with(queries, &options.clone().probes(20)).expect("an answer");
        let SearchResult { neighbors: wanted, .. } = exact.search_with(queries, &options).expect("an answer");
        assert_eq!(bits(&found), bits(&wanted), "{count} queries, filtered");
    }
}

/// A screen of many centroids takes more of a binding than the few rows of their lists.
#[test]
#[ignore = "nightly"]
fn queries_of_a_batch_are_no_more_than_their_centroids_have_room_for() {
    let Some(device) = with_bindings_of(1 << 22) else { return };
    let values = numbers(2500, 4, 19);
    let rows = view(&values, 4);
    let builder = Ivf::builder(&device, Metric::L2, 4).lists(2000).quantization(Quantization::Int8);
    let mut index = builder.kmeans(|means| means.iterations(1)).train(rows).expect("trains");
    index.add(rows).expect("rows");
    // More neighbours than a screen takes.
    let found = index
        .search_with(rows.slice(0..600), &SearchOptions::new(600).probes(1))
        .expect("an answer")
        .neighbors;
    let one =
        index.search_with(rows.slice(7..8), &SearchOptions::new(600).probes(1)).expect("an answer").neighbors;
    assert_eq!(bits(&found)[7], bits(&one)[0]);
}

/// Slots behind the last row of a page hold no row: those never filled and those whose row was removed.
#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn a_last_page_that_is_not_full_has_no_rows_behind_the_last(engine: Engine) {
    let Some(device) = engine.device() else { return };
    // Whichever of the two lists is the first.
    for (turn, sizes) in [[32, 5], [5, 32], [32, 37], [37, 32]].into_iter().enumerate() {
        for metric in [METRICS[turn], METRICS[(turn + 2) % 4]] {
            let at = [[1.0, 20.0], [20.0, 1.0]];
            let row = |which: usize, number: usize| {
                let [x, y]: [f32; 2] = at[which];
                [x, y, number as f32 * 0.3, 0.5]
            };
            let rows = |which: usize| (0..sizes[which]).flat_map(move |number| row(which, number % 5 + 20));
            let values: Vec<f32> = rows(0).chain(rows(1)).collect();
            let queries: Vec<f32> = (0..140).flat_map(|number| row(number % 2, number % 5)).collect();
            let mut index = ivf(device, metric, view(&values, 4), 2, Quantization::Int8);
            assert!(index.list_sizes().iter().all(|size| sizes.contains(size)), "the lists are the groups");
            // Rows that are nearer than any other come behind the last, and go.
            let near: Vec<f32> = (0..2).flat_map(|which| (0..3).flat_map(move |_| row(which, 1))).collect();
            let first = (sizes[0] + sizes[1]) as u64;
            index.add(view(&near, 4)).expect("rows");
            index.remove(&(first..first + 6).collect::<Vec<u64>>()).expect("they are there");
            let exact = flat(device, metric, view(&values, 4), Quantization::None);
            for count in [2, 140] {
                let some = view(&queries[..count * 4], 4);
                for k in [1, 3] {
                    let found = index
                        .search_with(some, &SearchOptions::new(k).probes(1))
                        .expect("an answer")
                        .neighbors;
                    let wanted = exact.search(some, k).expect("an answer");
                    assert_eq!(bits(&found), bits(&wanted), "{sizes:?}, {metric:?}, {count} queries, k {k}");
                }
            }
        }
    }
}

#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn changes_that_do_not_fit_the_budget_say_what_is_needed_and_change_nothing(engine: Engine) {
    let Some(device) = engine.device() else { return };
    // Lists find their rows one by one on the host, in next to no memory.
    if !has_kernels(device) {
        return;
    }
    let values = numbers(2000, 6, 17);
    let (rows, one) = (view(&values[..600 * 6], 6), view(&values[..6], 6));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("index.nf");
    ivf(device, Metric::L2, rows, 12, Quantization::Int8).save(&path).expect("it is saved");
    let Some(small) = engine.confined(u64::MAX, 128 << 10) else { return };
    let mut index = Ivf::load(&small, &path).expect("it is loaded");
    let mut least = 0;
    for result in [index.add(view(&values, 6)), index.add(one), index.update(&[5], &[1.0f32; 6])] {
        let Err(Error::Budget { needed, budget, .. }) = result else { panic!("{result:?}") };
        assert!(budget == 128 << 10 && needed > budget, "{needed} of {budget} bytes");
        least = needed.max(least);
    }
    // A removal needs no scratch memory.
    index.remove(&[7]).expect("it is there");
    assert!(index.len() == 599 && index.get(&[5]).expect("it is there") == values[5 * 6..6 * 6]);
    // As much as they said is enough.
    let Some(enough) = engine.confined(u64::MAX, least) else { return };
    let mut index = Ivf::load(&enough, &path).expect("it is loaded");
    index.add(view(&values, 6)).expect("rows");
    index.update(&[5], &[1.0f32; 6]).expect("a row");
    let mut fresh = Flat::builder(device, Metric::L2, 6).build().expect("an index");
    fresh.add(rows).expect("rows");
    fresh.add(view(&values, 6)).expect("rows");
    fresh.update(&[5], &[1.0f32; 6]).expect("a row");
    let found = index.search_with(one, &SearchOptions::new(9).probes(12)).expect("an answer").neighbors;
    assert_eq!(bits(&found), bits(&fresh.search(one, 9).expect("an answer")));
}
