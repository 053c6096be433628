//! Reductions of every row on a GPU. Groups of lanes take short rows in one pass; long rows are reduced in blocks, as vectors are.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::device::values::ValueRows;
use crate::engine::ops::feed::{fetch_rows, rows_at_once};
use crate::engine::ops::job::{Job, check_place, note_times};
use crate::engine::ops::vector_reductions;
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, Gpu, Profile, Request, RowLayout, words};
use crate::kernels::reduce_blocks::{self, Reduce, Shape};
use crate::kernels::{locate, reduce_partials, reduce_rows};

/// Reduces every row to a word; rows have at least one value.
pub(crate) async fn reduce(
    gpu: &Arc<Gpu>,
    job: &Job<'_>,
    values: ValueRows<'_>,
    others: Option<ValueRows<'_>>,
) -> Result<Vec<u32>> {
    let (count, length) = (values.rows(), values.length() as u64);
    let operands: Vec<ValueRows<'_>> = std::iter::once(values).chain(others).collect();
    let layout = RowLayout::padded(values.kind(), length as usize);
    let blocks = blocks_a_row(length);
    let hosts = operands.iter().filter(|rows| rows.on_device().is_none()).count() as u64;
    // Results, partial results and places.
    let scratch_bytes = if length <= reduce_rows::LONGEST { 4 } else { 8 + 4 + blocks * 8 };
    let at_once = rows_at_once(gpu, layout, hosts, scratch_bytes, blocks * 8);
    if at_once == 0 && hosts > 0 && length > reduce_rows::LONGEST {
        return one_by_one(gpu, job, &operands).await;
    }
    // If one row is too many, reserving its scratch memory fails. Short rows go through one kernel under any budget: as vectors
    // they would be added up in another order.
    let at_once = at_once.max(1);
    let mut found = Vec::with_capacity(count);
    let mut start = 0;
    while start < count {
        let end = count.min(start + at_once as usize);
        some_rows(gpu, job, &operands, layout, start..end, &mut found).await?;
        start = end;
    }
    Ok(found)
}

/// Reduces rows on the host that are too long to be staged whole: each as a vector.
async fn one_by_one(gpu: &Arc<Gpu>, job: &Job<'_>, operands: &[ValueRows<'_>]) -> Result<Vec<u32>> {
    let mut words = vec![];
    for row in 0..operands[0].rows() {
        let mut parts = operands.iter().filter_map(|rows| rows.host_row(row));
        let Some(values) = parts.next() else {
            return Err(Error::internal("rows on the GPU are never staged"));
        };
        let found = vector_reductions::reduce(gpu, job, values, parts.next()).await?;
        check_place(found.place, values.len())?;
        words.push(job.operation.word(found.record, found.place as u32));
    }
    Ok(words)
}

/// The most blocks of a row; 1 where a group of lanes takes it.
fn blocks_a_row(length: u64) -> u64 {
    if length <= reduce_rows::LONGEST { 1 } else { (length + 3).div_ceil(Shape::of(length).block()) }
}

async fn some_rows(
    gpu: &Arc<Gpu>,
    job: &Job<'_>,
    operands: &[ValueRows<'_>],
    layout: RowLayout,
    range: Range<usize>,
    found: &mut Vec<u32>,
) -> Result<()> {
    let (count, length) = (range.len() as u64, operands[0].length() as u64);
    let (blocks, is_short) = (blocks_a_row(length), length <= reduce_rows::LONGEST);
    let request = |purpose, bytes| Request { purpose, bytes };
    let mut requests = vec![
        request("results", count * if is_short { 4 } else { 8 }),
        request("partial results", if blocks > 1 { count * blocks * 8 } else { 0 }),
        request("places", if is_short { 0 } else { count * 4 }),
    ];
    let hosts = operands.iter().filter(|rows| rows.on_device().is_none());
    requests.extend(hosts.map(|_| request("rows to reduce", count * layout.row_bytes())));
    let scratch = gpu.reserve(&requests).await?;
    let mut slices = vec![];
    let mut next = 3;
    for rows in operands {
        let staging = rows.on_device().is_none().then(|| {
            next += 1;
            &scratch[next - 1]
        });
        slices.push(fetch_rows(gpu, rows, layout, range.clone(), staging).await?);
    }
    let (values, first, stride) = slices[0];
    let mut profile = job.stages.and_then(|_| Profile::new(gpu));
    let mut commands = Commands::new(gpu, profile.as_mut());
    commands.stage("reduce");
    let mut reduce = Reduce {
        operation: job.operation,
        summation: job.summation,
        elements: operands[0].kind(),
        values,
        others: slices.get(1).map(|&(slice, ..)| slice),
        first: first as u32,
        stride: stride as u32,
        length: length as u32,
        rows: count as u32,
        shape: Shape::of(length),
        first_block: 0,
        scale: job.scale,
        partials: BufferSlice::all(&scratch[1]),
        pitch: 1,
    };
    reduce.pitch = reduce.blocks();
    let (results, places) = (BufferSlice::all(&scratch[0]), BufferSlice::all(&scratch[2]));
    encode_rows(&mut commands, &reduce, results, places)?;
    if is_short {
        commands
            .read_each(&[(&scratch[0], 0, count * 4)], &mut |_, bytes| found.extend(words::<u32>(bytes)))
            .await?;
        return note_times(job.stages, profile, gpu).await;
    }
    let mut parts = [vec![], vec![]];
    let ranges = [(&scratch[0], 0, count * 8), (&scratch[2], 0, count * 4)];
    commands.read_each(&ranges, &mut |number, bytes| parts[number].extend(words::<u32>(bytes))).await?;
    note_times(job.stages, profile, gpu).await?;
    let [records, places] = parts;
    let rows = records.chunks_exact(2).zip(places);
    found.extend(rows.map(|(record, place)| job.operation.word([record[0], record[1]], place)));
    Ok(())
}

/// Records the kernels that make one record of every row, and find the places within long rows.
fn encode_rows(
    commands: &mut Commands<'_>,
    reduce: &Reduce<'_>,
    results: BufferSlice<'_>,
    places: BufferSlice<'_>,
) -> Result<()> {
    let direct = Reduce { partials: results, pitch: 1, ..*reduce };
    if u64::from(reduce.length) <= reduce_rows::LONGEST {
        return reduce_rows::encode(commands, &direct);
    }
    if reduce.pitch == 1 {
        reduce_blocks::encode(commands, &direct)?;
    } else {
        reduce_blocks::encode(commands, reduce)?;
        let what = (reduce.operation, reduce.summation);
        reduce_partials::encode(commands, what, [reduce.rows, reduce.pitch], reduce.partials, results)?;
    }
    if reduce.operation.is_place() {
        locate::encode(commands, reduce, results, places)?;
    }
    Ok(())
}
