//! What the adapter can do at best, measured in the run that is compared with it.

use std::io::{Write, stdout};
use std::time::{Duration, Instant};

use anyhow::Context;
use nearfield::kernels::{copy, multiply_add};
use nearfield::{AdapterKind, BufferSlice, Device, ElementKind};
use serde_json::json;

use super::{Times, WARM_UP, has_kernels, milliseconds, rounded};
use crate::threads;

/// Ceilings of a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ceilings {
    /// Bytes a second of a copy on the device, read and written bytes counted.
    pub(super) copy_bytes: f64,
    /// What only kernels measure; none on the host engine, whose multiply-adds depend on what a compiler makes of them.
    pub(super) kernels: Option<OfKernels>,
}

/// Ceilings of kernels.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfKernels {
    /// f32 operations a second, a multiply-add counted as two.
    pub(super) flops: f64,
    /// From submitting an empty kernel to having four bytes of its result.
    pub(super) latency: Duration,
}

impl Ceilings {
    pub(super) fn measure(device: &Device) -> anyhow::Result<Self> {
        if !has_kernels(device) {
            return Ok(Self { copy_bytes: host_copy_bytes()?, kernels: None });
        }
        let kernels = OfKernels { flops: flops(device)?, latency: latency(device)? };
        Ok(Self { copy_bytes: copy_bytes(device)?, kernels: Some(kernels) })
    }

    /// Prints the adapter and what it can do, as a JSON line or for people.
    pub(super) fn report(&self, device: &Device, json: bool) -> anyhow::Result<()> {
        let adapter = device.adapter();
        if json {
            let line = json!({
                "record": "device", "date": time::OffsetDateTime::now_utc().date().to_string(),
                "adapter": adapter.name, "backend": adapter.backend, "driver": adapter.driver,
                "kind": adapter.kind.to_string(), "version": env!("CARGO_PKG_VERSION"),
                "copy_bytes_per_s": rounded(self.copy_bytes),
                "flops_per_s": self.kernels.map(|of| rounded(of.flops)),
                "latency_ms": self.kernels.map(|of| milliseconds(of.latency)),
            });
            writeln!(stdout(), "{line}")?;
            return Ok(());
        }
        writeln!(stdout(), "{adapter}")?;
        let copy = self.copy_bytes / 1e9;
        match self.kernels {
            Some(of) => writeln!(
                stdout(),
                "ceilings: device copy {copy:.1} GB/s (read and written), multiply-add {:.1} GFLOP/s, launch and readback {:.3} ms",
                of.flops / 1e9,
                milliseconds(of.latency),
            ),
            None => writeln!(
                stdout(),
                "ceilings: copy by all threads {copy:.1} GB/s (read and written); multiply-adds are not measured on the host engine"
            ),
        }?;
        Ok(())
    }
}

fn wait(device: &Device) -> anyhow::Result<()> {
    device.wgpu_device()?.poll(wgpu::PollType::wait_indefinitely()).context("waiting for the device")?;
    Ok(())
}

fn buffer(
    device: &Device,
    label: &str,
    size: u64,
    usage: wgpu::BufferUsages,
) -> anyhow::Result<wgpu::Buffer> {
    Ok(device.wgpu_device()?.create_buffer(&wgpu::BufferDescriptor {
        label: Some(label),
        size,
        usage,
        mapped_at_creation: false,
    }))
}

fn encoder(device: &Device) -> anyhow::Result<wgpu::CommandEncoder> {
    let descriptor = wgpu::CommandEncoderDescriptor { label: Some("ceiling") };
    Ok(device.wgpu_device()?.create_command_encoder(&descriptor))
}

/// Submits commands and waits for them, as often as it takes to tell, and returns the time of one submission.
pub(super) fn time_of(
    device: &Device,
    record: impl Fn(&mut wgpu::CommandEncoder) -> anyhow::Result<()>,
) -> anyhow::Result<Duration> {
    let run = || {
        let mut commands = encoder(device)?;
        record(&mut commands)?;
        let started = Instant::now();
        device.wgpu_queue()?.submit([commands.finish()]);
        wait(device)?;
        Ok(started.elapsed())
    };
    median_of(run)
}

/// The median of what some runs say they took.
fn median_of(mut run: impl FnMut() -> anyhow::Result<Duration>) -> anyhow::Result<Duration> {
    // The first runs also bring the clocks up.
    let started = Instant::now();
    while started.elapsed() < WARM_UP {
        run()?;
    }
    Ok(Times::of(5, run)?.median)
}

/// Work that keeps a card's clocks up: while the host takes up results they fall, and what is timed next is slow. It hardly
/// touches memory, because what it left in a cache to be written would slow the next one down as well.
#[derive(Debug)]
pub(super) struct Warmer {
    sums: Option<wgpu::Buffer>,
}

impl Warmer {
    const WORKGROUPS: u32 = 1024;

    /// Does nothing where the processor computes, which has no clocks of its own.
    pub(super) fn new(device: &Device) -> anyhow::Result<Self> {
        let bytes = u64::from(Self::WORKGROUPS) * 256 * 16;
        let sums = || buffer(device, "sums", bytes, wgpu::BufferUsages::STORAGE);
        Ok(Self { sums: (!is_processor(device)).then(sums).transpose()? })
    }

