//! Search in the lists of an `Ivf`, and what its lists need.

kernels! {
    average group list_work move_rows probe_slots screen_lists_i8 screen_lists_coop winnow
}
