//! Centroids on the host: rows whose slots are the numbers of their lists.

use std::collections::HashSet;
use std::sync::Arc;

use crate::bits::Bits;
use crate::elements::{ElementKind, Elements, HostVectors, MatrixView};
use crate::error::Result;
use crate::host::arithmetic::sums::squares;
use crate::host::processor::Host;
use crate::host::rows::norms;
use crate::host::rows::store::HostRows;
use crate::host::search::request::{HostRequest, SearchLimit};
use crate::interrupt;
use crate::memory;
use crate::metric::Metric;

/// Rows that are assigned at a time: what a search finds for each takes memory that it does not ask for.
const PIECE: usize = 1 << 14;

/// Centroids in the order of their lists.
#[derive(Debug)]
pub(crate) struct HostCentroids {
    pub(crate) rows: HostRows,
}

impl HostCentroids {
    /// Centroids of zeros, quantised around the mean of `near`, the vectors that they will lie among.
    pub(crate) fn new(
        host: &Arc<Host>,
        metric: Metric,
        near: MatrixView<'_, f32>,
        lists: u32,
        is_quantized: bool,
    ) -> Result<Self> {
        let mut rows = HostRows::new(host.clone(), metric, ElementKind::F32, near.dim(), is_quantized);
        if let Some(quantized) = &mut rows.quantized {
            quantized.count(near.into())?;
        }
        rows.resize(lists as usize)?;
        rows.ids = memory::collect((0..lists).map(u64::from))?;
        let mut centroids = Self { rows };
        let zeros = vec![0.0; near.dim()];
        for list in 0..lists {
            interrupt::check()?;
            centroids.set(list, &zeros);
        }
        Ok(centroids)
    }

    /// The given centroids, `[lists, dim]`; the metric is squared L2 or cosine.
    pub(crate) fn around(
        host: &Arc<Host>,
        metric: Metric,
        given: MatrixView<'_, f32>,
        is_quantized: bool,
    ) -> Result<Self> {
        let mut centroids = Self::new(host, metric, given, given.rows() as u32, is_quantized)?;
        for list in 0..given.rows() {
            interrupt::check()?;
            centroids.set(list as u32, given.row(list));
        }
        Ok(centroids)
    }

    pub(crate) fn lists(&self) -> usize {
        self.rows.end()
    }

    /// All centroids, `[lists, dim]`.
    pub(crate) fn all(&self) -> Result<Vec<f32>> {
        memory::copied(self.rows.values.widened(0..self.lists(), &mut vec![]))
    }

    /// Replaces the centroid of a list. It may be shorter than rows have to be.
    pub(crate) fn set(&mut self, list: u32, centroid: &[f32]) {
        let (slot, squared) = (list as usize, squares(centroid));
        self.rows.values.write(slot, Elements::F32(centroid), squared);
        if let Some(quantized) = &mut self.rows.quantized {
            quantized.set(slot, centroid, squared);
        }
    }

    /// The list of each row (that of the nearest centroid) and the key of the distance, within the budget of the device.
    pub(crate) fn assign(&self, rows: HostVectors<'_>) -> Result<Vec<(u32, u32)>> {
        self.assign_checked(rows, &norms::checked("rows", rows)?)
    }

    /// [`assign`](Self::assign) for rows that were checked before, given with their squared norms.
    pub(crate) fn assign_checked(&self, rows: HostVectors<'_>, squared: &[f64]) -> Result<Vec<(u32, u32)>> {
        let distinct = self.distinct()?;
        let request = HostRequest {
            limit: SearchLimit::Nearest(1),
            budget: self.rows.host.options.budget_bytes,
            allowed: distinct.as_ref(),
            progress: None,
        };
        let mut assigned = memory::with_room(rows.rows())?;
        for start in (0..rows.rows()).step_by(PIECE) {
            let range = start..rows.rows().min(start + PIECE);
            let part = rows.slice(range.clone());
            let bits = part.as_numbers()?;
            let part = bits.as_ref().map_or(part, HostVectors::from);
            let hits = self.rows.search_checked((part, &squared[range]), &request)?;
            assigned.extend(hits.rows.iter().map(|&(key, list)| (list as u32, key)));
        }
        Ok(assigned)
    }

    /// The centroids that equal none before them; none when all differ. The others are never the nearest to a row.
    fn distinct(&self) -> Result<Option<Bits>> {
        let mut scratch = vec![];
        let all = self.rows.values.widened(0..self.lists(), &mut scratch).chunks_exact(self.rows.dim());
        let mut seen: HashSet<&[u8]> = HashSet::new();
        memory::granted(seen.try_reserve(self.lists()), (self.lists() * size_of::<&[u8]>()) as u64)?;
        let is_first = memory::collect(all.map(|centroid| seen.insert(bytemuck::cast_slice(centroid))))?;
        if !is_first.contains(&false) {
            return Ok(None);
        }
        Bits::from_fn(is_first.len(), |list| is_first[list]).map(Some)
    }
}
