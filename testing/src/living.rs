//! Indexes of either kind, which live the same lives.

use nearfield::{
    AddOptions, Device, ElementKind, Error, Flat, Index, Ivf, Metric, Neighbors, Quantization, SearchOptions,
    Vectors,
};

use super::{Random, view};

/// Lists of every `Ivf`.
pub const LISTS: usize = 12;

/// Values are from `-MOST` to `MOST`: so few that many distances are equal.
pub const MOST: usize = 3;

/// The kinds of index.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Flat,
    Ivf,
}

impl Kind {
    /// An index without rows. Those of one metric have the same centroids: they are trained on the same sample with the same seed.
    pub fn make(
        self,
        device: &Device,
        metric: Metric,
        dim: usize,
        elements: ElementKind,
        quantization: Quantization,
    ) -> Index {
        match self {
            Self::Flat => {
                let builder =
                    Flat::builder(device, metric, dim).elements(elements).quantization(quantization);
                builder.build().expect("an index").into()
            }
            Self::Ivf => {
                let sample = Random::new(0x5a).integers(400 * dim, MOST);
                let builder = Ivf::builder(device, metric, dim)
                    .lists(LISTS)
                    .elements(elements)
                    .quantization(quantization);
                // Software adapters take a second for ten.
                let builder = builder.kmeans(|means| means.iterations(2));
                builder.train(view(&sample, dim)).expect("trains").into()
            }
        }
    }
}

/// Adds rows under these ids, or under their insertion numbers.
pub fn add<'r>(index: &mut Index, rows: impl Into<Vectors<'r>>, ids: Option<&[u64]>) -> Result<(), Error> {
    match ids {
        Some(ids) => index.add_with(rows, &AddOptions::new().ids(ids)),
        None => index.add(rows),
    }
}

/// The ids of an index, whose counts agree.
pub fn ids(index: &Index) -> Vec<u64> {
    let ids = index.ids().expect("memory");
    assert_eq!(index.len(), ids.len());
    assert_eq!(index.largest_id(), ids.last().copied());
    if let Index::Ivf(index) = index {
        assert_eq!(index.len(), index.list_sizes().iter().sum::<usize>());
    }
    ids
}

/// The answer of an index; a `Flat` has no probes.
pub fn answer<'q>(
    index: &Index,
    queries: impl Into<Vectors<'q>>,
    options: &SearchOptions<'_>,
    probes: usize,
) -> Neighbors {
    let options = match index.lists() {
        None => options.clone(),
        Some(_) => options.clone().probes(probes),
    };
    index.search_with(queries, &options).expect("an answer").neighbors
}

/// Ids and the bits of distances.
pub fn bits(found: &Neighbors) -> Vec<Vec<(u64, u32)>> {
    found.iter().map(|row| row.iter().map(|hit| (hit.id, hit.distance.to_bits())).collect()).collect()
}
