//! Readback: bytes from the device, through buffers that are kept, because the pages of a fresh one cost up to 1.6 ms a MiB.

use std::collections::VecDeque;

use futures_intrusive::channel::shared::{OneshotReceiver, oneshot_channel};

use super::device::Gpu;
use super::state::READBACK_PIECE_BYTES as PIECE_BYTES;
use crate::error::Result;
use crate::interrupt;

/// Pieces in flight at a time.
const PIECES: usize = 3;

/// A part of a buffer: from which byte on, and how many bytes.
pub(crate) type Range<'a> = (&'a wgpu::Buffer, u64, u64);

/// Takes bytes of a range, given its number.
pub(crate) type Show<'a> = &'a mut (dyn FnMut(usize, &[u8]) + Send);

impl Gpu {
    /// Submits `encoder` with a copy of the given ranges behind it.
    pub(crate) fn submit_and_read(
        &self,
        mut encoder: wgpu::CommandEncoder,
        ranges: &[Range<'_>],
    ) -> Result<Reading> {
        let lengths: Vec<u64> = ranges.iter().map(|(_, _, bytes)| *bytes).collect();
        let total: u64 = lengths.iter().map(|bytes| bytes.next_multiple_of(8)).sum();
        let readback = match self.readbacks.take(total) {
            Some(kept) => kept,
            None => {
                let class = total.next_power_of_two().max(4096);
                let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
                self.create_buffer("readback", if class <= PIECE_BYTES { class } else { total }, usage)?
            }
        };
        let mut at = 0;
        for (buffer, offset, bytes) in ranges {
            if *bytes > 0 {
                encoder.copy_buffer_to_buffer(buffer, *offset, &readback, at, bytes.next_multiple_of(4));
            }
            at += bytes.next_multiple_of(8);
        }
        let submission = self.queue.submit([encoder.finish()]);
        let (sender, receiver) = oneshot_channel();
        readback.map_async(wgpu::MapMode::Read, 0..total.max(8), move |mapped| {
            // The receiver is gone when the call was dropped.
            let _ = sender.send(mapped);
        });
        Ok(Reading { readback, lengths, submission, receiver })
    }

    /// Reads ranges of any size, piece after piece, and shows each with the number of its range. They must not be written
    /// meanwhile.
    pub(super) async fn read_in_pieces(&self, ranges: &[Range<'_>], show: Show<'_>) -> Result<()> {
        let mut in_flight: VecDeque<(usize, Reading)> = VecDeque::new();
        for (number, (buffer, offset, bytes)) in ranges.iter().enumerate() {
            for start in (0..*bytes).step_by(PIECE_BYTES as usize) {
                interrupt::check()?;
                if in_flight.len() == PIECES
                    && let Some((first, reading)) = in_flight.pop_front()
                {
                    reading.show(self, &mut |_, bytes| show(first, bytes)).await?;
                }
                let encoder = self.device.create_command_encoder(&Default::default());
                let piece = (*buffer, offset + start, PIECE_BYTES.min(bytes - start));
                in_flight.push_back((number, self.submit_and_read(encoder, &[piece])?));
            }
        }
        for (number, reading) in in_flight {
            reading.show(self, &mut |_, bytes| show(number, bytes)).await?;
        }
        Ok(())
    }
}

/// Bytes that were read, as words of some type.
pub(crate) fn words<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> impl ExactSizeIterator<Item = T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned)
}

/// Whether the ranges are better read in pieces.
pub(super) fn is_large(ranges: &[Range<'_>]) -> bool {
    ranges.iter().map(|(_, _, bytes)| bytes).sum::<u64>() > PIECE_BYTES
}

/// A readback in flight.
pub(crate) struct Reading {
    readback: wgpu::Buffer,
    lengths: Vec<u64>,
    submission: wgpu::SubmissionIndex,
    receiver: OneshotReceiver<std::result::Result<(), wgpu::BufferAsyncError>>,
}

impl Reading {
    /// The contents of each range, in the order they were asked for.
    pub(crate) async fn wait(self, gpu: &Gpu) -> Result<Vec<Vec<u8>>> {
        let mut parts = vec![];
        self.show(gpu, &mut |_, bytes| parts.push(bytes.to_vec())).await?;
        Ok(parts)
    }

    /// Shows the contents of each range with its number.
    pub(crate) async fn show(self, gpu: &Gpu, show: Show<'_>) -> Result<()> {
        let waiting = gpu.waiter.expect_callback(Some(self.submission));
        let mapped = self.receiver.receive().await;
        drop(waiting);
        match mapped {
            Some(Ok(())) => {}
            Some(Err(fault)) => return Err(gpu.fault(&fault).await),
            None => return Err(gpu.fault(&"the device dropped a readback").await),
        }
        gpu.check_faults().await?;
        let total: u64 = self.lengths.iter().map(|bytes| bytes.next_multiple_of(8)).sum();
        let view = self.readback.get_mapped_range(0..total.max(8)).map_err(|fault| gpu.fault_now(&fault))?;
        let mut at = 0;
        for (number, bytes) in self.lengths.iter().enumerate() {
            show(number, &view[at..at + *bytes as usize]);
            at += bytes.next_multiple_of(8) as usize;
        }
        drop(view);
        self.readback.unmap();
        gpu.readbacks.keep(self.readback);
        Ok(())
    }
}
