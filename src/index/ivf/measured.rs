//! The probes that a recall needs, as an `Ivf` has measured them, and the queries that it measures with.

use std::sync::Mutex;

use crate::elements::HostVectors;
use crate::error::Result;
use crate::lock::lock;
use crate::memory;

/// Searches measure a recall when they have seen this many queries since the index changed.
const MEASURED_AT: [usize; 5] = [1, 30, 100, 300, MOST];
const MOST: usize = 1000;

/// The last measurement. Searches from many threads share it.
#[derive(Debug, Default)]
pub(super) struct Recalls(Mutex<Measured>);

/// The k and the recall that a search asks for.
pub(super) type RecallTarget = (usize, f64);

#[derive(Debug, Default)]
struct Measured {
    wanted: RecallTarget,
    probes: usize,
    /// The number of queries that the probes were measured with; 0 before the first measurement.
    queries: usize,
    /// The first queries since the last change, up to [`MOST`]. The queries of the measurement are among them.
    seen: Vec<f32>,
}

/// The first step of a search for a recall.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// It probes this many lists.
    Probe(usize),
    /// It measures, with these queries and its own.
    Measure(Vec<f32>),
}

impl Recalls {
    /// Chooses the next step of a search of `rows` queries. Another k or recall than before is measured anew.
    pub(super) fn next(&self, wanted: RecallTarget, rows: usize, dim: usize) -> Result<Next> {
        let mut known = lock(&self.0);
        if known.wanted != wanted {
            *known = Measured { wanted, ..Measured::default() };
        }
        let step = MEASURED_AT.into_iter().find(|&step| step > known.queries);
        if step.is_none_or(|step| known.seen.len() / dim + rows < step) {
            return Ok(Next::Probe(known.probes));
        }
        memory::collect(known.seen.iter().copied()).map(Next::Measure)
    }

    /// Takes what was measured with this many queries, unless another search has measured with more.
    pub(super) fn learn(&self, wanted: RecallTarget, queries: usize, probes: usize) {
        let mut known = lock(&self.0);
        if known.wanted == wanted && known.queries < queries {
            (known.probes, known.queries) = (probes, queries);
            if queries == MOST {
                known.seen = vec![];
            }
        }
    }

    /// Whether queries that were searched for are worth keeping.
    pub(super) fn has_room(&self) -> bool {
        (1..MOST).contains(&lock(&self.0).queries)
    }

    /// Keeps queries that were searched for, to measure with; none when another search has measured with the most meanwhile.
    pub(super) fn keep(&self, queries: HostVectors<'_>) -> Result<()> {
        let mut known = lock(&self.0);
        match (1..MOST).contains(&known.queries) {
            true => append(&mut known.seen, queries),
            false => Ok(()),
        }
    }

    /// The index has changed.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Puts queries behind others, up to the most that a recall is measured with.
pub(super) fn append(seen: &mut Vec<f32>, queries: HostVectors<'_>) -> Result<()> {
    let more = queries.rows().min(MOST.saturating_sub(seen.len() / queries.dim()));
    memory::reserve_more(seen, more * queries.dim())?;
    seen.extend(queries.slice(0..more).to_f32());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elements::MatrixView;

    #[test]
    fn a_recall_is_measured_with_more_and_more_queries_and_anew_for_another() {
        let recalls = Recalls::default();
        let search = |wanted: RecallTarget| {
            let next = recalls.next(wanted, 1, 2).expect("memory");
            let measured = match next {
                Next::Probe(_) => 0,
                Next::Measure(seen) => seen.len() / 2 + 1,
            };
            recalls.learn(wanted, measured, measured);
            if recalls.has_room() {
                let one = MatrixView::new(&[0.5f32, 1.0], 2).expect("one query");
                recalls.keep(one.into()).expect("memory");
            }
            measured
        };
        let measured: Vec<usize> = (0..1200).map(|_| search((10, 0.9))).filter(|&count| count > 0).collect();
        assert_eq!(measured, MEASURED_AT);
        assert_eq!(recalls.next((10, 0.9), 5, 2).expect("memory"), Next::Probe(MOST));
        assert!(lock(&recalls.0).seen.is_empty(), "no more are needed");
        assert_eq!([search((10, 0.8)), search((9, 0.8)), search((9, 0.8))], [1, 1, 0]);
    }
}
