//! The request of a reduction: the operation, how sums are added up, and where times are noted.

use std::sync::{Arc, Mutex};

use crate::error::{Error, Result};
use crate::gpu::{Gpu, Profile, StageTime};
use crate::host::Reduced;
use crate::kernels::reduce_blocks::{Operation, Summation};
use crate::lock::lock;

/// Bytes per operand that are staged on the GPU at a time.
pub(crate) const STAGED_BYTES: u64 = 64 << 20;

/// How long calls took on the device, stage by stage. Calls add to it; of one call at most 1,024 passes are timed.
#[derive(Debug, Default)]
pub struct Stages(Mutex<Vec<StageTime>>);

impl Stages {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes out the times so far. Empty on adapters without timestamps.
    pub fn take(&self) -> Vec<StageTime> {
        std::mem::take(&mut *lock(&self.0))
    }

    pub(crate) fn add(&self, times: Vec<StageTime>) {
        lock(&self.0).extend(times);
    }
}

/// A reduction of values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) operation: Operation,
    pub(crate) summation: Summation,
    pub(crate) scale: f32,
    pub(crate) stages: Option<&'a Stages>,
}

impl Job<'_> {
    /// The result for no values.
    pub(crate) fn of_nothing(&self) -> Reduced {
        let record = if self.operation.is_sum() { [0; 2] } else { [u32::MAX; 2] };
        Reduced { record, place: 0 }
    }
}

pub(crate) async fn note_times(
    stages: Option<&Stages>,
    profile: Option<Profile>,
    gpu: &Arc<Gpu>,
) -> Result<()> {
    if let (Some(stages), Some(profile)) = (stages, profile) {
        stages.add(profile.times(gpu).await?);
    }
    Ok(())
}

/// An error for a place in a row that 32 bits cannot number.
pub(crate) fn check_place(place: u64, length: u64) -> Result<()> {
    if place < u64::from(u32::MAX) {
        return Ok(());
    }
    Err(Error::argument("values", "rows of fewer than 2^32 - 1 numbers", length))
}
