//! Selection of the k smallest elements of rows: `selection` records the kernels in their order.

mod sample_sort;
pub mod selection;

kernels! {
    SELECT:
    prefix_sum select_k select_row select_short select_sample select_filter sample_runs
    scatter_buckets sort_buckets sort_places sort_runs merge_runs
}
