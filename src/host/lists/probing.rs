//! Search in the lists of an `Ivf` on the host: the nearest centroids of each query, then the nearest rows in their lists.
//!
//! The queries of a chunk that probe the same list are scored against it together, so that its rows are read once for all of them.

use std::ops::Range;
use std::time::Duration;

use crate::elements::{HostVectors, MatrixView, bits_of};
use crate::error::{Error, Result};
use crate::host::integers::packed::GROUP;
use crate::host::lists::centroids::HostCentroids;
use crate::host::rows::gathered::{FEW, Gathered};
use crate::host::rows::norms;
use crate::host::rows::store::HostRows;
use crate::host::search::batch::{Batch, by_batch};
use crate::host::search::candidates::Candidates;
use crate::host::search::cost::{self, Work};
use crate::host::search::request::{Hits, HostRequest, SearchLimit};
use crate::host::search::schedule::{QUERIES, Schedule, divide, parts_of};
use crate::host::search::scorer::{Chosen, Scorer};
use crate::memory;
use crate::options::residency::Residency;
use crate::parallel;
use crate::usage::Memory;

/// The lists of an index: their centroids, and where their rows are.
#[derive(Debug)]
pub(crate) struct HostLists {
    pub(crate) centroids: HostCentroids,
    tables: Option<Tables>,
}

/// Where the rows of lists are.
#[derive(Debug)]
struct Tables {
    /// The runs of groups of rows of each list.
    runs: Vec<Vec<Range<usize>>>,
    /// The number of rows of each list.
    sizes: Vec<u32>,
}

/// The most queries of a chunk.
const CHUNK: usize = 512;

/// The queries of a chunk that must probe a list, on average, for the chunk to be searched together.
const SHARED: usize = 4;

/// A query of a chunk and a list that it probes, ordered as they are scored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    /// A query's nearest list comes first: its rows lower the limit the most.
    is_farther: bool,
    list: u32,
    query: u32,
}

impl Pair {
    /// The pairs of a chunk of queries, given with the lists that each probes, in the order in which they are scored.
    fn ordered<'l>(probed: impl ExactSizeIterator<Item = &'l [u32]> + Clone) -> Result<Vec<Self>> {
        let mut pairs = memory::with_room(probed.clone().map(<[u32]>::len).sum())?;
        for (query, lists) in (0..).zip(probed) {
            let of_query = |(rank, &list): (usize, &u32)| Self { is_farther: rank > 0, list, query };
            pairs.extend(lists.iter().enumerate().map(of_query));
        }
        pairs.sort_unstable();
        Ok(pairs)
    }
}

impl HostLists {
    /// Lists without rows.
    pub(crate) fn of(centroids: HostCentroids) -> Self {
        Self { centroids, tables: None }
    }

    /// The number of lists.
    pub(crate) fn len(&self) -> usize {
        self.centroids.lists()
    }

    /// Forgets which pages the lists have: all rows are searched until they are set.
    pub(crate) fn forget_pages(&mut self) {
        self.tables = None;
    }

    /// Sets the pages of each list, ascending and each of `page` slots, and the number of its rows.
    pub(crate) fn set_pages(&mut self, pages: &[Vec<u32>], page: usize, sizes: &[u32]) -> Result<()> {
        let groups = page / GROUP;
        let mut runs = memory::with_room(pages.len())?;
        for pages in pages {
            let neighbours = || pages.chunk_by(|&one, &next| one + 1 == next);
            let mut own = memory::with_room(neighbours().count())?;
            own.extend(
                neighbours().map(|run| run[0] as usize * groups..(run[run.len() - 1] as usize + 1) * groups),
            );
            runs.push(own);
        }
        self.tables = Some(Tables { runs, sizes: memory::copied(sizes)? });
        Ok(())
    }

