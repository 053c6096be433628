//! Distances on a device.

use std::sync::Arc;

use crate::elements::MatrixView;
use crate::engine::device::engine::Engine;
use crate::engine::device::handle::Device;
use crate::engine::device::memory::MatrixMemory;
use crate::error::Result;
use crate::future::blocking_and_async;
use crate::gpu::{Buffer, BufferSlice, Gpu};

impl Device {
    blocking_and_async! { self;
        /// Fetches distances from the device, `[queries, rows]`.
        ///
        /// # Errors
        /// [`Error::Argument`](crate::Error::Argument) for distances on another device; [`Error::DeviceLost`](crate::Error::DeviceLost), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
        pub fn read(&self, distances: &DistanceMatrix) -> Result<Vec<f32>> {
            self.read_values(distances)
        }
        async read_async;
    }

    async fn read_values(&self, distances: &DistanceMatrix) -> Result<Vec<f32>> {
        distances.check_device("distances", &self.engine)?;
        distances.memory.read(&self.engine, distances.queries * distances.rows).await
    }
}

/// Distances on a device, `[queries, rows]`, f32.
#[derive(Debug, Clone)]
pub struct DistanceMatrix {
    engine: Engine,
    memory: MatrixMemory,
    queries: usize,
    rows: usize,
}

impl DistanceMatrix {
    pub(crate) fn in_buffer(gpu: &Arc<Gpu>, buffer: Buffer, [queries, rows]: [usize; 2]) -> Self {
        Self { engine: Engine::Gpu(gpu.clone()), memory: MatrixMemory::Gpu(buffer.into()), queries, rows }
    }

    /// The buffer, to be written again, if this GPU has it, it holds `bytes`, and no clone shares it.
    pub(crate) fn reusable_buffer(&mut self, gpu: &Arc<Gpu>, bytes: u64) -> Option<Buffer> {
        self.check_device("distances", &Engine::Gpu(gpu.clone())).ok()?;
        match &mut self.memory {
            MatrixMemory::Gpu(buffer) => {
                Arc::get_mut(buffer).filter(|buffer| buffer.size() >= bytes).map(|buffer| buffer.clone())
            }
            MatrixMemory::Host(_) => None,
        }
    }

    /// The values of the host engine, to be written again, if no clone shares them.
    pub(crate) fn reusable_values(&mut self) -> Option<&mut Vec<f32>> {
        match &mut self.memory {
            MatrixMemory::Gpu(_) => None,
            MatrixMemory::Host(values) => Arc::get_mut(values),
        }
    }

    pub(crate) fn in_memory(engine: &Engine, values: Vec<f32>, [queries, rows]: [usize; 2]) -> Self {
        Self { engine: engine.clone(), memory: MatrixMemory::Host(values.into()), queries, rows }
    }

    pub(crate) fn check_device(&self, argument: &'static str, engine: &Engine) -> Result<()> {
        engine.check(argument, "a matrix", &self.engine)
    }

    pub(crate) fn buffer(&self) -> Result<&Buffer> {
        self.memory.buffer()
    }

    /// The distances of the host engine, `[queries, rows]`.
    pub(crate) fn on_host(&self) -> Result<MatrixView<'_, f32>> {
        MatrixView::new(self.memory.on_host(), self.rows)
    }

    /// How many queries.
    pub fn queries(&self) -> usize {
        self.queries
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The buffer, for kernels that the caller records.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) on the host engine, which has no buffers.
    pub fn as_slice(&self) -> Result<BufferSlice<'_>> {
        Ok(BufferSlice::all(self.buffer()?))
    }
}
