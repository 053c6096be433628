//! One selection on the device: its buffers, and running it.

use std::time::{Duration, Instant};

use anyhow::Context;
use nearfield::internals::kernels::select_k::{Rows, SORTED_MAX, Scratch, Select, Selected};
use nearfield::internals::kernels::selection::scratch_bytes;
use nearfield::{BufferSlice, Device, DeviceVector, Recorder, wgpu};
use serde_json::{Value, json};

use super::values::{Shape, Truth};

/// Everything that a selection needs, made before it is timed.
pub(super) struct Place<'v> {
    shape: Shape,
    pub(super) k: u32,
    values: &'v wgpu::Buffer,
    keys: wgpu::Buffer,
    ids: wgpu::Buffer,
    counts: wgpu::Buffer,
    spare: Option<[wgpu::Buffer; 2]>,
    scratch: Option<[wgpu::Buffer; 3]>,
    pub(super) scratch_bytes: u64,
}

impl<'v> Place<'v> {
    pub(super) fn new(
        device: &Device,
        values: &'v DeviceVector,
        shape: Shape,
        k: u32,
        has_scratch: bool,
    ) -> anyhow::Result<Self> {
        let (values, _) = values.buffers().next().context("--shapes: needed at least one element")?;
        let results = u64::from(shape.rows) * u64::from(k);
        let wgpu = device.wgpu_device()?;
        let buffer = |label: &str, bytes: u64| {
            wgpu.create_buffer(&wgpu::BufferDescriptor {
                label: Some(label),
                size: bytes.max(16),
                usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: false,
            })
        };
        let needed = scratch_bytes(shape.rows, shape.length, k);
        let wanted = has_scratch && needed[0] > 0;
        Ok(Self {
            shape,
            k,
            values,
            keys: buffer("selected keys", results * 4),
            ids: buffer("selected ids", results * 8),
            counts: buffer("selected counts", u64::from(shape.rows) * 4),
            spare: (k > SORTED_MAX)
                .then(|| [buffer("spare keys", results * 4), buffer("spare ids", results * 8)]),
            scratch: wanted.then(|| needed.map(|bytes| buffer("lists", bytes))),
            scratch_bytes: if wanted { needed.iter().sum() } else { 0 },
        })
    }

    fn record(&self, mut recorder: Recorder<'_>) -> anyhow::Result<()> {
        let place = |keys, ids| Selected { keys: BufferSlice::all(keys), ids: BufferSlice::all(ids) };
        recorder.select(&Select {
            keys: BufferSlice::all(self.values),
            ids: None,
            floats: true,
            rows: Rows::Equal { length: self.shape.length, pitch: self.shape.length },
            count: self.shape.rows,
            k: self.k,
            selected: place(&self.keys, &self.ids),
            selected_pitch: self.k,
            selected_counts: BufferSlice::all(&self.counts),
            spare: self.spare.as_ref().map(|[keys, ids]| place(keys, ids)),
            scratch: self.scratch.as_ref().map(|[states, lists, samples]| Scratch {
                states: BufferSlice::all(states),
                lists: BufferSlice::all(lists),
                samples: BufferSlice::all(samples),
            }),
        })?;
        recorder.finish();
        Ok(())
    }

    /// Selects, and returns the time from recording it to its end.
    pub(super) fn run(&self, device: &Device) -> anyhow::Result<Duration> {
        let started = Instant::now();
        let mut encoder = encoder(device)?;
        self.record(device.record(&mut encoder)?)?;
        device.wgpu_queue()?.submit([encoder.finish()]);
        wait(device)?;
        Ok(started.elapsed())
    }

    /// Selects, and returns the time on the device, in all and by kernel; none without timestamps.
    pub(super) fn timed(
        &self,
        device: &Device,
        each_kernel: bool,
    ) -> anyhow::Result<Option<(Duration, Value)>> {
        let Some(mut profile) = device.profile() else { return Ok(None) };
        let mut encoder = encoder(device)?;
        self.record(device.record_timed(&mut encoder, &mut profile, each_kernel)?)?;
        device.wgpu_queue()?.submit([encoder.finish()]);
        let times = device.times_of(profile)?;
        let mut kernels = json!({});
        for one in &times {
            kernels[one.stage] = json!({ "ms": super::milliseconds(one.time), "passes": one.passes });
        }
        Ok(Some((times.iter().map(|one| one.time).sum(), kernels)))
    }

    /// An error when the results are wrong.
    pub(super) fn check(&self, device: &Device, truth: &Truth) -> anyhow::Result<()> {
        let (keys, ids) = (read(device, &self.keys)?, read(device, &self.ids)?);
        let counts = read(device, &self.counts)?;
        truth.check(
            self.k as usize,
            &words_of(&keys),
            &words_of(&ids).chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect::<Vec<_>>(),
            &words_of(&counts),
        )
    }
}

/// The words that bytes are.
fn words_of(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

fn encoder(device: &Device) -> anyhow::Result<wgpu::CommandEncoder> {
    let descriptor = wgpu::CommandEncoderDescriptor { label: Some("selection") };
    Ok(device.wgpu_device()?.create_command_encoder(&descriptor))
}

fn wait(device: &Device) -> anyhow::Result<()> {
    device.wgpu_device()?.poll(wgpu::PollType::wait_indefinitely()).context("waiting for the device")?;
    Ok(())
}

fn read(device: &Device, buffer: &wgpu::Buffer) -> anyhow::Result<Vec<u8>> {
    let staging = device.wgpu_device()?.create_buffer(&wgpu::BufferDescriptor {
        label: Some("readback"),
        size: buffer.size(),
        usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let mut encoder = encoder(device)?;
    encoder.copy_buffer_to_buffer(buffer, 0, &staging, 0, buffer.size());
    device.wgpu_queue()?.submit([encoder.finish()]);
    staging.map_async(wgpu::MapMode::Read, .., |_| ());
    wait(device)?;
    let view = staging.get_mapped_range(..).context("reading back")?;
    Ok(view.to_vec())
}
