//! Batches of queries: two are in flight, and each begins with its queries and their norms.

use std::collections::VecDeque;

use crate::elements::ElementKind;
use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::pass::{BufferVectors, encode_norms, reset_refused};
use crate::error::Result;
use crate::gpu::{Buffer, BufferSlice, Commands, Gpu, Profile, RowLayout};

/// Batches that are submitted before the first of them is read. They share scratch buffers, because the device runs them in order.
const IN_FLIGHT: usize = 2;

/// The work on each batch.
pub(crate) trait BatchWork {
    /// A batch that the device works on.
    type Pending;

    /// Submits a batch, without waiting for the device.
    async fn submit(&mut self, numbers: QueryNumbers) -> Result<Self::Pending>;

    /// Waits for a batch and takes its results.
    async fn finish(&mut self, pending: Self::Pending) -> Result<()>;
}

/// Runs batches in order. The device works on one batch while the host prepares the next and reads the last.
pub(crate) async fn run_batches<W: BatchWork>(batches: Vec<QueryNumbers>, work: &mut W) -> Result<()> {
    let mut batches = batches.into_iter();
    let mut pending = VecDeque::new();
    loop {
        while pending.len() < IN_FLIGHT
            && let Some(numbers) = batches.next()
        {
            pending.push_back(work.submit(numbers).await?);
        }
        let Some(batch) = pending.pop_front() else { return Ok(()) };
        work.finish(batch).await?;
    }
}

/// The scratch buffers of a batch's queries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueryBuffers<'a> {
    /// f32, padded as rows are.
    pub(crate) values: &'a Buffer,
    pub(crate) norms: &'a Buffer,
    /// Two words: see [`QueryNumbers::check`].
    pub(crate) refused: &'a Buffer,
}

impl<'a> QueryBuffers<'a> {
    /// Copies queries to the device, and begins a recording with their norms and the check of their values.
    pub(crate) async fn begin<'c>(
        self,
        gpu: &'c Gpu,
        queries: &Vectors<'_>,
        numbers: &QueryNumbers,
        profile: Option<&'c mut Profile>,
    ) -> Result<Commands<'c>> {
        let mut commands = Commands::new(gpu, profile);
        reset_refused(gpu, self.refused).await?;
        self.add(&mut commands, queries, numbers, 0).await?;
        Ok(commands)
    }

    /// Copies a part of a batch's queries to the device, from place `first` on, and records their norms and the check of their values.
    pub(crate) async fn add(
        self,
        commands: &mut Commands<'_>,
        queries: &Vectors<'_>,
        numbers: &QueryNumbers,
        first: usize,
    ) -> Result<()> {
        queries.copy_to(commands, numbers, (self.values, first)).await?;
        commands.stage("prepare");
        let range = [first as u32, (first + numbers.len()) as u32];
        let (norms, refused) = (self.norms.into(), self.refused.into());
        encode_norms(commands, self.vectors(queries.dim()), (range, first as u32), (norms, refused))
    }

    /// The queries as vectors.
    pub(crate) fn vectors(self, dim: usize) -> BufferVectors<'a> {
        BufferVectors {
            values: BufferSlice::all(self.values),
            layout: RowLayout::padded(ElementKind::F32, dim),
        }
    }
}
