//! Times of the stages of a call, measured by the device's own clock.

use std::sync::Arc;
use std::time::Duration;

use super::compiler::FormChoice;
use super::device::Gpu;
use crate::error::Result;

/// The most passes of a profile; later ones are not timed.
const PASSES: u32 = 1024;

/// The time of a stage on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StageTime {
    /// The stage's name.
    pub stage: &'static str,
    /// All passes of the stage together, by the device's timestamps.
    pub time: Duration,
    /// The number of passes.
    pub passes: u32,
}

/// Timestamps around the passes of a call, or of a recording of [`Device::record_timed`](crate::Device::record_timed).
#[derive(Debug)]
pub struct Profile {
    queries: wgpu::QuerySet,
    stages: Vec<&'static str>,
    /// The forms of kernels that are timed.
    pub(super) forms: FormChoice,
}

impl Profile {
    /// None where the adapter has no timestamps.
    pub(crate) fn new(gpu: &Gpu) -> Option<Self> {
        gpu.adapter.capabilities.timestamps.then(|| Self {
            queries: gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("profile"),
                ty: wgpu::QueryType::Timestamp,
                count: 2 * PASSES,
            }),
            stages: vec![],
            forms: FormChoice::Tuned,
        })
    }

    /// For these forms of kernels, each kernel a stage of its own name.
    pub(crate) fn of_forms(gpu: &Gpu, forms: FormChoice) -> Option<Self> {
        Self::new(gpu).map(|profile| Self { forms, ..profile })
    }

    /// Reserves two timestamps for the next pass.
    pub(super) fn next(&mut self, stage: &'static str) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        let index = 2 * self.stages.len() as u32;
        if index >= 2 * PASSES {
            return None;
        }
        self.stages.push(stage);
        Some(wgpu::ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(index),
            end_of_pass_write_index: Some(index + 1),
        })
    }

    /// Waits for submitted passes, and returns the times of all stages in the order of their first pass.
    pub(crate) async fn times(self, gpu: &Arc<Gpu>) -> Result<Vec<StageTime>> {
        let count = 2 * self.stages.len() as u32;
        if count == 0 {
            return Ok(vec![]);
        }
        let bytes = u64::from(count) * 8;
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let resolved = gpu.create_buffer("profile", bytes, usage)?;
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        encoder.resolve_query_set(&self.queries, 0..count, &resolved, 0);
        let parts = gpu.submit_and_read(encoder, &[(&resolved, 0, bytes)])?.wait(gpu).await?;
        let ticks: Vec<u64> = bytemuck::pod_collect_to_vec(&parts[0]);
        let nanoseconds = f64::from(gpu.queue.get_timestamp_period());
        let mut times: Vec<StageTime> = vec![];
        for (&stage, ends) in self.stages.iter().zip(ticks.chunks_exact(2)) {
            let elapsed = ends[1].saturating_sub(ends[0]) as f64 * nanoseconds;
            let time = Duration::from_nanos(elapsed as u64);
            match times.iter_mut().find(|one| one.stage == stage) {
                Some(one) => {
                    one.time += time;
                    one.passes += 1;
                }
                None => times.push(StageTime { stage, time, passes: 1 }),
            }
        }
        Ok(times)
    }
}
