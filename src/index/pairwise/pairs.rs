//! Pairs of rows within a radius, each once.

use crate::bits::Bits;
use crate::engine::Allowed;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::index::common::Common;
use crate::interrupt;
use crate::memory;
use crate::options::SearchOptions;

/// Two rows and the distance between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// The smaller id.
    pub a: u64,
    /// The larger id.
    pub b: u64,
    /// The distance between the rows in the index's metric.
    pub distance: f32,
}

/// A function that takes the next pairs.
pub(crate) type TakePairs<'v> = &'v mut (dyn FnMut(&[Pair]) -> Result<()> + Send);

/// Pairs that a search should find, so that the memory they take stays small.
const PAIRS: usize = 1 << 22;

/// Rows that the first search is for.
const FIRST: usize = 256;

/// Parts that the rows are divided into at least: what a part compares twice, its own rows, is little of the whole then.
const PARTS: usize = 24;

/// Rows of a part, where memory allows: fewer are searched for less well.
const LEAST: usize = 1024;

impl Common {
    /// Calls `take` with all pairs of rows within the radius of the options, in the order of both ids.
    ///
    /// Rows are searched for piece by piece, by ascending id, and each piece only among itself and the rows behind it.
    pub(crate) fn visit_pairs<'f>(
        &'f self,
        options: &'f SearchOptions<'_>,
        take: TakePairs<'f>,
    ) -> Boxed<'f, ()> {
        Box::pin(async move {
            let Some(_) = options.unlimited() else {
                let needed = "a radius alone: SearchOptions::within(radius)";
                let given = options.radius.map_or("none".into(), |_| format!("also k = {}", options.k));
                return Err(Error::argument("radius", needed, given));
            };
            self.check_options(options)?;
            let rows = self.rows_of(options)?;
            let slots = self.store.slots_of(&rows)?;
            let mut open = Bits::zeros(self.store.rows.end() as usize)?;
            slots.iter().for_each(|&slot| open.set(slot as usize, true));
            let (mut done, mut most) = (0, FIRST.min(PAIRS / rows.len().max(1)).max(1));
            let largest = (rows.len() / PARTS).max(LEAST).min(self.rows_at_once());
            while done < rows.len() {
                interrupt::check()?;
                let piece = &rows[done..rows.len().min(done + most)];
                let queries = self.copies(piece).await?;
                let progress =
                    |answered| options.progress.iter().for_each(|progress| progress(done + answered));
                let of_piece = SearchOptions { filter: None, ..options.clone() }.progress(&progress);
                let allowed = Allowed::new(open.copied()?);
                let found =
                    self.search_among(&queries.vectors(), &of_piece, None, Some(&allowed)).await?.neighbors;
                drop((queries, allowed));
                let mut pairs: Vec<Pair> = vec![];
                for (&a, hits) in piece.iter().zip(&found) {
                    let first = pairs.len();
                    memory::reserve_more(&mut pairs, hits.len())?;
                    let behind = hits.iter().filter(|hit| hit.id > a);
                    pairs.extend(behind.map(|hit| Pair { a, b: hit.id, distance: hit.distance }));
                    pairs[first..].sort_unstable_by_key(|pair| pair.b);
                }
                take(&pairs)?;
                let hits = found.hits().len().max(1);
                done += piece.len();
                slots[done - piece.len()..done].iter().for_each(|&slot| open.set(slot as usize, false));
                // The next rows find about as many pairs.
                most = (piece.len().saturating_mul(PAIRS) / hits).clamp(1, 4 * piece.len()).min(largest);
            }
            Ok(())
        })
    }

    pub(crate) fn pairs_within(&self, radius: f32) -> Boxed<'_, Vec<Pair>> {
        Box::pin(async move {
            let mut all = vec![];
            let mut take = |pairs: &[Pair]| {
                memory::reserve_more(&mut all, pairs.len())?;
                all.extend_from_slice(pairs);
                Ok(())
            };
            self.visit_pairs(&SearchOptions::within(radius), &mut take).await?;
            Ok(all)
        })
    }

    pub(crate) fn count_pairs(&self, radius: f32) -> Boxed<'_, u64> {
        Box::pin(async move {
            let mut count = 0;
            let mut take = |pairs: &[Pair]| {
                count += pairs.len() as u64;
                Ok(())
            };
            self.visit_pairs(&SearchOptions::within(radius), &mut take).await?;
            Ok(count)
        })
    }
}
