//! Searches of rows that the device has no room for, not even for their 8-bit copy: window by window, each searched while the next is
//! quantised and sent. What the windows so far had is the threshold of those to come, so they have few candidates.

use std::ops::Range;

use crate::bits::Bits;
use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::allowed::{Allowed, Scope};
use crate::engine::rows::hybrid::windows::Windows;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::answers::Answers;
use crate::engine::search::batches::Sink;
use crate::engine::search::hybrid::refining::Asked;
use crate::engine::search::hybrid::screened::screened;
use crate::engine::search::plan::Plan;
use crate::engine::search::planning::{FEW_ROWS, SMALL_PAIRS};
use crate::engine::search::request::{SearchRequest, SearchResult, Statistics};
use crate::engine::search::within::CAPACITY;
use crate::error::Result;
use crate::future::{Boxed, join_all};
use crate::gpu::Profile;
use crate::host::{Candidates, Hits, SearchLimit, Shortlist};
use crate::kernels::key_of;
use crate::memory;

/// Up to this many pairs of a query and a row, the host computes all distances sooner than a small window is sent.
const FEW_PAIRS: usize = 1 << 16;

/// Distances that the host computes at a time.
const DIRECT: usize = 1 << 20;

/// Some neighbouring slots, and what a search may find there.
struct Window {
    slots: Range<usize>,
    /// The rows that may be found, from the window's first slot on; none if all may be.
    allowed: Option<Allowed>,
    /// Whether queries have a threshold: their distance, or the k rows that earlier windows have.
    has_threshold: bool,
    /// Whether the host computes the distances of all these rows, without the device.
    is_direct: bool,
}

/// A search, and the nearest rows of the windows that it has been through.
struct Stream<'a> {
    queries: &'a Vectors<'a>,
    asked: Asked<'a>,
    request: &'a SearchRequest<'a>,
    limit: SearchLimit,
    /// The nearest rows so far of each query: at most k, nearest first, by (key, id).
    found: Vec<Vec<(u32, u64)>>,
    /// Queries that the host answers alone, because a window had too many candidates.
    is_left: Vec<bool>,
    statistics: Statistics,
    profile: Option<Profile>,
    /// Queries that were reported as answered.
    told: usize,
}

pub(super) fn search<'f>(
    windows: &'f Windows,
    (queries, asked): (&'f Vectors<'f>, Asked<'f>),
    request: &'f SearchRequest<'f>,
) -> Boxed<'f, SearchResult> {
    Box::pin(async move {
        let (count, limit) = (queries.rows(), request.limit());
        let mut found = memory::with_room(count)?;
        found.resize_with(count, Vec::new);
        let is_left = memory::filled(count, false)?;
        let statistics = Statistics::default();
        let profile = if request.profile { Profile::of_forms(&windows.of.gpu, request.forms) } else { None };
        let mut stream =
            Stream { queries, asked, request, limit, found, is_left, statistics, profile, told: 0 };
        let turn = windows.turn().await;
        stream.all_windows(windows).await?;
        drop(turn);
        stream.rest()?;
        if let Some(profile) = stream.profile.take() {
            stream.statistics.stages = profile.times(&windows.of.gpu).await?;
        }
        stream.finished()
    })
}

impl<'a> Stream<'a> {
    async fn all_windows(&mut self, windows: &Windows) -> Result<()> {
        let rows = self.asked.rows;
        let all = self.windows(windows)?;
        let (few, sent): (Vec<&Window>, Vec<&Window>) = all.iter().partition(|window| window.is_direct);
        let count = sent.len();
        let mut next = sent.into_iter().enumerate().peekable();
        if let Some((_, first)) = next.peek() {
            windows.fill(0, rows, first.slots.clone()).await?;
        }
        // The device copies the first rows meanwhile.
        few.into_iter().try_for_each(|window| self.direct(window))?;
        while let Some((number, window)) = next.next() {
            let place = number % windows.count();
            self.statistics.windows += 1;
            let of_window = windows.rows(place, window.slots.len())?;
            let search = self.window(&of_window, window);
            match next.peek() {
                Some((number, behind)) => {
                    let fill = windows.fill(number % windows.count(), rows, behind.slots.clone());
                    if windows.count() > 1 {
                        join_all(vec![search, Box::pin(fill)]).await.into_iter().collect::<Result<()>>()?;
                    } else {
                        search.await?;
                        fill.await?;
                    }
                }
                None => search.await?,
            }
            // A part of all windows is told as that part of the queries.
            self.told = self.found.len() * (number + 1) / (count + 1);
            self.request.report(self.told);
        }
        Ok(())
    }

    /// The windows that have rows to be found.
    fn windows(&self, windows: &Windows) -> Result<Vec<Window>> {
        let bits = self.request.allowed.map(|allowed| &allowed.bits).or(self.asked.rows.alive());
        let mut all = vec![];
        let mut before = 0;
        for slots in windows.ranges(self.asked.rows.end() as u64) {
            let mut allowed = None;
            if let Some(bits) = bits {
                let words = &bits.words()[slots.start / 32..slots.end.div_ceil(32)];
                let own = Allowed::new(Bits::from_words(memory::copied(words)?, slots.len()));
                allowed = Some(own).filter(|own| own.count < slots.len() as u64);
            }
            let found = allowed.as_ref().map_or(slots.len(), |allowed| allowed.count as usize);
            if found == 0 {
                continue;
            }
            let has_threshold = match self.limit {
                SearchLimit::Nearest(k) => before >= k,
                SearchLimit::Within(_) => true,
            };
            // If many of the rows may be among the nearest, a screen excludes few.
            let excludes_few = !has_threshold && self.request.k.saturating_mul(16) > found;
            let queries = self.found.len();
            let is_small = !has_threshold && (slots.len() * queries) as u64 <= SMALL_PAIRS;
            // No plan screens for so few rows of a filter.
            let is_few = found as u64 <= FEW_ROWS && (allowed.is_some() || found * queries <= FEW_PAIRS);
            let is_direct = is_few || excludes_few || is_small;
            before += found;
            all.push(Window { slots, allowed, has_threshold, is_direct });
        }
        Ok(all)
    }

