//! Puts vectors into an index and searches it: `cargo run --release --example search`.

use nearfield::{Device, Flat, MatrixView, Metric};

fn main() -> anyhow::Result<()> {
    const DIM: usize = 64;
    let values: Vec<f32> =
        (0..500 * DIM).map(|i| (i as f32 * 0.37).sin() + (i as f32 * 0.0113).cos()).collect();
    let rows = MatrixView::new(&values, DIM)?;

    let device = Device::best()?; // NEARFIELD_ADAPTER overrides
    println!("searching on {}", device.adapter());
    let mut index = Flat::builder(&device, Metric::L2Squared, DIM).build()?;
    index.add(rows)?;

    let found = index.search(rows, 3)?;
    for (number, hits) in found.iter().enumerate() {
        anyhow::ensure!(hits[0].id == number as u64, "row {number} did not find itself first: {hits:?}");
    }
    for hit in found.row(0) {
        println!("row 0 has row {} at distance {}", hit.id, hit.distance);
    }
    Ok(())
}
