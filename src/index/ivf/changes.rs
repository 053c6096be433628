//! Adds, updates, removes and compacts rows of an `Ivf`. Their ids stay.

use crate::engine::{Recovered, Vectors};
use crate::error::Result;
use crate::future::Boxed;
use crate::index::ivf::{Ivf, Pages};
use crate::memory;
use crate::options::AddOptions;

impl Ivf {
    pub(crate) fn boxed_add<'s>(
        &'s mut self,
        rows: Vectors<'s>,
        options: &'s AddOptions<'_>,
    ) -> Boxed<'s, ()> {
        Box::pin(async move {
            let quantized = self.common.taken(&rows).await?;
            let rows = quantized.as_ref().map_or(rows, Vectors::from);
            let (slots, pages) = self.placed(rows).await?;
            self.common
                .store_mut()?
                .add_at(rows, options.ids, &slots, &mut |rows| options.report(rows))
                .await?;
            self.pages = pages;
            self.announce_pages().await;
            Ok(())
        })
    }

    pub(crate) fn boxed_update<'s>(&'s mut self, ids: &'s [u64], rows: Vectors<'s>) -> Boxed<'s, ()> {
        Box::pin(async move {
            let replaced = self.common.replaced(ids, &rows)?;
            let quantized = self.common.taken(&rows).await?;
            let rows = quantized.as_ref().map_or(rows, Vectors::from);
            let (slots, pages) = self.placed(rows).await?;
            self.common.store_mut()?.update_at(ids, rows, &slots).await?;
            self.pages = pages;
            self.leave_pages(&replaced);
            self.announce_pages().await;
            Ok(())
        })
    }

    pub(crate) fn boxed_remove<'s>(&'s mut self, ids: &'s [u64]) -> Boxed<'s, ()> {
        Box::pin(async move {
            let mut slots = self.common.store.slots_of(ids)?;
            slots.sort_unstable();
            slots.dedup();
            self.common.store_mut()?.remove(ids).await?;
            self.leave_pages(&slots);
            self.announce_pages().await;
            if self.pages.is_sparse() {
                // The rows are gone, whether this succeeds or not: a device that fails here says so in the next call.
                let _ = self.boxed_compact().await;
            }
            Ok(())
        })
    }

    /// Moves rows within lists first, then whole pages.
    pub(crate) fn boxed_compact(&mut self) -> Boxed<'_, ()> {
        Box::pin(async move {
            for step in [Pages::consolidated, Pages::lowered] {
                let store = self.common.store_mut()?;
                let moves = step(&self.pages, &store.rows.has_row(), &|slot| store.rows.device_of(slot))?;
                if !moves.from.is_empty() {
                    store.relocate(&moves.from, &moves.to).await?;
                }
                self.pages = moves.pages;
                self.announce_pages().await;
            }
            Ok(())
        })
    }

    pub(crate) fn taken_back(&mut self, recovered: Recovered) -> Boxed<'_, ()> {
        Box::pin(async move {
            self.common.replace(recovered)?;
            self.announce_pages().await;
            Ok(())
        })
    }

    /// Slots for rows in the lists of their nearest centroids, and the pages when the rows are there.
    async fn placed(&self, rows: Vectors<'_>) -> Result<(Vec<u32>, Pages)> {
        let assigned = self.common.store.rows.assign(rows).await?;
        let lists = memory::collect(assigned.iter().map(|row| row.list))?;
        let mut pages = self.pages.copied()?;
        let slots = pages.place(&lists, &self.common.store.rows.has_row())?;
        Ok((slots, pages))
    }

    fn leave_pages(&mut self, slots: &[u32]) {
        self.pages.leave(slots, &self.common.store.rows.has_row());
    }

    /// Tells the rows which pages the lists have. The change is made by then: the store has taken it, and so have the pages,
    /// with no await between. The pages from before are forgotten first: where the host or a device has no memory for the new ones, or the
    /// future is dropped, searches look at all rows until the next change.
    async fn announce_pages(&mut self) {
        self.recalls.forget();
        // The store is not shared, because the change is made.
        if let Ok(store) = self.common.store_mut() {
            store.rows.forget_pages();
            let _ = store.rows.set_pages(&self.pages.of_list, &self.pages.sizes).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SearchOptions;
    use crate::{Device, Distribution, IvfBuilder, MatrixView, Metric};

    #[test]
    fn without_pages_all_rows_are_searched_wherever_they_are() -> Result<()> {
        let host = Device::host();
        // Two clusters, each with a list.
        let rows: Vec<f32> =
            (0..64).map(|row| if row < 32 { row as f32 } else { 100.0 + row as f32 }).collect();
        let rows = MatrixView::new(&rows, 1)?;
        let devices = [host.clone(), host.clone()];
        for distribution in [None, Some(Distribution::Sharded), Some(Distribution::Replicated)] {
            let builder: IvfBuilder<'_> = match distribution {
                None => Ivf::builder(&host, Metric::L2Squared, 1),
                Some(distribution) => Ivf::builder(&devices, Metric::L2Squared, 1).distribution(distribution),
            };
            let mut index = builder.lists(2).train(rows)?;
            index.add(rows)?;
            let found = |index: &Ivf| -> Result<usize> {
                let query = MatrixView::new(&[10.0], 1)?;
                let found = index.search_with(query, &SearchOptions::new(64).probes(1))?;
                Ok(found.neighbors.row(0).len())
            };
            assert_eq!(found(&index)?, 32, "{distribution:?}");
            index.common.store_mut()?.rows.forget_pages();
            assert_eq!(found(&index)?, 64, "{distribution:?}");
        }
        Ok(())
    }
}
