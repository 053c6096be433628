//! Rows that the host keeps for an index on a GPU. The device has their quantised copy alone, which takes about a quarter of their
//! memory, and screens it. The host reports the distances of the rows that the screen cannot exclude, with the bits of its own engine.

pub(crate) mod changes;
pub(crate) mod of_file;
pub(crate) mod outgrown;
mod rows;
pub(crate) mod windows;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::rows::hybrid::windows::Windows;
use crate::engine::rows::segments::GpuRows;
use crate::engine::rows::shape::RowShape;
use crate::engine::screens::int8::codes::QuantizedRows;
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::host::{Host, HostRows};
use crate::options::quantization::Quantization;
use crate::options::residency::Residency;
use crate::usage::Memory;

/// Rows in the host's memory, and their quantised copy on the device: the same slots in both.
#[derive(Debug)]
pub(crate) struct HybridRows {
    /// The quantised copy; none for a dim that is not screened. The host then answers alone.
    pub(crate) integers: Option<GpuRows>,
    /// Where searches send such a copy, window by window, if the device has no memory for all of it.
    pub(crate) windows: Option<Windows>,
    pub(crate) rows: HostRows,
    /// Whether the host answers alone when the device fails.
    is_fallback: bool,
    /// Whether the copy becomes windows when the device has no memory for it.
    streams: bool,
    pub(crate) usual: UsualCandidates,
}

/// How many candidates to expect of a query, after the last batch: in a search for the k nearest rows, with the k, and in one below a threshold.
/// Searches of an index are alike, so this tells how many to read from the device at once.
#[derive(Debug, Default)]
pub(crate) struct UsualCandidates([AtomicU64; 2]);

impl UsualCandidates {
    /// Candidates to expect of a query. With a threshold, k is 0.
    pub(crate) fn of(&self, k: u32) -> u64 {
        let noted = self.0[usize::from(k == 0)].load(Ordering::Relaxed);
        let each = noted & u64::from(u32::MAX);
        if each > 0 && noted >> 32 == u64::from(k) { each } else { 8 * u64::from(k) + 64 }
    }

    pub(crate) fn note(&self, k: u32, each: u64) {
        let noted = u64::from(k) << 32 | each.min(u32::MAX.into());
        self.0[usize::from(k == 0)].store(noted, Ordering::Relaxed);
    }
}

impl HybridRows {
    pub(crate) fn new(gpu: &Arc<Gpu>, shape: &RowShape) -> Result<Self> {
        let &RowShape { metric, elements, dim, expected, .. } = shape;
        let host = Arc::new(Host::beside_gpu(&gpu.options));
        let rows = HostRows::new(host, metric, elements, dim, false).expecting(expected)?;
        Self::of(gpu, shape, rows)
    }

    /// Rows of the host that the device has nothing of yet.
    pub(crate) fn of(gpu: &Arc<Gpu>, shape: &RowShape, rows: HostRows) -> Result<Self> {
        let mut rows = Self::with(integers(gpu, shape)?, rows, shape);
        if shape.kept == Residency::Streamed {
            rows.windows = rows.integers.take().map(Windows::new).transpose()?;
        }
        Ok(rows)
    }

    pub(crate) fn with(integers: Option<GpuRows>, rows: HostRows, shape: &RowShape) -> Self {
        let &RowShape { is_fallback, streams, .. } = shape;
        Self { integers, windows: None, rows, is_fallback, streams, usual: UsualCandidates::default() }
    }

    /// What the device has of the rows: all of their copy, or how windows of it are made.
    pub(crate) fn on_gpu(&self) -> Option<&GpuRows> {
        self.integers.as_ref().or(self.windows.as_ref().map(|windows| &windows.of))
    }

    /// Whether the copy becomes windows after this error of a change.
    pub(crate) fn outgrow(&self, error: &Error) -> bool {
        self.streams && self.integers.is_some() && error.lacks_memory()
    }

    /// Whether the host answers after this error of the device.
    pub(crate) fn stands_in_for(&self, error: &Error) -> bool {
        self.is_fallback && error.is_of_device()
    }

    pub(crate) fn measure(&self, memory: &mut Memory) {
        self.rows.measure(memory);
        if let Some(integers) = &self.integers {
            integers.measure(memory);
        }
        if let Some(windows) = &self.windows {
            windows.measure(memory);
        }
    }
}

/// The quantised copy without rows so far. Kernels that read nothing else are as fast as on any device, so a software driver has one too.
fn integers(gpu: &Arc<Gpu>, shape: &RowShape) -> Result<Option<GpuRows>> {
    let &RowShape { metric, elements, dim, expected, quantization, .. } = shape;
    if quantization == Quantization::None {
        let needed = "Quantization::Auto or Quantization::Int8 for rows on the host, whose copy on the device is a screen";
        return Err(Error::argument("quantization", needed, "Quantization::None"));
    }
    if !quantization.is_wanted_on_host(dim) {
        return Ok(None);
    }
    let Some(quantized) = QuantizedRows::new(gpu, Quantization::Int8, metric, dim)? else { return Ok(None) };
    GpuRows::new(gpu, (elements, dim), expected, Some(quantized), false).map(Some)
}
