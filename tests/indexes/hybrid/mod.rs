//! Rows that the host keeps for an index on a GPU: answers are those of the host engine, bit for bit, whatever way they took.

mod changes;
mod lists;
mod mapped;
mod streamed;
mod ways;

use half::f16;
use nearfield::{
    AddOptions, Device, ElementKind, Error, Flat, FlatBuilder, Metric, Neighbors, Residency, SearchOptions,
    SearchResult, Vectors,
};

use crate::common::gpu;
use nearfield_testing::living::bits;
use nearfield_testing::{Random, rounded, view};

/// The same index twice: with rows on the host and their 8-bit copy on a GPU, and on the host engine.
struct Twins {
    hybrid: Flat,
    host: Flat,
}

impl Twins {
    /// Two empty indexes; none without an adapter.
    fn new(metric: Metric, dim: usize, elements: ElementKind) -> Option<Self> {
        Some(Self::on(gpu()?, metric, dim, elements, |builder| builder))
    }

    fn on(
        device: &Device,
        metric: Metric,
        dim: usize,
        elements: ElementKind,
        set: impl Fn(FlatBuilder) -> FlatBuilder,
    ) -> Self {
        let of = |device: &Device| {
            set(Flat::builder(device, metric, dim).elements(elements)).residency(Residency::Host).build()
        };
        let [hybrid, host] = [device, &Device::host()].map(|device| of(device).expect("an index"));
        Self { hybrid, host }
    }

    /// Adds rows of the indexes' element type; f16 ones are rounded from these.
    fn add(&mut self, values: &[f32], ids: Option<&[u64]>) {
        let (halves, _) = rounded(values);
        self.change(|index| {
            let options = ids.map_or(AddOptions::new(), |ids| AddOptions::new().ids(ids));
            let dim = index.dim();
            match index.elements() {
                ElementKind::F16 => index.add_with(view::<f16>(&halves, dim), &options),
                _ => index.add_with(view(values, dim), &options),
            }
        });
    }

    /// Changes both.
    fn change(&mut self, change: impl Fn(&mut Flat) -> Result<(), Error>) {
        for index in [&mut self.hybrid, &mut self.host] {
            change(index).expect("it is changed");
        }
    }

    /// Searches both, and returns what the GPU's index did.
    fn search<'q>(&self, queries: impl Into<Vectors<'q>>, options: &SearchOptions<'_>) -> SearchResult {
        let queries = queries.into();
        let wanted = self.host.search_with(queries, options).expect("an answer").neighbors;
        let found = self.hybrid.search_with(queries, options).expect("an answer");
        assert_same(&found.neighbors, &wanted);
        found
    }

    fn within<'q>(&self, queries: impl Into<Vectors<'q>>, radius: f32) -> SearchResult {
        self.search(queries, &SearchOptions::within(radius))
    }
}

/// Checks ids and the bits of distances.
#[track_caller]
fn assert_same(found: &Neighbors, wanted: &Neighbors) {
    assert_eq!(bits(found), bits(wanted));
}

/// Rows around a few centres, so that distances differ, but not much.
fn clustered(random: &mut Random, rows: usize, dim: usize) -> Vec<f32> {
    let centres = random.floats(8 * dim);
    let mut values = random.floats(rows * dim);
    for row in values.chunks_exact_mut(dim) {
        let centre = &centres[random.below(8) * dim..][..dim];
        row.iter_mut().zip(centre).for_each(|(x, c)| *x = c + 0.3 * *x);
    }
    values
}
