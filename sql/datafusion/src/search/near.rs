//! The search of an index in memory for the rows that can be among the nearest by the scalar function.

use std::sync::Arc;

use nearfield::{Index, MatrixView, Metric, SearchOptions};
use serde::{Deserialize, Serialize};

use crate::metric::{by_name, distance};
use crate::search::block::{MORE, Work, moved};
use crate::search::certificate::{Extent, UNIT, least};
use crate::search::queries::Queries;

/// How many lists of an `Ivf` to search for each query. A `Flat` has none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Probes {
    Default,
    Lists(usize),
    /// All of them: the answers are exact.
    All,
}

impl Probes {
    pub(crate) fn options(self, index: &Index, k: usize) -> SearchOptions<'static> {
        let options = SearchOptions::new(k);
        match (self, index.lists()) {
            (Self::Lists(probes), _) => options.probes(probes),
            (Self::All, Some(lists)) => options.probes(lists),
            _ => options,
        }
    }
}

/// A query, and which rows are wanted for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Near {
    /// One.
    pub(crate) query: Arc<Queries>,
    /// That of the scalar function. [`Near::fits`] tells of which indexes.
    #[serde(with = "by_name")]
    pub(crate) metric: Metric,
    pub(crate) k: usize,
}

impl Near {
    /// Whether an index of a metric can be searched by another. Bounds of inner products need the length of the longest row.
    pub(crate) fn fits(metric: Metric, of_index: Metric) -> bool {
        match metric {
            Metric::L2 => matches!(of_index, Metric::L2 | Metric::L2Squared),
            Metric::Cosine => of_index == Metric::Cosine,
            _ => false,
        }
    }
}

/// The ids of the rows that can be among the k nearest, ties included, or none where the index cannot tell.
///
/// It names k rows and some more, which get their distances in f64. Rows that it did not name are no nearer than a bound; if k are nearer
/// than that, these are all.
pub(crate) fn candidates(index: &Index, near: &Near, work: &mut Work) -> nearfield::Result<Option<Vec<u64>>> {
    let (query, dim) = (near.query.query(0), near.query.dim());
    let converted = near.query.to_f32();
    let Some(query_moved) = moved(query, converted) else { return Ok(None) };
    let most = near.k.saturating_add(MORE);
    if most >= index.len() || dim != index.dim() || (query_moved.norm == 0.0 && near.metric == Metric::Cosine)
    {
        return Ok(None);
    }
    let found = index.search_with(MatrixView::new(converted, dim)?, &Probes::All.options(index, most))?;
    work.screened += found.statistics.scored as usize;
    let ids: Vec<u64> = found.neighbors.hits().iter().map(|hit| hit.id).collect();
    work.refined += ids.len();
    let rows = index.get(&ids)?;
    let mut distances: Vec<f64> =
        rows.chunks(dim).filter_map(|row| distance(near.metric, query, row)).collect();
    distances.sort_unstable_by(f64::total_cmp);
    let Some(last) = found.neighbors.hits().last() else { return Ok(None) };
    let reported = f64::from(last.distance);
    let reported = match index.metric() {
        // Of the square; the root was rounded once.
        Metric::L2 => reported * reported * (1.0 - 4.0 * UNIT),
        _ => reported,
    };
    let bound = least(near.metric, dim, reported, query_moved, Extent::default());
    let is_certain = distances.get(near.k - 1).is_some_and(|distance| *distance < bound);
    work.in_doubt += usize::from(!is_certain);
    Ok(is_certain.then_some(ids))
}
