//! What an index of any kind does to be saved, loaded and changed by a log.

use crate::error::Error;
use crate::future::Boxed;
use crate::index::common::{Common, Resources};
use crate::index::log::change::Change;
use crate::index::saved::contents::SavedKind;
use crate::index::saved::loading::Loading;
use crate::index::saved::saving::Saving;

/// The indexes that a [`Loader`](crate::Loader) makes: [`Flat`](crate::Flat), [`Ivf`](crate::Ivf), [`Index`](crate::Index) for either, and
/// [`MultiVector`](crate::MultiVector).
pub trait Load: FromSaved {}

impl<I: FromSaved> Load for I {}

/// Makes an index of what was saved, and changes it as a log says.
pub trait FromSaved: Sized + Send + Sync + 'static {
    /// The kinds that it may be.
    const KINDS: &'static [SavedKind];

    /// Reads the rest of what was saved.
    fn from_saved(loading: Loading<'_>, resources: Resources) -> Boxed<'_, Self>;

    /// What every kind has.
    fn common(&self) -> &Common;

    /// What is to be saved.
    fn saving(&self) -> Boxed<'_, Saving<'_>>;

    /// Makes a change.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for kinds that no log has changes of.
    fn apply<'s>(&'s mut self, _: Change<'s>) -> Boxed<'s, ()> {
        let error = Error::unsupported("a log of changes", "a Flat or an Ivf", "another index");
        Box::pin(std::future::ready(Err(error)))
    }
}

/// Writes the methods of [`FromSaved`] that every index of rows has, over `common_mut`, `boxed_add`, `boxed_update` and `boxed_remove`.
macro_rules! kept_methods {
    () => {
        fn common(&self) -> &$crate::index::common::Common {
            Self::common(self)
        }

        fn saving(&self) -> $crate::future::Boxed<'_, $crate::index::saved::Saving<'_>> {
            Self::saving(self)
        }

        fn apply<'s>(
            &'s mut self,
            change: $crate::index::log::change::Change<'s>,
        ) -> $crate::future::Boxed<'s, ()> {
            use $crate::index::log::record::ChangeKind;
            Box::pin(async move {
                match (change.kind, change.rows) {
                    (ChangeKind::Add, Some(rows)) => {
                        let options = $crate::AddOptions { ids: Some(change.ids), progress: change.progress };
                        self.boxed_add(rows, &options).await?;
                    }
                    (ChangeKind::Update, Some(rows)) => self.boxed_update(change.ids, rows).await?,
                    (ChangeKind::Remove, _) => self.boxed_remove(change.ids).await?,
                    _ => return Ok(()),
                }
                self.common_mut().store_mut()?.go_on_with(change.next);
                Ok(())
            })
        }
    };
}
pub(crate) use kept_methods;
