//! Lists of rows, and a search for a recall: the guide shows this.

use nearfield::{Device, Ivf, MatrixView, Metric, SearchOptions};

fn main() -> Result<(), nearfield::Error> {
    let rows: Vec<f32> = (0..2000 * 64).map(|i| (i as f32 * 0.37).sin()).collect();
    let rows = MatrixView::new(&rows, 64)?;
    let device = Device::best()?;
    let mut index = Ivf::builder(&device, Metric::Cosine, 64).lists(32).train(rows)?;
    index.add(rows)?;
    let found = index.search_with(rows.slice(0..100), &SearchOptions::new(10).recall(0.95))?.neighbors;
    assert_eq!(found.row(0)[0].id, 0, "a row is its own nearest neighbour");
    Ok(())
}
