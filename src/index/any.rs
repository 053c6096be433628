//! `Index`: an index of any kind.

use std::io::Write;
use std::path::Path;

use crate::engine::{Device, Devices, Recovered, SearchResult, TunedKernel, Vectors};
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::index::common::{Common, Resources};
use crate::index::face::{index_methods, search_methods};
use crate::index::flat::Flat;
use crate::index::ivf::Ivf;
use crate::index::loader::Loader;
use crate::index::pairwise::methods::pairwise_methods;
use crate::index::saved::kept::{FromSaved, kept_methods};
use crate::index::saved::{Loading, SavedIndex, SavedKind, Saving};
use crate::index::vector_index::vector_index;
use crate::metric::Metric;
use crate::neighbors::Neighbors;
use crate::options::{AddOptions, SearchOptions};
use crate::usage::Memory;

/// An index of any kind, for programs that learn at run time which one they have.
///
/// ```no_run
/// use nearfield::{Device, Index, MatrixView, SearchOptions};
/// let index = Index::load(&Device::best()?, "index.nf")?;
/// let query = vec![0.5f32; index.dim()];
/// let found = index.search_with(MatrixView::new(&query, index.dim())?, &SearchOptions::new(10))?;
/// println!("{:?}, {} rows scored", found.neighbors.row(0), found.statistics.scored);
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Index {
    /// Exact search over all rows.
    Flat(Flat),
    /// Approximate search in lists of rows.
    Ivf(Ivf),
}

impl From<Flat> for Index {
    fn from(index: Flat) -> Self {
        Self::Flat(index)
    }
}

impl From<Ivf> for Index {
    fn from(index: Ivf) -> Self {
        Self::Ivf(index)
    }
}

/// Calls a method that both kinds have.
macro_rules! delegate {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self {
            Self::Flat(index) => index.$method($($argument),*),
            Self::Ivf(index) => index.$method($($argument),*),
        }
    };
}

index_methods!(Index);
search_methods!(Index);
pairwise_methods!(Index, self => matches!(self, Self::Flat(_)));
vector_index!(Index);

impl Index {
    /// Reads what the file of an index says of itself, without a device: the same as [`SavedIndex::read`].
    ///
    /// # Errors
    /// As [`SavedIndex::read`].
    pub fn describe(path: impl AsRef<Path>) -> Result<SavedIndex> {
        SavedIndex::read(path)
    }

    /// How a search for the k nearest of this many queries would run, in words. A [`Flat`] ignores `probes`; none stands for
    /// the default of an [`Ivf`].
    ///
    /// # Errors
    /// As [`Flat::plan`].
    pub fn plan(&self, queries: usize, k: usize, probes: Option<usize>) -> Result<String> {
        match self {
            Self::Flat(index) => Ok(index.plan(queries, k)?.to_string()),
            Self::Ivf(index) => {
                let (probes, lists) = (probes.unwrap_or(index.default_probes()), index.lists());
                let (plural, rows) = (if lists == 1 { "" } else { "s" }, index.residency().words());
                Ok(format!("{probes} of {lists} list{plural} a query; rows {rows}"))
            }
        }
    }

    /// The number of lists of an [`Ivf`]; none for a [`Flat`].
    pub fn lists(&self) -> Option<usize> {
        match self {
            Self::Flat(_) => None,
            Self::Ivf(index) => Some(index.lists()),
        }
    }

    fn common(&self) -> &Common {
        delegate!(self.common())
    }

    fn common_mut(&mut self) -> &mut Common {
        delegate!(self.common_mut())
    }

    fn measure_lists(&self, memory: &mut Memory) {
        delegate!(self.measure_lists(memory));
    }

    fn boxed_search<'s>(
        &'s self,
        queries: Vectors<'s>,
        options: &'s SearchOptions<'_>,
    ) -> Boxed<'s, SearchResult> {
        delegate!(self.boxed_search(queries, options))
    }

    fn boxed_add<'s>(&'s mut self, rows: Vectors<'s>, options: &'s AddOptions<'_>) -> Boxed<'s, ()> {
        delegate!(self.boxed_add(rows, options))
    }

    fn boxed_update<'s>(&'s mut self, ids: &'s [u64], rows: Vectors<'s>) -> Boxed<'s, ()> {
        delegate!(self.boxed_update(ids, rows))
    }

    fn boxed_remove<'s>(&'s mut self, ids: &'s [u64]) -> Boxed<'s, ()> {
        delegate!(self.boxed_remove(ids))
    }

    fn taken_back(&mut self, recovered: Recovered) -> Boxed<'_, ()> {
        delegate!(self.taken_back(recovered))
    }

    fn boxed_compact(&mut self) -> Boxed<'_, ()> {
        delegate!(self.boxed_compact())
    }

    fn saving(&self) -> Boxed<'_, Saving<'_>> {
        delegate!(self.saving())
    }
}

impl FromSaved for Index {
    const KINDS: &'static [SavedKind] = SavedKind::OF_ROWS;

    kept_methods!();

    fn from_saved(loading: Loading<'_>, resources: Resources) -> Boxed<'_, Self> {
        Box::pin(async move {
            Ok(match loading.about.lists {
                None => Self::Flat(Flat::from_saved(loading, resources).await?),
                Some(_) => Self::Ivf(Ivf::from_saved(loading, resources).await?),
            })
        })
    }
}
