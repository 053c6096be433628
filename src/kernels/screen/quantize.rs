//! Quantises vectors to 8-bit integers, for the screens on integers.

use crate::elements::ElementKind;
use crate::error::Result;
use crate::gpu::{ACROSS, Buffer, BufferSlice, Commands, GRID, Grid, Kernel, buffers, params, wgsl};
use crate::kernels::blocks::{BLOCK_ROWS, WORDS_IN_BLOCKS};
use crate::kernels::lengths::{GRANULES, VECTORS};
use crate::kernels::metrics::{METRIC, metric_constant};
use crate::kernels::sixteen::{AT_ONCE, INVOCATIONS, SIXTEEN};
use crate::metric::{Metric, REFINED_METRICS};
use crate::screen::certificate::{Quantizing, Terms};

pub(crate) use crate::kernels::lengths::GRANULE;
pub use crate::kernels::lengths::granules;

params! {
    pub struct Params {
        /// Vectors of four elements per row.
        vectors: u32,
        /// Granules of 16 dimensions per quantised row.
        granules: u32,
        /// First row to quantise.
        first_row: u32,
        /// One past the last row.
        end_row: u32,
        /// Granules of a plane.
        plane: u32,
        /// Slot of the segment's first row, if there is a list of slots.
        first_slot: u32,
        /// Rows that the segment has room for, if there is a list of slots.
        rows: u32,
        /// Largest magnitude of an integer.
        levels: f32,
        /// Steps of the second plane in a step of the first.
        finer: f32,
        /// Its inverse.
        fraction: f32,
        /// Factor that makes computed lengths upper bounds.
        inflation: f32,
        /// Rounding error of steps, relative to the length.
        step_error: f32,
        /// Rounding error of dividing by the norm.
        unit_error: f32,
        /// Vectors whose largest element is smaller are not quantised.
        smallest: f32,
        /// A length greater than that of any such vector.
        tiny: f32,
        /// 1: vectors minus the centre are integers, which become their own codes. [`BITS`]: vectors are bytes of bits, which are so without a centre.
        whole: u32,
    }
}

/// The value of `whole` for bits.
pub const BITS: u32 = 2;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("quantize")
    .library(&[GRID, ACROSS, SIXTEEN, METRIC, WORDS_IN_BLOCKS])
    .source(wgsl!("screen/quantize", BITS))
    .buffers(BUFFERS)
    .overrides(&[("METRIC", REFINED_METRICS), ("PLANES", &[1, 2]), ("SLOTS", &[0, 1])])
    .loads_rows_and_bits()
    .lengths(&[VECTORS, GRANULES])
    .workgroup(INVOCATIONS, INVOCATIONS * 16 + AT_ONCE * 4);

/// Bytes of a plane of `rows` quantised vectors, rounded up to whole blocks.
pub fn plane_bytes(rows: u64, dim: usize) -> u64 {
    rows.next_multiple_of(BLOCK_ROWS.into()) * u64::from(granules(dim)) * GRANULE as u64
}

buffers! {
    /// Vectors to quantise, and where they go.
    pub(crate) struct Buffers<'a> {
        rows: Read BufferSlice<'a>,
        row_norms: Read BufferSlice<'a>,
        centre: Read &'a Buffer,
        /// The planes, one after another.
        quantized: Write BufferSlice<'a>,
        terms: Write BufferSlice<'a>,
        /// Where rows go that lie in the order of a list; otherwise any buffer.
        slots: Read BufferSlice<'a>,
    }
}

/// A list of slots in whose order rows and norms lie; their integers and terms go to these slots. Slots of other segments are
/// skipped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slots<'a> {
    pub(crate) list: BufferSlice<'a>,
    /// Slot of the segment's first row.
    pub(crate) first_slot: u32,
    /// Rows that the segment has room for.
    pub(crate) rows: u32,
}

/// The value of `METRIC`: bits are quantised alike for all metrics.
pub(crate) fn constant_of(metric: Metric) -> u32 {
    metric_constant(if metric.counts_bits() { Metric::Hamming } else { metric })
}

/// Records the kernel for vectors of this element type, quantised to one plane or two. `has_slots` if they go to the slots of a list.
pub(crate) fn encode(
    commands: &mut Commands<'_>,
    (metric, elements): (Metric, ElementKind),
    (planes, has_slots): (u32, bool),
    params: &Params,
    buffers: &Buffers<'_>,
) -> Result<()> {
    let constants = [constant_of(metric), planes, has_slots.into()];
    let pipeline = commands.gpu().pipeline_for(&KERNEL, elements, &constants)?;
    let grid = Grid::Linear(u64::from(params.end_row - params.first_row).div_ceil(AT_ONCE.into()));
    commands.dispatch(&pipeline, params, &buffers.slices(), grid)
}

impl Params {
    /// The constants of a quantising; the shapes are left 0.
    pub fn of(quantizing: Quantizing) -> Self {
        let Quantizing { levels, finer, inflation, step_error, unit_error, smallest, tiny } = quantizing;
        let finer = finer as f32;
        Self {
            levels: levels as f32,
            finer,
            fraction: 1.0 / finer,
            inflation,
            step_error,
            unit_error,
            smallest,
            tiny,
            ..Self::default()
        }
    }
}

/// The place of the byte of a row's dimension in a plane of quantised rows.
pub fn place(row: usize, dimension: usize, granules: usize) -> usize {
    let block = BLOCK_ROWS as usize;
    ((row / block * granules + dimension / GRANULE) * block + row % block) * GRANULE + dimension % GRANULE
}

/// A vector quantised in f64: the integers of one plane and the exact terms, without the slack that makes them upper bounds.
pub fn reference(metric: Metric, vector: &[f32], centre: &[f32]) -> (Vec<i32>, [f64; 4]) {
    let norm = vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    let unit = if metric.compares_directions() && norm > 0.0 { norm } else { 1.0 };
    let pairs = || vector.iter().zip(centre).map(|(&x, &m)| (f64::from(x) / unit, f64::from(m)));
    let levels = f64::from(Quantizing::of(metric, vector.len()).levels);
    let most = pairs().map(|(y, m)| (y - m).abs()).fold(0.0, f64::max);
    let scale = most / levels;
    let integers: Vec<i32> = pairs()
        .map(|(y, m)| if scale > 0.0 { ((y - m) / scale).round_ties_even() as i32 } else { 0 })
        .collect();
    let residual =
        pairs().zip(&integers).map(|((y, m), &t)| (y - m - scale * f64::from(t)).powi(2)).sum::<f64>();
    let squared: f64 = pairs().map(|(y, m)| (y - m).powi(2)).sum();
    let product: f64 = pairs().map(|(y, m)| y * m).sum();
    let bias = if metric.adds_differences() { squared } else { product };
    (integers, [scale, squared.sqrt(), residual.sqrt(), bias])
}

const _: () = assert!(size_of::<Terms>() == 16, "four numbers a vector, as the kernels read them");
