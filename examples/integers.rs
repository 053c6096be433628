//! Rows of i8 are stored as they are, and distances between integers are exact.

use nearfield::{Device, ElementKind, Flat, MatrixView, Metric};

fn main() -> Result<(), nearfield::Error> {
    let mut index =
        Flat::builder(&Device::best()?, Metric::L2Squared, 3).elements(ElementKind::I8).build()?;
    index.add(MatrixView::new(&[127i8, -128, 0, 5, 6, 7], 3)?)?;
    let found = index.search(&[5i8, 6, 9], 1)?;
    assert_eq!((found.ids(), found.row(0)[0].distance), (&[1][..], 4.0));
    Ok(())
}
