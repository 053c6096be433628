//! The lists of an `Ivf`, on one device or on several.

use std::time::Duration;

use crate::bits::Bits;
use crate::engine::device::handle::Device;
use crate::engine::device::vectors::{Queries, Vectors};
use crate::engine::lists::assign::Assigned;
use crate::engine::lists::device_lists::{DeviceLists, Training};
use crate::engine::lists::tables::PAGE;
use crate::engine::lists::widening::Widening;
use crate::engine::search::apart::fetched;
use crate::engine::search::request::{SearchRequest, SearchResult};
use crate::engine::spread::devices::Devices;
use crate::engine::spread::engine_rows::EngineRows;
use crate::engine::spread::merging::all_or_first;
use crate::engine::spread::rows::SpreadRows;
use crate::engine::spread::searching::Aim;
use crate::engine::spread::together::{Work, together};
use crate::engine::tune::TunedKernel;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::matrix::MatrixView;
use crate::memory;
use crate::metric::Metric;
use crate::screen::Screen;
use crate::usage::Memory;
use crate::vectors::HostVectors;

/// The lists of an index: every device has all centroids, and the pages of its own rows.
#[derive(Debug)]
pub(crate) struct EngineLists {
    parts: Vec<DeviceLists>,
}

/// The pages of each list, and the number of its rows.
type Pages = (Vec<Vec<u32>>, Vec<u32>);

impl EngineLists {
    /// Lists without rows, around centroids that were trained on the first device.
    pub(crate) async fn of(
        training: Training<'_>,
        devices: &Devices,
        metric: Metric,
        screen: Screen,
    ) -> Result<Self> {
        let mut parts = vec![DeviceLists::of(training)];
        if let [_, others @ ..] = devices.list()
            && !others.is_empty()
        {
            let centroids = parts[0].centroids().await?;
            let dim = centroids.len() / (parts[0].count() as usize).max(1);
            for device in others {
                let view = MatrixView::new(&centroids, dim)?;
                parts.push(DeviceLists::around(device, metric, view, screen).await?);
            }
        }
        Ok(Self { parts })
    }

    /// Lists without rows, around centroids of the host. The metric is that of the index.
    pub(crate) async fn around(
        devices: &Devices,
        metric: Metric,
        centroids: MatrixView<'_, f32>,
        screen: Screen,
    ) -> Result<Self> {
        let mut parts = vec![];
        for device in devices.list() {
            parts.push(DeviceLists::around(device, metric, centroids, screen).await?);
        }
        Ok(Self { parts })
    }

    /// The first device that is not lost.
    fn first(&self, rows: &EngineRows) -> Result<usize> {
        match rows {
            EngineRows::One(_) => Ok(0),
            EngineRows::Several(rows) => rows.live().first().copied().ok_or_else(|| rows.none_left()),
        }
    }

    /// The list of each row, which is that of its nearest centroid, by the first device.
    pub(crate) async fn assign_on_first(&self, rows: Vectors<'_>) -> Result<Vec<Assigned>> {
        self.parts[0].assign(rows).await
    }

