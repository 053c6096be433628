use nearfield::*;
fn lcg(n: usize, seed: u64, ints: bool) -> Vec<f32> {
    let mut s = seed;
    (0..n)
        .map(|_| {
            s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let v = (s >> 33) as f32 / (1u64 << 31) as f32;
            if ints { (v * 9.0).floor() - 4.0 } else { v * 2.0 - 1.0 }
        })
        .collect()
}
fn brute(metric: Metric, q: &[f32], rows: MatrixView<f32>, k: usize) -> Vec<(f64, u64)> {
    let mut all: Vec<(f64, u64)> =
        (0..rows.rows()).map(|r| (metric.exact(q, rows.row(r)), r as u64)).collect();
    all.sort_by(|a, b| a.partial_cmp(b).unwrap());
    all.truncate(k);
    all
}
#[test]
fn smoke() {
    for subgroups in [true, false] {
        let mut o = DeviceOptions::default();
        o.subgroups = subgroups;
        let device = Device::open(None, o).unwrap();
        println!("{}", device.adapter());
        for (n, dim, nq, k) in [
            (300, 5, 3, 10),
            (9000, 17, 3, 10),
            (9000, 24, 40, 10),
            (9000, 3, 40, 100),
            (6000, 384, 17, 5),
            (9000, 8, 3, 3000),
        ] {
            let rows = lcg(n * dim, 1, true);
            let queries = lcg(nq * dim, 2, true);
            let rv = MatrixView::new(&rows, dim).unwrap();
            let qv = MatrixView::new(&queries, dim).unwrap();
            for metric in Metric::ALL {
                let mut f = Flat::builder(&device, metric, dim).build().unwrap();
                f.add(rv).unwrap();
                let t = std::time::Instant::now();
                let (found, stats) = f.search_with(qv, &SearchOptions::new(k).profile(true)).unwrap();
                println!(
                    "{n}x{dim} q{nq} k{k} {metric} {:?} {} again {} rescored {}",
                    t.elapsed(),
                    f.plan(nq, k).unwrap(),
                    stats.searched_again,
                    stats.rescored
                );
                for s in stats.stages {
                    println!("   {:?}", s);
                }
                for q in 0..nq {
                    let want = brute(metric, qv.row(q), rv, k);
                    let got = found.row(q);
                    assert_eq!(got.len(), want.len());
                    for (g, w) in got.iter().zip(&want) {
                        if matches!(metric, Metric::L2Squared | Metric::InnerProduct) {
                            assert_eq!((g.id, g.distance as f64), (w.1, w.0));
                        } else {
                            assert!((g.distance as f64 - w.0).abs() < 1e-5, "{g:?} {w:?}");
                        }
                    }
                }
            }
        }
    }
}
