//! Puts candidates in order by the rows of an index: those that a search of fewer bits has found, or that a caller names.

use std::sync::Arc;

use crate::elements::{HostVectors, Matrix};
use crate::engine::Vectors;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::host::{self, Candidates, Host, HostRows, SearchLimit, Shortlist};
use crate::index::common::Common;
use crate::interrupt;
use crate::kernels::value_of;
use crate::memory;
use crate::neighbors::{Neighbor, Neighbors};
use crate::options::SearchOptions;

/// The most candidates of a piece.
const MOST: usize = 1 << 20;

/// A key and an id: their order is that of neighbours.
type Hit = (u32, u64);

/// Candidates whose distances are computed together: the slots of each query, one query after the other.
#[derive(Default)]
struct Piece {
    slots: Vec<u32>,
    /// Each query and where its slots end.
    ends: Vec<(usize, usize)>,
}

/// Queries on the host, with their squared norms, and the nearest candidates of each so far.
struct Refining<'a> {
    queries: HostVectors<'a>,
    squared: Vec<f64>,
    k: usize,
    nearest: Vec<Vec<Hit>>,
}

impl Common {
    /// The k nearest of each query's candidates.
    pub(crate) fn refine<'f>(
        &'f self,
        queries: Vectors<'f>,
        candidates: &'f Neighbors,
        k: usize,
    ) -> Boxed<'f, Neighbors> {
        Box::pin(async move {
            self.check_search(&queries, &SearchOptions::new(k))?;
            if candidates.queries() != queries.rows() {
                let needed = format!("those of {} queries", queries.rows());
                return Err(Error::argument("candidates", needed, candidates.queries()));
            }
            let queries = queries.fetched().await?;
            let queries = queries.vectors();
            let squared = host::checked("queries", queries)?;
            let nearest = memory::filled(queries.rows(), vec![])?;
            let mut refining = Refining { queries, squared, k, nearest };
            let (most, mut piece) = (self.piece().min(MOST), Piece::default());
            for (query, named) in candidates.iter().enumerate() {
                let ids = memory::collect(named.iter().map(|hit| hit.id))?;
                let mut slots = self.store.slots_of(&ids)?;
                slots.sort_unstable();
                slots.dedup();
                let mut rest = &slots[..];
                while !rest.is_empty() {
                    let (now, later) = rest.split_at(rest.len().min(most - piece.slots.len()));
                    memory::reserve_more(&mut piece.slots, now.len())?;
                    piece.slots.extend_from_slice(now);
                    memory::reserve_more(&mut piece.ends, 1)?;
                    piece.ends.push((query, piece.slots.len()));
                    if piece.slots.len() == most {
                        self.refine_piece(std::mem::take(&mut piece), &mut refining).await?;
                    }
                    rest = later;
                }
            }
            self.refine_piece(piece, &mut refining).await?;
            let hits = refining.nearest.iter().map(Vec::len).sum();
            let mut found = Neighbors::with_room(refining.nearest.len(), hits)?;
            for row in &refining.nearest {
                found.push_row(row.iter().map(|&(key, id)| Neighbor { id, distance: value_of(key) }));
            }
            if self.metric.is_root() {
                found.take_roots();
            }
            Ok(found)
        })
    }

    /// Computes the distances of candidates, where the host has the rows or from copies of them.
    async fn refine_piece(&self, piece: Piece, refining: &mut Refining<'_>) -> Result<()> {
        interrupt::check()?;
        let rows = &self.store.rows;
        if let Some(rows) = rows.on_host() {
            rows.check_file()?;
            return refining.refine(rows, &piece);
        }
        let mut slots = memory::copied(&piece.slots)?;
        slots.sort_unstable();
        slots.dedup();
        let bytes = rows.fetch_bytes(&slots).await?;
        let values = Matrix::of_bytes(self.elements, &bytes, self.dim)?;
        drop(bytes);
        let ids = memory::collect(slots.iter().map(|&slot| self.store.id_of(slot).unwrap_or_default()))?;
        let host = Arc::new(Host::beside_gpu(self.device.options()));
        let copies = HostRows::of_copies(host, self.metric, (&values).into(), ids)?;
        let place = |slot: &u32| slots.binary_search(slot).unwrap_or_default() as u32;
        let places = memory::collect(piece.slots.iter().map(place))?;
        refining.refine(&copies, &Piece { slots: places, ..piece })
    }
}

impl Refining<'_> {
    /// Takes the distances of candidates, given by their slots among these rows.
    fn refine(&mut self, rows: &HostRows, piece: &Piece) -> Result<()> {
        let mut start = 0;
        let shortlists = piece.ends.iter().map(|&(query, end)| {
            let slots = &piece.slots[std::mem::replace(&mut start, end)..end];
            Shortlist { query, candidates: Candidates::Slots(slots) }
        });
        let shortlists = memory::collect(shortlists)?;
        let hits = rows.refined((self.queries, &self.squared), &shortlists, SearchLimit::Nearest(self.k))?;
        for (&(query, _), hits) in piece.ends.iter().zip(hits.iter()) {
            let nearest = &mut self.nearest[query];
            let is_first = nearest.is_empty();
            memory::reserve_more(nearest, hits.len())?;
            nearest.extend_from_slice(hits);
            if !is_first {
                // A query has more candidates than a piece.
                nearest.sort_unstable();
                nearest.truncate(self.k);
            }
        }
        Ok(())
    }
}
