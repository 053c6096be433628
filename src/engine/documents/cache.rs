//! The documents of an index as its GPU has them, kept from one search to the next.

use std::sync::{Arc, Mutex};

use crate::engine::documents::spans::Spans;
use crate::engine::rows::segments::GpuRows;
use crate::error::{Error, Result};
use crate::gpu::{Buffer, Commands, words};
use crate::kernels::maxsim_longest;
use crate::lock::lock;
use crate::memory;

/// The documents of an index on its GPU, until they change.
#[derive(Debug, Default)]
pub(crate) struct DocumentCache(Mutex<Option<Arc<Placed>>>);

/// All documents of an index.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) spans: Spans,
    /// The blocks of the spans on the device.
    pub(super) blocks: Buffer,
    /// The largest length and residual of each document, by its place in the index.
    pub(super) longest: Vec<[f32; 2]>,
}

impl DocumentCache {
    /// All documents of an index: their ends, and the places that have one.
    pub(super) async fn placed(&self, rows: &GpuRows, ends: &[u32], places: &[u32]) -> Result<Arc<Placed>> {
        let kept = lock(&self.0).clone();
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let placed = Arc::new(Placed::new(rows, ends, places).await?);
        *lock(&self.0) = Some(placed.clone());
        Ok(placed)
    }
}

impl Placed {
    async fn new(rows: &GpuRows, ends: &[u32], places: &[u32]) -> Result<Self> {
        let (gpu, spans) = (&rows.gpu, Spans::new(ends, places)?);
        let blocks: &[u8] = bytemuck::cast_slice(&spans.blocks);
        let on_device = gpu.create_storage("blocks of documents", (blocks.len() as u64).max(32))?;
        gpu.upload_bytes(&on_device, 0, blocks).await?;
        let longest = longest(rows, ends).await?;
        Ok(Self { spans, blocks: on_device, longest })
    }
}

/// The largest length and residual of the tokens of each place.
async fn longest(rows: &GpuRows, ends: &[u32]) -> Result<Vec<[f32; 2]>> {
    let (gpu, bytes) = (&rows.gpu, 8 * ends.len() as u64);
    if ends.is_empty() {
        return Ok(vec![]);
    }
    let on_device = gpu.create_storage("documents", bytes / 2)?;
    let longest = gpu.create_storage("bounds of documents", bytes)?;
    gpu.upload_bytes(&on_device, 0, bytemuck::cast_slice(ends)).await?;
    let mut commands = Commands::new(gpu, None);
    commands.clear(&longest, 0, bytes);
    for segment in &rows.segments {
        let codes = segment.quantized.as_ref().ok_or_else(no_codes)?;
        let params = maxsim_longest::Params {
            places: ends.len() as u32,
            first_slot: segment.first_slot,
            rows: segment.len,
        };
        let buffers = [&on_device, &codes.terms, &longest].map(|buffer| buffer.into());
        maxsim_longest::encode(&mut commands, &params, buffers)?;
    }
    let read = commands.read(&[(&longest, 0, bytes)]).await?;
    memory::collect(words(&read[0]))
}

pub(super) fn no_codes() -> Error {
    Error::internal("documents on a GPU without codes")
}
