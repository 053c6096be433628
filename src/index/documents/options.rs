//! Options of a search for documents.

use std::fmt;

use crate::options::filter::Filter;
use crate::options::{Progress, setters};

/// Options of [`MultiVector::search_with`](crate::MultiVector::search_with).
///
/// ```
/// use nearfield::MaxSimOptions;
/// let options = MaxSimOptions::new(10).filter(&[7, 3]).weights(&[1.0, 0.5]).mean(true);
/// assert_eq!(options.k, 10);
/// ```
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct MaxSimOptions<'a> {
    /// The number of documents that each query finds. An index with fewer documents gives all of them.
    pub k: usize,
    /// The documents that may be found; none for all. With the ids of another search's documents, these are put in order (reranking).
    pub filter: Option<Filter<'a>>,
    /// The weight of each token of the queries, `[tokens]`, from 0 to 1,000,000; none for 1.
    pub weights: Option<&'a [f32]>,
    /// Whether weights are divided by their sum, query by query: scores of queries of different lengths can then be compared.
    pub mean: bool,
    /// Lists of tokens that each token of a query probes; none to search all documents. See [`MultiVector::build_lists`](crate::MultiVector::build_lists).
    pub probes: Option<usize>,
    /// With probes: how many tokens each token of a query finds, whose documents are nominated. Default: 256.
    pub candidates_per_token: usize,
    /// With probes: how many of the nominated documents are scored for each query, the most promising ones. Default: 1,024.
    pub candidates: usize,
    /// Whether the stages are timed on the device: see [`MaxSimStatistics::stages`](crate::MaxSimStatistics::stages).
    pub profile: bool,
    /// Called with the number of queries answered so far.
    pub progress: Option<Progress<'a>>,
}

impl<'a> MaxSimOptions<'a> {
    /// The k documents of largest score.
    pub fn new(k: usize) -> Self {
        Self {
            k,
            filter: None,
            weights: None,
            mean: false,
            probes: None,
            candidates_per_token: 256,
            candidates: 1024,
            profile: false,
            progress: None,
        }
    }

    /// Sets the documents that may be found: see [`Filter`].
    #[must_use]
    pub fn filter(mut self, filter: impl Into<Filter<'a>>) -> Self {
        self.filter = Some(filter.into());
        self
    }

    setters! { options => options;
        /// Sets the weight of each token of the queries, `[tokens]`.
        weights: &'a [f32] => Some;
        /// Sets whether scores are means over a query's tokens, by their weights.
        mean: bool;
        /// Scores only documents of which a list has a token near to one of the query's. This many lists are probed per token of a query.
        probes: usize => Some;
        /// Sets how many tokens each token of a query finds in the lists it probes, whose documents are nominated.
        candidates_per_token: usize;
        /// Sets how many of the nominated documents are scored for each query.
        candidates: usize;
        /// Sets whether the stages are timed on the device.
        profile: bool;
        /// Calls `progress` with the number of queries answered so far.
        progress: Progress<'a> => Some;
    }
}

impl fmt::Debug for MaxSimOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaxSimOptions")
            .field("k", &self.k)
            .field("filter", &self.filter)
            .field("weights", &self.weights.map(<[f32]>::len))
            .field("mean", &self.mean)
            .field("probes", &self.probes)
            .field("candidates_per_token", &self.candidates_per_token)
            .finish_non_exhaustive()
    }
}
