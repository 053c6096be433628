//! A filtered search answers like an index of the allowed rows alone, for any share of allowed rows.

use crate::common::Engine::{self, Adapter, Host};
use crate::support::{flat, flat_with_ids};
use nearfield::{
    Device, Error, Filter, Flat, MatrixView, Metric, Neighbor, Neighbors, Quantization, SearchOptions,
    SearchResult,
};
use nearfield_testing::{Random, view};
use test_case::test_matrix;

const DIM: usize = 16;

/// A bit an id, for those that are allowed.
fn bits(ids: &[u64]) -> Vec<u64> {
    let mut words = vec![0; ids.iter().max().map_or(0, |id| *id as usize / 64 + 1)];
    ids.iter().for_each(|id| words[*id as usize / 64] |= 1 << (id % 64));
    words
}

fn filled(
    device: &Device,
    metric: Metric,
    quantization: Quantization,
    rows: &[f32],
    ids: Option<&[u64]>,
) -> Flat {
    match ids {
        Some(ids) => flat_with_ids(device, metric, view(rows, DIM), quantization, ids),
        None => flat(device, metric, view(rows, DIM), quantization),
    }
}

/// An index of those rows alone.
fn alone(device: &Device, metric: Metric, rows: &[f32], ids: &[u64], allowed: impl Fn(u64) -> bool) -> Flat {
    let kept = || ids.iter().zip(rows.chunks_exact(DIM)).filter(|(id, _)| allowed(**id));
    let kept_ids: Vec<u64> = kept().map(|(id, _)| *id).collect();
    let kept_rows: Vec<f32> = kept().flat_map(|(_, row)| row.iter().copied()).collect();
    filled(device, metric, Quantization::None, &kept_rows, Some(&kept_ids))
}

fn found(index: &Flat, queries: MatrixView<'_, f32>, k: usize, filter: Filter<'_>) -> Neighbors {
    index.search_with(queries, &SearchOptions::new(k).filter(filter)).expect("an answer").neighbors
}

/// From none to all, as the number of rows in ten thousand.
const SHARES: [u64; 9] = [0, 1, 10, 100, 200, 700, 1000, 5000, 10_000];

/// Whether an id belongs to a share, in ten-thousandths, in no order.
fn is_in(share: u64, id: u64) -> bool {
    id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20 < (share << 44) / 10_000
}

/// Searches an index under every share of allowed rows; `queries` are pairs of a number of queries and a k.
fn every_share(
    device: &Device,
    metric: Metric,
    quantization: Quantization,
    rows: usize,
    queries: &[(usize, usize)],
) {
    let mut random = Random::new(0xf117 ^ rows as u64);
    let values = random.integers(rows * DIM, 3);
    let asked = random.integers(40 * DIM, 3);
    let ids: Vec<u64> = (0..rows as u64).collect();
    let index = filled(device, metric, quantization, &values, None);
    for share in SHARES {
        let allowed = |id: u64| is_in(share, id);
        let mut listed: Vec<u64> = ids.iter().copied().filter(|id| allowed(*id)).collect();
        let words = bits(&listed);
        // In any order, one of them twice, and some that no row has.
        listed.reverse();
        listed.extend(listed.first().copied());
        listed.extend([1 << 40, rows as u64]);
        let fresh = alone(device, metric, &values, &ids, allowed);
        for &(count, k) in queries {
            let queries = view(&asked[..count * DIM], DIM);
            let want = fresh.search(queries, k).expect("an answer");
            let said = format!("{metric}, {quantization:?}, {share} of 10,000, {count} queries, k {k}");
            assert_eq!(found(&index, queries, k, Filter::bits(&words)), want, "{said}: bits");
            if count == 3 {
                assert_eq!(found(&index, queries, k, Filter::by(&allowed)), want, "{said}: by");
                assert_eq!(found(&index, queries, k, Filter::ids(&listed)), want, "{said}: ids");
                let near = want.row(0).last().map_or(65.0, |hit| hit.distance);
                for radius in [near, f32::INFINITY] {
                    let want = fresh
                        .search_with(queries, &SearchOptions::within(radius))
                        .expect("an answer")
                        .neighbors;
                    let options = SearchOptions::within(radius).filter(Filter::by(&allowed));
                    let within = index.search_with(queries, &options).expect("an answer");
                    assert_eq!(within.neighbors, want, "{said}: within {radius}");
                }
            }
            assert!(want.iter().all(|row| row.len() == k.min(fresh.len())), "{said}");
        }
    }
}

