//! Reductions of vectors on a GPU. Values go through in runs of a binding or of a staging buffer, every run leaves the records of its
//! blocks, and one more pass combines them to one record. The length alone decides which values form a block, so the bits of a sum
//! depend neither on where the values were, nor on budgets or binding limits.

use std::sync::Arc;

use crate::elements::{Element, with_elements};
use crate::engine::device::values::Values;
use crate::engine::ops::feed::{Feed, SUBMITTED_NUMBERS, staged_numbers};
use crate::engine::ops::job::{Job, note_times};
use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, Gpu, Profile, Request};
use crate::host::Reduced;
use crate::kernels::reduce_blocks::{self, Operation, Reduce, Shape};
use crate::kernels::{locate, reduce_partials};

/// Reduces checked values, at least one, to one record.
pub(crate) async fn reduce(
    gpu: &Arc<Gpu>,
    job: &Job<'_>,
    values: Values<'_>,
    others: Option<Values<'_>>,
) -> Result<Reduced> {
    let length = values.len();
    let shape = Shape::of(length);
    let block = shape.block();
    let blocks = length.div_ceil(block);
    gpu.check_binding("a block of values", block * values.kind().size() as u64)?;
    gpu.check_binding("partial results", blocks * 8)?;
    let feeds: Vec<Values<'_>> = std::iter::once(values).chain(others).collect();
    let staged = staged_numbers(gpu, &feeds, block, blocks * 8);
    let request = |purpose, bytes| Request { purpose, bytes };
    let mut requests =
        vec![request("partial results", blocks * 8), request("a result", 8), request("a place", 4)];
    let staged_bytes = staged.min(length.next_multiple_of(4)) * values.kind().size() as u64;
    let hosts = feeds.iter().filter(|values| values.host_bytes().is_some());
    requests.extend(hosts.map(|_| request("numbers to reduce", staged_bytes)));
    let scratch = gpu.reserve(&requests).await?;
    let (partials, result, place) = (&scratch[0], &scratch[1], &scratch[2]);
    let mut next = 3;
    let feeds: Vec<Feed<'_>> = feeds
        .iter()
        .map(|&values| {
            let staging = values.host_bytes().map(|_| {
                next += 1;
                (&scratch[next - 1], staged)
            });
            Feed { values, staging }
        })
        .collect();

    let mut profile = job.stages.and_then(|_| Profile::new(gpu));
    let mut commands = Commands::new(gpu, profile.as_mut());
    commands.stage("reduce");
    let results = BufferSlice::range(if blocks == 1 { partials } else { result }, 0, 8);
    let mut runs = vec![];
    let (mut at, mut unsent) = (0, 0);
    while at < length {
        let count = feeds.iter().fold(length - at, |count, feed| feed.run(at, count, block));
        let staged = feeds.iter().any(|feed| feed.staging.is_some());
        if at > 0 && (staged || unsent >= SUBMITTED_NUMBERS) {
            // Kernels that read the staging buffers are submitted before the buffers are written again.
            commands = commands.submit_and_go_on().await?;
            unsent = 0;
        }
        unsent += count;
        let values = feeds[0].fetch(gpu, at, count, block).await?;
        let others = match feeds.get(1) {
            Some(feed) => Some(feed.fetch(gpu, at, count, block).await?),
            None => None,
        };
        let run = Reduce {
            operation: job.operation,
            summation: job.summation,
            elements: feeds[0].values.kind(),
            values,
            others,
            first: 0,
            stride: count as u32,
            length: count as u32,
            rows: 1,
            shape,
            first_block: (at / block) as u32,
            scale: job.scale,
            partials: BufferSlice::range(partials, 0, blocks * 8),
            pitch: blocks as u32,
        };
        reduce_blocks::encode(&mut commands, &run)?;
        runs.push(run);
        at += count;
    }
    if blocks > 1 {
        let rows = [1, blocks as u32];
        let partials = BufferSlice::range(partials, 0, blocks * 8);
        reduce_partials::encode(&mut commands, (job.operation, job.summation), rows, partials, results)?;
    }
    let on_device = feeds[0].staging.is_none();
    if job.operation.is_place() && on_device {
        for run in &runs {
            locate::encode(&mut commands, run, results, BufferSlice::range(place, 0, 4))?;
        }
    }
    let parts = commands.read(&[(results.buffer, 0, 8), (place, 0, 4)]).await?;
    note_times(job.stages, profile, gpu).await?;
    let record: [u32; 2] = bytemuck::pod_read_unaligned(&parts[0]);
    let mut found = Reduced { record, place: 0 };
    if job.operation.is_place() && job.operation.value(record).is_some() {
        let first = u64::from(record[1]) * block;
        found.place = match feeds[0].values {
            Values::Device(_) => {
                let run = runs.partition_point(|run| u64::from(run.first_block) * block <= first) - 1;
                let offset: u32 = bytemuck::pod_read_unaligned(&parts[1]);
                u64::from(runs[run].first_block) * block + u64::from(offset)
            }
            // The host has the block itself.
            Values::Host(all) => {
                first + with_elements!(all, values => place_in_block(job.operation, values, first, block))
            }
        };
    }
    Ok(found)
}

/// The first smallest key of a block on the host. It does not look for the GPU's key: a GPU that takes subnormal f16 for 0 has keys
/// that the host does not have.
fn place_in_block<T: Element>(operation: Operation, values: &[T], first: u64, block: u64) -> u64 {
    let end = values.len().min((first + block) as usize);
    let keys = values[first as usize..end].iter().map(|&value| operation.key(value.widen()));
    keys.enumerate().min_by_key(|&(_, key)| key).map_or(0, |(place, _)| place as u64)
}
