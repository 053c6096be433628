//! `MultiVector`: exact search for documents of several token vectors each, by MaxSim.

pub(crate) mod builder;
mod changes;
mod lists;
pub(crate) mod options;
mod persist;
pub(crate) mod ranking;

use std::cmp::Ordering;
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;

use crate::elements::{ElementKind, Matrix};
use crate::engine::{
    Device, Devices, DocumentCache, DocumentRequest, Found, Scored, TokenVectors, token_weights,
};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::future::{Boxed, blocking_and_async};
use crate::index::common::{Common, Resources};
use crate::index::documents::options::MaxSimOptions;
use crate::index::documents::ranking::{DocumentScore, MaxSimStatistics, Ranking};
use crate::index::face::saving_methods;
use crate::index::ivf::Ivf;
use crate::index::loader::Loader;
use crate::memory;
use crate::options::AddOptions;
use crate::store::check_k;
use crate::store::documents::DocumentTable;
use crate::usage::Memory;

/// An exact index of documents of several token vectors each, as models of late interaction make them (ColBERT, ColPali).
///
/// The score of a document is its MaxSim: the sum, over the tokens of a query, of the largest inner product with a token of the document
/// (Khattab and Zaharia, 2020). Larger scores are nearer. A search gives the k documents of largest score, equal ones by the smaller id: all
/// documents are searched, and nothing is approximated.
///
/// ```
/// use nearfield::{Device, MultiVector, TokenVectors};
/// let mut index = MultiVector::builder(&Device::host(), 2).build()?;
/// // Two documents, of two tokens and of one.
/// let tokens = [[1.0f32, 0.0], [0.0, 1.0], [0.6, 0.8]];
/// index.add(&TokenVectors::new(&tokens, &[0, 2, 3])?)?;
/// // A query of two tokens.
/// let found = index.search(&(&[[1.0f32, 0.0], [0.0, 1.0]]).into(), 2)?;
/// assert_eq!((found.row(0)[0].id, found.row(0)[0].score), (0, 2.0));
/// assert_eq!(found.row(0)[1].id, 1);
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug)]
pub struct MultiVector {
    /// All tokens. The rows of the store have no ids of their own.
    tokens: Common,
    documents: DocumentTable,
    /// The places that have a document, and what a GPU has of them, until they change.
    places: OnceLock<Vec<u32>>,
    cache: DocumentCache,
    /// All tokens once more, in lists.
    lists: Option<Ivf>,
    /// As the caller gave them.
    resources: Resources,
}

saving_methods!(MultiVector);

impl MultiVector {
    /// An index without documents.
    fn over(tokens: Common, resources: Resources) -> Self {
        let (documents, places, cache) =
            (DocumentTable::default(), OnceLock::new(), DocumentCache::default());
        Self { tokens, documents, places, cache, lists: None, resources }
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether there is no document.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many tokens all documents have.
    pub fn tokens(&self) -> u64 {
        self.documents.tokens()
    }

    /// How many lists of tokens there are: none before [`build_lists`](Self::build_lists), and after a change that they could not follow for lack
    /// of memory or a device.
    pub fn lists(&self) -> usize {
        self.lists.as_ref().map_or(0, Ivf::lists)
    }

    /// Elements of a token.
    pub fn dim(&self) -> usize {
        self.tokens.dim
    }

    /// How tokens are stored.
    pub fn elements(&self) -> ElementKind {
        self.tokens.elements
    }

    /// The insertion number that the next document gets where the caller gives no ids: see [`add`](Self::add).
    pub fn next_id(&self) -> u64 {
        self.documents.next_number()
    }

    /// The device of the index.
    pub fn device(&self) -> &Device {
        &self.tokens.device
    }

    /// Whether a document has this id.
    pub fn contains(&self, id: u64) -> bool {
        self.documents.place_of(id).is_some()
    }

    /// The ids of all documents, ascending.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn ids(&self) -> Result<Vec<u64>> {
        self.documents.ids()
    }

    /// The memory that the index takes.
    pub fn memory(&self) -> Memory {
        let mut memory = Memory::default();
        self.tokens.store.measure(&mut memory);
        self.documents.measure(&mut memory);
        self.cache.measure(&mut memory);
        if let Some(lists) = &self.lists {
            lists.common().store.measure(&mut memory);
            lists.measure_lists(&mut memory);
        }
        memory
    }

