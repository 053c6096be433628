//! The documents of an index as its GPU has them, kept from one search to the next.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use crate::engine::documents::spans::{NO_DOCUMENT, Spans};
use crate::engine::rows::segments::GpuRows;
use crate::error::{Error, Result};
use crate::gpu::{Buffer, Commands, words};
use crate::kernels::maxsim_longest;
use crate::lock::lock;
use crate::memory;
use crate::options::residency::Residency;
use crate::usage::Memory;

/// The documents of an index on its GPU, or on each of its devices, until they change.
#[derive(Debug, Default)]
pub(crate) struct DocumentCache {
    placed: Mutex<Option<Arc<Placed>>>,
    divided: OnceLock<Vec<DeviceDocuments>>,
}

/// The documents of one of several devices.
#[derive(Debug, Default)]
pub(in crate::engine) struct DeviceDocuments {
    /// One past the last slot of each place on the device.
    pub(in crate::engine) ends: Vec<u32>,
    /// The places there that have a document, ascending, and the place of each in the index.
    pub(in crate::engine) places: Vec<u32>,
    documents: Vec<u32>,
    pub(in crate::engine) cache: DocumentCache,
}

impl DeviceDocuments {
    /// Appends a document of the index, in these slots of the device.
    pub(in crate::engine) fn push(&mut self, document: u32, slots: Range<u32>) -> Result<()> {
        memory::reserve_more(&mut self.ends, 2)?;
        memory::reserve_more(&mut self.places, 1)?;
        memory::reserve_more(&mut self.documents, 1)?;
        if slots.start > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(slots.start);
        }
        self.places.push(self.ends.len() as u32);
        self.documents.push(document);
        self.ends.push(slots.end);
        Ok(())
    }

    /// The place in the index of a document, by its place here.
    pub(in crate::engine) fn document(&self, place: u32) -> u32 {
        self.places.binary_search(&place).map_or(NO_DOCUMENT, |number| self.documents[number])
    }

    /// The place here of a document of the index.
    pub(in crate::engine) fn place_of(&self, document: u32) -> Option<u32> {
        self.documents.binary_search(&document).ok().map(|number| self.places[number])
    }
}

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
        let kept = lock(&self.placed).clone();
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let placed = Arc::new(Placed::new(rows, ends, places).await?);
        *lock(&self.placed) = Some(placed.clone());
        Ok(placed)
    }

    /// The documents of each device, which `divide` finds.
    pub(in crate::engine) fn divided(
        &self,
        divide: impl FnOnce() -> Result<Vec<DeviceDocuments>>,
    ) -> Result<&[DeviceDocuments]> {
        if let Some(kept) = self.divided.get() {
            return Ok(kept);
        }
        let divided = divide()?;
        Ok(self.divided.get_or_init(|| divided))
    }

    /// Adds the memory of what is kept.
    pub(crate) fn measure(&self, memory: &mut Memory) {
        if let Some(placed) = &*lock(&self.placed) {
            memory.add("documents", Residency::Device, placed.blocks.size());
            memory.add_vec("documents", &placed.spans.blocks);
            memory.add_vec("documents", &placed.spans.ends);
            memory.add_vec("documents", &placed.spans.documents);
            memory.add_vec("documents", &placed.longest);
        }
        for own in self.divided.get().into_iter().flatten() {
            [&own.ends, &own.places, &own.documents]
                .into_iter()
                .for_each(|list| memory.add_vec("documents", list));
            own.cache.measure(memory);
        }
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
