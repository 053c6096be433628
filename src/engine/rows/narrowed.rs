//! The narrowed copy of an index's rows, for the screens on integers.

use std::sync::Arc;

use crate::engine::rows::segments::Segment;
use crate::error::{Error, Result};
use crate::gpu::{AdapterKind, BufferSlice, Commands, Gpu, RowLayout};
use crate::kernels::{narrow, screen_tile_coop};
use crate::matrix::{ElementKind, MatrixView};
use crate::metric::Metric;
use crate::screen::centre::Centre;
use crate::screen::certificate::{Form, Margin, Narrowing};
use crate::vectors::{HostVectors, with_view};

/// Whether an index keeps a narrowed copy of its rows, of one byte an element, by which searches exclude most rows before
/// any distance is computed. Answers are the same, bit for bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Screen {
    /// [`Screen::I8`] where it makes searches faster: for dims from 16 to 16,384, unless the adapter is a software driver or its
    /// memory is full.
    #[default]
    Auto,
    /// No copy: rows are screened as they are.
    None,
    /// A copy in 8-bit integers: `dim` bytes a row, rounded up to a multiple of 32, and 16 more.
    I8,
}

impl std::str::FromStr for Screen {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            "i8" => Ok(Self::I8),
            other => Err(Error::argument("screen", "auto, none or i8", other)),
        }
    }
}

impl Screen {
    /// The word that [`FromStr`](std::str::FromStr) reads.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::I8 => "i8",
        }
    }

    /// Whether a copy is kept by the host engine.
    pub(crate) fn is_wanted_on_host(self, dim: usize) -> bool {
        match self {
            Self::Auto => (16..=16_384).contains(&dim),
            Self::None => false,
            Self::I8 => true,
        }
    }

    /// Whether a copy is kept.
    pub(crate) fn is_wanted(self, gpu: &Gpu, dim: usize) -> bool {
        match self {
            Self::Auto => gpu.adapter.kind != AdapterKind::Software && (16..=16_384).contains(&dim),
            Self::None => false,
            Self::I8 => true,
        }
    }
}

/// How the rows of an index are narrowed.
#[derive(Debug, Clone)]
pub(crate) struct NarrowedRows {
    pub(crate) metric: Metric,
    pub(crate) dim: usize,
    pub(crate) narrowing: Narrowing,
    /// The side of the cooperative matrices that tiles are computed with, where there are any.
    pub(crate) side: Option<u32>,
    /// Whether an index that finds no memory for the copy goes without.
    is_optional: bool,
    centre: Centre,
    /// The centre, padded as rows are.
    pub(crate) centre_buffer: wgpu::Buffer,
}

/// The narrowed copy of a segment.
#[derive(Debug, Clone)]
pub(crate) struct NarrowedSegment {
    pub(crate) rows: wgpu::Buffer,
    /// `Terms` of each row.
    pub(crate) terms: wgpu::Buffer,
}

impl NarrowedRows {
    /// None where no copy is kept.
    pub(crate) fn new(gpu: &Arc<Gpu>, screen: Screen, metric: Metric, dim: usize) -> Result<Option<Self>> {
        if !screen.is_wanted(gpu, dim) {
            return Ok(None);
        }
        let layout = RowLayout::padded(ElementKind::F32, dim);
        Ok(Some(Self {
            metric,
            dim,
            narrowing: Narrowing::of(metric, dim),
            side: screen_tile_coop::side(gpu),
            is_optional: screen == Screen::Auto,
            centre: Centre::new(metric, dim),
            centre_buffer: gpu.create_storage("centre", layout.row_bytes())?,
        }))
    }

    /// Around a centre that does not move.
    pub(crate) async fn around(gpu: &Arc<Gpu>, metric: Metric, dim: usize, centre: Vec<f32>) -> Result<Self> {
        let layout = RowLayout::padded(ElementKind::F32, dim);
        let centre_buffer = gpu.create_storage("centre", layout.row_bytes())?;
        gpu.upload_rows(&centre_buffer, 0, layout, MatrixView::new(&centre, dim)?.into(), &mut |_| ())
            .await?;
        Ok(Self {
            metric,
            dim,
            narrowing: Narrowing::of(metric, dim),
            side: screen_tile_coop::side(gpu),
            is_optional: false,
            centre: Centre::fixed(metric, centre),
            centre_buffer,
        })
    }