#[test_matrix([Adapter, Host])]
fn every_share_is_searched_as_if_alone(engine: Engine) {
    let Some(device) = engine.device() else { return };
    every_share(device, Metric::L2Squared, Quantization::None, 10_000, &[(3, 10), (40, 10), (1, 600)]);
    every_share(
        device,
        Metric::InnerProduct,
        Quantization::Int8,
        10_000,
        &[(1, 1), (3, 10), (33, 25), (1, 600)],
    );
    every_share(device, Metric::Cosine, Quantization::Int8, 6000, &[(5, 10), (40, 3)]);
}

#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn every_share_of_rows_in_many_segments_is_searched_in_many_chunks(engine: Engine) {
    // 256 rows a segment, and scratch for few of them.
    let Some(device) = engine.confined(256 * 64, 1 << 20) else { return };
    every_share(&device, Metric::L2Squared, Quantization::None, 2500, &[(3, 10)]);
    every_share(&device, Metric::L2Squared, Quantization::Int8, 2500, &[(3, 10), (40, 4)]);
}

#[test_matrix([Adapter, Host])]
fn k_may_be_anything_under_a_filter(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(0x6b);
    let values = random.integers(9000 * DIM, 20);
    let asked = random.integers(2 * DIM, 20);
    let ids: Vec<u64> = (0..9000).collect();
    let index = filled(device, Metric::L2, Quantization::Int8, &values, None);
    for share in [100, 3000, 9000] {
        let allowed = |id: u64| is_in(share, id);
        let fresh = alone(device, Metric::L2, &values, &ids, allowed);
        for k in [1, 80, 1024, 1025, 2600, 9000, usize::MAX] {
            let queries = view(&asked, DIM);
            let want = fresh.search(queries, k).expect("an answer");
            assert_eq!(found(&index, queries, k, Filter::by(&allowed)), want, "{share} of 10,000, k {k}");
        }
        let error = index.search_with(view(&asked, DIM), &SearchOptions::new(0).filter(Filter::by(&allowed)));
        assert!(matches!(error, Err(Error::Argument { argument: "k", .. })));
    }
}

#[test_matrix([Adapter, Host])]
fn rows_removed_from_insertion_numbers_are_not_found_by_bits(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let values = Random::new(3).integers(6000 * DIM, 2);
    let mut index = filled(device, Metric::L2Squared, Quantization::None, &values, None);
    index.remove(&[0, 31, 32, 64, 5999, 5998]).expect("they are there");
    let all = vec![u64::MAX; 200];
    let few = [1 | 1 << 31 | 1 << 33];
    for (words, count) in [(&all[..], 5994), (&few[..], 1)] {
        for queries in [1, 3] {
            let queries = view(&values[..queries * DIM], DIM);
            let answer = found(&index, queries, 6000, Filter::bits(words));
            assert!(answer.iter().all(|row| row.len() == count), "{count} rows");
            let allowed =
                |id: u64| words.get(id as usize / 64).is_some_and(|word| word >> (id % 64) & 1 == 1);
            assert_eq!(answer, found(&index, queries, 6000, Filter::by(&allowed)));
        }
    }
}

/// Filters under which the sample of a threshold holds no row that is allowed, or all of those that tie.
#[test_matrix([Host])]
#[test_matrix([Adapter] => ignore["nightly"])]
fn filters_that_go_with_the_order_of_rows_are_answered_right(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let rows = 20_000;
    // Sorted by their distance from the queries; half of them are equal.
    let values: Vec<f32> = (0..rows)
        .flat_map(|row| [(row.max(10_000) / 64) as f32, 0.0].into_iter().cycle().take(DIM))
        .collect();
    let ids: Vec<u64> = (0..rows as u64).map(|row| 100_000 - row).collect();
    let indexes = [Quantization::None, Quantization::Int8]
        .map(|quantization| filled(device, Metric::L2Squared, quantization, &values, Some(&ids)));
    let filters: [&(dyn Fn(u64) -> bool + Sync + Send); 4] =
        [&|id| id < 100_000 - 17_000, &|id| id > 100_000 - 10_000, &|id| (id / 128) % 2 == 0, &|id| {
            id % 4 == 1
        }];
    for (number, allowed) in filters.iter().enumerate() {
        let fresh = alone(device, Metric::L2Squared, &values, &ids, allowed);
        for count in [2, 34] {
            let queries: Vec<f32> = (0..count * DIM).map(|i| (i % 5) as f32).collect();
            let want = fresh.search(view(&queries, DIM), 10).expect("an answer");
            for index in &indexes {
                let answer = found(index, view(&queries, DIM), 10, Filter::by(allowed));
                assert_eq!(answer, want, "{:?}, filter {number}, {count} queries", index.is_quantized());
            }
        }
    }
}

