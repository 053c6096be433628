//! Distances of many queries to many rows in f16, on cooperative matrices.

use crate::error::Result;
use crate::gpu::{Commands, Kernel, wgsl};
use crate::kernels::distance::pairs::{HalfVectors, PAIRS, Pairs};
pub use crate::kernels::distance::pairs_tile::Params;
use crate::kernels::distance::pairs_tile::{encode_tiles, params_of};
use crate::kernels::lengths::VECTORS;
use crate::metric::PAIRS_OF_PRODUCTS;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("pairs_tile_coop")
    .library(&[PAIRS])
    .source(wgsl!("distance/pairs_tile_coop"))
    .buffers(bindings!(queries: Read, rows: Read, query_factors: Read, row_factors: Read, distances: Write))
    .overrides(&[("METRIC", PAIRS_OF_PRODUCTS)])
    .multiplies_matrices()
    .lengths(&[VECTORS])
    .workgroup(256, 2 * 128 * 10 * 8 + 4096)
    .holds_tile();

/// Records the kernel for checked pairs and their halves, by cosine or inner product.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    pairs: &Pairs<'_>,
    [queries, rows]: [HalfVectors<'_>; 2],
) -> Result<()> {
    // Vectors of norm 1 need no norms, but the factors have them anyway.
    let metric = pairs.options.metric.pairs_constant(false);
    let params = Params {
        vectors: queries.pitch,
        query_pitch: queries.pitch,
        row_pitch: rows.pitch,
        ..params_of(pairs)
    };
    let buffers = [queries.values, rows.values, queries.factors, rows.factors, pairs.distances];
    encode_tiles(commands, (&KERNEL, metric), params, &buffers)
}
