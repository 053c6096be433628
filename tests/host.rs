//! The host engine, held against f64.

use nearfield::{Device, Flat, MatrixView, Metric, Screen};

#[test]
fn nearest_rows_are_those_of_f64() {
    let device = Device::host();
    let mut random = fastrand::Rng::with_seed(3);
    for (rows, queries, dim) in [(1, 1, 1), (17, 3, 5), (1000, 7, 33), (5000, 130, 24), (3000, 1, 384)] {
        let mut numbers = |count: usize| (0..count * dim).map(|_| random.f32() * 2.0 - 1.0).collect::<Vec<f32>>();
        let (base, wanted) = (numbers(rows), numbers(queries));
        let (base, wanted) = (MatrixView::new(&base, dim).unwrap(), MatrixView::new(&wanted, dim).unwrap());
        for metric in Metric::ALL {
            for screen in [Screen::None, Screen::I8] {
                let mut index = Flat::builder(&device, metric, dim).screen(screen).build().unwrap();
                index.add(base).unwrap();
                let found = index.search(wanted, 10).unwrap();
                for query in 0..queries {
                    let mut truth: Vec<(f32, u64)> = (0..rows)
                        .map(|row| (metric.exact(wanted.row(query), base.row(row)) as f32, row as u64))
                        .collect();
                    truth.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                    truth.truncate(10);
                    let ids: Vec<u64> = found.row(query).iter().map(|hit| hit.id).collect();
                    let expected: Vec<u64> = truth.iter().map(|hit| hit.1).collect();
                    assert_eq!(ids, expected, "{metric} {screen:?} {rows} {query}");
                }
            }
        }
    }
}
