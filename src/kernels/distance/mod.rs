//! Norms, scores in f32, distances of all pairs, and the distances that searches report.

pub mod all_pairs;
pub mod pairs;

kernels! {
    DISTANCE:
    norms distance_scan distance_tile refine
}

kernels! {
    PAIRS:
    distance_pairs pairs_scan pairs_tile pairs_tile_coop halve
}
