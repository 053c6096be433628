//! Chooses the kernel that computes the distances of all pairs, and records it.

use crate::error::Result;
use crate::gpu::Commands;
use crate::kernels::distance::pairs::Pairs;
use crate::kernels::distance::{distance_pairs, pairs_scan, pairs_tile, pairs_tile_coop};
use crate::metric::Precision;

/// Whether tiles compute the distances of this many queries. Tiles can read f16.
pub(crate) fn has_tiles(queries: usize) -> bool {
    queries > SCANNED_QUERIES as usize
}

/// Up to this many queries are scanned: a tile would compute 128.
const SCANNED_QUERIES: u32 = 24;

/// Vectors of this many elements give a scan's lanes enough to do. Shorter ones of few queries take one invocation a pair.
const SCANNED_DIM: u32 = 32;

/// Checks the pairs, and records their kernel.
pub(crate) fn encode(commands: &mut Commands<'_>, pairs: &Pairs<'_>) -> Result<()> {
    pairs.check()?;
    let needs_norms = pairs.options.metric.compares_directions();
    let is_whole =
        [pairs.dim, pairs.query_stride, pairs.row_stride].iter().all(|count| count.is_multiple_of(4));
    let has_norms = !needs_norms || pairs.unit_vectors || pairs.norms.is_some();
    let is_few = pairs.query_count <= SCANNED_QUERIES;
    if pairs.options.precision == Precision::Half
        && let Some(halves) = pairs.halves
        && !is_few
    {
        pairs_tile_coop::encode(commands, pairs, halves)
    } else if pairs.options.precision == Precision::Compensated || !is_whole || !has_norms {
        distance_pairs::encode(commands, pairs)
    } else if !is_few {
        pairs_tile::encode(commands, pairs)
    } else if pairs.dim >= SCANNED_DIM {
        pairs_scan::encode(commands, pairs)
    } else {
        distance_pairs::encode(commands, pairs)
    }
}
