//! The quantised copy of an index's rows, and the kernels that write and score it.
//!
//! Every search on integers goes through this file: how vectors are encoded, how large the copy is, and which intervals follow from its
//! scores.

use std::sync::Arc;

use crate::elements::{ElementKind, HostVectors, MatrixView, with_view};
use crate::engine::pass::BufferVectors;
use crate::engine::screens::int8::tiles::Tiles;
use crate::error::{Error, Result};
use crate::gpu::{AdapterKind, Buffer, BufferSlice, Commands, Gpu, RowLayout, Share, Wanted};
use crate::host::Quantizer;
use crate::kernels::{BLOCK_ROWS, Scored, quantize, screen_scan_i8, screen_tile_i8};
use crate::metric::{Form, Metric};
use crate::options::quantization::Quantization;
use crate::screen::centre::Centre;
use crate::screen::certificate::{Intervals, Quantizing};

/// Bytes of the terms of a quantised vector.
pub(crate) const TERMS_BYTES: u64 = 16;

impl Quantization {
    /// Whether an index on this device keeps a copy.
    pub(crate) fn is_wanted(self, gpu: &Gpu, dim: usize) -> bool {
        // A software driver multiplies integers no faster than f32. Without subgroups, the kernel for f32 passes its sums through workgroup
        // memory, and an invocation that scores a row of integers by itself takes a fifth of the time.
        let is_slower = gpu.adapter.kind == AdapterKind::Software && gpu.subgroups;
        !(self == Self::Auto && is_slower) && self.is_wanted_on_host(dim)
    }
}

/// How the rows of an index are quantised.
#[derive(Debug, Clone)]
pub(crate) struct QuantizedRows {
    metric: Metric,
    dim: usize,
    /// Whether rows are integers and their own codes: then there is no copy beside them.
    pub(crate) are_rows: bool,
    /// Whether an index without memory for the copy goes without it.
    is_optional: bool,
    centre: Centre,
    /// The centre, padded as rows are.
    centre_buffer: Buffer,
}

/// The quantised copy of a segment.
#[derive(Debug, Clone)]
pub(crate) struct QuantizedSegment {
    pub(crate) rows: Buffer,
    /// `Terms` of each row.
    pub(crate) terms: Buffer,
    /// Their part of the memory of the device; none for centroids.
    pub(crate) share: Option<Arc<Share>>,
}

/// Buffers that receive quantised vectors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Integers<'a> {
    pub(crate) values: BufferSlice<'a>,
    pub(crate) terms: BufferSlice<'a>,
    /// 1, or 2 for vectors that are the sum of two integer vectors.
    pub(crate) planes: u32,
    pub(crate) plane_bytes: u64,
}

impl<'a> Integers<'a> {
    pub(crate) fn single(values: BufferSlice<'a>, terms: BufferSlice<'a>) -> Self {
        Self { values, terms, planes: 1, plane_bytes: values.bytes }
    }
}

impl QuantizedSegment {
    pub(crate) fn integers(&self) -> Integers<'_> {
        Integers::single((&self.rows).into(), (&self.terms).into())
    }
}

impl QuantizedRows {
    /// None if the index keeps no copy.
    pub(crate) fn new(
        gpu: &Gpu,
        quantization: Quantization,
        metric: Metric,
        dim: usize,
    ) -> Result<Option<Self>> {
        if !quantization.is_wanted(gpu, dim) {
            return Ok(None);
        }
        let layout = RowLayout::padded(ElementKind::F32, dim);
        Ok(Some(Self {
            metric,
            dim,
            are_rows: false,
            is_optional: quantization == Quantization::Auto,
            centre: Centre::new(metric, dim),
            centre_buffer: gpu.create_storage("centre", layout.row_bytes())?,
        }))
    }

    /// Rows of integers that are their own codes, which are signed: the centre of u8 is 128, also in the padding.
    pub(crate) async fn of_codes(
        gpu: &Gpu,
        (metric, elements): (Metric, ElementKind),
        dim: usize,
    ) -> Result<Self> {
        let middle = if elements == ElementKind::U8 { 128.0 } else { 0.0 };
        let centre = vec![middle; dim.next_multiple_of(4)];
        Ok(Self {
            metric,
            dim,
            are_rows: true,
            is_optional: false,
            centre_buffer: upload_centre(gpu, &centre, centre.len()).await?,
            centre: Centre::fixed(metric, centre),
        })
    }

