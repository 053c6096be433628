//! Sums the squared deviations of values from their mean, block by block.

use crate::elements::{Element, ElementKind};
use crate::error::{Error, Result};
use crate::gpu::{ACROSS, BufferSlice, Commands, GRID, Grid, Kernel, ROUNDING, wgsl};
use crate::kernels::reduce::extent::Extent;
use crate::kernels::reduce::reduce_blocks::Params;
pub use crate::kernels::reduce::spread::Spread;

/// Vectors of four elements that an invocation keeps in registers.
const HELD: u32 = 4;

/// Invocations per block where it is the work of a workgroup.
const MOST: u32 = 256;

/// Elements of such a block. Rows up to this length are one block.
pub(crate) const BLOCK: u64 = (MOST * HELD * 4) as u64;

/// The declaration. Its parameters are those of `reduce_blocks`.
pub static KERNEL: Kernel = Kernel::new::<Params>("deviations")
    .library(&[GRID, ACROSS, ROUNDING])
    .source(wgsl!("reduce/deviations", HELD))
    .buffers(bindings!(values: Read, records: Write))
    .overrides(&[("WIDTH", &[0, 1, 4, 8, MOST])])
    .loads_rows()
    .sums_lanes()
    .workgroup(MOST, MOST * (16 + 4));

/// How rows are cut into blocks. The bits of a sum depend on it, so it follows from the length of rows and where they may start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// A value of the override constant: invocations per block, or 0 for one group of lanes.
    width: u32,
    /// Records per row.
    pub(crate) pitch: u32,
}

impl Layout {
    /// The layout of a vector of `length` elements, in any number of buffers.
    pub(crate) fn of_vector(length: u64) -> Self {
        Self { width: MOST, pitch: length.div_ceil(BLOCK) as u32 }
    }

    /// The layout of rows of `length` elements, `stride` elements apart.
    pub(crate) fn of_rows(length: u64, stride: u64) -> Self {
        // Where rows start anywhere in a vector, some touch one vector more than others.
        let before = if stride.is_multiple_of(4) { 0 } else { 3 };
        let vectors = (before + length).div_ceil(4);
        let width = match vectors {
            0..=4 => 1,
            5..=16 => 4,
            17..=32 => 8,
            _ if length <= BLOCK => 0,
            _ => MOST,
        };
        Self { width, pitch: if width == MOST { vectors.div_ceil(BLOCK / 4) as u32 } else { 1 } }
    }

    /// Vectors of a block, at most.
    fn vectors(self) -> u64 {
        if self.width == 0 { BLOCK / 4 + 1 } else { u64::from(self.width * HELD) }
    }

    /// Words of a record. A row of one block needs no mean: nothing is merged with it.
    fn words(self) -> u32 {
        if self.pitch == 1 { 1 } else { 3 }
    }

    /// Bytes of a row's records.
    pub(crate) fn row_bytes(self) -> u64 {
        4 * u64::from(self.words()) * u64::from(self.pitch)
    }
}

/// Rows in one buffer, or a part of one long row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deviations<'a> {
    /// Element type.
    pub(crate) elements: ElementKind,
    /// `[rows, stride]` from element `first` on; whole vectors of four elements.
    pub(crate) values: BufferSlice<'a>,
    /// Elements before the first row.
    pub(crate) first: u32,
    /// Elements from one row to the next.
    pub(crate) stride: u32,
    /// Elements per row.
    pub(crate) length: u32,
    /// Number of rows.
    pub(crate) rows: u32,
    /// Number of the first block.
    pub(crate) first_block: u32,
    /// Factor of every value, a power of two.
    pub(crate) scale: f32,
    /// How rows are cut into blocks.
    pub(crate) layout: Layout,
    /// `[rows, pitch]` records: the sum of a block, and unless it is the only one of its row, two parts of its mean.
    pub(crate) records: BufferSlice<'a>,
}

impl Deviations<'_> {
    fn extent(&self) -> Extent {
        Extent { first: self.first, stride: self.stride, length: self.length, rows: self.rows }
    }

    /// Elements of a block of a row, 0 where a row has fewer blocks than others.
    pub(crate) fn count(&self, row: u32, block: u32) -> u64 {
        let block_elements = 4 * self.layout.vectors();
        let begin = u64::from(self.first) + u64::from(row) * u64::from(self.stride);
        let start = begin / 4 * 4 + u64::from(block) * block_elements;
        let end = (begin + u64::from(self.length)).min(start + block_elements);
        end.saturating_sub(start.max(begin))
    }
}

/// The spread of a block: its record of three words, and how many values it has.
pub fn spread([squares, mean, rest]: [f32; 3], count: u64) -> Spread {
    Spread { count: count as f64, mean: f64::from(mean) + f64::from(rest), squares: squares.into() }
}

pub(crate) fn encode(commands: &mut Commands<'_>, deviations: &Deviations<'_>) -> Result<()> {
    let Deviations { first, stride, length, rows, first_block, scale, layout, .. } = *deviations;
    let Layout { width, pitch } = layout;
    deviations.extent().check("values", deviations.elements, deviations.values)?;
    let blocks = deviations.extent().vectors().div_ceil(layout.vectors());
    let end = u64::from(first_block) + blocks;
    if end > u64::from(pitch) {
        return Err(Error::argument("layout", format!("at least {end} records a row"), pitch));
    }
    let words = layout.words();
    deviations.records.check_rows("records", rows, [pitch; 2], 4 * u64::from(words))?;
    let blocks = blocks as u32;
    let params =
        Params { first, stride, length, rows, blocks, first_block, pitch, words, scale, ..Params::default() };
    let pipeline = commands.gpu().pipeline_for(&KERNEL, deviations.elements, &[width])?;
    // Blocks per workgroup with the largest groups of lanes; with smaller groups some workgroups find nothing to do.
    let lanes = match width {
        0 => commands.gpu().subgroup_sizes().map_or(32, |(_, most)| most.min(MOST)),
        width => width,
    };
    let grid = Grid::Linear((u64::from(rows) * u64::from(blocks)).div_ceil(u64::from(MOST / lanes)));
    commands.dispatch(&pipeline, &params, &[deviations.values, deviations.records], grid)
}

/// The spread of values by its definition, in f64.
pub fn reference<T: Element>(values: &[T]) -> Spread {
    let widened = || values.iter().map(|&value| f64::from(value.widen()));
    let count = values.len() as f64;
    let mean = if values.is_empty() { 0.0 } else { widened().sum::<f64>() / count };
    Spread { count, mean, squares: widened().map(|value| (value - mean) * (value - mean)).sum() }
}
