//! Search in the lists of an `Ivf`, and the upkeep of its lists.

mod screening;

kernels! {
    LISTS:
    average collect_lists collect_lists_coop group list_work move_rows probe_slots probe_thresholds screen_probes
    widen_rows
}
