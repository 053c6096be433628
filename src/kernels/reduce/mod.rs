//! Reductions: sums, dot products, norms, extremes and their places, deviations from the mean.

mod extent;
mod operation;
mod spread;

kernels! {
    REDUCE:
    reduce_blocks reduce_partials reduce_rows locate deviations
}
