//! How a `MultiVector` is saved and loaded.

use crate::error::Error;
use crate::future::Boxed;
use crate::index::common::Resources;
use crate::index::documents::MultiVector;
use crate::index::loader::FromSaved;
use crate::index::saved::{Loading, SavedDocuments, SavedKind, Saving, blame};
use crate::memory;

impl MultiVector {
    pub(super) fn saving(&self) -> Boxed<'_, Saving<'_>> {
        let places = self.documents.places();
        Box::pin(async move {
            let places = places?;
            let slots = self.slots_of(&places)?;
            let ids = memory::collect(places.iter().map(|&place| self.documents.id_of(place)))?;
            let mut offsets = memory::with_room(places.len() + 1)?;
            offsets.push(0);
            let mut end = 0;
            offsets.extend(places.iter().map(|&place| {
                end += self.documents.slots(place).len() as u64;
                end
            }));
            let centroids = match &self.lists {
                Some(lists) => Some(lists.common().store.rows.centroids().await?),
                None => None,
            };
            let next = self.documents.next_number();
            let documents = Some(SavedDocuments { ids, offsets, next, centroids });
            Ok(Saving { common: &self.tokens, slots, lists: None, documents })
        })
    }
}

impl FromSaved for MultiVector {
    const KINDS: &'static [SavedKind] = &[SavedKind::MultiVector];

    fn from_saved(loading: Loading<'_>, resources: Resources) -> Boxed<'_, Self> {
        Box::pin(async move {
            let SavedDocuments { ids, offsets, next, centroids } = loading.documents()?;
            let tokens = loading.about.rows;
            Error::check_slots(tokens as u64)?;
            let mut index = Self::of(loading.settings(resources, tokens)).await?;
            let lengths = memory::collect(offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize))?;
            let store = index.tokens.store_mut()?;
            let new = index.documents.reserve(&mut *store.rows, &lengths, Some(&ids));
            let new = new.map_err(|error| blame(loading.path(), error))?;
            loading.fill_rows(store, (None, &new.slots)).await?;
            index.documents.note(new)?;
            index.documents.go_on_with(next);
            if let Some(centroids) = centroids {
                index.attach_lists(&centroids).await?;
            }
            Ok(index)
        })
    }
}