    /// The queries that windows are searched for.
    fn open(&self) -> QueryNumbers {
        let count = self.is_left.len();
        if !self.is_left.contains(&true) {
            return QueryNumbers::Range(0..count);
        }
        QueryNumbers::List((0..count).filter(|&query| !self.is_left[query]).collect())
    }

    /// Computes the distances of all rows of a window.
    fn direct(&mut self, window: &Window) -> Result<()> {
        let first = window.slots.start;
        let mut slots: Vec<u32> = memory::with_room(window.slots.len())?;
        match &window.allowed {
            Some(allowed) => slots.extend(allowed.bits.ones_in_order().map(|slot| (first + slot) as u32)),
            None => slots.extend(window.slots.clone().map(|slot| slot as u32)),
        }
        let open = self.open();
        self.statistics.scored += (open.len() * slots.len()) as u64;
        for numbers in open.batches((DIRECT / slots.len()).max(1)) {
            let shortlist = |query| Shortlist { query, candidates: Candidates::Slots(&slots) };
            let mut shortlists = memory::with_room(numbers.len())?;
            shortlists.extend(numbers.iter().map(shortlist));
            let hits = self.asked.refined(&shortlists, self.limit)?;
            self.add(&numbers, &hits)?;
        }
        Ok(())
    }

    fn window<'f>(&'f mut self, rows: &'f GpuRows, window: &'f Window) -> Boxed<'f, ()> {
        Box::pin(async move {
            let request = SearchRequest { allowed: window.allowed.as_ref(), ..*self.request };
            let scope = request.scope();
            let open = self.open();
            if open.len() == 0 {
                return Ok(());
            }
            let (queries, has_threshold) = (open.len() as u64, window.has_threshold);
            let plan = match has_threshold {
                true => Plan::within(rows, queries, CAPACITY, scope),
                false => Plan::screened(rows, queries, request.k as u64, scope),
            };
            let limits = (has_threshold, Some(window.slots.start as u32));
            let both = (self.queries, self.asked);
            let left = screened(rows, both, open, &request, limits, plan, self).await?;
            left.iter().for_each(|query| self.is_left[query] = true);
            Ok(())
        })
    }

    /// Adds what queries found among rows whose distances the host computed.
    fn add(&mut self, numbers: &QueryNumbers, hits: &Hits) -> Result<()> {
        self.statistics.refined += hits.refined;
        numbers.iter().zip(hits.iter()).try_for_each(|(query, row)| self.put(query, row.iter().copied()))
    }

    /// Answers the queries that had too many candidates, by the host alone.
    fn rest(&mut self) -> Result<()> {
        let count = self.is_left.len();
        let left: Vec<usize> = (0..count).filter(|&query| self.is_left[query]).collect();
        let (done, told) = (count - left.len(), self.told);
        self.request.report(done.max(told));
        if left.is_empty() {
            return Ok(());
        }
        let progress = |answered: usize| self.request.report(told.max(done + answered));
        let numbers = QueryNumbers::List(left);
        let hits = self.asked.searched(&numbers, &self.request.on_host(Some(&progress)))?;
        self.statistics.searched_exhaustively += numbers.len() as u64;
        self.statistics.scored += hits.scored;
        numbers.iter().for_each(|query| self.found[query].clear());
        self.add(&numbers, &hits)
    }

    fn finished(self) -> Result<SearchResult> {
        let hits = self.found.iter().map(Vec::len).sum();
        let mut answers = Answers::new(self.found.len(), hits)?;
        for (query, found) in self.found.iter().enumerate() {
            answers.put(query, found.iter().copied(), self.request)?;
        }
        Ok(SearchResult { neighbors: answers.collected()?, statistics: self.statistics })
    }
}

impl Sink for Stream<'_> {
    fn profile(&mut self) -> Option<&mut Profile> {
        self.profile.as_mut()
    }

    fn statistics(&mut self) -> &mut Statistics {
        &mut self.statistics
    }

    fn threshold(&self, query: usize) -> u32 {
        match (self.limit, self.found[query].last()) {
            (SearchLimit::Within(limit), _) => key_of(limit),
            (SearchLimit::Nearest(_), found) => found.map_or_else(|| key_of(f32::MAX), |&(key, _)| key),
        }
    }

    /// Adds what a query found in a window.
    fn put(&mut self, query: usize, row: impl Iterator<Item = (u32, u64)>) -> Result<()> {
        let found = &mut self.found[query];
        memory::reserve_more(found, row.size_hint().1.unwrap_or_default())?;
        found.extend(row);
        found.sort_unstable();
        if let SearchLimit::Nearest(k) = self.limit {
            found.truncate(k);
        }
        Ok(())
    }

    /// Queries are answered when all windows are searched.
    fn note_answered(&mut self, _queries: usize) {}
}

/// The plan of the first window.
pub(super) fn plan(windows: &Windows, (end, queries, k): (u64, u64, u64), budget: u64) -> Option<Plan> {
    let all = windows.ranges(end);
    let rows = windows.rows(0, all.first()?.len()).ok()?;
    let scope = Scope { budget, allowed: None };
    let plan = Plan::screened(&rows, queries, k, scope)?;
    Some(Plan { windows: all.len() as u64, ..plan })
}
