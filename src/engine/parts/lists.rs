//! The lists of an `Ivf` on several devices.

use crate::bits::Bits;
use crate::elements::HostVectors;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::assign::Assigned;
use crate::engine::lists::tables::PAGE;
use crate::engine::lists::widening::Widening;
use crate::engine::parts::layout::Layout;
use crate::engine::parts::merging::all_or_first;
use crate::engine::parts::rows::Parts;
use crate::engine::parts::together::{Work, together};
use crate::engine::rows::contract::Rows;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::error::{Error, Result};
use crate::memory;

/// The pages of each list, and the number of its rows.
type Pages = (Vec<Vec<u32>>, Vec<u32>);

impl Parts {
    /// The list of each row. Replicas that are left have all centroids, and take the rows of one that is lost.
    pub(super) async fn assign_on_all(&self, rows: HostVectors<'_>) -> Result<Vec<Assigned>> {
        loop {
            match self.assign_on_live(rows).await {
                Err(Error::DeviceLost { .. }) if self.layout.is_none() && !self.live().is_empty() => {}
                assigned => return assigned,
            }
        }
    }

    /// Divides rows among the devices that are not lost.
    async fn assign_on_live(&self, rows: HostVectors<'_>) -> Result<Vec<Assigned>> {
        let live = self.live();
        let (count, devices) = (rows.rows(), live.len());
        if devices == 0 {
            return Err(self.none_left());
        }
        let start = |part: usize| count * part / devices;
        let works = live.iter().enumerate().map(|(part, &place)| -> Work<'_, Vec<Assigned>> {
            let first = start(part);
            let own = rows.slice(first..start(part + 1));
            let assigning = self.parts[place].assign(own.into());
            let work =
                async move { assigning.await.map_err(|error| error.with_rows(|row| first as u64 + row)) };
            (self.engine(place), Box::pin(work))
        });
        let assigned = together(works.collect()).await;
        let assigned = live.iter().zip(assigned).map(|(&place, one)| self.noted(place, one));
        Ok(all_or_first(assigned.collect())?.concat())
    }

    pub(super) async fn set_on_all(&mut self, pages: &[Vec<u32>], sizes: &[u32]) -> Result<()> {
        let divided = match &self.layout {
            Some(layout) => divided(self, layout, pages)?,
            None => vec![],
        };
        let works = self.changing()?.into_iter().map(|(place, engine, part)| -> Work<'_, ()> {
            let (pages, sizes) = divided.get(place).map_or((pages, sizes), |own| (&own.0[..], &own.1[..]));
            (engine, part.set_pages(pages, sizes))
        });
        all_or_first(together(works.collect()).await).map(drop)
    }

    /// A query with too few rows in the lists of all devices together probes more lists on all of them.
    pub(super) async fn search_widening(
        &self,
        probes: u32,
        queries: &Vectors<'_>,
        request: &SearchRequest<'_>,
    ) -> Result<SearchResult> {
        let present = request.allowed.map_or(self.len(), |allowed| allowed.count);
        let wanted = request.widens.then_some((request.k as u64).min(present) as usize);
        let lists = self.centroids.as_ref().map_or(0, |values| values.len() / self.shape.dim) as u32;
        let mut widening = Widening { probes, lists, wanted };
        let once = SearchRequest { widens: false, ..*request };
        let mut found = self.search_once(queries, &once).await?;
        let count = queries.rows();
        while let Some(short) = widening.short(count, |query| found.neighbors.row(query).len()) {
            let some = queries.fetched().await?.vectors().chosen(&short)?;
            let some = Vectors::from(&some);
            let before = count - short.len();
            let progress = |answered| request.report(before + answered);
            let once = SearchRequest { probes: Some(widening.probes), progress: Some(&progress), ..once };
            let more = self.search_once(&some, &once).await?;
            found.neighbors.replace(&short, &more.neighbors)?;
            found.statistics.add(&more.statistics);
        }
        Ok(found)
    }
}

/// The pages of each list on every device, as they are numbered there, and the number of its rows there.
fn divided(rows: &Parts, layout: &Layout, pages: &[Vec<u32>]) -> Result<Vec<Pages>> {
    let devices = rows.parts.len();
    let mut divided: Vec<Pages> = vec![];
    for _ in 0..devices {
        divided.push((memory::filled(pages.len(), vec![])?, memory::filled(pages.len(), 0)?));
    }
    let rows_of = |page: u32| rows_of_page(rows.alive(), rows.end() as usize, page);
    for (list, own) in pages.iter().enumerate() {
        for &page in own {
            let (device, slot) = layout.place(page * PAGE);
            divided[device].0[list].push(slot / PAGE);
            divided[device].1[list] += rows_of(page);
        }
    }
    Ok(divided)
}

/// How many slots of a page have a row.
fn rows_of_page(alive: Option<&Bits>, end: usize, page: u32) -> u32 {
    const { assert!(PAGE == 32, "a page is a word of bits") };
    match alive {
        Some(bits) => bits.words().get(page as usize).map_or(0, |word| word.count_ones()),
        None => (end as u32).saturating_sub(page * PAGE).min(PAGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_pages_are_counted_with_and_without_gaps() -> Result<()> {
        assert_eq!([0, 1, 2, 3].map(|page| rows_of_page(None, 70, page)), [32, 32, 6, 0]);
        let bits = Bits::from_fn(70, |slot| slot != 40 && slot != 69)?;
        assert_eq!([0, 1, 2, 3].map(|page| rows_of_page(Some(&bits), 70, page)), [32, 31, 5, 0]);
        Ok(())
    }
}
