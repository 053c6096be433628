//! Ceilings of an adapter, each by a kernel that does nothing else.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nearfield::internals::ceilings::{copy, multiply_add, multiply_coop, multiply_integers, read_vectors};
use nearfield::{BufferSlice, Device, ElementKind, Recorder, wgpu};

use super::super::gpu::{is_processor, profiled, read_back, recorded, staging, storage, submit, total, wait};
use super::super::times::{Times, WARM_UP};
use super::roofline::{Ceilings, Curve, WARM, least_of};

/// The most columns of a grid.
const COLUMNS: u32 = 1 << 15;

pub(super) fn measure(device: &Device) -> Result<Ceilings> {
    // Arithmetic first, to raise the clocks.
    let warmer = Warmer::new(device)?;
    let started = Instant::now();
    while !is_processor(device) && started.elapsed() < WARM_UP {
        warmer.warm(device)?;
        wait(device)?;
    }
    let most = largest(device);
    Ok(Ceilings {
        flops: flops(device)?,
        integers: Some(integers(device)?),
        matrices: matrices(device)?,
        read: Curve::measure(most, |bytes| reads(device, bytes))?,
        copy: Curve::measure(most, |bytes| copies(device, bytes))?,
        latency: latency(device)?,
    })
}

/// The largest working set: larger than any cache if the adapter allows it, small on a software adapter.
fn largest(device: &Device) -> u64 {
    let wanted: u64 = if is_processor(device) { 64 << 20 } else { 1 << 30 };
    wanted.min(device.capabilities().max_binding_bytes) / 4096 * 4096
}

