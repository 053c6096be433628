//! Snippets of `wgsl/lib` that bring no constants.

use super::kernel::{Snippet, wgsl};

macro_rules! snippets {
    ($($name:ident $path:literal;)*) => {
        $(pub(crate) const $name: Snippet = wgsl!($path);)*
    };
}

snippets! {
    ACROSS "lib/across";
    CANDIDATES "lib/screen/candidates";
    COARSE_TEST "lib/screen/coarse_test";
    COLLECT_TILE "lib/screen/collect_tile";
    EXACT "lib/select/exact";
    GRID "lib/grid";
    INTEGERS "lib/integers";
    KEEP_ROW "lib/screen/keep_row";
    ORDER "lib/select/order";
    PASSING "lib/select/passing";
    PIECES_COOP "lib/screen/pieces_coop";
    PLACES "lib/screen/places";
    POOL "lib/select/pool";
    RADIX "lib/select/radix";
    RECORDS "lib/reduce/records";
    RESULTS "lib/select/results";
    ROUNDING "lib/rounding";
    SAMPLE "lib/select/sample";
    SCATTERED "lib/select/scattered";
    SLICES_F16 "lib/variants/slices_f16";
    SPAN "lib/reduce/span";
    SPLITTING "lib/select/splitters";
    STATES "lib/select/states";
    STREAM "lib/select/stream";
    SWEEP_COOP "lib/screen/sweep_coop";
    USABLE "lib/screen/usable";
}
