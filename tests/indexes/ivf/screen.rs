//! Searches of an `Ivf` with a screen: exact among the rows of the probed lists, in every way that a search can take.

use super::{ivf, numbers};
use crate::common::Engine::{self, Adapter, Host};
use crate::common::{confined, gpu, has_kernels, options};
use crate::support::{MANY_LISTS, few_iterations, flat, rows_of_many_lists};
use nearfield::{
    AddOptions, Device, ElementKind, Error, Filter, Ivf, MatrixView, Metric, Quantization, SearchOptions,
    SearchResult, Statistics,
};
use nearfield_testing::living::bits;
use nearfield_testing::{Random, rounded, view};
use test_case::test_matrix;

/// Rows in clusters of very different size.
fn clustered(rows: usize, dim: usize, clusters: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    let centres: Vec<Vec<f32>> =
        (0..clusters).map(|_| random.floats(dim).iter().map(|x| x * 3.0).collect()).collect();
    (0..rows)
        .flat_map(|_| {
            let centre = &centres[random.below(clusters).min(random.below(clusters))];
            let noise = random.floats(dim);
            centre.iter().zip(noise).map(|(&x, noise)| x + noise).collect::<Vec<f32>>()
        })
        .collect()
}

/// The places of vectors by their exact distance to one, nearest first, ties by the smaller place. L2 is ordered by its square.
fn ranked(metric: Metric, query: &[f32], vectors: MatrixView<'_, f32>) -> Vec<usize> {
    let metric = if metric == Metric::L2 { Metric::L2Squared } else { metric };
    let distance = |place: usize| metric.exact(query, vectors.row(place)) as f32;
    let mut all: Vec<(f32, usize)> = (0..vectors.rows()).map(|place| (distance(place), place)).collect();
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all.into_iter().map(|(_, place)| place).collect()
}

fn trained(device: &Device, rows: MatrixView<'_, f32>, lists: usize) -> Ivf {
    let builder =
        Ivf::builder(device, Metric::L2Squared, rows.dim()).lists(lists).quantization(Quantization::Int8);
    builder.kmeans(|means| means.iterations(3)).train(rows).expect("trains")
}

/// Compares a search with the truth in f64 among the rows of the probed lists that may be found.
fn check(
    index: &Ivf,
    rows: MatrixView<'_, f32>,
    queries: MatrixView<'_, f32>,
    options: &SearchOptions<'_>,
    may_be_found: &dyn Fn(u64) -> bool,
) {
    let (metric, centroids) = (index.metric(), index.centroids().expect("centroids"));
    let of_lists = if metric == Metric::InnerProduct { Metric::Cosine } else { metric };
    let lists = |vector: &[f32]| ranked(of_lists, vector, view(&centroids, rows.dim()));
    let list_of: Vec<usize> = (0..rows.rows()).map(|row| lists(rows.row(row))[0]).collect();
    let found = index.search_with(queries, options).expect("an answer");
    let mut scored = 0;
    for query in 0..queries.rows() {
        let lists = &lists(queries.row(query))[..options.probes.expect("probes")];
        let mut wanted = ranked(metric, queries.row(query), rows);
        wanted.retain(|&row| lists.contains(&list_of[row]) && may_be_found(row as u64));
        scored += wanted.len() as u64;
        wanted.truncate(options.k);
        let found: Vec<usize> = found.neighbors.row(query).iter().map(|hit| hit.id as usize).collect();
        assert_eq!(found, wanted, "{metric}, {} rows, query {query}, {options:?}", rows.rows());
    }
    // A filter widens the probes, and kernels count the rows of whole pages.
    let is_counted = options.filter.is_none() && !has_kernels(index.device());
    assert!(!is_counted || found.statistics.scored == scored, "{metric}, {options:?}");
}

