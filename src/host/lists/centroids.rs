//! Centroids on the host: rows whose slots are the numbers of their lists.

use std::collections::HashSet;
use std::sync::Arc;

use crate::bits::Bits;
use crate::error::Result;
use crate::host::rows::norms;
use crate::host::search::distances::squares;
use crate::host::search::pipeline::{Asked, Wanted};
use crate::host::{Host, HostRows};
use crate::matrix::{Element, ElementKind, MatrixView};
use crate::metric::Metric;

/// Centroids in the order of their lists.
#[derive(Debug)]
pub(crate) struct HostCentroids {
    pub(crate) rows: HostRows,
}

impl HostCentroids {
    /// So many of zeros, narrowed around the middle of some vectors near which they will be.
    pub(crate) fn new(
        host: &Arc<Host>,
        metric: Metric,
        near: MatrixView<'_, f32>,
        lists: u32,
        is_narrowed: bool,
    ) -> Result<Self> {
        let mut rows = HostRows::new(host.clone(), metric, ElementKind::F32, near.dim(), is_narrowed);
        if let Some(narrowed) = &mut rows.narrowed {
            narrowed.count(near);
        }
        rows.resize(lists as usize)?;
        rows.ids = (0..u64::from(lists)).collect();
        let mut centroids = Self { rows };
        let zeros = vec![0.0; near.dim()];
        (0..lists).for_each(|list| centroids.set(list, &zeros));
        Ok(centroids)
    }

    /// Centroids as they are given, `[lists, dim]`; the metric is squared L2 or cosine.
    pub(crate) fn around(
        host: &Arc<Host>,
        metric: Metric,
        given: MatrixView<'_, f32>,
        is_narrowed: bool,
    ) -> Result<Self> {
        let mut centroids = Self::new(host, metric, given, given.rows() as u32, is_narrowed)?;
        (0..given.rows()).for_each(|list| centroids.set(list as u32, given.row(list)));
        Ok(centroids)
    }

    pub(crate) fn host(&self) -> &Arc<Host> {
        self.rows.host()
    }

    pub(crate) fn lists(&self) -> usize {
        self.rows.end()
    }

    /// All of them, `[lists, dim]`.
    pub(crate) fn all(&self) -> Vec<f32> {
        self.rows.widened(0..self.lists(), &mut vec![]).to_vec()
    }

    /// Another centroid for a list. It may be shorter than rows have to be.
    pub(crate) fn set(&mut self, list: u32, centroid: &[f32]) {
        let (slot, squared) = (list as usize, squares(centroid));
        self.rows.values.write(slot * self.rows.dim, centroid);
        self.rows.squared[slot] = squared;
        if let Some(narrowed) = &mut self.rows.narrowed {
            narrowed.set(slot, centroid, squared);
        }
    }

    /// The list of each row, that of the nearest centroid, and the key of the distance, under the budget of the device.
    pub(crate) fn assign<T: Element>(&self, rows: MatrixView<'_, T>) -> Result<Vec<(u32, u32)>> {
        self.assign_known((rows, &norms::checked("rows", rows)?))
    }

    /// The same for rows whose squared norms are known.
    pub(crate) fn assign_known<T: Element>(
        &self,
        rows: (MatrixView<'_, T>, &[f64]),
    ) -> Result<Vec<(u32, u32)>> {
        let distinct = self.distinct();
        let asked = Asked {
            wanted: Wanted::Nearest(1),
            budget: self.host().options.budget_bytes,
            allowed: distinct.as_ref(),
            progress: None,
        };
        let answer = self.rows.search_known(rows, &asked)?;
        Ok(answer.rows.iter().flatten().map(|&(key, list)| (list as u32, key)).collect())
    }

    /// The centroids that have no equal before them, where not all are such: no other is the nearest to a row.
    fn distinct(&self) -> Option<Bits> {
        let mut space = vec![];
        let all = self.rows.widened(0..self.lists(), &mut space).chunks_exact(self.rows.dim);
        let mut seen: HashSet<&[u8]> = HashSet::with_capacity(self.lists());
        let is_first: Vec<bool> = all.map(|centroid| seen.insert(bytemuck::cast_slice(centroid))).collect();
        is_first.contains(&false).then(|| Bits::from_fn(is_first.len(), |list| is_first[list]))
    }
}
