//! The graph of nearest neighbours, pairs within a radius, and near duplicates.

use nearfield::{Device, DuplicateOptions, Flat, Metric, Symmetry};

fn main() -> Result<(), nearfield::Error> {
    let index = Flat::from_rows(&Device::best()?, Metric::L2, &[[0.0f32], [9.0], [0.1], [8.5]])?;

    let graph = index.knn_graph(1)?;
    assert_eq!(graph.neighbors().ids(), [2, 3, 0, 1]);
    assert_eq!(graph.to_csr(Symmetry::Union)?.indices.len(), 4);

    assert_eq!(index.pairs_within(0.6)?.len(), 2);
    let found = index.duplicates(&DuplicateOptions::new(0.3))?;
    assert_eq!((&found.kept[..], found.removed[0].near), (&[0, 1, 3][..], 0));
    Ok(())
}
