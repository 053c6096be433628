//! Tells where the rows of a partition lie in their table, also where a cluster has dealt the partitions out to tasks.
//!
//! Rows of the same distance come in the order of the table. The number of a partition does not tell that order on a cluster: each task
//! counts its own partitions from 0.

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// The column of [`piece`], which orders rows of the same distance.
pub(crate) const PIECE: &str = "_piece";
/// The column of the place in a piece, which orders those of the same piece.
pub(crate) const ROW: &str = "_row";
/// The union of datafusion-distributed, in which each task has some of the branches, and [`EmptyExec`] for the others.
const UNION_OF_TASKS: &str = "ChildrenIsolatorUnionExec";
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

/// Whether an operator passes on rows of its partitions in their order. Others may exchange rows between partitions once the plan is
/// optimized, and then nothing tells where a row lies.
pub(crate) fn keeps_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<ProjectionExec>()
        || plan.is::<UnionExec>()
        || plan.downcast_ref::<FilterExec>().is_some_and(|filter| filter.fetch().is_none())
}

/// The files of a table in their order, or none if some of its rows come from elsewhere, or may lie elsewhere than in their partition. Each
/// carries the number of its branch of a union: a view may read a file twice.
pub(crate) fn files_of(rows: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let moves = |plan: &Arc<dyn ExecutionPlan>| Ok(!plan.children().is_empty() && !keeps_rows(plan));
    if rows.exists(moves).unwrap_or(true) {
        return vec![];
    }
    let mut seen = HashSet::new();
    let mut files = vec![];
    for (branch, scan) in scans(rows).into_iter().enumerate() {
        let Some(groups) = scan.groups else { return vec![] };
        files.extend(groups.iter().flat_map(FileGroup::iter).map(|file| name(branch, file)));
    }
    files.retain(|file| seen.insert(file.clone()));
    files
}

/// Orders the pieces of a table: the file with which a partition starts, and the place in that file. The number of the partition where the
/// rows are not of these files.
pub(crate) fn piece(rows: &Arc<dyn ExecutionPlan>, partition: usize, files: &[String]) -> u64 {
    let mut local = partition;
    for (branch, scan) in scans(rows).into_iter().enumerate() {
        if local >= scan.partitions {
            local -= scan.partitions;
            continue;
        }
        let first = scan.groups.and_then(|groups| groups.get(local)?.files().first());
        let number = first.and_then(|first| files.iter().position(|file| *file == name(branch, first)));
        if let (Some(first), Some(number)) = (first, number) {
            let start = first.range.as_ref().map_or(0, |range| range.start.max(0) as u64);
            return (number as u64) << START_BITS | start.min((1 << START_BITS) - 1);
        }
        break;
    }
    partition as u64
}

fn name(branch: usize, file: &PartitionedFile) -> String {
    format!("{branch}:{}", file.path())
}

/// What a branch of a union reads.
struct Scan<'a> {
    /// How many partitions of the union are its.
    partitions: usize,
    /// The files of each, if one scan of files is below and keeps its partitions.
    groups: Option<&'a [FileGroup]>,
}

/// The branches of a union; a single one where there is none.
fn scans(rows: &Arc<dyn ExecutionPlan>) -> Vec<Scan<'_>> {
    let partitions = partitions_of(rows);
    match (rows.name(), rows.children().as_slice()) {
        ("UnionExec" | UNION_OF_TASKS, branches) => {
            let is_here =
                |branch: &Arc<dyn ExecutionPlan>| rows.name() != UNION_OF_TASKS || !branch.is::<EmptyExec>();
            branches
                .iter()
                .map(|branch| Scan {
                    partitions: if is_here(branch) { partitions_of(branch) } else { 0 },
                    groups: groups_of(branch),
                })
                .collect()
        }
        (_, [child]) if partitions_of(child) == partitions => scans(child),
        _ => vec![Scan { partitions, groups: groups_of(rows) }],
    }
}

/// The files of each partition, if one scan of files is below and keeps its partitions.
fn groups_of(rows: &Arc<dyn ExecutionPlan>) -> Option<&[FileGroup]> {
    match rows.children().as_slice() {
        [] => Some(&scan_of(rows)?.file_groups),
        [child] => (partitions_of(child) == partitions_of(rows)).then(|| groups_of(child))?,
        _ => None,
    }
}

fn partitions_of(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.output_partitioning().partition_count()
}
