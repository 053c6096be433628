//! Reductions: sums, dot products, norms, extremes and their places.

mod operation;

kernels! {
    REDUCE:
    reduce_blocks reduce_partials reduce_rows locate
}