    blocking_and_async! { self.tokens.device.clone();
        /// Adds documents under their insertion numbers: the first document of an index has id 0.
        ///
        /// # Errors
        /// [`Error::Argument`] for another dim or type; [`Error::NotFinite`] and [`Error::NormOutOfRange`] with the token's number;
        /// [`Error::OutOfMemory`]. The index is then as it was.
        pub fn add<'r>(&mut self, documents: &'r TokenVectors<'r>) -> Result<()> {
            self.boxed_add(documents, &AddOptions::new())
        }
        async add_async;

        /// [`add`](Self::add) with options: ids of the caller's, one a document, and progress, which counts tokens.
        ///
        /// # Errors
        /// As [`add`](Self::add); [`Error::DuplicateId`], [`Error::IdTooLarge`], and [`Error::Argument`] when there is not one id per
        /// document.
        ///
        /// ```
        /// use nearfield::{AddOptions, Device, MultiVector, TokenVectors};
        /// let mut index = MultiVector::builder(&Device::host(), 1).build()?;
        /// let documents = TokenVectors::new(&[[1.0f32], [2.0], [3.0]], &[0, 2, 3])?;
        /// index.add_with(&documents, &AddOptions::new().ids(&[70, 30]))?;
        /// assert_eq!(index.ids()?, [30, 70]);
        /// # Ok::<(), nearfield::Error>(())
        /// ```
        pub fn add_with<'r>(
            &mut self,
            documents: &'r TokenVectors<'r>,
            options: &AddOptions<'_>,
        ) -> Result<()> {
            self.boxed_add(documents, options)
        }
        async add_with_async;

        /// Removes the documents with these ids: all of them or, after an error, none. An id that is given twice is removed once. An index
        /// with much free memory between its documents moves them together.
        ///
        /// # Errors
        /// [`Error::UnknownId`] with the first id that no document has; [`Error::OutOfMemory`].
        pub fn remove(&mut self, ids: &[u64]) -> Result<()> {
            self.boxed_remove(ids)
        }
        async remove_async;

        /// Replaces the documents with these ids by others, of any number of tokens: all of them or, after an error, none.
        ///
        /// # Errors
        /// [`Error::UnknownId`]; [`Error::Argument`] when there is not one document per id or an id is given twice; otherwise as
        /// [`add`](Self::add).
        pub fn update<'r>(&mut self, ids: &[u64], documents: &'r TokenVectors<'r>) -> Result<()> {
            self.boxed_update(ids, documents)
        }
        async update_async;

        /// Moves documents into the gaps between others that they fit, and frees the memory behind the last.
        ///
        /// # Errors
        /// [`Error::OutOfMemory`]. The index has the same documents then.
        pub fn compact(&mut self) -> Result<()> {
            self.boxed_compact()
        }
        async compact_async;

        /// Puts the tokens into lists around centroids, which are trained on a sample of them: searches with
        /// [`MaxSimOptions::probes`] then score only the documents that have a token near to one of the query's. [`Ivf::recommend`] tells a good
        /// number of lists for [`tokens`](Self::tokens). Lists take about a byte an element and follow all changes; where they are built
        /// again, others take their place.
        ///
        /// # Errors
        /// [`Error::Argument`] for no lists, or more than tokens; [`Error::OutOfMemory`]; otherwise as [`KMeans::train`](crate::KMeans::train).
        ///
        /// ```
        /// use nearfield::{Device, MaxSimOptions, MultiVector, TokenVectors};
        /// let mut index = MultiVector::builder(&Device::host(), 1).build()?;
        /// index.add(&TokenVectors::new(&[[1.0f32], [-2.0], [3.0]], &[0, 1, 2, 3])?)?;
        /// index.build_lists(2)?;
        /// let found = index.search_with(&(&[2.0f32]).into(), &MaxSimOptions::new(1).probes(1))?;
        /// assert_eq!((found.row(0)[0].id, found.row(0)[0].score), (2, 6.0));
        /// # Ok::<(), nearfield::Error>(())
        /// ```
        pub fn build_lists(&mut self, lists: usize) -> Result<()> {
            self.boxed_build_lists(lists)
        }
        async build_lists_async;

        /// The tokens of a document, `[tokens, dim]`, of the index's type.
        ///
        /// # Errors
        /// [`Error::UnknownId`]; [`Error::OutOfMemory`].
        pub fn get(&self, id: u64) -> Result<Matrix> {
            self.boxed_get(id)
        }
        async get_async;

        /// The k documents of largest MaxSim for each query, the largest first, equal scores by the smaller id. Queries may have different
        /// numbers of tokens.
        ///
        /// # Errors
        /// [`Error::Argument`] for k = 0 or another dim; [`Error::NotFinite`] and [`Error::NormOutOfRange`] with a token's number;
        /// [`Error::Budget`]; [`Error::OutOfMemory`].
        pub fn search<'q>(&self, queries: &'q TokenVectors<'q>, k: usize) -> Result<Ranking> {
            self.boxed_search(queries, MaxSimOptions::new(k))
        }
        async search_async;

        /// [`search`](Self::search) with options: the documents that may be found, weights of the queries' tokens, means in place of sums.
        ///
        /// # Errors
        /// As [`search`](Self::search); [`Error::Argument`] for weights that are not one a token, or not from 0 to 1,000,000.
        ///
        /// ```
        /// use nearfield::{Device, MaxSimOptions, MultiVector, TokenVectors};
        /// let mut index = MultiVector::builder(&Device::host(), 1).build()?;
        /// index.add(&TokenVectors::new(&[[1.0f32], [2.0], [3.0]], &[0, 1, 2, 3])?)?;
        /// // Puts documents in order that another search found.
        /// let found = index.search_with(&(&[[2.0f32], [1.0]]).into(), &MaxSimOptions::new(2).filter(&[0, 1]))?;
        /// assert_eq!((found.row(0)[0].id, found.row(0)[0].score), (1, 6.0));
        /// # Ok::<(), nearfield::Error>(())
        /// ```
        pub fn search_with<'q>(
            &self,
            queries: &'q TokenVectors<'q>,
            options: &MaxSimOptions<'q>,
        ) -> Result<Ranking> {
            self.boxed_search(queries, *options)
        }
        async search_with_async;
    }

    /// Forgets what was kept of the documents, which a change has made wrong.
    fn forget_kept(&mut self) {
        (self.places, self.cache) = (OnceLock::new(), DocumentCache::default());
    }

    fn common(&self) -> &Common {
        &self.tokens
    }

    fn boxed_get(&self, id: u64) -> Boxed<'_, Matrix> {
        Box::pin(async move {
            let slots = self.slots_of(&self.documents.places_of(&[id])?)?;
            let bytes = self.tokens.store.rows.fetch_bytes(&slots).await?;
            Matrix::of_bytes(self.tokens.elements, &bytes, self.tokens.dim)
        })
    }

    fn boxed_search<'s>(
        &'s self,
        queries: &'s TokenVectors<'_>,
        options: MaxSimOptions<'s>,
    ) -> Boxed<'s, Ranking> {
        Box::pin(async move {
            check_k(options.k)?;
            self.tokens.check_vectors("queries", &queries.vectors())?;
            queries.vectors().kind().check_numbers("queries")?;
            let weights = token_weights(queries, options.weights, options.mean)?;
            let places = match self.places.get() {
                Some(places) => places,
                None => {
                    let places = self.documents.places()?;
                    self.places.get_or_init(|| places)
                }
            };
            let allowed = options.filter.map(|filter| self.documents.allowed(&filter)).transpose()?;
            let nominated = match options.probes {
                Some(_) => Some(self.nominated(queries, (&weights, allowed.as_deref()), &options).await?),
                None => None,
            };
            let request = DocumentRequest {
                ends: self.documents.ends(),
                places,
                allowed: allowed.as_deref(),
                nominated: nominated.as_deref(),
                cache: &self.cache,
                k: options.k.min(allowed.as_ref().map_or(places.len(), Vec::len)).max(1),
                weights: &weights,
                budget: self.tokens.budget,
                progress: options.progress,
                profile: options.profile,
            };
            let found = self.tokens.store.rows.search_documents(queries, &request).await?;
            let Found { by_query, bounded, computed, stages } = found;
            let statistics = MaxSimStatistics { bounded, computed, stages };
            let mut ranking = Ranking { statistics, ..Ranking::default() };
            for scored in by_query {
                let hit = |Scored { place, score }| DocumentScore { id: self.documents.id_of(place), score };
                let mut hits = memory::collect(scored.into_iter().map(hit))?;
                hits.sort_unstable_by(by_score);
                hits.truncate(options.k);
                memory::reserve_more(&mut ranking.hits, hits.len())?;
                ranking.hits.extend(hits);
                ranking.ends.push(ranking.hits.len());
            }
            Ok(ranking)
        })
    }
}

/// Larger scores first, equal ones by the smaller id.
fn by_score(one: &DocumentScore, other: &DocumentScore) -> Ordering {
    other.score.total_cmp(&one.score).then(one.id.cmp(&other.id))
}