    /// Searches the rows in the lists nearest to each query.
    pub(crate) fn search(
        &self,
        rows: &HostRows,
        queries: HostVectors<'_>,
        request: &HostRequest<'_>,
        probes: usize,
    ) -> Result<Hits> {
        let squared = norms::checked("queries", queries)?;
        let eligible = request.eligible(rows);
        // All lists have all rows, and a filter may leave few of them to each.
        let takes_all = eligible == 0 || probes == self.len() && request.allowed.is_some();
        let Some(tables) = self.tables.as_ref().filter(|_| !takes_all) else {
            return rows.search_checked((queries, &squared), request);
        };
        let shared = queries.rows() * probes / self.len();
        let mut taken = Taken::new(tables, rows, request, (eligible, shared))?;
        let k = request.limit.k_of(eligible);
        let purpose = format!("a search of {probes} of {} lists", self.len());
        let more = probes * size_of::<((u32, u64), Pair)>();
        // What copies of rows leave of the budget, and the schedule within it.
        let scheduled = |taken: &Taken<'_>| {
            let left = request.budget - taken.rows().map_or(0, |gathered| gathered.bytes(rows.dim()));
            let schedule = Schedule::of_free_memory(left, |budget| {
                rows.schedule_with(queries.rows(), budget, more, (k, purpose.clone()))
            });
            schedule.map(|schedule| (left, schedule))
        };
        let (budget, schedule) = match scheduled(&taken) {
            // The budget may suffice without them.
            Err(Error::Budget { .. }) if taken.gathered.is_some() => {
                taken.gathered = None;
                scheduled(&taken)?
            }
            scheduled => scheduled?,
        };
        let request = &HostRequest { budget, ..*request };
        let mut hits = Hits::with_room(queries.rows())?;
        by_batch((queries, &squared), &schedule, request, |batch| {
            let probed = self.probed(batch, request, probes)?;
            let scored: usize = probed.iter().map(|&list| taken.rows_of(list)).sum();
            hits.scored += scored as u64;
            let count = batch.vectors.rows();
            let chunk = self.chunk(count, schedule.threads, probes);
            let places = probed[..probes].iter().flat_map(|&list| taken.places(list)).map(|run| run.len());
            let groups = places.sum::<usize>().div_ceil(GROUP);
            let parts = parts_of(count.div_ceil(chunk), groups, schedule.threads).min(probes);
            let parts = schedule.limit_parts(parts, count);
            let task = (count, scored.saturating_mul(rows.dim()));
            let by_query = divide(task, [chunk, parts], schedule.threads, |chunk, part, stop| {
                let ranks = part * probes / parts..(part + 1) * probes / parts;
                let lists = probed[chunk.start * probes..chunk.end * probes].chunks_exact(probes);
                let mut pairs = Pair::ordered(lists.map(|lists| &lists[ranks.clone()]))?;
                // A filter leaves many lists without a row.
                pairs.retain(|pair| taken.rows_of(pair.list) > 0);
                let mut candidates = request.candidates(chunk.len(), eligible)?;
                let scorer = Scorer::new(rows, taken.rows(), batch.slice(chunk), stop)?;
                taken.scan((rows, schedule.groups), scorer, &pairs, request, &mut candidates)?;
                Ok(candidates)
            })?;
            rows.finish(batch, by_query, &mut hits)
        })?;
        Ok(hits)
    }

    /// How many of `queries` are searched together.
    fn chunk(&self, queries: usize, threads: usize, probes: usize) -> usize {
        let chunk = queries.div_ceil(2 * threads).clamp(1, CHUNK);
        // Queries that share few lists are faster one by one.
        if chunk * probes < SHARED * self.len() { 1 } else { chunk }
    }

    /// The lists that each query probes, `[queries, probes]`, nearest first.
    fn probed(&self, queries: Batch<'_>, request: &HostRequest<'_>, probes: usize) -> Result<Vec<u32>> {
        let lists = self.len();
        if probes == lists {
            return memory::collect((0..queries.vectors.rows() * lists).map(|place| (place % lists) as u32));
        }
        let limit = SearchLimit::Nearest(probes);
        let coarse = HostRequest { limit, allowed: None, progress: None, ..*request };
        let (mut vectors, bits) = (queries.vectors, self.as_numbers(queries.vectors)?);
        if let Some(bits) = &bits {
            vectors = MatrixView::new(bits, self.centroids.rows.dim())?;
        }
        let nearest = self.centroids.rows.search_checked((vectors.into(), queries.squared), &coarse)?;
        if nearest.rows.len() != queries.vectors.rows() * probes {
            return Err(Error::internal("a query has fewer nearest centroids than probes"));
        }
        memory::collect(nearest.rows.iter().map(|&(_, list)| list as u32))
    }

    /// Queries as the centroids of rows of bits are compared with them: each byte becomes eight numbers 0 and 1, the highest bit first.
    /// None where rows are numbers.
    fn as_numbers(&self, queries: MatrixView<'_, f32>) -> Result<Option<Vec<f32>>> {
        if self.centroids.rows.dim() == queries.dim() {
            return Ok(None);
        }
        let mut bits = memory::with_room(queries.values().len() * 8)?;
        bits.extend(queries.values().iter().flat_map(|&byte| bits_of(byte as u8).map(f32::from)));
        Ok(Some(bits))
    }

    /// Roughly how long a search of `probes` lists for each query takes; `probes` does not exceed the number of lists.
    pub(crate) fn expected(&self, rows: &HostRows, queries: usize, probes: usize) -> Option<Duration> {
        let share = probes as f64 / self.len() as f64;
        let chunk = self.chunk(queries, parallel::current_num_threads(), probes);
        let work = Work {
            queries: queries as f64,
            rows: rows.end() as f64 * share,
            shared: chunk as f64 * share,
            dim: rows.dim(),
        };
        let fine = cost::expected(work, rows.is_quantized())?;
        if probes == self.len() {
            return Some(fine);
        }
        fine.checked_add(self.centroids.rows.expected(queries)?)
    }

    /// Adds the memory of the centroids and of the tables of the lists.
    pub(crate) fn measure(&self, memory: &mut Memory) {
        let mut centroids = Memory::default();
        self.centroids.rows.measure(&mut centroids);
        memory.add("centroids", Residency::Host, centroids.total());
        if let Some(tables) = &self.tables {
            memory.add_vec("lists", &tables.sizes);
            tables.runs.iter().for_each(|runs| memory.add_vec("lists", runs));
        }
    }
}