/// Filters that allow neighbouring rows, as those of a tenant or of a day are: most blocks have none of them.
#[test_matrix([Adapter, Host])]
fn filters_of_neighbouring_rows_leave_blocks_out(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let rows = 3000;
    let (values, ids) = (Random::new(21).floats(rows * DIM), (0..rows as u64).collect::<Vec<_>>());
    let index = filled(device, Metric::Cosine, Quantization::Int8, &values, None);
    let filters: [&(dyn Fn(u64) -> bool + Sync + Send); 4] =
        [&|id| (300..1000).contains(&id), &|id| id >= 2999, &|id| (id / 128) % 2 == 1, &|id| {
            [127, 128, 1500].contains(&id)
        }];
    for (number, allowed) in filters.iter().enumerate() {
        let fresh = alone(device, Metric::Cosine, &values, &ids, allowed);
        for count in [1, 3, 40] {
            let queries = Random::new(number as u64).floats(count * DIM);
            let want = fresh.search(view(&queries, DIM), 10).expect("an answer");
            let answer = found(&index, view(&queries, DIM), 10, Filter::by(allowed));
            assert_eq!(answer, want, "filter {number}, {count} queries");
        }
    }
}

/// Fewer than k blocks of a sample have allowed rows, so that it gives no threshold by its best ones.
#[test]
fn a_filter_of_neighbouring_rows_fills_no_lists() {
    let Some(device) = Adapter.device() else { return };
    // More than a list holds.
    let (rows, allowed) = (150_000, |id: u64| (70_000..103_500).contains(&id));
    let (values, queries) = (Random::new(22).floats(rows * DIM), Random::new(23).floats(40 * DIM));
    let index = filled(device, Metric::Cosine, Quantization::Int8, &values, None);
    let (queries, options) = (view(&queries, DIM), SearchOptions::new(18));
    let found = index.search_with(queries, &options.filter(Filter::by(&allowed))).expect("an answer");
    assert_eq!(found.statistics.searched_again, 0);
    let ids: Vec<u64> = (0..rows as u64).collect();
    let fresh = alone(device, Metric::Cosine, &values, &ids, allowed);
    assert_eq!(found.neighbors, fresh.search(queries, 18).expect("an answer"));
}

#[test_matrix([Adapter, Host])]
fn a_filter_that_allows_few_rows_looks_at_no_others(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let group = if engine == Host { 16 } else { 1 };
    let values = Random::new(4).floats(10_000 * DIM);
    for quantization in [Quantization::None, Quantization::Int8] {
        let index = filled(device, Metric::L2Squared, quantization, &values, None);
        for (count, every) in [(1, 10_000), (32, 10_000), (40, 1000), (3, 100)] {
            let queries = view(&values[..count * DIM], DIM);
            let few = |id: u64| id.is_multiple_of(every);
            let scored = |options: &SearchOptions<'_>| {
                index.search_with(queries, options).expect("an answer").statistics.scored
            };
            let count = count as u64;
            assert_eq!(scored(&SearchOptions::new(2)), count * 10_000);
            let options = SearchOptions::new(2).filter(Filter::by(&few));
            // The host scores groups of 16 rows where they lie for few queries.
            let rows = 10_000 / every;
            let is_near = |scored: u64| (count * rows..=count * rows * group).contains(&scored);
            assert!(is_near(scored(&options)), "{count} queries, {rows} rows: {}", scored(&options));
            let within = SearchOptions::within(9.0).filter(Filter::by(&few));
            let SearchResult { statistics, .. } = index.search_with(queries, &within).expect("an answer");
            assert!(is_near(statistics.scored), "{count} queries, {rows} rows: {}", statistics.scored);
            assert_eq!((statistics.searched_again, statistics.searched_exhaustively), (0, 0));
            // Those that are not allowed are few.
            let many = |id: u64| !id.is_multiple_of(4);
            assert_eq!(scored(&SearchOptions::new(2).filter(Filter::by(&many))), count * 10_000);
        }
    }
}

