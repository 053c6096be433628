//! The narrowed copy of an index's rows, for the screens on integers.

use std::sync::Arc;

use super::centre::Centre;
use super::rows::Segment;
use crate::certificate::{Form, Margin, Narrowing};
use crate::error::{Error, Result};
use crate::gpu::{AdapterKind, BufferSlice, Commands, Gpu, RowLayout};
use crate::kernels::{narrow, screen_tile_coop};
use crate::matrix::{Element, ElementKind, MatrixView};
use crate::metric::Metric;

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
    /// Whether a copy is kept.
    pub(super) fn is_wanted(self, gpu: &Gpu, dim: usize) -> bool {
        match self {
            Self::Auto => gpu.adapter.kind != AdapterKind::Software && (16..=16_384).contains(&dim),
            Self::None => false,
            Self::I8 => true,
        }
    }
}

/// How the rows of an index are narrowed.
#[derive(Debug, Clone)]
pub(super) struct NarrowedRows {
    pub(super) metric: Metric,
    pub(super) dim: usize,
    pub(super) narrowing: Narrowing,
    /// The side of the cooperative matrices that tiles are computed with, where there are any.
    pub(super) side: Option<u32>,
    /// Whether an index that finds no memory for the copy goes without.
    is_optional: bool,
    centre: Centre,
    /// The centre, padded as rows are.
    pub(super) centre_buffer: wgpu::Buffer,
}

/// The narrowed copy of a segment.
#[derive(Debug, Clone)]
pub(super) struct NarrowedSegment {
    pub(super) rows: wgpu::Buffer,
    /// `Terms` of each row.
    pub(super) terms: wgpu::Buffer,
}

impl NarrowedRows {
    /// None where no copy is kept.
    pub(super) fn new(gpu: &Arc<Gpu>, screen: Screen, metric: Metric, dim: usize) -> Result<Option<Self>> {
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
    pub(super) async fn around(gpu: &Arc<Gpu>, metric: Metric, dim: usize, centre: Vec<f32>) -> Result<Self> {
        let layout = RowLayout::padded(ElementKind::F32, dim);
        let centre_buffer = gpu.create_storage("centre", layout.row_bytes())?;
        gpu.upload_rows(&centre_buffer, 0, layout, MatrixView::new(&centre, dim)?, |_| ()).await?;
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
    pub(super) fn row_bytes(&self) -> u64 {
        (u64::from(narrow::granules(self.dim)) * 16).max(16)
    }

    /// The form of scores and how far they are off.
    pub(super) fn margin(&self) -> (Form, Margin) {
        let form = Form::narrowed(self.metric);
        (form, Margin::around(form, self.centre.values()))
    }

    /// Room for the copy of a segment of so many rows; none when there is no memory and the copy is optional.
    pub(super) fn room(&self, gpu: &Gpu, capacity: u64) -> Result<Option<NarrowedSegment>> {
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

    /// Narrows the rows of `segments` from slot `first` on, or all when the new rows move the centre. Nothing is sent before
    /// everything is recorded.
    pub(super) async fn narrow<T: Element>(
        &mut self,
        gpu: &Gpu,
        layout: RowLayout,
        segments: &[Segment],
        new: MatrixView<'_, T>,
        first: u64,
    ) -> Result<()> {
        let is_moved = self.centre.count(new);
        if is_moved {
            let layout = RowLayout::padded(ElementKind::F32, self.dim);
            // A buffer of its own: the one in use stays as it is until this is done.
            self.centre_buffer = gpu.create_storage("centre", layout.row_bytes())?;
            let centre = MatrixView::new(self.centre.values(), self.dim)?;
            gpu.upload_rows(&self.centre_buffer, 0, layout, centre, |_| ()).await?;
        }
        let mut commands = Commands::new(gpu, None);
        for segment in segments {
            let Some(narrowed) = &segment.narrowed else { continue };
            let from = if is_moved { 0 } else { first.saturating_sub(segment.first_slot.into()) };
            if from >= u64::from(segment.len) {
                continue;
            }
            let narrowing = narrow::Narrow {
                metric: self.metric,
                dim: self.dim,
                rows: segment.rows_slice(),
                elements: layout.elements,
                vectors: (layout.stride / 4) as u32,
                norms: BufferSlice::all(&segment.norms),
                centre: BufferSlice::all(&self.centre_buffer),
                range: [from as u32, segment.len],
                narrowed: BufferSlice::all(&narrowed.rows),
                terms: BufferSlice::all(&narrowed.terms),
                planes: 1,
                plane_bytes: narrowed.rows.size(),
            };
            narrow::encode(&mut commands, &narrowing)?;
        }
        commands.submit();
        Ok(())
    }
}