/// Few queries a list are searched one by one, and many list by list; rows lie in several segments, some were removed.
#[test_matrix([Adapter, Host], [100 << 10])]
#[test_matrix([Adapter, Host], [u64::MAX] => ignore["nightly"])]
fn the_rows_of_probed_lists_are_found_exactly(engine: Engine, segment_bytes: u64) {
    let device = if segment_bytes == u64::MAX {
        engine.device().cloned()
    } else {
        engine.confined(segment_bytes, 64 << 20)
    };
    let Some(device) = device else { return };
    let (rows, queries) = (clustered(5000, 12, 30, 3), clustered(150, 12, 30, 3));
    let (rows, queries) = (view(&rows, 12), view(&queries, 12));
    let mut index = trained(&device, rows.slice(0..800), 40);
    // In two pieces, so that a list has pages in several segments.
    index.add(rows.slice(0..3000)).expect("rows");
    index.add(rows.slice(3000..5000)).expect("rows");
    let stays = |id: u64| id % 7 != 3;
    for removed in [false, true] {
        if removed {
            index.remove(&(0..5000).filter(|&id| !stays(id)).collect::<Vec<u64>>()).expect("they are there");
        }
        for (count, probes, k) in
            [(150, 9, 10), (4, 9, 10), (150, 20, 100), (3, 33, 65), (150, 3, 500), (9, 3, 3)]
        {
            let options = SearchOptions::new(k).probes(probes);
            check(&index, rows, queries.slice(0..count), &options, &|id| !removed || stays(id));
        }
    }
    let is_allowed = |id: u64| id % 3 == 1;
    for count in [4, 150] {
        let options = SearchOptions::new(10).probes(12).filter(Filter::by(&is_allowed));
        check(&index, rows, queries.slice(0..count), &options, &|id| stays(id) && is_allowed(id));
    }
}

/// Threads share one query among 14,000 rows; many queries are searched list by list.
#[test]
fn answers_of_the_host_in_every_metric_are_exact_among_the_rows_of_the_nearest_lists() {
    let device = Device::host();
    let mut random = Random::new(5);
    for (rows, queries, dim, lists, probes) in
        [(14_000, 1, 24, 6, 5), (900, 3, 7, 30, 2), (1500, 120, 33, 12, 5), (400, 40, 16, 9, 9)]
    {
        let mut made = |count: usize| rounded(&(0..count).map(|_| random.unit()).collect::<Vec<f32>>());
        let ((halves, values), (_, queries)) = (made(rows * dim), made(queries * dim));
        for (metric, (quantization, elements)) in Metric::ALL.into_iter().flat_map(|metric| {
            [(Quantization::None, ElementKind::F32), (Quantization::Int8, ElementKind::F16)]
                .map(|stored| (metric, stored))
        }) {
            let builder =
                Ivf::builder(&device, metric, dim).lists(lists).quantization(quantization).elements(elements);
            let mut index = builder.kmeans(few_iterations).train(view(&values, dim)).expect("trains");
            index.add(view(&halves, dim)).expect("rows");
            let options = SearchOptions::new(10).probes(probes);
            check(&index, view(&values, dim), view(&queries, dim), &options, &|_| true);
        }
    }
}

#[test]
fn a_search_takes_the_way_that_suits_its_queries() {
    let Some(device) = gpu() else { return };
    let rows = clustered(6000, 12, 30, 3);
    let mut index = trained(device, view(&rows, 12), 40);
    index.add(view(&rows, 12)).expect("rows");
    for (count, probes, way) in
        [(1, 5, "probe_slots"), (1, 39, "screen_probes"), (4, 10, "screen_probes"), (9, 9, "collect_lists")]
    {
        let options = SearchOptions::new(10).probes(probes).profile(true);
        let found = index.search_with(view(&rows[..count * 12], 12), &options).expect("an answer");
        let stages: Vec<&str> = found.statistics.stages.iter().map(|stage| stage.stage).collect();
        // Adapters without timestamps have no stages.
        assert!(stages.is_empty() || stages.contains(&way), "{count} queries, {probes} probes: {stages:?}");
    }
}

/// Thresholds come from the nearest lists, so lists of candidates have room in all rounds.
#[test]
#[ignore = "nightly"]
fn clustered_rows_overflow_no_list_at_any_number_of_probes() {
    let Some(device) = gpu() else { return };
    let dim = 24;
    let rows = clustered(9000, dim, 110, 5);
    let queries = clustered(130, dim, 110, 5);
    let mut index = trained(device, view(&rows[..1500 * dim], dim), 75);
    // By cluster, so that neighbours are inserted together.
    index.add_with(view(&rows, dim), &AddOptions::new()).expect("rows");
    for (count, probes) in [(130, 1), (130, 8), (130, 37), (130, 75), (1, 37), (5, 15)] {
        let options = SearchOptions::new(10).probes(probes);
        let SearchResult { statistics, .. } =
            index.search_with(view(&queries[..count * dim], dim), &options).expect("an answer");
        let Statistics { searched_again, refined, .. } = statistics;
        assert_eq!(searched_again, 0, "{count} queries, {probes} probes");
        assert!(refined < 600 * count as u64, "{count} queries, {probes} probes: {refined} refined");
    }
}

