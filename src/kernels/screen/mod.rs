//! Screens on integers, and the lists of rows that scores do not exclude.

kernels! {
    SCREEN:
    quantize screen_scan_i8 screen_tile_i8 screen_tile_coop collect collect_tile_i8 collect_tile_coop
    pick winnow tighten compact gather
}
