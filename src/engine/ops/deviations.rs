//! Sums of squared deviations from the mean on a GPU. A kernel leaves the sum and the mean of each block; the host merges them in f64.

use std::sync::Arc;

use crate::engine::device::values::{ValueRows, Values};
use crate::engine::ops::feed::{Feed, SUBMITTED_NUMBERS, fetch_rows, rows_at_once, staged_numbers};
use crate::engine::ops::job::{Stages, note_times};
use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, Gpu, Profile, Request, RowLayout, words};
use crate::kernels::deviations::{self, BLOCK, Deviations, Layout, Spread, spread};

/// The factor of all values, and where times are noted.
pub(crate) type Settings<'a> = (f32, Option<&'a Stages>);

/// The sum of a vector's squared deviations from its mean, of at least one value.
pub(crate) async fn of_vector(
    gpu: &Arc<Gpu>,
    (scale, stages): Settings<'_>,
    values: Values<'_>,
) -> Result<f32> {
    let length = values.len();
    let layout = Layout::of_vector(length);
    let (size, records_bytes) = (values.kind().size() as u64, layout.row_bytes());
    gpu.check_binding("a block of values", BLOCK * size)?;
    gpu.check_binding("sums of blocks", records_bytes)?;
    let staged = staged_numbers(gpu, &[values], BLOCK, records_bytes);
    let mut requests = vec![Request { purpose: "sums of blocks", bytes: records_bytes }];
    if values.host_bytes().is_some() {
        let bytes = staged.min(length.next_multiple_of(4)) * size;
        requests.push(Request { purpose: "numbers to reduce", bytes });
    }
    let scratch = gpu.reserve(&requests).await?;
    let staging = values.host_bytes().map(|_| (&scratch[1], staged));
    let feed = Feed { values, staging };
    let records = BufferSlice::range(&scratch[0], 0, records_bytes);

    let mut profile = stages.and_then(|_| Profile::new(gpu));
    let mut commands = Commands::new(gpu, profile.as_mut());
    commands.stage("reduce");
    let (mut at, mut unsent) = (0, 0);
    while at < length {
        let count = feed.run(at, length - at, BLOCK);
        if at > 0 && (feed.staging.is_some() || unsent >= SUBMITTED_NUMBERS) {
            // Kernels that read the staging buffer are submitted before it is written again.
            commands = commands.submit_and_go_on().await?;
            unsent = 0;
        }
        unsent += count;
        let run = Deviations {
            elements: values.kind(),
            values: feed.fetch(gpu, at, count, BLOCK).await?,
            first: 0,
            stride: count as u32,
            length: count as u32,
            rows: 1,
            first_block: (at / BLOCK) as u32,
            scale,
            layout,
            records,
        };
        deviations::encode(&mut commands, &run)?;
        at += count;
    }
    let mut found = Vec::with_capacity(records_bytes as usize / 4);
    commands
        .read_each(&[(&scratch[0], 0, records_bytes)], &mut |_, bytes| found.extend(words::<f32>(bytes)))
        .await?;
    note_times(stages, profile, gpu).await?;
    let counts = (0..).map(|block| BLOCK.min(length - block * BLOCK));
    Ok(merged(&found, counts))
}

/// The sum of every row's squared deviations from its mean; rows have at least one value.
pub(crate) async fn of_rows(
    gpu: &Arc<Gpu>,
    settings: Settings<'_>,
    values: ValueRows<'_>,
) -> Result<Vec<f32>> {
    let (count, length) = (values.rows(), values.length() as u64);
    let padded = RowLayout::padded(values.kind(), length as usize);
    let (hosts, stride) = values.on_device().map_or((1, padded.stride), |(_, stride)| (0, stride));
    let layout = Layout::of_rows(length, stride as u64);
    let row_bytes = layout.row_bytes();
    let at_once = rows_at_once(gpu, padded, hosts, row_bytes, row_bytes);
    let mut found = Vec::with_capacity(count);
    if at_once == 0 && hosts > 0 && layout.pitch > 1 {
        // Rows on the host that are too long to be staged whole: each as a vector, whose blocks are the same.
        for values in (0..count).filter_map(|row| values.host_row(row)) {
            found.push(of_vector(gpu, settings, values).await?);
        }
        return Ok(found);
    }
    let at_once = at_once.max(1) as usize;
    for start in (0..count).step_by(at_once) {
        some_rows(gpu, settings, &values, (padded, layout), start..count.min(start + at_once), &mut found)
            .await?;
    }
    Ok(found)
}

async fn some_rows(
    gpu: &Arc<Gpu>,
    (scale, stages): Settings<'_>,
    values: &ValueRows<'_>,
    (padded, layout): (RowLayout, Layout),
    range: std::ops::Range<usize>,
    found: &mut Vec<f32>,
) -> Result<()> {
    let count = range.len() as u64;
    let records_bytes = count * layout.row_bytes();
    let mut requests = vec![Request { purpose: "sums of rows", bytes: records_bytes }];
    if values.on_device().is_none() {
        requests.push(Request { purpose: "rows to reduce", bytes: count * padded.row_bytes() });
    }
    let scratch = gpu.reserve(&requests).await?;
    let staging = values.on_device().is_none().then(|| &scratch[1]);
    let (slice, first, stride) = fetch_rows(gpu, values, padded, range, staging).await?;
    let mut profile = stages.and_then(|_| Profile::new(gpu));
    let mut commands = Commands::new(gpu, profile.as_mut());
    commands.stage("reduce");
    let some = Deviations {
        elements: values.kind(),
        values: slice,
        first: first as u32,
        stride: stride as u32,
        length: values.length() as u32,
        rows: count as u32,
        first_block: 0,
        scale,
        layout,
        records: BufferSlice::range(&scratch[0], 0, records_bytes),
    };
    deviations::encode(&mut commands, &some)?;
    let mut records: Vec<f32> = vec![];
    let into = if layout.pitch == 1 { &mut *found } else { &mut records };
    commands
        .read_each(&[(&scratch[0], 0, records_bytes)], &mut |_, bytes| into.extend(words::<f32>(bytes)))
        .await?;
    note_times(stages, profile, gpu).await?;
    let rows = records.chunks_exact(layout.row_bytes() as usize / 4).zip(0..);
    found.extend(rows.map(|(records, row)| merged(records, (0..).map(|block| some.count(row, block)))));
    Ok(())
}

/// The sum of a row, from the records of its blocks and how many values they have.
fn merged(records: &[f32], counts: impl Iterator<Item = u64>) -> f32 {
    if let [sum] = *records {
        return sum;
    }
    let (records, _) = records.as_chunks::<3>();
    let spreads = records.iter().zip(counts).map(|(&record, count)| spread(record, count));
    spreads.fold(Spread::default(), Spread::merged).squares as f32
}
