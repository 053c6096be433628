//! Tells where the rows of a partition lie in their table, also where a cluster has dealt the partitions out to tasks.
//!
//! Rows of the same distance come in the order of the table. The number of a partition does not tell that order on a cluster: each task
//! counts its own partitions from 0.

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// The column of [`piece`], which orders rows of the same distance.
pub(crate) const PIECE: &str = "_piece";
/// The column of the place in a piece, which orders those of the same piece.
pub(crate) const ROW: &str = "_row";
/// Bits of a piece's number for the place in a file where it starts.
const START_BITS: u32 = 40;

/// Lets every partition read its own files, in their order: otherwise one that has read its own takes those of others.
///
/// A scan that is in order stays the same object: datafusion-distributed knows operators by their addresses.
pub(crate) fn in_order(rows: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let in_order = |plan: Arc<dyn ExecutionPlan>| {
        if !plan.children().is_empty() || scan_of(&plan).is_some_and(|scan| scan.preserve_order) {
            return Ok(Transformed::no(plan));
        }
        Ok(match plan.with_preserve_order(true) {
            Some(in_order) => Transformed::yes(in_order),
            None => Transformed::no(plan),
        })
    };
    rows.transform_up(in_order).data()
}

/// The scan of files that an operator is.
fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    let source: &dyn Any = plan.downcast_ref::<DataSourceExec>()?.data_source().as_ref();
    source.downcast_ref()
}

/// The files of a table in their order, or none if its rows come from elsewhere.
pub(crate) fn files_of(rows: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let mut seen = HashSet::new();
    let groups = groups_of(rows).unwrap_or_default();
    let paths = groups.iter().flat_map(FileGroup::iter).map(|file| file.path().to_string());
    paths.filter(|path| seen.insert(path.clone())).collect()
}

/// Orders the pieces of a table: the file with which a partition starts, and the place in that file. The number of the partition where the
/// rows are not of these files.
pub(crate) fn piece(rows: &Arc<dyn ExecutionPlan>, partition: usize, files: &[String]) -> u64 {
    let first = groups_of(rows).and_then(|groups| groups.get(partition)?.files().first().cloned());
    let number = first.as_ref().and_then(|first| {
        let path = first.path().to_string();
        files.iter().position(|file| *file == path)
    });
    match (first, number) {
        (Some(first), Some(number)) => {
            let start = first.range.map_or(0, |range| range.start.max(0) as u64);
            (number as u64) << START_BITS | start.min((1 << START_BITS) - 1)
        }
        _ => partition as u64,
    }
}

/// The files of each partition, if one scan of files is below and keeps its partitions.
fn groups_of(rows: &Arc<dyn ExecutionPlan>) -> Option<&[FileGroup]> {
    match rows.children().as_slice() {
        [] => Some(&scan_of(rows)?.file_groups),
        [child] => {
            let partitions = |plan: &Arc<dyn ExecutionPlan>| plan.output_partitioning().partition_count();
            (partitions(child) == partitions(rows)).then(|| groups_of(child))?
        }
        _ => None,
    }
}
