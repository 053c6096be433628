//! Near duplicates: which rows to keep of those that lie within a threshold of each other.

use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::index::common::Common;
use crate::index::pairwise::forest::Forest;
use crate::index::pairwise::graph::{among, place_among};
use crate::kernels::{key_of, value_of};
use crate::memory;
use crate::options::filter::Filter;
use crate::options::{Progress, SearchOptions, setters};

/// Which of the rows that lie near each other are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Keep {
    /// Every row that has no row before it within the threshold: each row is compared with all rows before it, also with those that go
    /// themselves. It is the rule of NeMo Curator's semantic deduplication.
    #[default]
    Earliest,
    /// The first row of every group. Rows of a group are connected by steps within the threshold, so its ends may lie far apart.
    OneOfGroup,
}

/// What [`Flat::duplicates`](crate::Flat::duplicates) looks for.
///
/// ```
/// use nearfield::{DuplicateOptions, Keep};
/// let newest_first = [2, 1, 0];
/// let options = DuplicateOptions::new(0.05).order(&newest_first).keep(Keep::OneOfGroup);
/// assert_eq!(options.threshold, 0.05);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct DuplicateOptions<'a> {
    /// Two rows are near each other if their reported distance is below it.
    pub threshold: f32,
    /// The ids of the rows, those to keep first; none for ascending ids.
    pub order: Option<&'a [u64]>,
    /// Which rows are kept. Default: [`Keep::Earliest`].
    pub keep: Keep,
    /// The rows that are compared; none for all.
    pub filter: Option<Filter<'a>>,
    /// Called with the number of rows compared so far.
    pub progress: Option<Progress<'a>>,
}

impl<'a> DuplicateOptions<'a> {
    /// Rows nearer than `threshold`, of which the smaller id is kept.
    pub fn new(threshold: f32) -> Self {
        Self { threshold, order: None, keep: Keep::default(), filter: None, progress: None }
    }

    setters! { options => options;
        /// Sets the ids of all rows that are compared, each once, those to keep first.
        order: &'a [u64] => Some;
        /// Sets which rows are kept.
        keep: Keep;
        /// Calls `progress` with the number of rows compared so far.
        progress: Progress<'a> => Some;
    }

    /// Compares only the rows that `filter` allows.
    #[must_use]
    pub fn filter(mut self, filter: impl Into<Filter<'a>>) -> Self {
        self.filter = Some(filter.into());
        self
    }
}

impl std::fmt::Debug for DuplicateOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DuplicateOptions")
            .field("threshold", &self.threshold)
            .field("order", &self.order.map(<[u64]>::len))
            .field("keep", &self.keep)
            .field("filter", &self.filter)
            .finish_non_exhaustive()
    }
}

/// A row that is not kept, and why.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Removed {
    /// The row.
    pub id: u64,
    /// The nearest row before it within the threshold, ties by the earlier; where none is before it, as only in groups, the nearest behind it.
    pub near: u64,
    /// The distance between the two.
    pub distance: f32,
}

/// The near duplicates among rows.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Duplicates {
    /// Rows that steps within the threshold connect, two or more in each group. Rows and groups are in the order of the rows.
    pub groups: Vec<Vec<u64>>,
    /// The rows to keep, in the order of the rows.
    pub kept: Vec<u64>,
    /// The others, in the order of the rows.
    pub removed: Vec<Removed>,
}

/// Rows by their rank, while pairs come in.
struct Ranked {
    groups: Forest,
    /// For each row the nearest before it: the key of its distance, and its rank.
    before: Vec<(u32, u32)>,
    /// The same of those behind it.
    behind: Vec<(u32, u32)>,
}

/// No row is near.
const NONE: (u32, u32) = (u32::MAX, u32::MAX);

impl Ranked {
    fn new(rows: usize) -> Result<Self> {
        let groups = Forest::new(rows)?;
        Ok(Self { groups, before: memory::filled(rows, NONE)?, behind: memory::filled(rows, NONE)? })
    }

    /// Takes a pair of ranks.
    fn join(&mut self, a: u32, b: u32, distance: f32) {
        let (earlier, later, key) = (a.min(b), a.max(b), key_of(distance));
        let [before, behind] = [&mut self.before[later as usize], &mut self.behind[earlier as usize]];
        *before = (*before).min((key, earlier));
        *behind = (*behind).min((key, later));
        self.groups.join(a, b);
    }
}

impl Common {
    pub(crate) fn duplicates<'f>(&'f self, options: &'f DuplicateOptions<'_>) -> Boxed<'f, Duplicates> {
        Box::pin(async move {
            let mut within = SearchOptions::within(options.threshold);
            (within.filter, within.progress) = (options.filter, options.progress);
            let rows = self.rows_of(&within)?;
            let within = among(&rows, &within);
            let ranks = options.order.map(|order| ranks_of(&rows, order)).transpose()?;
            let rank_of = |id: u64| {
                let place = place_among(&rows, id);
                ranks.as_ref().map_or(place as u32, |ranks| ranks[place])
            };
            let mut ranked = Ranked::new(rows.len())?;
            self.visit_pairs(&within, &mut |pairs| {
                pairs.iter().for_each(|pair| ranked.join(rank_of(pair.a), rank_of(pair.b), pair.distance));
                Ok(())
            })
            .await?;
            found(ranked, options.order.unwrap_or(&rows), options.keep)
        })
    }
}

/// The rank of each row, which are ascending ids, in an order of the caller's.
fn ranks_of(rows: &[u64], order: &[u64]) -> Result<Vec<u32>> {
    if order.len() != rows.len() {
        return Err(Error::argument(
            "order",
            format!("the {} ids that are compared", rows.len()),
            order.len(),
        ));
    }
    let mut ranks = memory::filled(rows.len(), u32::MAX)?;
    for (rank, &id) in order.iter().enumerate() {
        let place = rows.binary_search(&id).map_err(|_| Error::UnknownId { id })?;
        if ranks[place] != u32::MAX {
            return Err(Error::DuplicateId { id });
        }
        ranks[place] = rank as u32;
    }
    Ok(ranks)
}

fn found(mut ranked: Ranked, order: &[u64], keep: Keep) -> Result<Duplicates> {
    let mut duplicates = Duplicates::default();
    let mut group_of: Vec<u32> = memory::filled(order.len(), u32::MAX)?;
    for rank in 0..order.len() {
        let id = order[rank];
        let [before, behind] = [ranked.before[rank], ranked.behind[rank]];
        if (before, behind) != (NONE, NONE) {
            let first = ranked.groups.first(rank as u32) as usize;
            if group_of[first] == u32::MAX {
                group_of[first] = duplicates.groups.len() as u32;
                memory::reserve_more(&mut duplicates.groups, 1)?;
                duplicates.groups.push(vec![]);
            }
            let group = &mut duplicates.groups[group_of[first] as usize];
            memory::reserve_more(group, 1)?;
            group.push(id);
        }
        let is_kept = match keep {
            Keep::Earliest => before == NONE,
            Keep::OneOfGroup => ranked.groups.first(rank as u32) as usize == rank,
        };
        if is_kept {
            memory::reserve_more(&mut duplicates.kept, 1)?;
            duplicates.kept.push(id);
        } else {
            let (key, near) = if before == NONE { behind } else { before };
            let near = order[near as usize];
            memory::reserve_more(&mut duplicates.removed, 1)?;
            duplicates.removed.push(Removed { id, near, distance: value_of(key) });
        }
    }
    Ok(duplicates)
}
