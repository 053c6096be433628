//! How a `MultiVector` is saved and loaded.

use std::path::Path;

#[cfg(not(target_arch = "wasm32"))]
use crate::engine::check_offsets;
use crate::error::{Error, Result};
use crate::future::Boxed;
#[cfg(not(target_arch = "wasm32"))]
use crate::index::common::Settings;
use crate::index::common::{Common, Resources};
use crate::index::documents::MultiVector;
#[cfg(not(target_arch = "wasm32"))]
use crate::index::mapped::MappedVectors;
use crate::index::saved::kept::FromSaved;
use crate::index::saved::{Loading, SavedDocuments, SavedKind, Saving, blame};
use crate::memory;
use crate::store::documents::NewDocuments;

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

impl MultiVector {
    /// An index of documents whose tokens lie in a file: those of a saved index, or rows of a file of vectors that begin at these offsets.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) async fn of_file(
        settings: Settings,
        path: &Path,
        offsets: Option<Vec<usize>>,
    ) -> Result<Self> {
        let kinds = &[SavedKind::MultiVector];
        let mut vectors = MappedVectors::open(path, settings.metric, settings.dim, kinds)?;
        let documents = match (vectors.documents.take(), offsets) {
            (Some(saved), None) => saved,
            (Some(_), Some(_)) => {
                let needed = format!("none for {}, which has its own", path.display());
                return Err(Error::argument("offsets", needed, "some"));
            }
            (None, None) => {
                let needed = format!("where the tokens of each document of {} begin", path.display());
                return Err(Error::argument("offsets", needed, "none"));
            }
            (None, Some(offsets)) => {
                check_offsets(&offsets, vectors.rows.rows)?;
                let ids = memory::collect((1..offsets.len()).map(|end| end as u64 - 1))?;
                let next = ids.len() as u64;
                let offsets = memory::collect(offsets.into_iter().map(|offset| offset as u64))?;
                SavedDocuments { ids, offsets, next, centroids: None }
            }
        };
        let own = Resources { file: None, ..settings.resources.clone() };
        let tokens = vectors.read_documents(settings, &documents.lengths()?).await?;
        let mut index = Self::over(tokens, own);
        let new = index.reserve(&documents, path)?;
        index.complete(new, documents).await?;
        Ok(index)
    }

    /// Gives the documents of a file their slots, in an index without any.
    fn reserve(&mut self, saved: &SavedDocuments, path: &Path) -> Result<NewDocuments> {
        let lengths = saved.lengths()?;
        let store = self.tokens.store_mut()?;
        let new = self.documents.reserve(&mut *store.rows, &lengths, Some(&saved.ids));
        new.map_err(|error| blame(path, error))
    }

    /// Notes the documents of a file, whose tokens are there by now, and fills their lists.
    async fn complete(&mut self, new: NewDocuments, saved: SavedDocuments) -> Result<()> {
        self.documents.note(new)?;
        self.documents.go_on_with(saved.next);
        match saved.centroids {
            Some(centroids) => self.attach_lists(&centroids).await,
            None => Ok(()),
        }
    }
}

impl FromSaved for MultiVector {
    const KINDS: &'static [SavedKind] = &[SavedKind::MultiVector];

    fn common(&self) -> &Common {
        &self.tokens
    }

    fn saving(&self) -> Boxed<'_, Saving<'_>> {
        Self::saving(self)
    }

    fn from_saved(loading: Loading<'_>, resources: Resources) -> Boxed<'_, Self> {
        Box::pin(async move {
            let (saved, tokens) = (loading.documents()?, loading.about.rows);
            Error::check_slots(tokens as u64)?;
            let mut index = Self::of(loading.settings(resources, tokens), None).await?;
            let new = index.reserve(&saved, loading.path())?;
            loading.fill_rows(index.tokens.store_mut()?, (None, &new.slots)).await?;
            index.complete(new, saved).await?;
            Ok(index)
        })
    }
}
