//! Everything that a search has found so far.

use crate::engine::rows::segments::GpuRows;
use crate::engine::search::answers::Answers;
use crate::engine::search::batches::Sink;
use crate::engine::search::request::{SearchRequest, SearchResult, Statistics};
use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::Profile;
use crate::kernels::key_of;

/// Hits that answers have room for from the start, at most: a search may find far fewer than k rows for each query.
const ROOM: usize = 1 << 22;

/// Everything that a search has found so far.
pub(crate) struct SearchState<'a> {
    request: &'a SearchRequest<'a>,
    pub(crate) answers: Answers,
    pub(crate) statistics: Statistics,
    pub(crate) profile: Option<Profile>,
    /// Queries with an answer.
    pub(crate) answered: usize,
}

impl<'a> SearchState<'a> {
    pub(crate) fn new(rows: &GpuRows, queries: usize, request: &'a SearchRequest<'a>) -> Result<Self> {
        let most = request.scope().found(rows).min(request.k as u64) as usize;
        let hits = queries.saturating_mul(most);
        Ok(Self {
            request,
            answers: Answers::new(queries, hits.min(ROOM))?,
            statistics: Statistics::default(),
            profile: if request.profile { Profile::of_forms(&rows.gpu, request.forms) } else { None },
            answered: 0,
        })
    }

    /// The result, with the times of all stages.
    pub(crate) fn finish<'f>(self, rows: &'f GpuRows) -> Boxed<'f, SearchResult>
    where
        'a: 'f,
    {
        Box::pin(async move {
            let Self { answers, mut statistics, profile, .. } = self;
            if let Some(profile) = profile {
                statistics.stages = profile.times(&rows.gpu).await?;
            }
            Ok(SearchResult { neighbors: answers.collected()?, statistics })
        })
    }
}

impl Sink for SearchState<'_> {
    fn profile(&mut self) -> Option<&mut Profile> {
        self.profile.as_mut()
    }

    fn statistics(&mut self) -> &mut Statistics {
        &mut self.statistics
    }

    fn threshold(&self, _query: usize) -> u32 {
        key_of(self.request.most().unwrap_or(f32::MAX))
    }

    fn put(&mut self, query: usize, found: impl Iterator<Item = (u32, u64)>) -> Result<()> {
        self.answers.put(query, found, self.request)
    }

    fn note_answered(&mut self, queries: usize) {
        self.answered += queries;
        self.request.report(self.answered);
    }
}
