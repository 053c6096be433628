//! What the kernels share that screen the rows of probed lists: `probe_thresholds`, `screen_probes`, `collect_lists` and
//! `collect_lists_coop`.

use crate::kernels::intervals::params_with_margin;
use crate::screen::certificate::Margin;

pub use crate::metric::Form;

params_with_margin! {
    /// Parameters of these kernels. Those that only some of them read say which.
    pub struct Params {
        /// Granules of 16 dimensions per quantised vector, an even number.
        granules: u32,
        queries: u32,
        /// Place of their terms, in vectors of four.
        query_terms: u32,
        /// Distance between the states of different kinds.
        room: u32,
        /// Rows of the segment.
        rows: u32,
        /// Slot of the segment's first row.
        first_slot: u32,
        /// Candidates that a query can have. Not for `probe_thresholds`.
        capacity: u32,
        /// Candidates of all queries. Not for `probe_thresholds`.
        plane: u32,
        /// First of the lists of each query that are searched, for `screen_probes`.
        first: u32,
        /// Lists of each query that are looked at. `probe_thresholds` takes 1, 2 or 4; the kernels that collect from blocks take none.
        probes: u32,
        /// Lists that each query probes, for the same kernels.
        stride: u32,
        /// Lists, for the same kernels.
        lists: u32,
        /// Place of the tiles in the tables, in words, for the same kernels.
        tiles: u32,
        /// Neighbours wanted, for `probe_thresholds`.
        k: u32,
        /// Rows that are enough for a threshold, unless the lists are long, for `probe_thresholds`.
        wanted: u32,
        /// The most turns of four pages, for `probe_thresholds`.
        turns: u32,
        /// 1: there are no thresholds yet, for `probe_thresholds`.
        is_first: u32,
    }
}

/// The override constants of these kernels.
pub(super) const OVERRIDES: &[(&str, &[u32])] = &[("FORM", Form::QUANTIZED_NUMBERS), ("HAS_BITSET", &[0, 1])];
