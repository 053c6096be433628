//! A selection on the device, with its buffers.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nearfield::internals::kernels::select_k::{Rows, SORTED_MAX, Scratch, Select, Selected};
use nearfield::internals::kernels::selection::scratch_bytes;
use nearfield::{BufferSlice, Device, DeviceVector, Recorder, wgpu};
use serde_json::{Value, json};

use super::values::{Shape, Truth};
use crate::gpu::{encoder, profiled, read_back, recorded, storage, submit, total, wait};
use crate::units::milliseconds;

/// The buffers of a selection, made before it is timed.
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
    pub(super) fn new(device: &Device, values: &'v DeviceVector, shape: Shape, k: u32) -> Result<Self> {
        let (values, _) = values.buffers().next().context("--shapes: needed at least one element")?;
        let results = u64::from(shape.rows) * u64::from(k);
        let buffer = |label: &str, bytes: u64| storage(device, label, bytes);
        let needed = scratch_bytes(shape.rows, shape.length, k);
        Ok(Self {
            shape,
            k,
            values,
            keys: buffer("selected keys", results * 4)?,
            ids: buffer("selected ids", results * 8)?,
            counts: buffer("selected counts", u64::from(shape.rows) * 4)?,
            spare: match k > SORTED_MAX {
                true => Some([buffer("spare keys", results * 4)?, buffer("spare ids", results * 8)?]),
                false => None,
            },
            scratch: match needed {
                [0, ..] => None,
                [states, lists, samples] => {
                    Some([buffer("states", states)?, buffer("lists", lists)?, buffer("samples", samples)?])
                }
            },
            scratch_bytes: needed.iter().sum(),
        })
    }

    fn record(&self, recorder: &mut Recorder<'_>) -> Result<()> {
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
        Ok(())
    }

    /// Selects, and returns the time from recording it to its end.
    pub(super) fn run(&self, device: &Device) -> Result<Duration> {
        let started = Instant::now();
        submit(device, recorded(device, |recorder| self.record(recorder))?)?;
        wait(device)?;
        Ok(started.elapsed())
    }

    /// Selects, and returns the time on the device, in total and by kernel, or nothing without timestamps.
    pub(super) fn timed(&self, device: &Device, each_kernel: bool) -> Result<Option<(Duration, Value)>> {
        let times = profiled(device, each_kernel, |recorder| self.record(recorder))?;
        let Some(times) = times else { return Ok(None) };
        let mut kernels = json!({});
        for one in &times {
            kernels[one.stage] = json!({ "ms": milliseconds(one.time), "passes": one.passes });
        }
        Ok(Some((total(&times).unwrap_or_default(), kernels)))
    }

    /// Fails if the results are wrong.
    pub(super) fn check(&self, device: &Device, truth: &Truth) -> Result<()> {
        let (rows, k) = (self.shape.rows as usize, self.k as usize);
        let read = |buffer, words| read_back(device, encoder(device)?, buffer, words);
        let (keys, ids) = (read(&self.keys, rows * k)?, read(&self.ids, 2 * rows * k)?);
        truth.check(k, &keys, ids.as_chunks::<2>().0, &read(&self.counts, rows)?)
    }
}
