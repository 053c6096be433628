//! Moves rows to and from slots: a row store writes, reads and moves through this kernel.

use std::ops::Range;

use crate::elements::ElementKind;
use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, GRID, Grid, Kernel, params, wgsl};
use crate::kernels::blocks::WORDS_IN_BLOCKS;
use crate::kernels::lengths::granules;

params! {
    pub struct Params {
        /// Words of 4 bytes per row.
        words: u32,
        /// First position of the list of slots.
        first_position: u32,
        /// One past the last position.
        end_position: u32,
        /// Slot of the segment's first row.
        first_slot: u32,
        /// Rows that the segment has room for.
        rows: u32,
        /// Granules of a row to gather whose slots lie in blocks; 0 where rows lie one after another.
        granules: u32,
        /// Bits of a word to gather that differ in its slot.
        flipped: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("move_rows")
    .library(&[GRID, WORDS_IN_BLOCKS])
    .source(wgsl!("lists/move_rows", WORDS_EACH))
    .buffers(bindings!(slots: Read, moved_from: Read, moved_to: Write))
    .overrides(&[("GATHER", &[0, 1])])
    .workgroup(INVOCATIONS, 0);

/// Bytes of a word.
pub const WORD_BYTES: u64 = 4;

/// Words that an invocation moves.
const WORDS_EACH: u32 = 8;

/// Invocations per workgroup.
const INVOCATIONS: u32 = 256;

/// Words that a workgroup moves.
pub const WORDS_A_WORKGROUP: u64 = (WORDS_EACH * INVOCATIONS) as u64;

/// The direction in which rows move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From their order to their slots.
    Scatter,
    /// From their slots to their order.
    Gather,
}

/// Rows of one segment to move. Slots of other segments are skipped.
#[derive(Debug, Clone)]
pub(crate) struct Move<'a> {
    pub(crate) direction: Direction,
    /// Bytes per row, whole words.
    pub(crate) row_bytes: u64,
    pub(crate) slots: BufferSlice<'a>,
    /// Positions of the list to process.
    pub(crate) positions: Range<u32>,
    pub(crate) first_slot: u32,
    /// Rows that the segment has room for.
    pub(crate) rows: u32,
    /// The element type of rows that lie in their slots as their codes do.
    pub(crate) in_blocks: Option<ElementKind>,
    pub(crate) from: BufferSlice<'a>,
    pub(crate) to: BufferSlice<'a>,
}

pub(crate) fn encode(commands: &mut Commands<'_>, moving: &Move<'_>) -> Result<()> {
    debug_assert!(moving.row_bytes.is_multiple_of(WORD_BYTES), "whole words");
    let constants = [(moving.direction == Direction::Gather).into()];
    let pipeline = commands.gpu().pipeline(&KERNEL, &constants)?;
    let words = moving.row_bytes / WORD_BYTES;
    let params = Params {
        words: words as u32,
        first_position: moving.positions.start,
        end_position: moving.positions.end,
        first_slot: moving.first_slot,
        rows: moving.rows,
        granules: moving.in_blocks.map_or(0, |_| granules(moving.row_bytes as usize)),
        // Codes are stored with 128 added: to signed bytes that is their first bit.
        flipped: if moving.in_blocks == Some(ElementKind::I8) { 0x8080_8080 } else { 0 },
    };
    let grid = Grid::Linear((moving.positions.len() as u64 * words).div_ceil(WORDS_A_WORKGROUP));
    commands.dispatch(&pipeline, &params, &[moving.slots, moving.from, moving.to], grid)
}

/// The contents of `to` after rows of `words` words each are moved, for all positions.
pub fn reference(
    direction: Direction,
    words: usize,
    slots: &[u32],
    first_slot: u32,
    rows: u32,
    from: &[u32],
    to: &[u32],
) -> Vec<u32> {
    let mut after = to.to_vec();
    for (position, &slot) in slots.iter().enumerate() {
        let Some(row) = slot.checked_sub(first_slot).filter(|&row| row < rows) else { continue };
        let (in_order, in_slots) = (position * words, row as usize * words);
        let (source, target) = match direction {
            Direction::Scatter => (in_order, in_slots),
            Direction::Gather => (in_slots, in_order),
        };
        after[target..target + words].copy_from_slice(&from[source..source + words]);
    }
    after
}
