//! Clusters by density: DBSCAN over the pairs within a radius.

use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::index::common::Common;
use crate::index::pairwise::forest::Forest;
use crate::index::pairwise::graph::{among, place_among};
use crate::memory;
use crate::options::SearchOptions;

/// Clusters of rows: what [`Flat::dbscan`](crate::Flat::dbscan) finds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DensityClusters {
    /// The rows, by ascending id.
    pub ids: Vec<u64>,
    /// The cluster of each row, in the order of [`ids`](Self::ids); none for noise. Clusters are numbered from 0 in the order of their first core
    /// rows.
    pub labels: Vec<Option<u32>>,
    /// Whether each row is a core row.
    pub is_core: Vec<bool>,
    /// How many clusters there are.
    pub count: u32,
}

/// Pairs that wait before they are gone through for the first time.
const WAITING: usize = 1 << 20;

/// What pairs have told of the rows so far.
struct Density {
    /// Rows within the radius of each row, itself too.
    near: Vec<u32>,
    /// What makes a row a core row.
    least: u32,
    /// Core rows that pairs connect.
    groups: Forest,
    /// Pairs of rows that are not known to be core rows both. A row that is none has few of them.
    waiting: Vec<[u32; 2]>,
    /// How many may wait.
    most: usize,
}

impl Density {
    fn new(rows: usize, least: u32) -> Result<Self> {
        let (near, groups) = (memory::filled(rows, 1)?, Forest::new(rows)?);
        Ok(Self { near, least, groups, waiting: vec![], most: WAITING })
    }

    fn is_core(&self, row: u32) -> bool {
        self.near[row as usize] >= self.least
    }

    fn take(&mut self, pair: [u32; 2]) -> Result<()> {
        // No row has 2^32 others.
        pair.iter().for_each(|&row| self.near[row as usize] += 1);
        memory::reserve_more(&mut self.waiting, 1)?;
        self.waiting.push(pair);
        if self.waiting.len() > self.most {
            self.connect();
            self.most = WAITING.max(2 * self.waiting.len());
        }
        Ok(())
    }

    /// Connects the core rows of pairs that wait.
    fn connect(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|&[a, b]| {
            let is_edge = self.is_core(a) && self.is_core(b);
            if is_edge {
                self.groups.join(a, b);
            }
            !is_edge
        });
        self.waiting = waiting;
    }

    fn clusters(mut self, ids: Vec<u64>) -> Result<DensityClusters> {
        self.connect();
        let is_core = memory::collect((0..ids.len() as u32).map(|row| self.is_core(row)))?;
        let mut labels: Vec<Option<u32>> = memory::filled(ids.len(), None)?;
        let mut count = 0;
        for row in (0..ids.len() as u32).filter(|&row| is_core[row as usize]) {
            let first = self.groups.first(row);
            // The first row of a group comes before its others.
            labels[row as usize] = if first == row { Some(count) } else { labels[first as usize] };
            count += u32::from(first == row);
        }
        for &[a, b] in &self.waiting {
            for (core, border) in [(a, b), (b, a)] {
                if is_core[core as usize] {
                    let [reached, so_far] = [labels[core as usize], labels[border as usize]];
                    labels[border as usize] = so_far.min(reached).or(reached);
                }
            }
        }
        Ok(DensityClusters { ids, labels, is_core, count })
    }
}

impl Common {
    pub(crate) fn dbscan<'f>(
        &'f self,
        options: &'f SearchOptions<'_>,
        min_samples: usize,
    ) -> Boxed<'f, DensityClusters> {
        Box::pin(async move {
            if min_samples == 0 {
                return Err(Error::argument("min_samples", "1 or more rows, the row itself among them", 0));
            }
            let rows = self.rows_of(options)?;
            let mut density = Density::new(rows.len(), u32::try_from(min_samples).unwrap_or(u32::MAX))?;
            self.visit_pairs(&among(&rows, options), &mut |pairs| {
                pairs.iter().try_for_each(|pair| {
                    density.take([pair.a, pair.b].map(|id| place_among(&rows, id) as u32))
                })
            })
            .await?;
            density.clusters(rows)
        })
    }
}
