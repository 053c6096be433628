//! Sums, norms and extremes on the device: the guide shows this.

use nearfield::{Device, MatrixView, Norm};

fn main() -> Result<(), nearfield::Error> {
    let device = Device::best()?;
    let values = device.upload_vector(&[3.0f32, -4.0, 0.5])?;
    assert_eq!(device.reduce().sum(&values)?, -0.5);
    assert_eq!(device.reduce().argmin(&values)?, 1);
    assert_eq!(device.reduce().norm(&[3.0, -4.0], Norm::L2)?, 5.0);
    assert_eq!(device.reduce().standard_deviation(&[9_999_999.0, 10_000_001.0])?, 1.0);
    assert_eq!(device.reduce().max_rows(MatrixView::new(&[1.0f32, 2.0, 4.0, 3.0], 2)?)?, [2.0, 4.0]);
    Ok(())
}
