//! Search in the lists of an `Ivf` on the host: the nearest centroids of each query, and the nearest rows in their lists.
//!
//! Queries of a chunk that probe the same list are scored against it together, so that it is read once for all of them.

use std::ops::Range;

use crate::error::Result;
use crate::host::integers::GROUP;
use crate::host::lists::centroids::HostCentroids;
use crate::host::rows::norms;
use crate::host::rows::store::HostRows;
use crate::host::search::nominees::Nominees;
use crate::host::search::pipeline::{Answer, Asked, QUERIES, Wanted};
use crate::host::search::scorer::{Batch, Chosen, Scorer};
use crate::host::search::sharing::{by_batch, parts_of, shared_out};
use crate::matrix::{Element, MatrixView};

/// Lists around centroids, and where their rows are.
#[derive(Debug)]
pub(crate) struct HostLists {
    pub(crate) centroids: HostCentroids,
    tables: Option<Tables>,
}

/// Where the rows of lists are.
#[derive(Debug)]
struct Tables {
    /// Of each list, runs of groups of rows.
    runs: Vec<Vec<Range<usize>>>,
    /// Rows of each list.
    sizes: Vec<u32>,
}

/// Queries of a chunk at most.
const CHUNK: usize = 512;

/// Queries of a chunk that probe a list, on average: where they are fewer, each is searched on its own.
const SHARED: usize = 4;

/// A query of a chunk and a list that it probes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    /// The list that is nearest to a query comes first: its rows leave less to be found in others.
    is_farther: bool,
    list: u32,
    query: u32,
}

impl HostLists {
    /// Lists without rows.
    pub(crate) fn of(centroids: HostCentroids) -> Self {
        Self { centroids, tables: None }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.centroids.lists()
    }

    /// Says which pages of so many slots each list has, ascending, and how many rows. Until that is done all rows are searched.
    pub(crate) fn set(&mut self, pages: &[Vec<u32>], page: usize, sizes: Vec<u32>) {
        let groups = page / GROUP;
        let runs_of = |own: &Vec<u32>| {
            let neighbours = own.chunk_by(|&one, &next| one + 1 == next);
            neighbours
                .map(|some| some[0] as usize * groups..(some[some.len() - 1] as usize + 1) * groups)
                .collect()
        };
        self.tables = Some(Tables { runs: pages.iter().map(runs_of).collect(), sizes });
    }

    /// The rows in the lists that are nearest to each query.
    pub(crate) fn search<T: Element>(
        &self,
        rows: &HostRows,
        queries: MatrixView<'_, T>,
        asked: &Asked<'_>,
        probes: usize,
    ) -> Result<Answer> {
        let squared = norms::checked("queries", queries)?;
        let found = asked.found(rows);
        let Some(tables) = self.tables.as_ref().filter(|_| found > 0) else {
            return rows.search_known((queries, &squared), asked);
        };
        let k = match asked.wanted {
            Wanted::Nearest(k) => k.min(found),
            Wanted::Within(_) => 0,
        };
        let purpose = format!("a search of {probes} of {} lists", self.len());
        let more = probes * size_of::<((u32, u64), Pair)>();
        let room = rows.room_with(queries.rows(), asked.budget, more, (k, purpose))?;
        let mut answer = Answer::default();
        by_batch((queries, &squared), room.batch, asked, |batch| {
            let probed = self.probed(batch, asked, probes)?;
            answer.scored +=
                probed.iter().flatten().map(|&list| u64::from(tables.sizes[list as usize])).sum::<u64>();
            let count = batch.vectors.rows();
            let chunk = self.chunk(count, room.threads, probes);
            let groups_of = |list: &u32| tables.runs[*list as usize].iter().map(Range::len).sum::<usize>();
            let parts = parts_of(count.div_ceil(chunk), probed[0].iter().map(groups_of).sum(), room.threads)
                .min(probes);
            let parts = room.parts(parts, count);
            let by_query = shared_out(count, [chunk, parts], room.threads, |chunk, part| {
                let ranks = part * probes / parts..(part + 1) * probes / parts;
                let probed: Vec<&[u32]> =
                    probed[chunk.clone()].iter().map(|lists| &lists[ranks.clone()]).collect();
                let mut nominees: Vec<Nominees> = chunk.clone().map(|_| asked.nominees(found)).collect();
                tables.scan((rows, room.groups), batch.slice(chunk), &probed, asked, &mut nominees);
                nominees
            });
            rows.finish(batch, by_query, &mut answer);
            Ok(())
        })?;
        Ok(answer)
    }

    /// Queries that are searched together, of so many.
    pub(crate) fn chunk(&self, queries: usize, threads: usize, probes: usize) -> usize {
        let chunk = queries.div_ceil(2 * threads).clamp(1, CHUNK);
        // Queries that share few lists are quicker one by one.
        if chunk * probes < SHARED * self.len() { 1 } else { chunk }
    }

    /// The lists that each query probes, nearest first.
    fn probed(&self, queries: Batch<'_>, asked: &Asked<'_>, probes: usize) -> Result<Vec<Vec<u32>>> {
        if probes >= self.len() {
            return Ok(vec![(0..self.len() as u32).collect(); queries.vectors.rows()]);
        }
        let coarse = Asked { wanted: Wanted::Nearest(probes), allowed: None, progress: None, ..*asked };
        let answer = self.centroids.rows.search_known((queries.vectors, queries.squared), &coarse)?;
        Ok(answer.rows.iter().map(|lists| lists.iter().map(|&(_, list)| list as u32).collect()).collect())
    }
}

impl Tables {
    /// Scores the rows of the lists that each query probes, and adds those that cannot be excluded.
    fn scan(
        &self,
        (rows, step): (&HostRows, usize),
        queries: Batch<'_>,
        probed: &[&[u32]],
        asked: &Asked<'_>,
        nominees: &mut [Nominees],
    ) {
        let mut pairs: Vec<Pair> = vec![];
        for (query, lists) in (0..).zip(probed) {
            pairs.extend(lists.iter().enumerate().map(|(rank, &list)| Pair {
                is_farther: rank > 0,
                list,
                query,
            }));
        }
        pairs.sort_unstable();
        let mut scorer = Scorer::new(rows, queries);
        let mut chosen = Chosen { places: vec![], sides: vec![] };
        for pairs in pairs.chunk_by(|a, b| (a.is_farther, a.list) == (b.is_farther, b.list)) {
            for some in pairs.chunks(QUERIES) {
                if !some.iter().map(|pair| pair.query).eq(chosen.places.iter().copied()) {
                    chosen = scorer.choose(some.iter().map(|pair| pair.query).collect());
                }
                for run in &self.runs[some[0].list as usize] {
                    let run = run.start..run.end.min(rows.end().div_ceil(GROUP));
                    rows.scan(&mut scorer, &chosen, (run, step), asked.allowed, nominees);
                }
            }
        }
    }
}
