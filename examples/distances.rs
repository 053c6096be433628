//! All distances between two sets of vectors, and the nearest rows without an index.

use nearfield::{Device, DistanceOptions, MatrixView, Metric, Precision};

fn main() -> Result<(), nearfield::Error> {
    let device = Device::best()?;
    let rows = device.upload(MatrixView::new(&[0.0f32, 0.0, 3.0, 4.0, 6.0, 8.0], 2)?)?;
    let queries = device.upload(MatrixView::new(&[0.0f32, 0.0, 6.0, 4.0], 2)?)?;
    let options = DistanceOptions::new(Metric::L2);
    let mut distances = device.distances_with(&queries, &rows, options)?;
    assert_eq!(device.read(&distances)?[..3], [0.0, 5.0, 10.0]);
    device.distances_into(&queries, &rows, options.precision(Precision::Compensated), &mut distances)?;
    assert_eq!(device.top_k(&distances, 1)?.row(1)[0].distance, 3.0);
    let nearest = device.nearest(&queries, &rows, Metric::L2, 2)?;
    assert_eq!(nearest.row(0).iter().map(|hit| hit.id).collect::<Vec<_>>(), [0, 1]);
    Ok(())
}
