//! The README's example: `cargo run --release --example search`.

use nearfield::{Device, Flat, MatrixView, Metric};

fn main() -> Result<(), nearfield::Error> {
    let rows: Vec<f32> = (0..1000 * 384).map(|i| (i as f32 * 0.37).sin()).collect();
    let device = Device::best()?; // NEARFIELD_ADAPTER overrides
    let mut index = Flat::builder(&device, Metric::Cosine, 384).build()?;
    index.add(MatrixView::new(&rows, 384)?)?;
    let found = index.search(MatrixView::new(&rows[..384], 384)?, 10)?;
    for hit in found.row(0) {
        println!("{} {}", hit.id, hit.distance);
    }
    assert_eq!(found.row(0)[0].id, 0, "a row is its own nearest neighbour");
    Ok(())
}