/// Equal rows fill every list of candidates. Such a query is searched again.
#[test_matrix([Adapter, Host])]
fn equal_rows_are_all_found_by_the_smaller_id(engine: Engine) {
    let Some(device) = engine.device() else { return };
    // More than the longer lists hold.
    let (dim, count) = (8, 17_000);
    let mut rows = clustered(2000, dim, 4, 9);
    rows.extend(vec![0.25f32; count * dim]);
    let index = {
        let mut index = trained(device, view(&rows[..2100 * dim], dim), 20);
        index.add(view(&rows, dim)).expect("rows");
        index
    };
    let queries = vec![0.25f32; 3 * dim];
    for count in [1, 3] {
        let found = index
            .search_with(view(&queries[..count * dim], dim), &SearchOptions::new(30).probes(4))
            .expect("an answer")
            .neighbors;
        (0..count).for_each(|query| assert!(found.row(query).iter().map(|hit| hit.id).eq(2000..2030)));
    }
}

/// However little memory there is, the answer is the same.
#[test]
#[ignore = "nightly"]
fn a_small_budget_changes_no_answer() {
    let Some(device) = gpu() else { return };
    let dim = 40;
    let rows = clustered(6000, dim, 20, 11);
    let queries = clustered(150, dim, 20, 11);
    let mut index = trained(device, view(&rows[..1000 * dim], dim), 50);
    index.add(view(&rows, dim)).expect("rows");
    let file = tempfile::NamedTempFile::new().expect("a file");
    index.save(file.path()).expect("a saved index");
    let searches = [(150, 10, 12), (7, 10, 12), (150, 70, 3)];
    let search = |index: &Ivf| {
        searches.map(|(count, k, probes)| {
            bits(
                &index
                    .search_with(view(&queries[..count * dim], dim), &SearchOptions::new(k).probes(probes))
                    .expect("an answer")
                    .neighbors,
            )
        })
    };
    let wanted = search(&index);
    for budget in [400 << 10, 1 << 20, 4 << 20] {
        let Some(small) = confined(u64::MAX, budget) else { return };
        let index = Ivf::load(&small, file.path()).expect("it is loaded");
        assert!(search(&index) == wanted, "{budget} bytes");
    }
}

/// With thousands of centroids, only the scores of a sample go to memory.
#[test]
#[ignore = "nightly"]
fn the_nearest_of_thousands_of_lists_are_probed() {
    let Some(device) = gpu() else { return };
    // `kmeans.rs` has the set of equal rows.
    for (number, (data, dim, rows)) in rows_of_many_lists().into_iter().take(2).enumerate() {
        let rows = view(&rows, dim);
        let builder =
            Ivf::builder(device, Metric::L2Squared, dim).lists(MANY_LISTS).quantization(Quantization::Int8);
        let mut index = builder.kmeans(|means| means.iterations(0)).train(rows).expect("trains");
        index.add(rows).expect("rows");
        // A sample is not worth it for fewer queries.
        let cases = [&[(16, 2100), (16, 1100)][..], &[(64, 2100)]];
        for &(probes, count) in cases[number] {
            let options = SearchOptions::new(5).probes(probes).profile(true);
            let found = index.search_with(rows.slice(0..count), &options).expect("an answer");
            let stages: Vec<&str> = found.statistics.stages.iter().map(|stage| stage.stage).collect();
            let is_sampled = stages.contains(&"coarse_collect");
            assert!(stages.is_empty() || is_sampled == (count > 2000), "{data}, {probes} probes: {stages:?}");
            // Few queries are compared with all centroids.
            for first in [0, 590, 1070] {
                let few = index
                    .search_with(rows.slice(first..first + 30), &SearchOptions::new(5).probes(probes))
                    .expect("an answer")
                    .neighbors;
                let wanted = bits(&few);
                let found = &bits(&found.neighbors)[first..first + 30];
                assert!(found == wanted, "{data}, {probes} probes, from query {first}");
            }
        }
    }
}

