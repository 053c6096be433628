//! Scores the rows of lists for many queries a list on cooperative matrices, and collects those that thresholds do not exclude.

use crate::gpu::{
    CANDIDATES, COARSE_TEST, INTEGERS, KEEP_ROW, Kernel, PIECES_COOP, SWEEP_COOP, USABLE, wgsl,
};
use crate::kernels::blocks::{BLOCK_ROWS, GRANULE_PLACES, TILE_COOP};
use crate::kernels::intervals::INTERVALS;
use crate::kernels::keys::KEYS;
use crate::kernels::lengths::GRANULES;
use crate::kernels::lists::collect_lists::{BUFFERS, ListKernel};
use crate::kernels::pages::{LIST_BLOCKS, SCREENED};
use crate::kernels::screen::collect_tile_coop::HEIGHTS;
use crate::metric::Form;

pub use crate::kernels::lists::screening::Params;

/// The declaration. `collect_lists::encode` records it on adapters where `screen_tile_coop::is_usable` allows it.
pub static KERNEL: Kernel = Kernel::new::<Params>("collect_lists_coop")
    .library(&[
        KEYS,
        INTERVALS,
        USABLE,
        CANDIDATES,
        COARSE_TEST,
        INTEGERS,
        GRANULE_PLACES,
        TILE_COOP,
        PIECES_COOP,
        SWEEP_COOP,
        SCREENED,
        KEEP_ROW,
        LIST_BLOCKS,
    ])
    .source(wgsl!("lists/collect_lists_coop", OF_BITS = 0, PAIRS = 0))
    .buffers(BUFFERS)
    .overrides(&[("FORM", Form::QUANTIZED_NUMBERS), ("HAS_BITSET", &[0, 1]), HEIGHTS])
    .multiplies_matrices()
    .takes_byte_matrices()
    .lengths(&[GRANULES])
    .workgroup(256, 2 * 128 * 10 * 8 + 4 * 1024)
    .holds_tile();

/// The kernel for about this many queries a list, as `collect_lists::encode` takes it.
pub(crate) fn for_queries(queries_a_list: u32) -> ListKernel {
    let height = KERNEL.heights().iter().copied().find(|&height| height >= queries_a_list);
    ListKernel { kernel: &KERNEL, height: height.unwrap_or(BLOCK_ROWS) }
}
