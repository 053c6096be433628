//! `KMeans` and `Ivf` on the host engine, held against f64.

use nearfield::{Device, ElementKind, Ivf, KMeans, MatrixView, Metric, Screen, SearchOptions};

fn numbers(random: &mut fastrand::Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| half::f16::from_f32(random.f32() * 2.0 - 1.0).to_f32()).collect()
}

/// The places of vectors by their exact distance to one, nearest first, ties by the smaller place.
fn ranked(metric: Metric, query: &[f32], vectors: MatrixView<'_, f32>) -> Vec<(f32, usize)> {
    let mut all: Vec<(f32, usize)> =
        (0..vectors.rows()).map(|row| (metric.exact(query, vectors.row(row)) as f32, row)).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all
}

#[test]
fn answers_are_exact_among_the_rows_of_the_nearest_lists() {
    let device = Device::host();
    let mut random = fastrand::Rng::with_seed(5);
    // One query among so many rows is shared out, and many queries are searched list by list.
    for (rows, queries, dim, lists, probes) in
        [(14_000, 1, 24, 6, 5), (900, 3, 7, 30, 2), (1500, 120, 33, 12, 5), (400, 40, 16, 9, 9)]
    {
        let (values, wanted) = (numbers(&mut random, rows * dim), numbers(&mut random, queries * dim));
        let halves: Vec<half::f16> = values.iter().map(|&x| half::f16::from_f32(x)).collect();
        let base = MatrixView::new(&values, dim).expect("rows");
        let wanted = MatrixView::new(&wanted, dim).expect("queries");
        for metric in Metric::ALL {
            for (screen, elements) in [(Screen::None, ElementKind::F32), (Screen::I8, ElementKind::F16)] {
                let builder =
                    Ivf::builder(&device, metric, dim).lists(lists).screen(screen).elements(elements);
                let mut index = builder.train(base).expect("trains");
                index.add(MatrixView::new(&halves, dim).expect("rows")).expect("rows");
                let centroids = index.centroids().expect("centroids");
                let of_centroids = match metric {
                    Metric::InnerProduct => Metric::Cosine,
                    Metric::L2 => Metric::L2Squared,
                    other => other,
                };
                let centroids = MatrixView::new(&centroids, dim).expect("centroids");
                let nearest = |vector: &[f32]| ranked(of_centroids, vector, centroids);
                let list_of: Vec<usize> = (0..rows).map(|row| nearest(base.row(row))[0].1).collect();
                let (found, statistics) =
                    index.search_with(wanted, &SearchOptions::new(10).probes(probes)).expect("an answer");
                let mut scored = 0;
                for query in 0..queries {
                    let probed: Vec<usize> =
                        nearest(wanted.row(query))[..probes].iter().map(|list| list.1).collect();
                    let mut truth = ranked(metric, wanted.row(query), base);
                    truth.retain(|&(_, row)| probed.contains(&list_of[row]));
                    scored += truth.len() as u64;
                    let ids: Vec<usize> = found.row(query).iter().map(|hit| hit.id as usize).collect();
                    let expected: Vec<usize> = truth.iter().take(10).map(|hit| hit.1).collect();
                    assert_eq!(ids, expected, "{metric} {screen:?} {rows} rows, query {query}");
                }
                assert_eq!(statistics.scored, scored, "{metric} {screen:?} {rows} rows");
            }
        }
    }
}

/// Of k-means++ each seed is held against the nearest so far alone.
#[test]
fn rows_are_assigned_to_the_nearest_of_all_seeds() {
    let device = Device::host();
    let mut random = fastrand::Rng::with_seed(6);
    let dim = 20;
    let mut values = numbers(&mut random, 300 * dim);
    // Half of the rows come twice, so that distances tie.
    values.extend_from_within(..150 * dim);
    let rows = MatrixView::new(&values, dim).expect("rows");
    for metric in [Metric::L2Squared, Metric::Cosine] {
        let clusters = KMeans::new(metric, 200).iterations(0).train(&device, rows).expect("trains");
        let centroids = MatrixView::new(&clusters.centroids, dim).expect("centroids");
        for (row, &list) in clusters.assignments.iter().enumerate() {
            let nearest = ranked(metric, rows.row(row), centroids)[0];
            assert_eq!(list as usize, nearest.1, "{metric}, row {row}");
        }
    }
}
