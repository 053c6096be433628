//! Copies the codes of some rows side by side, so that a screen scores these rows alone.

use std::ops::Range;

use crate::error::Result;
use crate::gpu::{Buffer, Commands, GRID, Grid, Kernel, buffers, params, wgsl};
use crate::kernels::blocks::{BLOCK_ROWS, GRANULE_PLACES};

params! {
    pub struct Params {
        /// Granules of a row.
        granules: u32,
        /// The first place to fill.
        first_place: u32,
        /// One past the last place to fill.
        end_place: u32,
        /// Length of the list of slots.
        entries: u32,
        /// Slot of the segment's first row.
        first_slot: u32,
        /// Rows of the segment.
        rows: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("gather")
    .library(&[GRID, GRANULE_PLACES])
    .source(wgsl!("screen/gather"))
    .buffers(BUFFERS)
    .workgroup(INVOCATIONS, 0);

const INVOCATIONS: u32 = 128;

buffers! {
    /// The codes of a segment, and where those of some rows go.
    pub(crate) struct Buffers<'a> {
        slots: Read &'a Buffer,
        codes: Read &'a Buffer,
        terms: Read &'a Buffer,
        gathered: Write &'a Buffer,
        gathered_terms: Write &'a Buffer,
    }
}

/// Fills the places from `first_place` to `end_place` that have a row of the segment, and those behind the list.
pub(crate) fn encode(commands: &mut Commands<'_>, params: &Params, buffers: &Buffers<'_>) -> Result<()> {
    let places = u64::from(params.end_place.saturating_sub(params.first_place));
    if places == 0 {
        return Ok(());
    }
    let pipeline = commands.gpu().pipeline(&KERNEL, &[])?;
    let copies = places * u64::from(params.granules);
    commands.dispatch(&pipeline, params, &buffers.slices(), Grid::Linear(copies.div_ceil(INVOCATIONS.into())))
}

/// Where a granule of a row lies in blocks.
fn place_of(row: usize, granule: usize, granules: usize) -> usize {
    let block = BLOCK_ROWS as usize;
    (row / block * granules + granule) * block + row % block
}

/// The granules of `places` places, from those of a segment's rows.
pub fn reference<T: Copy + Default>(
    granules: usize,
    (slots, first_slot): (&[u32], u32),
    places: Range<usize>,
    codes: &[T],
    gathered: &mut [T],
) {
    for (place, granule) in places.flat_map(|place| (0..granules).map(move |granule| (place, granule))) {
        let from = slots.get(place).map(|&slot| place_of((slot - first_slot) as usize, granule, granules));
        gathered[place_of(place, granule, granules)] = from.map_or(T::default(), |from| codes[from]);
    }
}
