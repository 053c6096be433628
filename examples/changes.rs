//! Rows that come and go under ids, and a filter.

use nearfield::{AddOptions, Device, Flat, MatrixView, Metric, SearchOptions};

fn main() -> Result<(), nearfield::Error> {
    let mut index = Flat::builder(&Device::best()?, Metric::L2, 2).build()?;
    let rows = [0.0f32, 0.0, 3.0, 4.0, 6.0, 8.0];
    index.add_with(MatrixView::new(&rows, 2)?, &AddOptions::new().ids(&[10, 20, 30]))?;
    index.update(&[20], &[3.0f32, 5.0])?;
    index.remove(&[30])?;
    assert_eq!(index.get(&[20])?, [3.0, 5.0]);
    let allowed = [20];
    let options = SearchOptions::new(1).filter(&allowed);
    let result = index.search_with(&[0.0f32, 0.0], &options)?;
    assert_eq!(result.neighbors.ids(), [20]);
    Ok(())
}
