use nearfield::{Device, Flat, MatrixView, Metric, Screen};
use std::time::Instant;
fn main() {
    let (n, dim) = (50_000, 384);
    let bytes = std::fs::read("/work/shared/data/base.f16.npy").unwrap();
    let f16s = |bytes: &[u8], count: usize| -> Vec<f32> {
        let data = &bytes[bytes.len() - count * 2..];
        data.chunks_exact(2).map(|b| half::f16::from_le_bytes([b[0], b[1]]).to_f32()).collect()
    };
    let rows = f16s(&bytes, n * dim);
    let bytes = std::fs::read("/work/shared/data/query.f16.npy").unwrap();
    let queries = f16s(&bytes, 1000 * dim);
    let (rows, queries) = (MatrixView::new(&rows, dim).unwrap(), MatrixView::new(&queries, dim).unwrap());
    let device = Device::host();
    for metric in [Metric::L2Squared, Metric::Cosine] {
    for screen in [Screen::I8, Screen::None] {
        let started = Instant::now();
        let mut index = Flat::builder(&device, metric, dim).screen(screen).build().unwrap();
        index.add(rows).unwrap();
        println!("{metric} {screen:?} add {:?}", started.elapsed());
        for count in [1, 10, 100, 1000] {
            let mut best = f64::MAX;
            let mut rescored = 0;
            let started = Instant::now();
            let mut runs = 0;
            while started.elapsed().as_secs_f64() < 1.0 {
                let started = Instant::now();
                let part = queries.slice(runs % (1000 / count) * count..(runs % (1000 / count) + 1) * count);
                runs += 1;
                let found = index.search_with(part, &nearfield::SearchOptions::new(10)).unwrap();
                rescored = found.1.rescored;
                best = best.min(started.elapsed().as_secs_f64());
            }
            println!("{count} queries: best {:.3} ms, {:.0} QPS, rescored {}", best * 1e3, count as f64 / best, rescored as f64 / count as f64);
        }
    }
    }
}
