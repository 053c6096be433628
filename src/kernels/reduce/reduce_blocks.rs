//! Reduces blocks of values to records, which `reduce_partials` merges.

use crate::elements::{Element, ElementKind};
use crate::error::{Error, Result};
use crate::gpu::{
    ACROSS, BufferSlice, Commands, GRID, Grid, Kernel, RECORDS, ROUNDING, SPAN, WORKGROUP, params, wgsl,
};
use crate::kernels::reduce::extent::Extent;
use crate::kernels::reduce::operation::EXTREMES;
pub use crate::kernels::reduce::operation::{Operation, Summation};

params! {
    /// Parameters of all reductions.
    pub struct Params {
        /// Elements of the buffer before the first row.
        first: u32,
        /// Elements from one row to the next.
        stride: u32,
        /// Elements per row.
        length: u32,
        rows: u32,
        /// Blocks per row.
        blocks: u32,
        /// Vectors of four elements per block.
        block_vectors: u32,
        /// Number of the first block among all blocks of the row, in this and other buffers.
        first_block: u32,
        /// Records from one row to the next.
        pitch: u32,
        /// Words of a record of `deviations`: 3, or 1 if only the sum is wanted.
        words: u32,
        /// Factor of every value of a sum, a power of two.
        scale: f32,
        /// 0. Kernels must not be compiled with this knowledge.
        zero: u32,
    }
}

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("reduce_blocks")
    .library(&[GRID, ACROSS, EXTREMES, ROUNDING, RECORDS, SPAN])
    .source(wgsl!("reduce/reduce_blocks"))
    .buffers(bindings!(values: Read, others: Read, partials: Write))
    .overrides(&[
        ("OPERATION", &[0, 1, 2, 3, 4, 5, 6]),
        ("COMPENSATED", &[0, 1]),
        ("COARSENING", &[1, 4, 8]),
        (WORKGROUP, &[64, 256]),
    ])
    .loads_rows()
    .sums_lanes()
    .workgroup(256, 256 * (16 + 4 + 8));

/// The layout of the work. The bits of a sum depend on it, so the library derives it from the length alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Invocations per workgroup: a value of the override constant.
    pub workgroup: u32,
    /// Vectors in flight: a value of the override constant.
    pub coarsening: u32,
    /// Vectors of four elements that an invocation takes.
    pub turns: u32,
}

impl Shape {
    /// Turns of the library's largest shape.
    const MOST_TURNS: u32 = 16;
    pub(crate) const LARGEST: Self = Self { workgroup: 256, coarsening: 8, turns: Self::MOST_TURNS };

    /// The library's shape for rows of `length` elements.
    pub fn of(length: u64) -> Self {
        let workgroup = 256;
        // Enough blocks to fill a large GPU before blocks grow. Larger blocks leave more work to its last workgroups.
        let turns =
            length.div_ceil(4 * 256 * 1024).next_power_of_two().clamp(4, Self::MOST_TURNS.into()) as u32;
        Self { workgroup, coarsening: turns.min(8), turns }
    }

    /// Elements per block.
    pub const fn block(self) -> u64 {
        self.workgroup as u64 * self.turns as u64 * 4
    }
}

/// Rows in one buffer, or a part of one long row.
#[derive(Debug, Clone, Copy)]
pub struct Reduce<'a> {
    /// The operation. `locate` finds places afterwards.
    pub operation: Operation,
    /// How sums are added up.
    pub summation: Summation,
    /// Element type of both operands.
    pub elements: ElementKind,
    /// `[rows, stride]` from element `first` on; whole vectors of four elements.
    pub values: BufferSlice<'a>,
    /// The other operand of [`Operation::Dot`], at the same places.
    pub others: Option<BufferSlice<'a>>,
    /// Elements before the first row.
    pub first: u32,
    /// Elements from one row to the next.
    pub stride: u32,
    /// Elements per row.
    pub length: u32,
    /// Number of rows.
    pub rows: u32,
    /// Layout of the work.
    pub shape: Shape,
    /// Number of the first block.
    pub first_block: u32,
    /// Factor of every value of a sum, a power of two.
    pub scale: f32,
    /// `[rows, pitch]` records of two u32.
    pub partials: BufferSlice<'a>,
    /// Records per row.
    pub pitch: u32,
}