    /// Submits a millisecond or a few of arithmetic, and does not wait for it.
    pub(super) fn warm(&self, device: &Device) -> anyhow::Result<()> {
        let Some(sums) = &self.sums else { return Ok(()) };
        let mut commands = encoder(device)?;
        let mut recorder = device.record(&mut commands)?;
        let params = multiply_add::Params { turns: 4000, factor: 0.5 };
        let slices = [BufferSlice::all(sums)];
        let grid = [Self::WORKGROUPS, 1];
        recorder.dispatch(&multiply_add::KERNEL, ElementKind::F32, &[], &params, &slices, grid)?;
        recorder.finish();
        device.wgpu_queue()?.submit([commands.finish()]);
        Ok(())
    }
}

/// A kernel copies, because copy commands are a fifth as fast on some cards (docs/performance.md).
fn copy_bytes(device: &Device) -> anyhow::Result<f64> {
    // Larger than any cache, as far as the adapter allows; small on a software adapter, where there is none to hide.
    let wanted: u64 = if is_processor(device) { 64 << 20 } else { 1 << 30 };
    let bytes = wanted.min(device.capabilities().max_binding_bytes) / 16 * 16;
    let from = buffer(device, "from", bytes, wgpu::BufferUsages::STORAGE)?;
    let to = buffer(device, "to", bytes, wgpu::BufferUsages::STORAGE)?;
    let copies = if is_processor(device) { 2 } else { 16 };
    let params = copy::Params { vectors: (bytes / 16) as u32 };
    let workgroups = params.vectors.div_ceil(256 * copy::VECTORS_AN_INVOCATION);
    let grid = [workgroups.min(1 << 15), workgroups.div_ceil(1 << 15)];
    let one = time_of(device, |commands| {
        let mut recorder = device.record(commands)?;
        let slices = [BufferSlice::all(&from), BufferSlice::all(&to)];
        for _ in 0..copies {
            recorder.dispatch(&copy::KERNEL, ElementKind::F32, &[], &params, &slices, grid)?;
        }
        recorder.finish();
        Ok(())
    })?;
    Ok((2 * bytes * copies) as f64 / one.as_secs_f64())
}

/// The same where there are no kernels: every thread copies a part.
fn host_copy_bytes() -> anyhow::Result<f64> {
    const BYTES: usize = 256 << 20;
    let threads = threads::available();
    let (from, mut to) = (vec![1u8; BYTES], vec![0u8; BYTES]);
    let piece = BYTES.div_ceil(threads);
    let one = median_of(|| {
        let started = Instant::now();
        let pieces: Vec<_> = from.chunks(piece).zip(to.chunks_mut(piece)).collect();
        threads::for_each(threads, pieces, |(from, to)| to.copy_from_slice(from));
        std::hint::black_box(&to);
        Ok(started.elapsed())
    })?;
    Ok((2 * BYTES) as f64 / one.as_secs_f64())
}

/// Whether the processor computes, through a software driver or the host engine.
pub(super) fn is_processor(device: &Device) -> bool {
    matches!(device.adapter().kind, AdapterKind::Software | AdapterKind::Host)
}

fn flops(device: &Device) -> anyhow::Result<f64> {
    let (workgroups, turns) = if is_processor(device) { (64, 100) } else { (8192, 1000) };
    let invocations = u64::from(workgroups) * 256;
    let sums =
        buffer(device, "sums", invocations * 16, wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC)?;
    let params = multiply_add::Params { turns, factor: 0.5 };
    let one = time_of(device, |commands| {
        let mut recorder = device.record(commands)?;
        recorder.dispatch(
            &multiply_add::KERNEL,
            ElementKind::F32,
            &[],
            &params,
            &[BufferSlice::all(&sums)],
            [workgroups, 1],
        )?;
        recorder.finish();
        Ok(())
    })?;
    Ok((invocations * u64::from(turns) * multiply_add::FLOPS_A_TURN) as f64 / one.as_secs_f64())
}

fn latency(device: &Device) -> anyhow::Result<Duration> {
    let storage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
    let sums = buffer(device, "sums", 256 * 16, storage)?;
    let readback =
        buffer(device, "readback", 16, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST)?;
    let run = || {
        let started = Instant::now();
        let mut commands = encoder(device)?;
        let mut recorder = device.record(&mut commands)?;
        let params = multiply_add::Params { turns: 0, factor: 0.5 };
        let slices = [BufferSlice::all(&sums)];
        recorder.dispatch(&multiply_add::KERNEL, ElementKind::F32, &[], &params, &slices, [1, 1])?;
        recorder.finish();
        commands.copy_buffer_to_buffer(&sums, 0, &readback, 0, 16);
        device.wgpu_queue()?.submit([commands.finish()]);
        readback.map_async(wgpu::MapMode::Read, .., |_| ());
        wait(device)?;
        drop(readback.get_mapped_range(..).context("reading back")?);
        let elapsed = started.elapsed();
        readback.unmap();
        Ok(elapsed)
    };
    run()?;
    Ok(Times::of(50, run)?.median)
}
