//! Changes of a `MultiVector`: documents that come, go, or get other tokens.

use crate::engine::{Edit, Placing, TokenVectors, change};
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::index::documents::MultiVector;
use crate::memory;
use crate::options::AddOptions;
use crate::store::documents::{NewDocuments, Step};

impl MultiVector {
    pub(super) fn boxed_add<'s>(
        &'s mut self,
        documents: &'s TokenVectors<'_>,
        options: &'s AddOptions<'_>,
    ) -> Boxed<'s, ()> {
        Box::pin(async move {
            let rows = &mut *self.tokens.store_mut()?.rows;
            let new = self.documents.reserve(rows, &lengths(documents)?, options.ids)?;
            self.put(documents, new, &[], options).await
        })
    }

    pub(super) fn boxed_update<'s>(
        &'s mut self,
        ids: &'s [u64],
        documents: &'s TokenVectors<'_>,
    ) -> Boxed<'s, ()> {
        Box::pin(async move {
            if documents.len() != ids.len() {
                let needed = format!("{} documents, one per id", ids.len());
                return Err(Error::argument("documents", needed, documents.len()));
            }
            let old = self.documents.places_of(ids)?;
            let mut sorted = memory::collect(old.iter().copied().zip(ids.iter().copied()))?;
            sorted.sort_unstable();
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(Error::argument("ids", "each id once", format!("{} twice", pair[0].1)));
            }
            let rows = &mut *self.tokens.store_mut()?.rows;
            let new = self.documents.reserve_again(rows, &lengths(documents)?, ids)?;
            self.put(documents, new, &old, &AddOptions::new()).await?;
            self.compact_if_sparse().await;
            Ok(())
        })
    }

    /// Moves documents together where much memory between them is free. The change before is made, whether this succeeds or not: a device
    /// that fails here says so in the next call.
    async fn compact_if_sparse(&mut self) {
        if self.documents.is_sparse() {
            let _ = self.boxed_compact().await;
        }
    }

    /// Writes the tokens of new documents behind those of the others, in place of the documents in the places `old`.
    async fn put(
        &mut self,
        documents: &TokenVectors<'_>,
        new: NewDocuments,
        old: &[u32],
        options: &AddOptions<'_>,
    ) -> Result<()> {
        let rows = documents.vectors();
        let of_documents = |error: Error| error.for_argument("documents", 0);
        let quantized = self.tokens.taken(&rows).await.map_err(of_documents)?;
        let rows = quantized.as_ref().map_or(rows, Into::into);
        self.list(rows, &new.slots).await.map_err(of_documents)?;
        let ids = memory::collect(new.slots.iter().map(|&slot| u64::from(slot)))?;
        let freed = self.slots_of(old)?;
        let edit = Edit::put(rows, &Placing { slots: &new.slots, ids: &ids, freed: &freed });
        // Also after an error: the rows may have gone to the host, with other codes.
        self.forget_kept();
        let changed =
            change(&mut self.tokens.store_mut()?.rows, edit, &mut |tokens| options.report(tokens)).await;
        if let Err(error) = changed {
            self.unlist(&new.slots).await;
            return Err(of_documents(error));
        }
        self.documents.note(new)?;
        self.documents.vacate(old);
        self.unlist(&freed).await;
        Ok(())
    }

    /// The slots of the tokens of places.
    pub(super) fn slots_of(&self, places: &[u32]) -> Result<Vec<u32>> {
        let tokens = places.iter().map(|&place| self.documents.slots(place).len()).sum();
        let mut slots = memory::with_room(tokens)?;
        places.iter().for_each(|&place| slots.extend(self.documents.slots(place)));
        Ok(slots)
    }

    pub(super) fn boxed_remove<'s>(&'s mut self, ids: &'s [u64]) -> Boxed<'s, ()> {
        Box::pin(async move {
            let mut places = self.documents.places_of(ids)?;
            places.sort_unstable();
            places.dedup();
            if places.is_empty() {
                return Ok(());
            }
            let freed = self.slots_of(&places)?;
            self.forget_kept();
            change(&mut self.tokens.store_mut()?.rows, Edit::release(&freed), &mut |_| ()).await?;
            self.documents.forget(&places);
            self.unlist(&freed).await;
            self.compact_if_sparse().await;
            Ok(())
        })
    }

    pub(super) fn boxed_compact(&mut self) -> Boxed<'_, ()> {
        Box::pin(async move {
            self.forget_kept();
            while let Some(Step { from, to, table }) = self.documents.next_move(&*self.tokens.store.rows)? {
                let rows = &mut self.tokens.store_mut()?.rows;
                change(rows, Edit::relocate(&from, &to), &mut |_| ()).await?;
                self.documents = table;
                self.relist(&from, &to).await;
            }
            self.tokens.store_mut()?.rows.shrink()
        })
    }
}

/// The number of tokens of each document.
fn lengths(documents: &TokenVectors<'_>) -> Result<Vec<usize>> {
    memory::collect(documents.offsets().windows(2).map(|ends| ends[1] - ends[0]))
}
