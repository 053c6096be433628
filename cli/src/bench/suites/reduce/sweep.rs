//! Times the first pass of a reduction in every layout of the work, from which `Shape::of` was chosen.

use anyhow::{Context, ensure};
use nearfield::internals::kernels::reduce_blocks::{self, Operation, Shape};
use nearfield::{DeviceVector, ElementKind};
use serde_json::json;

use super::Bench;
use crate::bench::ceilings::time_of;
use crate::bench::gpu::{is_processor, storage};
use crate::bench::units::{milliseconds, rounded};

impl Bench<'_> {
    /// Times every layout of each operation.
    pub(super) fn sweep(&mut self, length: usize) -> anyhow::Result<()> {
        if self.run.is_over(&format!("sweep of {length}"))? {
            return Ok(());
        }
        let left = self.device.upload_vector(&self.a[..length])?;
        let right = self.device.upload_vector(&self.b[..length])?;
        let one_run = |vector: &DeviceVector| {
            let (buffer, count) = vector.buffers().next().context("--length: needed at least 1")?;
            ensure!(
                count as usize == length,
                "--sweep: needed a length that one binding holds, given {length}"
            );
            anyhow::Ok(buffer.clone())
        };
        let (left, right) = (one_run(&left)?, one_run(&right)?);
        // Enough repeats that launch and readback do not count.
        let repeats = if is_processor(self.device) { 2 } else { 64 };
        for &name in &self.args.operation {
            let operation = match name.operation() {
                Operation::ArgMin => Operation::Min,
                Operation::ArgMax => Operation::Max,
                other => other,
            };
            let case = format!("{operation:?}").to_lowercase();
            for workgroup in [64, 256] {
                for coarsening in [1, 4, 8] {
                    for turns in [4, 8, 16, 32, 64, 128] {
                        let of = format!("workgroup {workgroup}, coarsening {coarsening}, turns {turns}");
                        if self.run.is_over(&format!("sweep of {length}: {case} from {of} on"))? {
                            return Ok(());
                        }
                        let shape = Shape { workgroup, coarsening, turns };
                        let blocks = (length as u64).div_ceil(shape.block());
                        let partials = storage(self.device, "partial results", blocks * 8)?;
                        let params = reduce_blocks::Params {
                            length: length as u32,
                            stride: length as u32,
                            rows: 1,
                            blocks: blocks as u32,
                            block_vectors: (shape.block() / 4) as u32,
                            pitch: blocks as u32,
                            scale: 1.0,
                            ..Default::default()
                        };
                        let constants = [operation as u32, 0, coarsening, workgroup];
                        let grid = [blocks.min(1 << 15) as u32, blocks.div_ceil(1 << 15) as u32];
                        let time = time_of(self.device, |recorder| {
                            for _ in 0..repeats {
                                let slices = [(&left).into(), (&right).into(), (&partials).into()];
                                let kernel = &reduce_blocks::KERNEL;
                                recorder.dispatch(
                                    kernel,
                                    ElementKind::F32,
                                    &constants,
                                    &params,
                                    &slices,
                                    grid,
                                )?;
                            }
                            Ok(())
                        })? / repeats;
                        let bytes = (length * 4 * name.operands()) as f64;
                        let rate = bytes / time.as_secs_f64();
                        let line = json!({
                            "record": "sweep", "suite": "reduce", "case": case, "length": length,
                            "workgroup": workgroup, "coarsening": coarsening, "turns": turns,
                            "ms": milliseconds(time), "bytes_per_s": rounded(rate),
                            "share_of_copy": self.run.share_of_copy(bytes, time),
                        });
                        let text = format!(
                            "{case:<7} workgroup {workgroup:>3}, coarsening {coarsening}, turns {turns:>3}: {:>8.2} GB/s",
                            rate / 1e9,
                        );
                        self.run.tell(line, &text)?;
                    }
                }
            }
        }
        Ok(())
    }
}
