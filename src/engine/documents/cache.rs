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

/// Documents on a GPU.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) spans: Spans,
    pub(super) ends: Buffer,
    pub(super) blocks: Buffer,
    /// The largest length and residual of each place.
    pub(super) longest: Vec<[f32; 2]>,
}

impl DocumentCache {
    /// All documents of an index.
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
        let [ends_bytes, blocks_bytes, longest_bytes] = spans.bytes().map(|bytes| bytes.max(16));
        let ends = gpu.create_storage("documents", ends_bytes)?;
        let blocks = gpu.create_storage("blocks of documents", blocks_bytes)?;
        let longest = gpu.create_storage("bounds of documents", longest_bytes)?;
        gpu.upload_bytes(&ends, 0, bytemuck::cast_slice(&spans.ends)).await?;
        gpu.upload_bytes(&blocks, 0, bytemuck::cast_slice(&spans.blocks)).await?;
        let mut commands = Commands::new(gpu, None);
        encode_longest(&mut commands, rows, &spans, (&ends, &longest))?;
        let read = commands.read(&[(&longest, 0, spans.bytes()[2])]).await?;
        let longest = memory::collect(words(&read[0]))?;
        Ok(Self { spans, ends, blocks, longest })
    }
}

/// Records what finds the largest length and residual of each place.
pub(super) fn encode_longest(
    commands: &mut Commands<'_>,
    rows: &GpuRows,
    spans: &Spans,
    (ends, longest): (&Buffer, &Buffer),
) -> Result<()> {
    commands.clear(longest, 0, spans.bytes()[2]);
    commands.stage("maxsim_longest");
    for segment in &rows.segments {
        let codes = segment.quantized.as_ref().ok_or_else(no_codes)?;
        let params = maxsim_longest::Params {
            places: spans.len() as u32,
            start: spans.start,
            first_slot: segment.first_slot,
            rows: segment.len,
        };
        maxsim_longest::encode(commands, &params, [ends, &codes.terms, longest].map(|buffer| buffer.into()))?;
    }
    Ok(())
}

pub(super) fn no_codes() -> Error {
    Error::internal("documents on a GPU without codes")
}