#[test_matrix([Adapter, Host])]
fn eight_threads_have_filters_of_their_own(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let mut random = Random::new(0x8);
    let (values, asked) = (random.integers(9000 * DIM, 3), random.integers(20 * DIM, 3));
    // Also with little scratch memory, so that they wait for each other.
    for budget in [device.options().budget_bytes, 3 << 20] {
        let builder =
            Flat::builder(device, Metric::L2Squared, DIM).quantization(Quantization::Int8).budget(budget);
        let mut index = builder.build().expect("an index");
        index.add(view(&values, DIM)).expect("good rows");
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let (index, asked) = (&index, &asked);
                scope.spawn(move || {
                    let allowed = |id: u64| id % 8 == thread && (thread != 3 || id % 1024 == 3);
                    let answer = found(index, view(asked, DIM), 30, Filter::by(&allowed));
                    let few = if thread == 3 { 9 } else { 30 };
                    let is_right =
                        |row: &[Neighbor]| row.len() == few && row.iter().all(|hit| allowed(hit.id));
                    assert!(answer.iter().all(is_right));
                });
            }
        });
    }
}

/// The more rows a filter excludes, the less the host has to do: many queries score the allowed rows alone, few score groups of 16 where they lie.
#[test_matrix([Quantization::None, Quantization::Int8], [1, 4, 64])]
fn the_work_of_a_filtered_search_on_the_host_falls_with_the_rows_allowed(
    quantization: Quantization,
    count: usize,
) {
    let Some(device) = Host.device() else { return };
    let mut random = Random::new(0x3a11);
    let (values, asked) = (random.floats(20_000 * DIM), random.floats(count * DIM));
    let index = flat(device, Metric::L2Squared, view(&values, DIM), quantization);
    let statistics = |options: &SearchOptions<'_>| {
        index.search_with(view(&asked, DIM), options).expect("an answer").statistics
    };
    let all = statistics(&SearchOptions::new(10));
    let are_gathered = quantization == Quantization::None || count >= 8;
    for share in [100, 500, 2000, 4000, 10_000] {
        let neighbours = 777..777 + share * 19_000 / 10_000;
        for listed in [(0..20_000).filter(|&id| is_in(share, id)).collect(), neighbours.collect::<Vec<u64>>()]
        {
            let mut groups: Vec<u64> = listed.iter().map(|id| id / 16).collect();
            groups.dedup();
            let is_few = if count < 8 { 4 } else { 2 } * listed.len() <= 20_000;
            // One query computes the distances of rows that are alone in their groups.
            let are_alone = !are_gathered && 2 * count * listed.len() < 3 * groups.len();
            let takes_rows = are_gathered && is_few || are_alone;
            let each = if takes_rows { listed.len() } else { 16 * groups.len() };
            let some = statistics(&SearchOptions::new(10).filter(&listed));
            assert_eq!(some.scored, (count * each) as u64, "{share}");
            let few = if are_alone { some.scored } else { all.refined * 2 };
            assert!(some.refined <= few, "{share}: {} of {}", some.refined, all.refined);
        }
    }
}

/// Many queries of a GPU screen copies of the allowed rows alone.
#[test_matrix([Adapter, Host])]
fn many_queries_score_the_allowed_rows_alone(engine: Engine) {
    // In one segment, and in several.
    let devices = [engine.device().cloned(), engine.confined(4096 * 64, 64 << 20)];
    for device in devices.iter().flatten() {
        let mut random = Random::new(0x6a7e);
        let (values, asked) = (random.integers(20_000 * DIM, 6), random.integers(520 * DIM, 6));
        let ids: Vec<u64> = (0..20_000).collect();
        for metric in [Metric::L2, Metric::Cosine] {
            let mut index = filled(device, metric, Quantization::Int8, &values, None);
            let removed = |id: u64| id % 7 == 3;
            for share in [1000, 2000] {
                let kept = |id: u64| is_in(share, id) && (index.len() == 20_000 || !removed(id));
                let fresh = alone(device, metric, &values, &ids, kept);
                let (queries, options) = (view(&asked, DIM), SearchOptions::new(10));
                let allowed = |id: u64| is_in(share, id);
                let found =
                    index.search_with(queries, &options.filter(Filter::by(&allowed))).expect("an answer");
                let said = format!("{metric}, {share} of 10,000, {} rows", index.len());
                assert_eq!(found.neighbors, fresh.search(queries, 10).expect("an answer"), "{said}");
                let again = found.statistics.searched_again * 20_000;
                assert_eq!(found.statistics.scored, 520 * fresh.len() as u64 + again, "{said}");
                if index.len() == 20_000 {
                    index
                        .remove(&ids.iter().copied().filter(|&id| removed(id)).collect::<Vec<_>>())
                        .expect("they are there");
                }
            }
        }
    }
}
