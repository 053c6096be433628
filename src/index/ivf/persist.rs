//! Saves and loads an `Ivf`.

use crate::engine::PAGE;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::index::common::Resources;
use crate::index::ivf::{Ivf, Pages};
use crate::index::saved::kept::{FromSaved, kept_methods};
use crate::index::saved::{Loading, SavedKind, SavedLists, Saving};
use crate::memory;

impl Ivf {
    pub(crate) fn saving(&self) -> Boxed<'_, Saving<'_>> {
        Box::pin(async move {
            let store = &self.common.store;
            let (slots, offsets) = self.pages.in_order(&store.rows.has_row())?;
            let centroids = store.rows.centroids().await?;
            let lists = Some(SavedLists { offsets, centroids });
            Ok(Saving { common: &self.common, slots, lists, documents: None })
        })
    }
}

impl FromSaved for Ivf {
    const KINDS: &'static [SavedKind] = &[SavedKind::Ivf];

    kept_methods!();

    fn from_saved(loading: Loading<'_>, resources: Resources) -> Boxed<'_, Self> {
        Box::pin(async move {
            let ids = loading.ids()?;
            let SavedLists { offsets, centroids } = loading.lists()?;
            let (pages, slots) = packed(&offsets)?;
            // Whole pages, so that segments are made large enough at once.
            let expected =
                slots.iter().max().map_or(0, |&last| (last as usize + 1).next_multiple_of(PAGE as usize));
            let settings = loading.settings(resources, expected).with_lists()?;
            let mut common = settings.open().await?;
            common.attach_lists(&centroids).await?;
            let store = common.store_mut()?;
            loading.fill(store, &ids, &slots).await?;
            if store.len() > 0 {
                // Without them a search would look at all rows, and answer otherwise than the saved index.
                store.rows.set_pages(&pages.of_list, &pages.sizes).await?;
            }
            Ok(Self::of(common, pages))
        })
    }
}

/// Pages of lists with tombstones at the ends of lists only, and the slots of the rows in the order of the lists.
fn packed(offsets: &[u64]) -> Result<(Pages, Vec<u32>)> {
    let rows = offsets.last().copied().unwrap_or(0);
    Error::check_slots(rows)?;
    let mut lists = memory::with_room(rows as usize)?;
    for (list, range) in (0..).zip(offsets.windows(2)) {
        lists.resize(range[1] as usize, list);
    }
    let mut pages = Pages::new(offsets.len() - 1);
    let slots = pages.place(&lists, &|_| false)?;
    Ok((pages, slots))
}
