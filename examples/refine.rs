//! Finds the nearest rows by their signs first, and puts them in order by the rows themselves.

use nearfield::{Device, ElementKind, Flat, HostVectors, MatrixView, Metric, Quantization};

fn main() -> Result<(), nearfield::Error> {
    let values: Vec<f32> = (0..64_000).map(|i| (i as f32 * 0.37).sin()).collect();
    let rows = HostVectors::from(MatrixView::new(&values, 64)?);

    let mut bits = Flat::builder(&Device::best()?, Metric::Hamming, 8).build()?;
    bits.add(&rows.quantized(ElementKind::Bits)?)?;
    // Or `.mapped("rows.npy")`, which leaves them in the file.
    let mut exact =
        Flat::builder(&Device::host(), Metric::Cosine, 64).quantization(Quantization::None).build()?;
    exact.add(rows)?;

    let query = rows.slice(7..8);
    let candidates = bits.search(&query.quantized(ElementKind::Bits)?, 100)?;
    let found = exact.refine(query, &candidates, 10)?;
    assert_eq!(found.row(0)[0].id, 7);
    Ok(())
}