    /// Quantising around a centre that does not move.
    pub(crate) async fn around(gpu: &Arc<Gpu>, metric: Metric, dim: usize, centre: Vec<f32>) -> Result<Self> {
        // The coarse step has no plan that could wait for the test.
        Tiles::tested(gpu, Form::quantized(metric), true).await?;
        Ok(Self {
            metric,
            dim,
            are_rows: false,
            is_optional: false,
            centre_buffer: upload_centre(gpu, &centre, dim).await?,
            centre: Centre::fixed(metric, centre),
        })
    }

    /// Bytes of a row's integers or of its terms, whichever is larger.
    pub(crate) fn row_bytes(&self) -> u64 {
        (u64::from(quantize::granules(self.dim)) * 16).max(TERMS_BYTES)
    }

    /// Bytes of a plane of `vectors` quantised vectors.
    pub(crate) fn plane_bytes(&self, vectors: u64) -> u64 {
        quantize::plane_bytes(vectors, self.dim)
    }

    /// Bytes of one quantised vector in a full block, without its terms.
    pub(crate) fn vector_bytes(&self) -> u64 {
        self.plane_bytes(BLOCK_ROWS.into()) / u64::from(BLOCK_ROWS)
    }

    /// The intervals of scores of this copy.
    pub(crate) fn intervals(&self) -> Intervals {
        Intervals::of_integers(self.metric, self.centre.values())
    }

