//! Reductions of every row. On the host they are one call. On a GPU short rows are taken by groups of lanes in one pass, long rows in blocks as a whole vector is.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::device::handle::Engine;
use crate::engine::device::values::ValueRows;
use crate::engine::ops::reductions::{Job, STAGED_BYTES, whole_on_gpu};
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, Gpu, Profile, Request, RowLayout, usable, words};
use crate::host;
use crate::kernels::reduce_blocks::{self, Reduce, Shape};
use crate::kernels::{locate, reduce_partials, reduce_rows};
use crate::matrix::{Element, MatrixView};

/// An error unless both operands fit each other and live here.
fn check(engine: &Engine, values: &ValueRows<'_>, others: Option<&ValueRows<'_>>) -> Result<()> {
    values.check_device("values", engine)?;
    let Some(others) = others else { return Ok(()) };
    others.check_device("others", engine)?;
    let shape = |rows: &ValueRows<'_>| format!("[{}, {}] {:?}", rows.rows(), rows.length(), rows.kind());
    if shape(others) != shape(values) {
        let needed = format!("{}, as the values have", shape(values));
        return Err(Error::argument("others", needed, shape(others)));
    }
    if others.place() != values.place() {
        let needed = format!("{}, as the values are", values.place());
        return Err(Error::argument("others", needed, others.place()));
    }
    Ok(())
}

/// Reduces every row to a word: the bits of a sum, a key, or a place, `u32::MAX` where there is no number.
pub(crate) async fn rows(
    engine: &Engine,
    job: &Job<'_>,
    values: ValueRows<'_>,
    others: Option<ValueRows<'_>>,
) -> Result<Vec<u32>> {
    check(engine, &values, others.as_ref())?;
    match engine {
        _ if values.length() == 0 => Ok(vec![job.nothing().record[0]; values.rows()]),
        Engine::Gpu(gpu) => rows_on_gpu(gpu, job, values, others).await,
        Engine::Host(_) => rows_on_host(job, values.on_host()?, others),
    }
}

fn rows_on_host(job: &Job<'_>, values: ValueRows<'_>, others: Option<ValueRows<'_>>) -> Result<Vec<u32>> {
    let Job { operation, scale, .. } = *job;
    if operation.is_place() {
        check_places(values.length() as u64 - 1, values.length() as u64)?;
    }
    let others = others.map(|others| others.on_host()).transpose()?;
    Ok(match (values, others) {
        (ValueRows::F32(values), Some(ValueRows::F32(others))) => {
            host::reduce_rows(operation, scale, values, Some(others))
        }
        (ValueRows::F16(values), Some(ValueRows::F16(others))) => {
            host::reduce_rows(operation, scale, values, Some(others))
        }
        (ValueRows::F32(values), _) => host::reduce_rows(operation, scale, values, None),
        (ValueRows::F16(values), _) => host::reduce_rows(operation, scale, values, None),
        _ => vec![],
    })
}

/// An error when a place in a row of this length is none of 32 bits.
fn check_places(place: u64, length: u64) -> Result<()> {
    if place < u64::from(u32::MAX) {
        return Ok(());
    }
    Err(Error::argument("values", "rows of fewer than 2^32 - 1 numbers", length))
}

async fn rows_on_gpu(
    gpu: &Arc<Gpu>,
    job: &Job<'_>,
    values: ValueRows<'_>,
    others: Option<ValueRows<'_>>,
) -> Result<Vec<u32>> {
    let (count, length) = (values.rows(), values.length() as u64);
    let operands: Vec<ValueRows<'_>> = std::iter::once(values).chain(others).collect();
    let layout = RowLayout::padded(values.kind(), length as usize);
    let blocks = blocks_a_row(length);
    let binding = gpu.adapter.capabilities.max_binding_bytes;
    let hosts = operands.iter().filter(|rows| rows.on_device().is_none()).count() as u64;
    // Staging of rows on the host, results, partial results and places.
    let row_bytes =
        hosts * layout.row_bytes() + if length <= reduce_rows::LONGEST { 4 } else { 8 + 4 + blocks * 8 };
    let staged_rows = if hosts > 0 { STAGED_BYTES.min(binding) / layout.row_bytes() } else { u64::MAX };
    let at_once = (usable(gpu.options.budget_bytes) / row_bytes)
        .min(staged_rows)
        .min(binding / (blocks * 8))
        .min(u64::from(u32::MAX) / 256);
    if at_once == 0 && hosts > 0 && length > reduce_rows::LONGEST {
        return one_by_one(gpu, job, &operands).await;
    }
    // Where one is too many, reserving its scratch memory says so. Short rows go through one kernel under any budget: as vectors
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

/// Rows of the host too long to be staged whole, each like a vector of its own.
async fn one_by_one(gpu: &Arc<Gpu>, job: &Job<'_>, operands: &[ValueRows<'_>]) -> Result<Vec<u32>> {
    let mut words = vec![];
    for row in 0..operands[0].rows() {
        let mut parts = operands.iter().filter_map(|rows| rows.host_row(row));
        let Some(values) = parts.next() else { return Err(gpu.fault(&"rows of the device are not staged")) };
        let found = whole_on_gpu(gpu, job, values, parts.next()).await?;
        check_places(found.place, values.len())?;
        words.push(job.operation.word(found.record, found.place as u32));
    }
    Ok(words)
}

/// Blocks of a row at most, 1 where a group of lanes takes it.
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
        slices.push(match rows.on_device() {
            Some((buffer, stride)) => (BufferSlice::all(buffer), range.start * stride, stride),
            None => {
                let buffer = &scratch[next];
                next += 1;
                match rows {
                    ValueRows::F32(view) => upload(gpu, buffer, layout, view.slice(range.clone())).await?,
                    ValueRows::F16(view) => upload(gpu, buffer, layout, view.slice(range.clone())).await?,
                    _ => {}
                }
                (BufferSlice::range(buffer, 0, count * layout.row_bytes()), 0, layout.stride)
            }
        });
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
            .read_each(&[(&scratch[0], 0, count * 4)], |_, bytes| found.extend(words::<u32>(bytes)))
            .await?;
        return job.timed(profile, gpu).await;
    }
    let mut parts = [vec![], vec![]];
    let ranges = [(&scratch[0], 0, count * 8), (&scratch[2], 0, count * 4)];
    commands.read_each(&ranges, |number, bytes| parts[number].extend(words::<u32>(bytes))).await?;
    job.timed(profile, gpu).await?;
    let [records, places] = parts;
    let rows = records.chunks_exact(2).zip(places);
    found.extend(rows.map(|(record, place)| job.operation.word([record[0], record[1]], place)));
    Ok(())
}

async fn upload<T: Element>(
    gpu: &Gpu,
    buffer: &wgpu::Buffer,
    layout: RowLayout,
    rows: MatrixView<'_, T>,
) -> Result<()> {
    gpu.upload_rows(buffer, 0, layout, rows, |_| ()).await
}

/// Records what makes one record of every row, and of a long row's places.
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