/// The rows that a search takes from lists.
struct Taken<'a> {
    tables: &'a Tables,
    /// The rows that a filter allows, list by list, and where those of each list begin; none where they are taken where they are.
    gathered: Option<(Gathered, Vec<usize>)>,
}

impl<'a> Taken<'a> {
    /// For a search in which each list is probed by about `shared` queries.
    fn new(
        tables: &'a Tables,
        rows: &HostRows,
        request: &HostRequest<'_>,
        (eligible, shared): (usize, usize),
    ) -> Result<Self> {
        let Some(allowed) = request.allowed.filter(|_| shared >= FEW) else {
            return Ok(Self { tables, gathered: None });
        };
        let slots_of = |runs: &'a Vec<Range<usize>>| {
            runs.iter().flat_map(|run| allowed.ones_within(run.start * GROUP..run.end * GROUP))
        };
        let mut begins = memory::with_room(tables.runs.len() + 1)?;
        begins.push(0);
        let mut before = 0;
        begins.extend(tables.runs.iter().map(|runs| {
            before += slots_of(runs).count();
            before
        }));
        let slots = tables.runs.iter().flat_map(slots_of);
        let gathered = rows.gathered(allowed, (eligible, shared), request.budget, slots);
        Ok(Self { tables, gathered: gathered.map(|gathered| (gathered, begins)) })
    }

    fn rows(&self) -> Option<&Gathered> {
        self.gathered.as_ref().map(|(gathered, _)| gathered)
    }

    /// The places of a list's rows.
    fn places(&self, list: u32) -> impl Iterator<Item = Range<usize>> {
        let list = list as usize;
        let own = self.gathered.as_ref().map(|(_, begins)| begins[list]..begins[list + 1]);
        let runs = if own.is_some() { &[][..] } else { &self.tables.runs[list] };
        own.into_iter().chain(runs.iter().map(|run| run.start * GROUP..run.end * GROUP))
    }

    /// The number of a list's rows.
    fn rows_of(&self, list: u32) -> usize {
        match &self.gathered {
            Some(_) => self.places(list).map(|places| places.len()).sum(),
            None => self.tables.sizes[list as usize] as usize,
        }
    }

    /// Scores the rows of the lists that each query probes, in the order of `pairs`, and adds the rows that intervals cannot exclude to its candidates.
    fn scan(
        &self,
        (rows, step): (&HostRows, usize),
        mut scorer: Scorer<'_>,
        pairs: &[Pair],
        request: &HostRequest<'_>,
        candidates: &mut [Candidates],
    ) -> Result<()> {
        let mut chosen = Chosen { places: vec![], terms: vec![] };
        for pairs in pairs.chunk_by(|a, b| (a.is_farther, a.list) == (b.is_farther, b.list)) {
            for pairs in pairs.chunks(QUERIES) {
                if !pairs.iter().map(|pair| pair.query).eq(chosen.places.iter().copied()) {
                    chosen = scorer.choose(memory::collect(pairs.iter().map(|pair| pair.query))?)?;
                }
                for places in self.places(pairs[0].list) {
                    let places = (places.start..places.end.min(rows.end()), step);
                    rows.scan(&mut scorer, &chosen, places, (request.allowed, self.rows()), candidates)?;
                }
            }
        }
        Ok(())
    }
}
