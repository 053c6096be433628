//! The graph of nearest neighbours: those of every row among the others.

use crate::elements::{ElementKind, Matrix};
use crate::engine::{DeviceMatrix, SearchRequest, SearchResult, Vectors};
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::index::common::Common;
use crate::interrupt;
use crate::memory;
use crate::neighbors::{Neighbor, Neighbors};
use crate::options::SearchOptions;

/// The neighbours of every row of an index among its other rows: [`Flat::knn_graph`](crate::Flat::knn_graph).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KnnGraph {
    ids: Vec<u64>,
    neighbors: Neighbors,
}

impl KnnGraph {
    /// The rows, by ascending id.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// The neighbours of each row, `[rows, up to k]`, in the order of [`ids`](Self::ids): nearest first, ties by the smaller id. The row
    /// itself is not among them.
    pub fn neighbors(&self) -> &Neighbors {
        &self.neighbors
    }

    /// The place of a row of the graph among its ids.
    pub(super) fn place_of(&self, id: u64) -> usize {
        place_among(&self.ids, id)
    }
}

/// The place of a row among ids that ascend and have it.
pub(super) fn place_among(ids: &[u64], id: u64) -> usize {
    // Ids that nobody chose are their own places.
    match ids.get(id as usize) {
        Some(&same) if same == id => id as usize,
        _ => ids.binary_search(&id).unwrap_or_default(),
    }
}

/// An index, as the graph of its rows needs it.
pub(crate) trait Searched: Sync {
    fn common(&self) -> &Common;

    /// Whether a search without probes goes through all rows.
    fn is_exact(&self) -> bool;

    fn searched<'s>(
        &'s self,
        queries: Vectors<'s>,
        options: &'s SearchOptions<'_>,
    ) -> Boxed<'s, SearchResult>;
}

/// A function that takes some rows, by ascending id, and their neighbours.
pub(crate) type Visit<'v> = &'v mut (dyn FnMut(&[u64], Neighbors) -> Result<()> + Send);

/// Pieces of f32 rows, as an index copies them, that are searched for at a time: 128 MiB of them.
const PIECES: usize = 8;

/// Copies of an index's own rows, to be searched for: on its device or in the host's memory.
pub(super) enum Copies {
    Device(DeviceMatrix),
    Host(Matrix),
}

impl Copies {
    pub(super) fn vectors(&self) -> Vectors<'_> {
        match self {
            Self::Device(matrix) => matrix.into(),
            Self::Host(matrix) => matrix.into(),
        }
    }
}

pub(crate) fn knn_graph<'f>(index: &'f dyn Searched, options: &'f SearchOptions<'_>) -> Boxed<'f, KnnGraph> {
    Box::pin(async move {
        let common = index.common();
        common.check_options(options)?;
        let rows = common.rows_of(options)?;
        let options = &among(&rows, options);
        if index.is_exact()
            && options.unlimited().is_none()
            && options.probes.is_none()
            && let Some(neighbors) = common.graph(&rows, options).await?
        {
            return Ok(KnnGraph { ids: rows, neighbors });
        }
        let edges =
            if options.radius.is_some() { 0 } else { rows.len().saturating_mul(options.k.min(rows.len())) };
        let mut neighbors = Neighbors::with_room(rows.len(), edges)?;
        let mut take = |piece: &[u64], found: &Neighbors| put_others(&mut neighbors, piece, found, options.k);
        visit(index, &rows, options, &mut take).await?;
        Ok(KnnGraph { ids: rows, neighbors })
    })
}

pub(crate) fn visit_knn_graph<'f>(
    index: &'f dyn Searched,
    options: &'f SearchOptions<'_>,
    take: Visit<'f>,
) -> Boxed<'f, ()> {
    Box::pin(async move {
        index.common().check_options(options)?;
        let rows = index.common().rows_of(options)?;
        visit(index, &rows, &among(&rows, options), &mut |piece, found| {
            let mut others = Neighbors::default();
            put_others(&mut others, piece, found, options.k)?;
            take(piece, others)
        })
        .await
    })
}

/// Adds to `others` what each of these rows found but itself, up to k.
fn put_others(others: &mut Neighbors, rows: &[u64], found: &Neighbors, k: usize) -> Result<()> {
    fn of(own: u64, hits: &[Neighbor], k: usize) -> impl Iterator<Item = Neighbor> {
        hits.iter().filter(move |hit| hit.id != own).take(k).copied()
    }
    let count = rows.iter().zip(found).map(|(&own, hits)| of(own, hits, k).count()).sum();
    others.reserve(rows.len(), count)?;
    rows.iter().zip(found).for_each(|(&own, hits)| others.push_row(of(own, hits, k)));
    Ok(())
}