/// A search of few rows, or of a quarter of the lists, takes as long as one of all rows, and goes through all rows, whatever the batch.
#[test]
#[ignore = "nightly"]
fn a_search_of_few_rows_or_a_quarter_of_the_lists_goes_through_all_rows_and_says_so() {
    let Some(device) = Adapter.open(options().exact_if_faster(true)) else { return };
    let dim = 4;
    let rows = clustered(1 << 13, dim, 50, 13);
    let rows = view(&rows, dim);
    let exact = flat(&device, Metric::L2Squared, rows, Quantization::Int8);
    let mut index = trained(&device, rows.slice(0..1000), 16);
    index.add(rows.slice(0..rows.rows() - 1)).expect("rows");
    let searched = |index: &Ivf, count: usize, probes: usize| {
        let options = SearchOptions::new(5).probes(probes);
        let found = index.search_with(rows.slice(0..count), &options).expect("an answer");
        (bits(&found.neighbors), found.statistics.searched_flat)
    };
    assert_eq!(searched(&index, 3, 1).1, 3, "one row less");
    index.add(rows.slice(rows.rows() - 1..rows.rows())).expect("a row");
    for count in [1, 70] {
        assert_eq!(searched(&index, count, 3).1, 0);
        let wanted = bits(&exact.search(rows.slice(0..count), 5).expect("an answer"));
        for probes in [4, 16] {
            assert_eq!(searched(&index, count, probes), (wanted.clone(), count as u64), "{probes} probes");
        }
    }
    let probes = index.probes_for_recall(rows.slice(0..200), 5, 1.0).expect("probes");
    assert!(probes <= 4, "{probes} probes: a quarter finds all");

    let mut by_lists = trained(gpu().expect("the same adapter"), rows.slice(0..1000), 16);
    by_lists.add(rows).expect("rows");
    assert_eq!(searched(&by_lists, 70, 16).1, 0, "told to search lists");
}

#[test]
#[ignore = "nightly"]
fn a_query_that_is_refused_has_its_number_wherever_it_lies_in_a_batch() {
    let Some(device) = gpu() else { return };
    let rows = clustered(5200, 12, 30, 3);
    let few = view(&rows[..1000 * 12], 12);
    let mut index = trained(device, few, 40);
    index.add(few).expect("rows");
    // The lists of 2,560 queries are found at a time.
    for bad in [&[2559][..], &[5121, 4000]] {
        let mut queries = rows.clone();
        bad.iter().for_each(|&row| queries[row * 12 + 5] = f32::NAN);
        let first = bad.iter().min().map(|&row| row as u64);
        let refused = index.search_with(view(&queries, 12), &SearchOptions::new(5).probes(2));
        assert!(
            matches!(refused, Err(Error::NotFinite { row, .. }) if Some(row) == first),
            "{bad:?}: {refused:?}"
        );
    }
}

/// Many queries share copies of the rows that a filter allows in each list; one query passes over groups of 16 without such a row.
#[test_matrix([Quantization::None, Quantization::Int8])]
fn the_work_in_lists_on_the_host_falls_with_the_rows_allowed(quantization: Quantization) {
    let Some(device) = Host.device() else { return };
    let (values, asked) = (numbers(6000, 16, 5), numbers(60, 16, 6));
    let index = ivf(device, Metric::L2Squared, view(&values, 16), 40, quantization);
    let search = |queries: MatrixView<'_, f32>, filter: Option<Filter<'_>>| {
        let mut options = SearchOptions::new(10).probes(8);
        options.filter = filter;
        index.search_with(queries, &options).expect("an answer")
    };
    let all = search(view(&asked, 16), None).statistics.scored;
    for every in [3, 10, 100, 1999] {
        let allowed = |id: u64| id.is_multiple_of(every);
        let found = search(view(&asked, 16), Some(Filter::by(&allowed)));
        // Few rows in the probed lists make queries probe more of them.
        let most = if every > 10 { all } else { all * 3 / (2 * every) };
        assert!(found.statistics.scored <= most, "{every}: {} of {all}", found.statistics.scored);
        for (query, vector) in asked.chunks(16).enumerate() {
            let alone = search(view(vector, 16), Some(Filter::by(&allowed)));
            assert_eq!(found.neighbors.row(query), alone.neighbors.row(0), "{every}, query {query}");
        }
    }
}