    /// The list of each row, which is that of its nearest centroid.
    pub(crate) fn assign<'f>(&'f self, there: &'f EngineRows, rows: Vectors<'f>) -> Boxed<'f, Vec<Assigned>> {
        Box::pin(async move {
            let (EngineRows::Several(there), Vectors::Host(host)) = (there, rows) else {
                return self.parts[self.first(there)?].assign(rows).await;
            };
            loop {
                match self.assign_on_all(there, host).await {
                    // The replicas that are left have all centroids.
                    Err(Error::DeviceLost { .. }) if there.layout.is_none() && !there.live().is_empty() => {}
                    assigned => return assigned,
                }
            }
        })
    }

    /// Divides rows among the devices that are not lost.
    async fn assign_on_all(&self, there: &SpreadRows, rows: HostVectors<'_>) -> Result<Vec<Assigned>> {
        let live = there.live();
        let (count, devices) = (rows.rows(), live.len());
        if devices == 0 {
            return Err(there.none_left());
        }
        let start = |part: usize| count * part / devices;
        let works = live.iter().enumerate().map(|(part, &place)| -> Work<'_, Vec<Assigned>> {
            let first = start(part);
            let own = rows.slice(first..start(part + 1));
            let assigning = self.parts[place].assign(own.into());
            let work =
                async move { assigning.await.map_err(|error| error.with_rows(|row| first as u64 + row)) };
            (there.engine(place), Box::pin(work))
        });
        let assigned = together(works.collect()).await;
        let assigned = live.iter().zip(assigned).map(|(&place, one)| there.noted(place, one));
        Ok(all_or_first(assigned.collect())?.concat())
    }

    /// The number of lists.
    pub(crate) fn count(&self) -> u64 {
        self.parts[0].count()
    }

    /// The expected duration of a search that probes `probes` lists for each query. None if it is not known beforehand.
    pub(crate) fn expected(&self, rows: &EngineRows, queries: usize, probes: u64) -> Option<Duration> {
        match rows {
            EngineRows::One(rows) => self.parts[0].expected(rows, queries, probes),
            EngineRows::Several(_) => None,
        }
    }

    /// Starts to compile the kernels of searches in these lists.
    pub(crate) fn compile_ahead(&self, rows: &EngineRows, metric: Metric) {
        let parts = self.parts.iter().zip(rows.parts());
        parts.for_each(|(lists, rows)| lists.compile_ahead(rows, metric));
    }

    /// Times the kernels of searches in these lists, and uses the faster forms.
    pub(crate) fn tune<'f>(
        &'f self,
        rows: &'f EngineRows,
        metric: Metric,
        is_again: bool,
    ) -> Boxed<'f, Vec<TunedKernel>> {
        Box::pin(async move {
            let work = |place: usize| self.parts[place].tune(&rows.parts()[place], metric, is_again);
            match rows {
                EngineRows::One(_) => work(0).await,
                EngineRows::Several(rows) => {
                    let works = rows.live().into_iter().map(|place| -> Work<'_, Vec<TunedKernel>> {
                        (rows.engine(place), Box::pin(work(place)))
                    });
                    Ok(all_or_first(together(works.collect()).await)?.concat())
                }
            }
        })
    }

    /// Compiles the kernels of searches in these lists and in all rows, and waits for them.
    pub(crate) fn warm_up<'f>(&'f self, rows: &'f EngineRows, metric: Metric) -> Boxed<'f, ()> {
        Box::pin(async move {
            let work = |place: usize| self.parts[place].warm_up(&rows.parts()[place], metric);
            match rows {
                EngineRows::One(_) => work(0).await,
                EngineRows::Several(rows) => {
                    let works = rows
                        .live()
                        .into_iter()
                        .map(|place| -> Work<'_, ()> { (rows.engine(place), Box::pin(work(place))) });
                    all_or_first(together(works.collect()).await).map(drop)
                }
            }
        })
    }

    /// All centroids, `[lists, dim]`.
    pub(crate) async fn centroids(&self, rows: &EngineRows) -> Result<Vec<f32>> {
        self.parts[self.first(rows)?].centroids().await
    }

    /// Lists without rows around the same centroids, for the device in this place.
    pub(crate) async fn around_again(
        &self,
        (rows, place): (&EngineRows, usize),
        device: &Device,
        metric: Metric,
        screen: Screen,
    ) -> Result<DeviceLists> {
        let live = match rows {
            EngineRows::Several(rows) => rows.live(),
            EngineRows::One(_) => vec![],
        };
        let from = live.into_iter().find(|&other| other != place);
        let from = from.ok_or_else(|| Error::internal("no device has the centroids"))?;
        let centroids = self.parts[from].centroids().await?;
        let dim = centroids.len() / (self.count() as usize).max(1);
        DeviceLists::around(device, metric, MatrixView::new(&centroids, dim)?, screen).await
    }

    /// Takes the lists of a device in the place of a lost one's.
    pub(crate) fn replace(&mut self, place: usize, lists: DeviceLists) {
        self.parts[place] = lists;
    }

    /// Sets the pages of each list, ascending, and the number of its rows. Searches go through all rows before this is done.
    pub(crate) fn set<'f>(
        &'f mut self,
        rows: &'f EngineRows,
        pages: &'f [Vec<u32>],
        sizes: &'f [u32],
    ) -> Boxed<'f, ()> {
        Box::pin(async move {
            let rows = match rows {
                EngineRows::One(rows) => return self.parts[0].set(rows, pages, sizes).await,
                EngineRows::Several(rows) => rows,
            };
            let divided = match &rows.layout {
                Some(_) => divided(rows, pages)?,
                None => vec![],
            };
            let live = rows.live();
            let mut works: Vec<Work<'_, ()>> = vec![];
            for ((place, lists), there) in self.parts.iter_mut().enumerate().zip(&rows.parts) {
                let (pages, sizes) = match divided.get(place) {
                    Some((pages, sizes)) => (&pages[..], &sizes[..]),
                    None if live.contains(&place) => (pages, sizes),
                    None => continue,
                };
                works.push((rows.engine(place), Box::pin(lists.set(there, pages, sizes))));
            }
            all_or_first(together(works).await).map(drop)
        })
    }

    /// The nearest rows of the lists that are nearest to each query.
    pub(crate) fn search<'f>(
        &'f self,
        rows: &'f EngineRows,
        queries: &'f Queries<'f>,
        request: &'f SearchRequest<'f>,
        probes: u32,
    ) -> Boxed<'f, SearchResult> {
        Box::pin(async move {
            let found = match rows {
                EngineRows::One(rows) => self.parts[0].search(rows, queries, request, probes).await?,
                EngineRows::Several(rows) if rows.layout.is_none() => {
                    rows.search(Aim::InLists(&self.parts, probes), queries, request).await?
                }
                EngineRows::Several(rows) => self.search_shards(rows, queries, request, probes).await?,
            };
            Ok(found.with_roots(request.metric, rows.place()))
        })
    }

    /// A query with too few rows on all devices together probes more lists on all of them.
    async fn search_shards(
        &self,
        rows: &SpreadRows,
        queries: &Queries<'_>,
        request: &SearchRequest<'_>,
        probes: u32,
    ) -> Result<SearchResult> {
        let present = request.allowed.map_or(rows.len() as u64, |allowed| allowed.count);
        let wanted = request.widens.then_some((request.k as u64).min(present) as usize);
        let mut widening = Widening { probes, lists: self.count() as u32, wanted };
        let once = SearchRequest { widens: false, ..*request };
        let mut found = rows.search(Aim::InLists(&self.parts, probes), queries, &once).await?;
        let count = queries.rows();
        while let Some(short) = widening.short(count, |query| found.neighbors.row(query).len()) {
            let fetched = fetched(queries).await?;
            let some = fetched.as_ref().map_or(*queries, Queries::from).on_host()?.chosen(&short)?;
            let some = Queries::from(&some);
            let before = count - short.len();
            let progress = |answered| request.report(before + answered);
            let once = SearchRequest { progress: Some(&progress), ..once };
            let more = rows.search(Aim::InLists(&self.parts, widening.probes), &some, &once).await?;
            found.neighbors.replace(&short, &more.neighbors)?;
            found.statistics.add(&more.statistics);
        }
        Ok(found)
    }

    /// Adds the memory of the centroids and of the tables of the lists.
    pub(crate) fn measure(&self, memory: &mut Memory) {
        self.parts.iter().for_each(|lists| lists.measure(memory));
    }
}

/// The pages of each list on every device, as they are numbered there, and the number of its rows there.
fn divided(rows: &SpreadRows, pages: &[Vec<u32>]) -> Result<Vec<Pages>> {
    let Some(layout) = &rows.layout else { return Err(Error::internal("replicas have the same pages")) };
    let devices = rows.parts.len();
    let mut divided: Vec<Pages> = vec![];
    for _ in 0..devices {
        divided.push((memory::filled(pages.len(), vec![])?, memory::filled(pages.len(), 0)?));
    }
    let rows_of = |page: u32| rows_of_page(rows.alive(), rows.end(), page);
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
