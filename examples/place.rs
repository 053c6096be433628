//! Rows that the host keeps, and rows of a file: `cargo run --release --example place`.

use nearfield::{Device, Flat, MatrixView, Metric, Residency};

fn main() -> Result<(), nearfield::Error> {
    let device = Device::best()?;
    let rows: Vec<f32> = (0..5000 * 64).map(|i| (i as f32 * 0.37).sin()).collect();
    let rows = MatrixView::new(&rows, 64)?;
    let mut index = Flat::builder(&device, Metric::L2, 64).residency(Residency::Host).build()?;
    index.add(rows)?;
    let path = std::env::temp_dir().join("nearfield example place.nf");
    index.save(&path)?;
    let mapped = Flat::builder(&device, Metric::L2, 64).mapped(path.clone()).build()?;
    println!("{}\n{}", index.memory(), mapped.memory());
    assert_eq!(mapped.memory().at(Residency::Mapped), 5000 * 64 * 4);
    let queries = rows.slice(0..10);
    assert_eq!(index.search(queries, 5)?, mapped.search(queries, 5)?);
    drop(mapped);
    std::fs::remove_file(&path).map_err(|cause| nearfield::Error::Io { path, cause })
}