/// The time of the recorded kernels: by the device's timestamps, or else from submission to completion.
fn time_of(device: &Device, record: impl Fn(&mut Recorder<'_>) -> Result<()>) -> Result<Duration> {
    least_of(WARM, || {
        if let Some(stages) = profiled(device, false, &record)? {
            return Ok(total(&stages).unwrap_or_default());
        }
        let commands = recorded(device, &record)?;
        let started = Instant::now();
        submit(device, commands)?;
        wait(device)?;
        Ok(started.elapsed())
    })
}

/// Work that keeps a card's clocks up. They fall while the host reads results, and the next timing would be slow. It hardly
/// touches memory, because dirty cache lines would slow the next kernel down as well.
pub(crate) struct Warmer {
    sums: Option<wgpu::Buffer>,
}

impl Warmer {
    const WORKGROUPS: u32 = 1024;

    /// Does nothing on a processor, which needs no warming.
    pub(crate) fn new(device: &Device) -> Result<Self> {
        let bytes = u64::from(Self::WORKGROUPS) * 256 * 16;
        let sums = || storage(device, "sums", bytes);
        Ok(Self { sums: (!is_processor(device)).then(sums).transpose()? })
    }

    /// Submits a few milliseconds of arithmetic, and does not wait for them.
    pub(crate) fn warm(&self, device: &Device) -> Result<()> {
        let Some(sums) = &self.sums else { return Ok(()) };
        let params = multiply_add::Params { turns: 4000, factor: 0.5 };
        let slices = [BufferSlice::all(sums)];
        let commands = recorded(device, |recorder| {
            let grid = [Self::WORKGROUPS, 1];
            Ok(recorder.dispatch(&multiply_add::KERNEL, ElementKind::F32, &[], &params, &slices, grid)?)
        })?;
        submit(device, commands)
    }
}

/// Passes over a working set in one recording, enough that the launch does not count.
fn passes(device: &Device, bytes: u64) -> u64 {
    let wanted: u64 = if is_processor(device) { 64 << 20 } else { 4 << 30 };
    (wanted / bytes).clamp(2, 64)
}

fn grid(workgroups: u32) -> [u32; 2] {
    [workgroups.min(COLUMNS), workgroups.div_ceil(COLUMNS)]
}

/// The seconds of some dispatches of a kernel.
fn seconds_of(
    device: &Device,
    passes: u64,
    dispatch: impl Fn(&mut Recorder<'_>) -> nearfield::Result<()>,
) -> Result<f64> {
    let all = |recorder: &mut Recorder<'_>| Ok((0..passes).try_for_each(|_| dispatch(recorder))?);
    Ok(time_of(device, all)?.as_secs_f64())
}

fn reads(device: &Device, bytes: u64) -> Result<f64> {
    let params = read_vectors::Params { vectors: (bytes / 16) as u32 };
    let [columns, rows] = grid(params.vectors.div_ceil(read_vectors::VECTORS_A_WORKGROUP));
    let values = storage(device, "values", bytes)?;
    let sums =
        storage(device, "sums", u64::from(columns * rows) * u64::from(read_vectors::SUMS_A_WORKGROUP) * 4)?;
    let (passes, slices) = (passes(device, bytes), [&values, &sums].map(BufferSlice::all));
    let seconds = seconds_of(device, passes, |recorder| {
        recorder.dispatch(&read_vectors::KERNEL, ElementKind::F32, &[], &params, &slices, [columns, rows])
    })?;
    Ok((bytes * passes) as f64 / seconds)
}

/// Copies one half of a working set to the other by a kernel: copy commands have a fifth of the speed on some cards
/// (docs/lessons.md).
fn copies(device: &Device, bytes: u64) -> Result<f64> {
    let (from, to) = (storage(device, "from", bytes / 2)?, storage(device, "to", bytes / 2)?);
    let params = copy::Params { vectors: (bytes / 32) as u32 };
    let grid = grid(params.vectors.div_ceil(256 * copy::VECTORS_AN_INVOCATION));
    let (passes, slices) = (passes(device, bytes), [&from, &to].map(BufferSlice::all));
    let seconds = seconds_of(device, passes, |recorder| {
        recorder.dispatch(&copy::KERNEL, ElementKind::F32, &[], &params, &slices, grid)
    })?;
    Ok((bytes * passes) as f64 / seconds)
}

/// Operations per second of a kernel that computes in registers for some turns.
fn rate(
    device: &Device,
    operations_a_turn: u64,
    dispatch: impl Fn(&mut Recorder<'_>, &[BufferSlice<'_>], u32, [u32; 2]) -> nearfield::Result<()>,
) -> Result<f64> {
    let (workgroups, turns): (u32, u32) = if is_processor(device) { (64, 100) } else { (8192, 1000) };
    let invocations = u64::from(workgroups) * 256;
    let sums = storage(device, "sums", invocations * 16)?;
    let slices = [BufferSlice::all(&sums)];
    let seconds = seconds_of(device, 1, |recorder| dispatch(recorder, &slices, turns, [workgroups, 1]))?;
    Ok((invocations * u64::from(turns) * operations_a_turn) as f64 / seconds)
}

fn flops(device: &Device) -> Result<f64> {
    rate(device, multiply_add::FLOPS_A_TURN, |recorder, slices, turns, grid| {
        let params = multiply_add::Params { turns, factor: 0.5 };
        recorder.dispatch(&multiply_add::KERNEL, ElementKind::F32, &[], &params, slices, grid)
    })
}

fn integers(device: &Device) -> Result<f64> {
    rate(device, multiply_integers::OPERATIONS_A_TURN, |recorder, slices, turns, grid| {
        let params = multiply_integers::Params { turns, factors: 0x0305_0702 };
        recorder.dispatch(&multiply_integers::KERNEL, ElementKind::F32, &[], &params, slices, grid)
    })
}

/// None if the device has no matrices, or if their products are wrong, because then no search uses them.
fn matrices(device: &Device) -> Result<Option<f64>> {
    let Some(side) = device.capabilities().matrix_side() else { return Ok(None) };
    let (workgroups, turns) = (4096, 1000);
    let subgroups = u64::from(workgroups * multiply_coop::SUBGROUPS);
    let few = multiply_coop::Params { turns: 3 };
    let want = multiply_coop::reference(side, &few);
    let sums = storage(device, "sums", subgroups * want.len() as u64 * 4)?;
    let run = |recorder: &mut Recorder<'_>, params: &multiply_coop::Params, workgroups: u32| {
        let (kernel, slices) = (&multiply_coop::KERNEL, [BufferSlice::all(&sums)]);
        anyhow::Ok(recorder.dispatch(kernel, ElementKind::F32, &[], params, &slices, [workgroups, 1])?)
    };
    let commands = recorded(device, |recorder| run(recorder, &few, 1))?;
    let found = read_back(device, commands, &sums, want.len())?;
    if !found.into_iter().map(|word| f64::from(f32::from_bits(word))).eq(want) {
        return Ok(None);
    }
    let time = time_of(device, |recorder| run(recorder, &multiply_coop::Params { turns }, workgroups))?;
    let operations = subgroups * u64::from(turns) * multiply_coop::operations_a_turn(side);
    Ok(Some(operations as f64 / time.as_secs_f64()))
}

fn latency(device: &Device) -> Result<Duration> {
    let sums = storage(device, "sums", 256 * 16)?;
    let readback = staging(device, 16)?;
    let run = || {
        let started = Instant::now();
        let params = multiply_add::Params { turns: 0, factor: 0.5 };
        let slices = [BufferSlice::all(&sums)];
        let mut commands = recorded(device, |recorder| {
            Ok(recorder.dispatch(&multiply_add::KERNEL, ElementKind::F32, &[], &params, &slices, [1, 1])?)
        })?;
        commands.copy_buffer_to_buffer(&sums, 0, &readback, 0, 16);
        submit(device, commands)?;
        readback.map_async(wgpu::MapMode::Read, .., |_| ());
        wait(device)?;
        drop(readback.get_mapped_range(..).context("reading back")?);
        let elapsed = started.elapsed();
        readback.unmap();
        Ok(elapsed)
    };
    run()?;
    Ok(Times::of(50, |_| run())?.median)
}
