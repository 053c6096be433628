//! Running kernels directly, as the ceilings and the suites of kernels do.

use std::time::Duration;

use anyhow::{Context, Result};
use nearfield::{AdapterKind, Device, Recorder, StageTime, wgpu};

/// Whether the processor computes, through a software driver or the host engine.
pub(super) fn is_processor(device: &Device) -> bool {
    matches!(device.adapter().kind, AdapterKind::Software | AdapterKind::Host)
}

/// Whether a device runs kernels. The host engine does not.
pub(super) fn has_kernels(device: &Device) -> bool {
    device.capabilities().max_storage_buffers > 0
}

/// The number of copies of some operands that take turns: together larger than most caches, but at most 64.
pub(super) fn rotation(device: &Device, bytes: u64) -> usize {
    let cache: u64 = if is_processor(device) { 128 << 20 } else { 256 << 20 };
    cache.div_ceil(bytes.max(1)).clamp(1, 64) as usize
}

/// A buffer that kernels use and that can be read back.
pub(super) fn storage(device: &Device, label: &str, bytes: u64) -> Result<wgpu::Buffer> {
    buffer(device, label, bytes, wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC)
}

/// A buffer that results are copied to for the host.
pub(super) fn staging(device: &Device, bytes: u64) -> Result<wgpu::Buffer> {
    buffer(device, "readback", bytes, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST)
}

fn buffer(device: &Device, label: &str, bytes: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer> {
    Ok(device.wgpu_device()?.create_buffer(&wgpu::BufferDescriptor {
        label: Some(label),
        size: bytes.next_multiple_of(16).max(16),
        usage,
        mapped_at_creation: false,
    }))
}

pub(super) fn encoder(device: &Device) -> Result<wgpu::CommandEncoder> {
    let descriptor = wgpu::CommandEncoderDescriptor { label: Some("benchmark") };
    Ok(device.wgpu_device()?.create_command_encoder(&descriptor))
}

pub(super) fn submit(device: &Device, commands: wgpu::CommandEncoder) -> Result<()> {
    device.wgpu_queue()?.submit([commands.finish()]);
    Ok(())
}

pub(super) fn wait(device: &Device) -> Result<()> {
    device.wgpu_device()?.poll(wgpu::PollType::wait_indefinitely()).context("waiting for the device")?;
    Ok(())
}

/// Records kernels into new commands.
pub(super) fn recorded(
    device: &Device,
    record: impl FnOnce(&mut Recorder<'_>) -> Result<()>,
) -> Result<wgpu::CommandEncoder> {
    let mut commands = encoder(device)?;
    let mut recorder = device.record(&mut commands)?;
    record(&mut recorder)?;
    recorder.finish();
    Ok(commands)
}

/// Runs kernels and returns their times by the device's timestamps, or nothing if it has none.
pub(super) fn profiled(
    device: &Device,
    each_kernel: bool,
    record: impl FnOnce(&mut Recorder<'_>) -> Result<()>,
) -> Result<Option<Vec<StageTime>>> {
    let Some(mut profile) = device.profile() else { return Ok(None) };
    let mut commands = encoder(device)?;
    let mut recorder = device.record_timed(&mut commands, &mut profile, each_kernel)?;
    record(&mut recorder)?;
    recorder.finish();
    submit(device, commands)?;
    Ok(Some(device.times_of(profile)?))
}

/// The sum of the times of some stages; nothing for no stages.
pub(super) fn total(stages: &[StageTime]) -> Option<Duration> {
    stages.iter().map(|stage| stage.time).reduce(|a, b| a + b)
}

/// Submits commands, and returns the first words of a buffer after them.
pub(super) fn read_back(
    device: &Device,
    mut commands: wgpu::CommandEncoder,
    from: &wgpu::Buffer,
    words: usize,
) -> Result<Vec<u32>> {
    let bytes = 4 * words as u64;
    let readback = staging(device, bytes)?;
    commands.copy_buffer_to_buffer(from, 0, &readback, 0, bytes);
    submit(device, commands)?;
    readback.map_async(wgpu::MapMode::Read, .., |_| ());
    wait(device)?;
    let view = readback.get_mapped_range(..bytes).context("reading back")?;
    Ok(view.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
}
