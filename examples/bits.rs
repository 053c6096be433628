//! Rows of bits, as models write them, and the number of those that differ.

use nearfield::{Device, Flat, Metric, PackedBits};

fn main() -> Result<(), nearfield::Error> {
    let mut index = Flat::builder(&Device::best()?, Metric::Hamming, 2).build()?;
    index.add(&[[0b1111_0000, 0b0000_0001], [0b1010_1010, 0b1111_1111]].map(|row| row.map(PackedBits)))?;
    let found = index.search(&[0b1111_0001, 0b0000_0001].map(PackedBits), 2)?;
    assert_eq!((found.ids(), found.row(0)[0].distance), (&[0, 1][..], 1.0));
    Ok(())
}