    /// Buffers for the copy of a segment; none when there is no memory for an optional copy.
    pub(crate) fn allocate(&self, gpu: &Gpu, capacity: u64) -> Result<Option<QuantizedSegment>> {
        let rows = gpu.create_storage("quantised rows", self.plane_bytes(capacity));
        let terms = gpu.create_storage("terms of quantised rows", capacity * TERMS_BYTES);
        match (rows, terms) {
            (Ok(rows), Ok(terms)) => Ok(Some(QuantizedSegment { rows, terms, share: None })),
            (Err(Error::OutOfMemory { .. }), _) | (_, Err(Error::OutOfMemory { .. })) if self.is_optional => {
                Ok(None)
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    /// [`allocate`](Self::allocate) for rows of an index, whose memory counts.
    pub(crate) fn within_limit(&self, gpu: &Gpu, capacity: u64) -> Result<Option<QuantizedSegment>> {
        let bytes = self.plane_bytes(capacity) + capacity * TERMS_BYTES;
        let of = if self.are_rows { "" } else { "8-bit copies of " };
        match gpu.rows_limit.take(|| format!("{of}{capacity} rows"), bytes) {
            Ok(share) => {
                let copy = self.allocate(gpu, capacity)?;
                Ok(copy.map(|copy| QuantizedSegment { share: Some(share), ..copy }))
            }
            Err(Error::MemoryLimit { .. }) if self.is_optional => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same as a copy that no index goes without.
    pub(crate) fn required(self) -> Self {
        Self { is_optional: false, ..self }
    }

    /// The same quantising on the host.
    pub(crate) fn on_host(&self) -> Quantizer {
        Quantizer::around(self.metric, self.centre.clone())
    }

    /// Counts new rows, or a sample of them, towards the centre. Returns true when the centre moved: then all rows have to be quantised
    /// again. Callers call it on a copy of this, which they drop if the rows are refused.
    pub(crate) async fn count(&mut self, gpu: &Gpu, new: HostVectors<'_>) -> Result<bool> {
        if !with_view!(new, new => self.centre.count(new)) {
            return Ok(false);
        }
        // A new buffer: searches use the old one until the change is complete.
        self.centre_buffer = upload_centre(gpu, self.centre.values(), self.dim).await?;
        Ok(true)
    }

    /// How many of `rows` new rows would be counted.
    pub(crate) fn wanted(&self, rows: usize) -> usize {
        self.centre.wanted(rows)
    }

    /// Quantises the vectors `range`, whose norms are known. With a list of slots, vectors go to the slots on it. Vectors
    /// of integers become their own codes where those of rows are, and bytes of bits always; `integral` tells that f32 are integers.
    pub(crate) fn encode_vectors(
        &self,
        commands: &mut Commands<'_>,
        (vectors, norms): (BufferVectors<'_>, BufferSlice<'_>),
        [first_row, end_row]: [u32; 2],
        into: Integers<'_>,
        slots: Option<quantize::Slots<'_>>,
        integral: bool,
    ) -> Result<()> {
        let is_of_rows = vectors.layout.elements.is_integer();
        let is_whole = self.are_rows && (is_of_rows || integral && Quantizing::fits_whole(self.dim));
        let whole = if self.of_bits() { quantize::BITS } else { is_whole.into() };
        let params = quantize::Params {
            vectors: (vectors.layout.stride / 4) as u32,
            granules: self.granules(),
            first_row,
            end_row,
            plane: (into.plane_bytes / quantize::GRANULE as u64) as u32,
            first_slot: slots.map_or(0, |slots| slots.first_slot),
            rows: slots.map_or(0, |slots| slots.rows),
            whole,
            ..quantize::Params::of(self.quantizing(is_whole))
        };
        let buffers = quantize::Buffers {
            rows: vectors.values,
            row_norms: norms,
            centre: &self.centre_buffer,
            quantized: into.values,
            terms: into.terms,
            slots: slots.map_or(norms, |slots| slots.list),
        };
        let constants = (into.planes, slots.is_some());
        quantize::encode(commands, (self.metric, vectors.layout.elements), constants, &params, &buffers)
    }

    /// Scores rows for few quantised queries, which lie in one block.
    pub(crate) fn encode_scan(
        &self,
        commands: &mut Commands<'_>,
        scored: &Scored<'_>,
        scan: &screen_scan_i8::Scan<'_>,
        planes: u32,
    ) -> Result<()> {
        // Queries of integers have the same.
        let finer = self.quantizing(false).finer;
        screen_scan_i8::encode(commands, scored, scan, self.granules(), (planes, finer))
    }

    pub(crate) fn encode_tile(
        &self,
        commands: &mut Commands<'_>,
        tiles: Tiles,
        scored: &Scored<'_>,
    ) -> Result<()> {
        screen_tile_i8::encode(commands, tiles.scores(), scored, self.granules(), self.of_bits())
    }

    /// How vectors are quantised: whole ones are their own codes.
    fn quantizing(&self, is_whole: bool) -> Quantizing {
        match (self.are_rows, is_whole) {
            (false, _) => Quantizing::of(self.metric, self.dim),
            (true, true) => Quantizing::whole(self.metric, self.dim),
            (true, false) => Quantizing::beside_whole(self.metric, self.dim),
        }
    }

    /// Whether codes are bytes of bits.
    pub(crate) fn of_bits(&self) -> bool {
        self.metric.counts_bits()
    }

    /// Granules of a quantised vector, as kernels count them.
    pub(crate) fn granules(&self) -> u32 {
        quantize::granules(self.dim)
    }
}

/// The kernels that quantise rows, queries, and rows that go to the slots of a list. Rows that are their own codes all go to slots.
pub(crate) fn quantizing(metric: Metric, elements: ElementKind, in_blocks: bool) -> Vec<Wanted> {
    // Queries of bits have one plane.
    let is_of_bits = metric.counts_bits();
    let metric = quantize::constant_of(metric);
    let quantize = |planes, slots| {
        Wanted::of(&quantize::KERNEL).with("METRIC", metric).with("PLANES", planes).with("SLOTS", slots)
    };
    let (one_by_one, of_list) = (quantize(1, 0).rows(elements), quantize(1, 1).rows(elements));
    let (first, last) = if in_blocks { (of_list, None) } else { (one_by_one, Some(of_list)) };
    let planes = (!is_of_bits).then(|| quantize(2, 0));
    [first, quantize(1, 0)].into_iter().chain(planes).chain(last).collect()
}

async fn upload_centre(gpu: &Gpu, centre: &[f32], dim: usize) -> Result<Buffer> {
    let layout = RowLayout::padded(ElementKind::F32, dim);
    let buffer = gpu.create_storage("centre", layout.row_bytes())?;
    gpu.upload_rows(&buffer, 0, layout, MatrixView::new(centre, dim)?.into(), &mut |_| ()).await?;
    Ok(buffer)
}