/// The options with the rows of their filter by name: its function may not say the same twice.
pub(super) fn among<'r>(rows: &'r [u64], options: &SearchOptions<'r>) -> SearchOptions<'r> {
    SearchOptions { filter: options.filter.map(|_| rows.into()), ..options.clone() }
}

/// Searches for rows piece by piece. Each search is for a neighbour more than wanted, because a row finds itself.
async fn visit(
    index: &dyn Searched,
    rows: &[u64],
    options: &SearchOptions<'_>,
    take: &mut (dyn FnMut(&[u64], &Neighbors) -> Result<()> + Send),
) -> Result<()> {
    let common = index.common();
    let mut done = 0;
    for piece in rows.chunks(common.rows_at_once()) {
        interrupt::check()?;
        let queries = common.copies(piece).await?;
        let progress = |answered| options.progress.iter().for_each(|progress| progress(done + answered));
        // A row finds itself, which is no part of the recall.
        let k = options.k as f64;
        let recall = options.recall.map(|recall| (k * recall + 1.0) / (k + 1.0));
        let of_piece = SearchOptions { k: options.k.saturating_add(1), recall, ..options.clone() };
        let of_piece = of_piece.progress(&progress);
        let found = index.searched(queries.vectors(), &of_piece).await?.neighbors;
        drop(queries);
        take(piece, &found)?;
        done += piece.len();
    }
    Ok(())
}

/// All rows of an index, also of one that would probe lists.
impl Searched for Common {
    fn common(&self) -> &Common {
        self
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn searched<'s>(
        &'s self,
        queries: Vectors<'s>,
        options: &'s SearchOptions<'_>,
    ) -> Boxed<'s, SearchResult> {
        Box::pin(self.search(queries, options, None))
    }
}

impl Common {
    /// Rows that are searched for at a time. Copies on a device are f32.
    pub(super) fn rows_at_once(&self) -> usize {
        PIECES * ElementKind::F32.rows_of_piece(self.dim)
    }

    /// Copies of the rows with these ids.
    pub(super) async fn copies(&self, ids: &[u64]) -> Result<Copies> {
        let slots = self.store.slots_of(ids)?;
        if let Some(matrix) = self.store.rows.copies(&slots).await? {
            return Ok(Copies::Device(matrix));
        }
        self.fetch(ids).await.map(Copies::Host)
    }

    /// The rows that options are about, by ascending id.
    pub(super) fn rows_of(&self, options: &SearchOptions<'_>) -> Result<Vec<u64>> {
        let ids = self.store.ids()?;
        let Some(filter) = options.filter else { return Ok(ids) };
        let allowed = self.store.allowed(&filter)?.bits;
        let is_allowed = |&id: &u64| self.store.slot_of(id).is_some_and(|slot| allowed.get(slot as usize));
        let mut some = memory::with_room(allowed.count_ones())?;
        some.extend(ids.into_iter().filter(is_allowed));
        Ok(some)
    }

    /// The nearest other rows of these, where the engine has a way that is faster than a search for each.
    async fn graph(&self, rows: &[u64], options: &SearchOptions<'_>) -> Result<Option<Neighbors>> {
        let allowed = options.filter.map(|filter| self.store.allowed(&filter)).transpose()?;
        let request = SearchRequest {
            integral: self.elements.is_integer(),
            allowed: allowed.as_ref(),
            progress: options.progress,
            ..SearchRequest::nearest(self.metric, options.k, self.budget)
        };
        let id_of = |slot| self.store.id_of(slot).unwrap_or_default();
        let Some(mut found) = self.store.rows.graph(&request, &id_of).await? else { return Ok(None) };
        if self.metric.is_root() {
            found.take_roots();
        }
        if let Some(radius) = options.radius {
            found.cut_at(radius);
        }
        let slots = self.store.slots_of(rows)?;
        if slots.is_sorted() {
            return Ok(Some(found));
        }
        let mut sorted = memory::copied(&slots)?;
        sorted.sort_unstable();
        let mut by_id = Neighbors::with_room(rows.len(), found.hits().len())?;
        for slot in &slots {
            by_id.push_row(found.row(sorted.binary_search(slot).unwrap_or_default()).iter().copied());
        }
        Ok(Some(by_id))
    }

    /// Checks options that are for every row: an index without rows has no search that would.
    pub(super) fn check_options(&self, options: &SearchOptions<'_>) -> Result<()> {
        if options.profile {
            return Err(Error::argument("profile", "false: comparing all rows has no profile", true));
        }
        self.check_limits(options)
    }
}
