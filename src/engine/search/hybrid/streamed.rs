//! Searches of rows that the device has no room for, not even for their 8-bit copy: window by window, each searched while the next is
//! quantised and sent. What the windows so far had is the threshold of those to come, so they have few candidates.

use std::ops::Range;

use crate::bits::Bits;
use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::allowed::{Allowed, Scope};
use crate::engine::rows::hybrid::windows::{Windows, give_way};
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::answers::Answers;
use crate::engine::search::batches::{BatchWork, run_batches};
use crate::engine::search::hybrid::refining::{Asked, CandidatePlaces, Collecting, Collector, put};
use crate::engine::search::plan::Plan;
use crate::engine::search::planning::{FEW_ROWS, SMALL_PAIRS};
use crate::engine::search::request::{SearchRequest, SearchResult, Statistics};
use crate::engine::search::screening::Screening;
use crate::engine::search::within::CAPACITY;
use crate::error::{Error, Result};
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

/// The batches of a window.
struct Pass<'a, 's> {
    screening: Screening<'s>,
    collector: Collector<'a>,
    stream: &'s mut Stream<'a>,
    first: u32,
    has_threshold: bool,
    overflowed: Vec<usize>,
    /// Candidates that a query of those has, at most.
    needed: u64,
}

pub(super) fn search<'f>(
    windows: &'f Windows,
    queries: &'f Vectors<'f>,
    asked: Asked<'f>,
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
            self.add(numbers.iter(), &hits)?;
        }
        Ok(())
    }

    fn window<'f>(&'f mut self, rows: &'f GpuRows, window: &'f Window) -> Boxed<'f, ()> {
        Box::pin(async move {
            let request = SearchRequest { allowed: window.allowed.as_ref(), ..*self.request };
            let scope = request.scope();
            let mut open = self.open();
            if open.len() == 0 {
                return Ok(());
            }
            let (queries, has_threshold) = (open.len() as u64, window.has_threshold);
            let mut next = match has_threshold {
                true => Plan::within(rows, queries, CAPACITY, scope),
                false => Plan::screened(rows, queries, request.k as u64, scope),
            };
            while let Some(plan) = next {
                let Some(screening) = Screening::reserve(rows, &request, &plan).await? else {
                    return Err(Error::internal("a window has a plan without a screen"));
                };
                self.statistics.scored += open.len() as u64 * rows.end();
                let collector = Collector::new(if has_threshold { 0 } else { plan.k }, self.asked.usual);
                let (first, overflowed) = (window.slots.start as u32, vec![]);
                let stream = &mut *self;
                let mut pass =
                    Pass { screening, collector, stream, first, has_threshold, overflowed, needed: 0 };
                run_batches(open.batches(plan.batch as usize), &mut pass).await?;
                let Pass { overflowed, needed, .. } = pass;
                let count = overflowed.len() as u64;
                if count == 0 {
                    return Ok(());
                }
                self.statistics.searched_again += count;
                next = match has_threshold {
                    true => Plan::within(rows, count, needed.next_power_of_two(), scope),
                    false => plan.longer(rows, count, scope),
                };
                open = QueryNumbers::List(overflowed);
            }
            open.iter().for_each(|query| self.is_left[query] = true);
            Ok(())
        })
    }

    /// Adds what queries found in a window.
    fn add(&mut self, numbers: impl Iterator<Item = usize>, hits: &Hits) -> Result<()> {
        self.statistics.refined += hits.refined;
        for (query, row) in numbers.zip(hits.iter()) {
            let found = &mut self.found[query];
            memory::reserve_more(found, row.len())?;
            found.extend_from_slice(row);
            found.sort_unstable();
            if let SearchLimit::Nearest(k) = self.limit {
                found.truncate(k);
            }
        }
        Ok(())
    }

    /// The key that rows of a query are not above.
    fn threshold(&self, query: usize) -> u32 {
        match (self.limit, self.found[query].last()) {
            (SearchLimit::Within(limit), _) => key_of(limit),
            (SearchLimit::Nearest(_), found) => found.map_or_else(|| key_of(f32::MAX), |&(key, _)| key),
        }
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
        self.add(numbers.iter(), &hits)
    }

    fn finished(self) -> Result<SearchResult> {
        let hits = self.found.iter().map(Vec::len).sum();
        let mut answers = Answers::new(self.found.len(), hits)?;
        for (query, found) in self.found.iter().enumerate() {
            put(&mut answers, query, found, self.request)?;
        }
        Ok(SearchResult { neighbors: answers.collected()?, statistics: self.statistics })
    }
}

impl BatchWork for Pass<'_, '_> {
    type Pending = Collecting;

    async fn submit(&mut self, numbers: QueryNumbers) -> Result<Collecting> {
        let Self { screening, collector, stream, has_threshold, .. } = self;
        let mut profile = stream.profile.take();
        let threshold = |query| stream.threshold(query);
        let commands = match has_threshold {
            true => screening.within(stream.queries, &numbers, threshold, profile.as_mut()).await?,
            false => screening.screened(stream.queries, &numbers, profile.as_mut()).await?,
        };
        let places = CandidatePlaces::of(screening, !*has_threshold && screening.tightens());
        let collecting = collector.submit(commands, numbers, &places, &[]);
        stream.profile = profile;
        collecting
    }

    async fn finish(&mut self, pending: Collecting) -> Result<()> {
        let Self { screening, collector, stream, has_threshold, first, overflowed, needed } = self;
        let places = CandidatePlaces::of(screening, !*has_threshold && screening.tightens());
        let collected = collector.read(&screening.rows.gpu, &places, pending).await?.behind(*first);
        // The device would be idle if the next window were not sent while the host computes.
        give_way().await;
        let (shortlists, too_many) = collected.shortlists(|_, count| count > places.capacity)?;
        let hits = stream.asked.refined(&shortlists, stream.limit)?;
        stream.add(shortlists.iter().map(|shortlist| shortlist.query), &hits)?;
        *needed = too_many.iter().map(|&(_, count)| u64::from(count)).fold(*needed, u64::max);
        overflowed.extend(too_many.into_iter().map(|(query, _)| query));
        Ok(())
    }
}

/// The plan of the first window.
pub(super) fn plan(windows: &Windows, (end, queries, k): (u64, u64, u64), budget: u64) -> Option<Plan> {
    let all = windows.ranges(end);
    let rows = windows.rows(0, all.first()?.len()).ok()?;
    let scope = Scope { budget, allowed: None };
    let plan = Plan::screened(&rows, queries, k, scope)?;
    Some(Plan { windows: all.len() as u64, ..plan })
}
