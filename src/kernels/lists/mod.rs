//! Search in the lists of an `Ivf`, and the upkeep of its lists.

kernels! {
    LISTS:
    average group list_work move_rows probe_slots screen_lists_i8 screen_lists_coop winnow
}
