//! Norms, scores in f32, distances of all pairs, and the distances that searches report.

kernels! {
    DISTANCE:
    norms distance_scan distance_tile distance_pairs rescore
}