impl Reduce<'_> {
    /// Where the rows lie.
    fn extent(&self) -> Extent {
        Extent { first: self.first, stride: self.stride, length: self.length, rows: self.rows }
    }

    /// Blocks per row in this buffer.
    pub fn blocks(&self) -> u32 {
        self.extent().vectors().div_ceil((self.shape.block() / 4).max(1)) as u32
    }

    /// Checks that the kernels support the caller's layout and that rows lie within their buffers.
    pub(crate) fn check(&self) -> Result<()> {
        let Shape { workgroup, coarsening, turns } = self.shape;
        let is_declared = matches!(workgroup, 64 | 256) && matches!(coarsening, 1 | 4 | 8);
        if !is_declared || turns == 0 || self.shape.block() > u64::from(u32::MAX) {
            let needed =
                "a workgroup of 64 or 256, coarsening by 1, 4 or 8, and turns for a block below 2^32";
            return Err(Error::argument("shape", needed, format!("{:?}", self.shape)));
        }
        if self.operation == Operation::Dot && self.others.is_none() {
            return Err(Error::argument("others", "the other operand of a product", "none"));
        }
        let operands = [("values", Some(self.values)), ("others", self.others)];
        operands.into_iter().try_for_each(|(argument, slice)| {
            slice.map_or(Ok(()), |slice| self.extent().check(argument, self.elements, slice))
        })
    }

    pub(crate) fn params(&self) -> Params {
        Params {
            first: self.first,
            stride: self.stride,
            length: self.length,
            rows: self.rows,
            blocks: self.blocks(),
            block_vectors: (self.shape.block() / 4) as u32,
            first_block: self.first_block,
            pitch: self.pitch,
            scale: self.scale,
            ..Params::default()
        }
    }
}

pub(crate) fn encode(commands: &mut Commands<'_>, reduce: &Reduce<'_>) -> Result<()> {
    reduce.check()?;
    let end = u64::from(reduce.first_block) + u64::from(reduce.blocks());
    if end > u64::from(reduce.pitch) {
        let needed = format!("at least {end} records a row");
        return Err(Error::argument("pitch", needed, reduce.pitch));
    }
    reduce.partials.check_rows("partials", reduce.rows, [reduce.pitch; 2], 8)?;
    let Shape { workgroup, coarsening, .. } = reduce.shape;
    let compensated = u32::from(reduce.summation == Summation::Compensated && reduce.operation.is_sum());
    let constants = [reduce.operation.extreme() as u32, compensated, coarsening, workgroup];
    let pipeline = commands.gpu().pipeline_for(&KERNEL, reduce.elements, &constants)?;
    let params = reduce.params();
    let grid = Grid::Linear(u64::from(params.rows) * u64::from(params.blocks));
    let others = reduce.others.unwrap_or(reduce.values);
    commands.dispatch(&pipeline, &params, &[reduce.values, others, reduce.partials], grid)
}

/// A reduction by its definition, in f64: the value, and its place where there is one. None without a number.
pub fn reference<T: Element>(
    operation: Operation,
    values: &[T],
    others: &[T],
) -> Option<(f64, Option<usize>)> {
    let widened = || values.iter().map(|&value| f64::from(value.widen()));
    let sum = |terms: &mut dyn Iterator<Item = f64>| Some((terms.sum(), None));
    let first = |better: fn(f64, f64) -> bool| {
        let mut best: Option<(f64, usize)> = None;
        for (place, value) in widened().enumerate().filter(|(_, value)| !value.is_nan()) {
            if best.is_none_or(|(least, _)| better(value, least)) {
                best = Some((value, place));
            }
        }
        best.map(|(value, place)| (value, operation.is_place().then_some(place)))
    };
    match operation {
        Operation::Dot => sum(&mut widened().zip(others).map(|(a, &b)| a * f64::from(b.widen()))),
        Operation::Sum => sum(&mut widened()),
        Operation::SumAbs => sum(&mut widened().map(f64::abs)),
        Operation::SumSquares => sum(&mut widened().map(|value| value * value)),
        Operation::MaxAbs => {
            let larger = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
            Some((widened().map(f64::abs).fold(0.0, |most, value| larger(value, most)), None))
        }
        Operation::Min | Operation::ArgMin => first(|a, b| a < b),
        Operation::Max | Operation::ArgMax => first(|a, b| a > b),
    }
}