    /// Bytes of the larger of a row's integers and terms.
    pub(crate) fn row_bytes(&self) -> u64 {
        (u64::from(narrow::granules(self.dim)) * 16).max(16)
    }

    /// The form of scores and how far they are off.
    pub(crate) fn margin(&self) -> (Form, Margin) {
        let form = Form::narrowed(self.metric);
        (form, Margin::around(form, self.centre.values()))
    }

    /// Room for the copy of a segment of so many rows; none when there is no memory and the copy is optional.
    pub(crate) fn room(&self, gpu: &Gpu, capacity: u64) -> Result<Option<NarrowedSegment>> {
        let rows = gpu.create_storage("narrowed rows", narrow::plane_bytes(capacity, self.dim));
        let terms = gpu.create_storage("terms of narrowed rows", capacity * 16);
        match (rows, terms) {
            (Ok(rows), Ok(terms)) => Ok(Some(NarrowedSegment { rows, terms })),
            (Err(Error::OutOfMemory { .. }), _) | (_, Err(Error::OutOfMemory { .. })) if self.is_optional => {
                Ok(None)
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    /// Counts rows that are added towards the centre, or a sample of them; true when it is another now. Then all rows have to be
    /// narrowed anew. Called on a copy, which is dropped when the rows are refused.
    pub(crate) async fn count(&mut self, gpu: &Gpu, new: HostVectors<'_>) -> Result<bool> {
        if !with_view!(new, new => self.centre.count(new)) {
            return Ok(false);
        }
        let layout = RowLayout::padded(ElementKind::F32, self.dim);
        // A buffer of its own: the one in use stays as it is until this is done.
        self.centre_buffer = gpu.create_storage("centre", layout.row_bytes())?;
        let centre = MatrixView::new(self.centre.values(), self.dim)?.into();
        gpu.upload_rows(&self.centre_buffer, 0, layout, centre, &mut |_| ()).await?;
        Ok(true)
    }

    /// How many of so many new rows are to be counted.
    pub(crate) fn wanted(&self, rows: usize) -> usize {
        self.centre.wanted(rows)
    }

    /// Narrows rows `range` of a segment, where it has a copy.
    pub(crate) fn encode(
        &self,
        commands: &mut Commands<'_>,
        layout: RowLayout,
        segment: &Segment,
        range: [u32; 2],
    ) -> Result<()> {
        let rows = (segment.rows_slice(), BufferSlice::all(&segment.norms));
        self.encode_rows(commands, layout, rows, segment, range, None)
    }

    /// Narrows staged rows, with their norms, to those slots of their list that are the segment's. `range` are places of the
    /// list.
    pub(crate) fn encode_staged(
        &self,
        commands: &mut Commands<'_>,
        layout: RowLayout,
        staged: (BufferSlice<'_>, BufferSlice<'_>),
        list: BufferSlice<'_>,
        segment: &Segment,
        range: [u32; 2],
    ) -> Result<()> {
        let slots = narrow::Slots { list, first_slot: segment.first_slot, rows: segment.capacity };
        self.encode_rows(commands, layout, staged, segment, range, Some(slots))
    }

    fn encode_rows(
        &self,
        commands: &mut Commands<'_>,
        layout: RowLayout,
        (rows, norms): (BufferSlice<'_>, BufferSlice<'_>),
        segment: &Segment,
        range: [u32; 2],
        slots: Option<narrow::Slots<'_>>,
    ) -> Result<()> {
        let (Some(narrowed), true) = (&segment.narrowed, range[0] < range[1]) else { return Ok(()) };
        let narrowing = narrow::Narrow {
            metric: self.metric,
            dim: self.dim,
            rows,
            elements: layout.elements,
            vectors: (layout.stride / 4) as u32,
            norms,
            centre: BufferSlice::all(&self.centre_buffer),
            range,
            narrowed: BufferSlice::all(&narrowed.rows),
            terms: BufferSlice::all(&narrowed.terms),
            planes: 1,
            plane_bytes: narrowed.rows.size(),
            slots,
        };
        narrow::encode(commands, &narrowing)
    }
}
