//! Training of centroids on the host: the nearest centroid of each row, and the means of the rows that share one.

use std::borrow::Cow;
use std::sync::Arc;

use crate::parallel::*;

use crate::elements::MatrixView;
use crate::error::Result;
use crate::host::arithmetic::sums::squares;
use crate::host::lists::centroids::HostCentroids;
use crate::host::processor::Host;
use crate::host::rows::norms;
use crate::host::search::pair::{NormedVector, distance};
use crate::interrupt::{self, Stop};
use crate::memory;
use crate::metric::Metric;

/// The rows to train on, in f32, and the centroids so far.
#[derive(Debug)]
pub(crate) struct HostTraining<'a> {
    dim: usize,
    rows: Cow<'a, [f32]>,
    squared: Vec<f64>,
    pub(crate) centroids: HostCentroids,
}

/// Rows that a thread takes at a time.
const PIECE: usize = 256;

/// Elements that are read between two looks at whether to stop.
const WORK: usize = 1 << 24;

/// Means that are held at a time, beside the centroids that they become.
const MEANS: usize = 1024;

/// A mean of directions whose squared length is below this has no direction itself: the rows were opposite.
const NO_DIRECTION: f64 = 1e-30;

impl<'a> HostTraining<'a> {
    /// Training of `lists` centroids, all zero so far. The metric is squared L2 or cosine; for cosine, means have length 1.
    pub(crate) fn new(
        host: &Arc<Host>,
        metric: Metric,
        (rows, dim): (Cow<'a, [f32]>, usize),
        lists: u32,
        is_quantized: bool,
    ) -> Result<Self> {
        let view = MatrixView::new(&rows, dim)?;
        let squared = norms::checked("rows", view.into())?;
        let centroids = HostCentroids::new(host, metric, view, lists, is_quantized)?;
        Ok(Self { dim, rows, squared, centroids })
    }

    /// Makes rows centroids: pairs of a list and the row that becomes its centroid, as the mean of that row alone.
    pub(crate) fn seed(&mut self, seeds: &[(u32, u32)]) -> Result<()> {
        for &(list, row) in seeds {
            let mean = self.mean(&[row], Stop::here())?;
            self.centroids.set(list, &mean);
        }
        Ok(())
    }

    /// The distance of every row to the centroid that row `row` would be.
    pub(crate) fn distances(&self, row: u32) -> Result<Vec<f32>> {
        let mean = self.mean(&[row], Stop::here())?;
        let centroid = NormedVector { values: &mean, squared: squares(&mean) };
        let mut distances = memory::filled(self.squared.len(), 0.0)?;
        let at_once = (WORK / self.dim).max(1);
        for (number, distances) in distances.chunks_mut(at_once).enumerate() {
            interrupt::check()?;
            distances.par_iter_mut().enumerate().with_min_len(PIECE).for_each(|(row, to)| {
                let row = self.row(number * at_once + row);
                *to = distance(self.centroids.rows.metric, row, centroid);
            });
        }
        Ok(distances)
    }

    /// The list of the nearest centroid of every row, and the key of the distance.
    pub(crate) fn assign(&self) -> Result<Vec<(u32, u32)>> {
        self.centroids.assign_checked(MatrixView::new(&self.rows, self.dim)?.into(), &self.squared)
    }

    /// Makes centroids the means of their rows. `order` names the rows list by list, those of list `l` from `offsets[l]` on. Lists without
    /// rows keep their centroids.
    pub(crate) fn update(&mut self, order: &[u32], offsets: &[u32]) -> Result<()> {
        let members = |list: usize| &order[offsets[list] as usize..offsets[list + 1] as usize];
        let lists = offsets.len() - 1;
        for first in (0..lists).step_by(MEANS) {
            let end = lists.min(first + MEANS);
            let operations = (offsets[end] - offsets[first]) as usize * self.dim;
            let some = (first..end).into_par_iter();
            let some = some.filter(|&list| !members(list).is_empty());
            let means: Vec<(usize, Vec<f32>)> = interrupt::watch(operations, |stop| {
                some.map(|list| Ok((list, self.mean(members(list), stop)?))).collect()
            })?;
            means.iter().for_each(|(list, mean)| self.centroids.set(*list as u32, mean));
        }
        Ok(())
    }

    /// The mean of some rows, added in the given order. For cosine it is the mean of their directions, scaled to length 1 where it has a
    /// direction.
    fn mean(&self, members: &[u32], stop: Stop<'_>) -> Result<Vec<f32>> {
        let is_spherical = self.centroids.rows.metric.compares_directions();
        let mut sums = vec![0.0; self.dim];
        for members in members.chunks((WORK / self.dim).max(1)) {
            stop.check()?;
            for &row in members {
                let NormedVector { values, squared } = self.row(row as usize);
                let scale = match is_spherical {
                    true if squared > 0.0 => 1.0 / squared.sqrt(),
                    true => 0.0,
                    false => 1.0,
                };
                sums.iter_mut().zip(values).for_each(|(sum, &x)| *sum += f64::from(x) * scale);
            }
        }
        let mut scale = 1.0 / members.len() as f64;
        let length = sums.iter().map(|sum| (sum * scale).powi(2)).sum::<f64>();
        if is_spherical && length >= NO_DIRECTION {
            scale /= length.sqrt();
        }
        Ok(sums.iter().map(|sum| (sum * scale) as f32).collect())
    }

    fn row(&self, row: usize) -> NormedVector<'_> {
        NormedVector { values: &self.rows[row * self.dim..][..self.dim], squared: self.squared[row] }
    }
}
