//! The k smallest numbers of rows.

mod sample_sort;
pub mod selection;

kernels! {
    prefix_sum select_k select_row select_short select_sample select_filter sample_runs scatter_buckets sort_buckets sort_places sort_runs merge_runs
}
