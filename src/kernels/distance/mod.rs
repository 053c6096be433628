//! Distances: norms, scores in f32, all pairs, and the distances that are reported.

kernels! {
    norms distance_scan distance_tile distance_pairs rescore
}
