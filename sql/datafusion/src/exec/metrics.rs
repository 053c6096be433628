//! What `EXPLAIN ANALYZE` tells of a search.

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};

use crate::search::block::Work;

/// Counts of one partition. Each has the device as a label.
#[derive(Debug)]
pub(crate) struct KnnMetrics {
    rows: Count,
    screened: Count,
    refined: Count,
    in_doubt: Count,
    pub(crate) time: Time,
}

impl KnnMetrics {
    pub(crate) fn new(set: &ExecutionPlanMetricsSet, partition: usize, device: &str) -> Self {
        let builder = || MetricBuilder::new(set).with_new_label("device", device.to_owned());
        Self {
            rows: builder().counter("rows_searched", partition),
            screened: builder().counter("pairs_screened", partition),
            refined: builder().counter("pairs_refined", partition),
            in_doubt: builder().counter("queries_in_doubt", partition),
            time: builder().subset_time("search_time", partition),
        }
    }

    pub(crate) fn note(&self, rows: usize, work: Work) {
        self.rows.add(rows);
        self.screened.add(work.screened);
        self.refined.add(work.refined);
        self.in_doubt.add(work.in_doubt);
    }
}
