//! The one pipeline: nominate, rescore, select.

use std::sync::Arc;

use super::device::DeviceMatrix;
use super::plan::{Nominator, Plan, Route, chunk_parts, rounds};
use super::rows::GpuRows;
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, Gpu, Profile, Request, RowLayout, Scratch, StageTime};
use crate::kernels::collect::Margin;
use crate::kernels::{
    BLOCK_ROWS, Part, collect, distance_scan, distance_tile, key_of, norms, prefix_sum, rescore, select_k,
    tighten, value_of,
};
use crate::matrix::{ElementKind, MatrixView};
use crate::metric::Metric;
use crate::neighbors::{Neighbor, Neighbors};

/// Query vectors: a view of the host's memory, f32 or f16, or a matrix on the index's device.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Queries<'a> {
    /// f32 on the host.
    F32(MatrixView<'a, f32>),
    /// f16 on the host.
    F16(MatrixView<'a, half::f16>),
    /// On the device.
    Device(&'a DeviceMatrix),
}

impl<'a> From<MatrixView<'a, f32>> for Queries<'a> {
    fn from(queries: MatrixView<'a, f32>) -> Self {
        Self::F32(queries)
    }
}

impl<'a> From<MatrixView<'a, half::f16>> for Queries<'a> {
    fn from(queries: MatrixView<'a, half::f16>) -> Self {
        Self::F16(queries)
    }
}

impl<'a> From<&'a DeviceMatrix> for Queries<'a> {
    fn from(queries: &'a DeviceMatrix) -> Self {
        Self::Device(queries)
    }
}

impl Queries<'_> {
    /// How many there are.
    pub fn rows(&self) -> usize {
        match self {
            Self::F32(view) => view.rows(),
            Self::F16(view) => view.rows(),
            Self::Device(matrix) => matrix.rows(),
        }
    }

    /// Elements a query.
    pub fn dim(&self) -> usize {
        match self {
            Self::F32(view) => view.dim(),
            Self::F16(view) => view.dim(),
            Self::Device(matrix) => matrix.dim(),
        }
    }

    fn check_device(&self, gpu: &Arc<Gpu>) -> Result<()> {
        match self {
            Self::Device(matrix) => matrix.check_device("queries", gpu),
            _ => Ok(()),
        }
    }

    /// Copies queries, by their numbers in order, to the start of a buffer.
    async fn copy_to(&self, gpu: &Gpu, numbers: &Numbers, buffer: &wgpu::Buffer) -> Result<()> {
        let layout = RowLayout::padded(ElementKind::F32, self.dim());
        match (self, numbers) {
            (Self::F32(view), Numbers::Range(range)) => {
                gpu.upload_rows(buffer, 0, layout, view.slice(range.clone()), |_| ()).await
            }
            (Self::F16(view), Numbers::Range(range)) => {
                gpu.upload_rows(buffer, 0, layout, view.slice(range.clone()), |_| ()).await
            }
            (Self::F32(view), Numbers::List(list)) => {
                for (place, &number) in list.iter().enumerate() {
                    let offset = place as u64 * layout.row_bytes();
                    gpu.upload_rows(buffer, offset, layout, view.slice(number..number + 1), |_| ()).await?;
                }
                Ok(())
            }
            (Self::F16(view), Numbers::List(list)) => {
                for (place, &number) in list.iter().enumerate() {
                    let offset = place as u64 * layout.row_bytes();
                    gpu.upload_rows(buffer, offset, layout, view.slice(number..number + 1), |_| ()).await?;
                }
                Ok(())
            }
            (Self::Device(matrix), numbers) => {
                let mut commands = Commands::new(gpu, None);
                let bytes = layout.row_bytes();
                match numbers {
                    Numbers::Range(range) => {
                        let from = (&matrix.buffer, range.start as u64 * bytes);
                        commands.copy(from, (buffer, 0), range.len() as u64 * bytes);
                    }
                    Numbers::List(list) => {
                        for (place, &number) in list.iter().enumerate() {
                            let from = (&matrix.buffer, number as u64 * bytes);
                            commands.copy(from, (buffer, place as u64 * bytes), bytes);
                        }
                    }
                }
                commands.submit();
                Ok(())
            }
        }
    }
}

/// Which queries of a call.
#[derive(Debug, Clone)]
enum Numbers {
    Range(std::ops::Range<usize>),
    List(Vec<usize>),
}

impl Numbers {
    fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::List(list) => list.len(),
        }
    }
}

/// What a search is asked for.
pub(crate) struct SearchRequest<'a> {
    pub(crate) metric: Metric,
    pub(crate) k: usize,
    pub(crate) budget: u64,
    /// A bit a slot: rows whose bit is 0 are passed over.
    pub(crate) allowed: Option<&'a wgpu::Buffer>,
    /// Times the stages on the device.
    pub(crate) profile: bool,
    /// Called with the number of queries that are answered.
    pub(crate) progress: Option<&'a (dyn Fn(usize) + Send + Sync)>,
}

/// What a search did.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Rows whose distance was computed as it is reported, over all queries that had rows nominated.
    pub rescored: u64,
    /// Queries whose list of nominated rows overflowed, and which were searched exhaustively.
    pub searched_again: u64,
    /// Device time of each stage, when asked for and where the adapter has timestamps.
    pub stages: Vec<StageTime>,
}

/// An answer and how it came about.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) neighbors: Neighbors,
    pub(crate) statistics: Statistics,
}

pub(super) async fn search(
    rows: &GpuRows,
    queries: &Queries<'_>,
    request: &SearchRequest<'_>,
) -> Result<Found> {
    let count = queries.rows();
    queries.check_device(&rows.gpu)?;
    let plan = Plan::new(rows, count as u64, request.k as u64, request.budget)?;
    let mut profile = if request.profile { Profile::new(&rows.gpu) } else { None };
    let mut neighbors = Neighbors::with_capacity(count, plan.k as usize);
    let mut statistics = Statistics::default();
    if rows.len() == 0 {
        (0..count).for_each(|_| neighbors.push_row([]));
        return Ok(Found { neighbors, statistics });
    }
    let mut start = 0;
    while start < count {
        let end = count.min(start + plan.batch as usize);
        let numbers = Numbers::Range(start..end);
        match plan.route {
            Route::Exhaustive { .. } => {
                let found = exhaustive(rows, queries, &numbers, request, &plan, profile.as_mut()).await?;
                found.into_iter().for_each(|row| neighbors.push_row(row));
            }
            Route::Nominate { kernel, capacity, chunks, .. } => {
                let screen = Screen { kernel, capacity, chunks, k: plan.k };
                let mut found = nominate(rows, queries, &numbers, request, &screen, profile.as_mut()).await?;
                statistics.rescored += found.rescored;
                let again = std::mem::take(&mut found.overflowed);
                statistics.searched_again += again.len() as u64;
                let slow = Plan::exhaustive(rows, again.len() as u64, plan.k.into(), request.budget)?;
                for list in again.chunks(slow.batch as usize) {
                    let numbers = Numbers::List(list.iter().map(|place| start + place).collect());
                    let rows = exhaustive(rows, queries, &numbers, request, &slow, profile.as_mut()).await?;
                    for (place, row) in list.iter().zip(rows) {
                        found.rows[*place] = row;
                    }
                }
                found.rows.into_iter().for_each(|row| neighbors.push_row(row));
            }
        }
        start = end;
        if let Some(progress) = request.progress {
            progress(end);
        }
    }
    if let Some(profile) = profile {
        statistics.stages = profile.times(&rows.gpu).await?;
    }
    Ok(Found { neighbors, statistics })
}

/// What of a nominating plan a batch needs.
struct Screen {
    kernel: Nominator,
    capacity: u32,
    chunks: u32,
    k: u32,
}

/// The answers of a batch.
struct Batch {
    rows: Vec<Vec<Neighbor>>,
    /// Places in the batch of queries that have no answer yet.
    overflowed: Vec<usize>,
    rescored: u64,
}

/// The scratch buffers of a nominated batch, by their place in the reservation.
#[derive(Clone, Copy)]
enum Buffer {
    Queries,
    QueryNorms,
    Refused,
    Scores,
    Thresholds,
    Counts,
    Overflowed,
    Lists,
    Offsets,
    Keys,
    Ids,
    SelectedKeys,
    SelectedIds,
    SelectedCounts,
    SpareKeys,
    SpareIds,
}

struct Buffers(Scratch);

impl std::ops::Index<Buffer> for Buffers {
    type Output = wgpu::Buffer;

    fn index(&self, buffer: Buffer) -> &wgpu::Buffer {
        &self.0[buffer as usize]
    }
}

async fn nominate(
    rows: &GpuRows,
    queries: &Queries<'_>,
    numbers: &Numbers,
    request: &SearchRequest<'_>,
    screen: &Screen,
    mut profile: Option<&mut Profile>,
) -> Result<Batch> {
    let gpu = &rows.gpu;
    let (count, k, capacity) = (numbers.len() as u64, u64::from(screen.k), u64::from(screen.capacity));
    let padded = screen.kernel.padded(count);
    let chunks: Vec<Vec<Part>> =
        (0..screen.chunks).map(|chunk| chunk_parts(&rows.segments, chunk, screen.chunks)).collect();
    let blocks = |parts: &[Part]| parts.iter().map(|part| part.blocks).sum::<u32>();
    let columns = chunks.iter().map(|parts| blocks(parts)).max().unwrap_or(0) * BLOCK_ROWS;
    let spare = if screen.k > select_k::SORTED_MAX { count * k } else { 0 };
    let request_of = |purpose, bytes| Request { purpose, bytes };
    // In the order of `Buffer`.
    let scratch = gpu
        .reserve(&[
            request_of("queries", padded * rows.vectors_bytes()),
            request_of("query norms", padded * 8),
            request_of("refused", 8),
            request_of("scores", padded * u64::from(columns) * 4),
            request_of("thresholds", count * 4),
            request_of("counts", count * 4),
            request_of("overflowed", count * 4),
            request_of("lists", count * capacity * 12),
            request_of("offsets", (count + 1) * 4),
            request_of("keys", count * capacity * 4),
            request_of("ids", count * capacity * 8),
            request_of("selected keys", count * k * 4),
            request_of("selected ids", count * k * 8),
            request_of("selected counts", count * 4),
            request_of("spare keys", spare * 4),
            request_of("spare ids", spare * 8),
        ])
        .await?;
    let buffers = Buffers(scratch);
    let count = count as u32;

    queries.copy_to(gpu, numbers, &buffers[Buffer::Queries]).await?;
    gpu.upload_bytes(&buffers[Buffer::Refused], 0, &[0xff; 8]).await?;
    let unbounded = vec![key_of(f32::MAX); count as usize];
    gpu.upload_bytes(&buffers[Buffer::Thresholds], 0, bytemuck::cast_slice(&unbounded)).await?;
    let mut commands = Commands::new(gpu, profile.as_deref_mut());
    commands.stage("prepare");
    commands.clear(&buffers[Buffer::Counts], 0, u64::from(count) * 4);
    commands.clear(&buffers[Buffer::Overflowed], 0, u64::from(count) * 4);
    encode_query_norms(&mut commands, rows, count, &buffers)?;

    let form = screen.kernel.form(request.metric);
    let margin = Margin::of_rounding(form, rows.dim);
    let mut seen = 0;
    for parts in &chunks {
        commands.stage(screen.kernel.stage());
        for part in parts {
            encode_scores(&mut commands, rows, screen.kernel, form, count, &buffers, columns, *part)?;
        }
        // The device computes while the rest is recorded.
        commands = commands.submit_and_go_on();
        for round in rounds(blocks(parts), seen, screen.k, screen.capacity) {
            commands.stage("collect");
            for part in parts {
                let segment = &rows.segments[part.segment];
                let collecting = collect::Collect {
                    form,
                    margin,
                    scores: &buffers[Buffer::Scores],
                    columns,
                    part: *part,
                    row_norms: &segment.norms,
                    rows: segment.len,
                    first_slot: segment.first_slot,
                    query_norms: &buffers[Buffer::QueryNorms],
                    queries: count,
                    thresholds: &buffers[Buffer::Thresholds],
                    allowed: request.allowed,
                    counts: &buffers[Buffer::Counts],
                    lists: &buffers[Buffer::Lists],
                    capacity: screen.capacity,
                    round,
                };
                collect::encode(&mut commands, &collecting)?;
            }
            commands.stage("tighten");
            let tightening = tighten::Tighten {
                thresholds: &buffers[Buffer::Thresholds],
                counts: &buffers[Buffer::Counts],
                lists: &buffers[Buffer::Lists],
                overflowed: &buffers[Buffer::Overflowed],
                queries: count,
                k: screen.k,
                capacity: screen.capacity,
            };
            tighten::encode(&mut commands, &tightening)?;
        }
        seen += u64::from(blocks(parts)) * u64::from(BLOCK_ROWS);
    }

    commands.stage("rescore");
    let offsets = BufferSlice::all(&buffers[Buffer::Offsets]);
    let counts = BufferSlice::all(&buffers[Buffer::Counts]);
    prefix_sum::encode(&mut commands, counts, count, screen.capacity, offsets)?;
    let candidates = rescore::Candidates::Csr {
        candidates: BufferSlice::all(&buffers[Buffer::Lists]),
        offsets,
        list_pitch: screen.capacity,
        slots: None,
        total: count * screen.capacity,
    };
    let (keys, ids) = (BufferSlice::all(&buffers[Buffer::Keys]), BufferSlice::all(&buffers[Buffer::Ids]));
    encode_rescore(&mut commands, rows, request.metric, &buffers[Buffer::Queries], count, |segment| {
        (candidates, keys, ids, segment == 0)
    })?;
    commands.stage("select");
    let selected = select_k::Selected {
        keys: BufferSlice::all(&buffers[Buffer::SelectedKeys]),
        ids: BufferSlice::all(&buffers[Buffer::SelectedIds]),
    };
    let spare = select_k::Selected {
        keys: BufferSlice::all(&buffers[Buffer::SpareKeys]),
        ids: BufferSlice::all(&buffers[Buffer::SpareIds]),
    };
    let select = select_k::Select {
        keys,
        ids: Some(ids),
        floats: false,
        rows: select_k::Rows::Csr { offsets },
        count,
        k: screen.k,
        selected,
        selected_pitch: screen.k,
        selected_counts: BufferSlice::all(&buffers[Buffer::SelectedCounts]),
        spare: (screen.k > select_k::SORTED_MAX).then_some(spare),
    };
    select_k::encode(&mut commands, &select)?;

    let results = u64::from(count) * k;
    let parts = commands
        .read(&[
            (&buffers[Buffer::Refused], 0, 8),
            (&buffers[Buffer::SelectedKeys], 0, results * 4),
            (&buffers[Buffer::SelectedIds], 0, results * 8),
            (&buffers[Buffer::SelectedCounts], 0, u64::from(count) * 4),
            (&buffers[Buffer::Overflowed], 0, u64::from(count) * 4),
            (&buffers[Buffer::Offsets], u64::from(count) * 4, 4),
        ])
        .await?;
    check_queries(&parts[0], numbers)?;
    let words = |part: &[u8]| bytemuck::pod_collect_to_vec::<u8, u32>(part);
    let overflowed = words(&parts[4]);
    Ok(Batch {
        rows: decode(request.metric, k as usize, k as usize, &parts[1], &parts[2], &parts[3]),
        overflowed: (0..count as usize).filter(|&place| overflowed[place] != 0).collect(),
        rescored: words(&parts[5])[0].into(),
    })
}

/// Computes every distance of a batch, chunk after chunk, keeping the k best so far in front of each chunk.
async fn exhaustive(
    rows: &GpuRows,
    queries: &Queries<'_>,
    numbers: &Numbers,
    request: &SearchRequest<'_>,
    plan: &Plan,
    mut profile: Option<&mut Profile>,
) -> Result<Vec<Vec<Neighbor>>> {
    let Route::Exhaustive { chunk_rows } = plan.route else {
        return Err(Error::Device { message: "a nominating plan cannot be run exhaustively".into() });
    };
    let gpu = &rows.gpu;
    let (count, k) = (numbers.len() as u64, u64::from(plan.k));
    let pitch = k + u64::from(chunk_rows);
    let many = plan.k > select_k::SORTED_MAX;
    let places = if many { 3 } else { 2 };
    let request_of = |purpose, bytes| Request { purpose, bytes };
    let mut requests = vec![
        request_of("queries", count * rows.vectors_bytes()),
        request_of("query norms", count * 8),
        request_of("refused", 8),
        request_of("selected counts", count * 4),
    ];
    for _ in 0..places {
        requests.push(request_of("keys", count * pitch * 4));
        requests.push(request_of("ids", count * pitch * 8));
    }
    let scratch = gpu.reserve(&requests).await?;
    let place = |number: usize| select_k::Selected {
        keys: BufferSlice::all(&scratch[4 + 2 * number]),
        ids: BufferSlice::all(&scratch[5 + 2 * number]),
    };
    let count = count as u32;
    let (query_buffer, refused) = (&scratch[0], &scratch[2]);
    queries.copy_to(gpu, numbers, query_buffer).await?;
    gpu.upload_bytes(refused, 0, &[0xff; 8]).await?;

    let mut commands = Commands::new(gpu, profile.as_deref_mut());
    commands.stage("prepare");
    norms::encode(
        &mut commands,
        &norms::Norms {
            rows: BufferSlice::all(query_buffer),
            elements: ElementKind::F32,
            vectors: rows.vectors(),
            range: [0, count],
            first_number: 0,
            norms: BufferSlice::all(&scratch[1]),
            refused: BufferSlice::all(refused),
        },
    )?;
    let (mut from, mut to) = (0, 1);
    let mut kept = 0;
    for segment in &rows.segments {
        let mut first = 0;
        while first < segment.len {
            let chunk = chunk_rows.min(segment.len - first);
            commands.stage("rescore");
            let candidates = rescore::Candidates::Dense {
                first: segment.first_slot + first,
                count: chunk,
                found_pitch: pitch as u32,
                found_first: kept,
                allowed: request.allowed.map(BufferSlice::all),
            };
            let rescoring = rescore::Rescore {
                metric: request.metric,
                queries: BufferSlice::all(query_buffer),
                count,
                rows: segment.rows_slice(),
                elements: rows.layout.elements,
                vectors: rows.vectors(),
                row_count: segment.len,
                first_slot: segment.first_slot,
                ids: BufferSlice::all(&segment.ids),
                candidates,
                keys: place(from).keys,
                found_ids: place(from).ids,
                mark_absent: true,
            };
            rescore::encode(&mut commands, &rescoring)?;
            commands.stage("select");
            let select = select_k::Select {
                keys: place(from).keys,
                ids: Some(place(from).ids),
                floats: false,
                rows: select_k::Rows::Equal { length: kept + chunk, pitch: pitch as u32 },
                count,
                k: plan.k,
                selected: place(to),
                selected_pitch: pitch as u32,
                selected_counts: BufferSlice::all(&scratch[3]),
                spare: many.then(|| place(2)),
            };
            select_k::encode(&mut commands, &select)?;
            (from, to) = (to, from);
            kept = plan.k;
            first += chunk;
            commands = commands.submit_and_go_on();
        }
    }
    // Only the first k of each row are wanted, but one copy of all is quicker than one a row while rows are short.
    let (keys, ids) = (place(from).keys.buffer, place(from).ids.buffer);
    let bytes = u64::from(count) * pitch;
    let mut ranges = vec![(refused, 0, 8), (&scratch[3], 0, u64::from(count) * 4)];
    let whole = bytes * 12 <= 1 << 20;
    if whole {
        ranges.push((keys, 0, bytes * 4));
        ranges.push((ids, 0, bytes * 8));
    } else {
        for query in 0..u64::from(count) {
            ranges.push((keys, query * pitch * 4, k * 4));
        }
        for query in 0..u64::from(count) {
            ranges.push((ids, query * pitch * 8, k * 8));
        }
    }
    let parts = commands.read(&ranges).await?;
    check_queries(&parts[0], numbers)?;
    if whole {
        return Ok(decode(request.metric, k as usize, pitch as usize, &parts[2], &parts[3], &parts[1]));
    }
    let (keys, ids) = parts[2..].split_at(count as usize);
    Ok(decode(request.metric, k as usize, k as usize, &keys.concat(), &ids.concat(), &parts[1]))
}

fn encode_query_norms(
    commands: &mut Commands<'_>,
    rows: &GpuRows,
    count: u32,
    buffers: &Buffers,
) -> Result<()> {
    norms::encode(
        commands,
        &norms::Norms {
            rows: BufferSlice::all(&buffers[Buffer::Queries]),
            elements: ElementKind::F32,
            vectors: rows.vectors(),
            range: [0, count],
            first_number: 0,
            norms: BufferSlice::all(&buffers[Buffer::QueryNorms]),
            refused: BufferSlice::all(&buffers[Buffer::Refused]),
        },
    )
}

#[expect(clippy::too_many_arguments, reason = "the arguments of two kernels, forwarded")]
fn encode_scores(
    commands: &mut Commands<'_>,
    rows: &GpuRows,
    kernel: Nominator,
    form: collect::Form,
    count: u32,
    buffers: &Buffers,
    columns: u32,
    part: Part,
) -> Result<()> {
    let segment = &rows.segments[part.segment];
    let (queries, scores) = (&buffers[Buffer::Queries], &buffers[Buffer::Scores]);
    let (elements, vectors) = (rows.layout.elements, rows.vectors());
    match kernel {
        Nominator::Scan => {
            let direct = form == collect::Form::Direct;
            let rows = &segment.rows;
            let scan = distance_scan::Scan {
                queries,
                count,
                rows,
                elements,
                vectors,
                scores,
                columns,
                part,
                direct,
            };
            distance_scan::encode(commands, &scan)
        }
        Nominator::Tile => {
            let rows = &segment.rows;
            let tile = distance_tile::Tile { queries, count, rows, elements, vectors, scores, columns, part };
            distance_tile::encode(commands, &tile)
        }
    }
}

/// Rescores candidates on every segment in turn: each writes the distances of its own rows.
fn encode_rescore<'a>(
    commands: &mut Commands<'_>,
    rows: &'a GpuRows,
    metric: Metric,
    queries: &'a wgpu::Buffer,
    count: u32,
    of: impl Fn(usize) -> (rescore::Candidates<'a>, BufferSlice<'a>, BufferSlice<'a>, bool),
) -> Result<()> {
    for (number, segment) in rows.segments.iter().enumerate() {
        let (candidates, keys, found_ids, mark_absent) = of(number);
        let rescoring = rescore::Rescore {
            metric,
            queries: BufferSlice::all(queries),
            count,
            rows: segment.rows_slice(),
            elements: rows.layout.elements,
            vectors: rows.vectors(),
            row_count: segment.len,
            first_slot: segment.first_slot,
            ids: BufferSlice::all(&segment.ids),
            candidates,
            keys,
            found_ids,
            mark_absent,
        };
        rescore::encode(commands, &rescoring)?;
    }
    Ok(())
}

/// The error for queries that the device refused, with their numbers in the call.
fn check_queries(refused: &[u8], numbers: &Numbers) -> Result<()> {
    let number = |place: u64| match numbers {
        Numbers::Range(range) => range.start as u64 + place,
        Numbers::List(list) => list.get(place as usize).map_or(place, |&number| number as u64),
    };
    norms::check("queries", refused, 0).map_err(|error| match error {
        Error::NotFinite { argument, row } => Error::NotFinite { argument, row: number(row) },
        Error::NormOutOfRange { argument, row } => Error::NormOutOfRange { argument, row: number(row) },
        other => other,
    })
}

/// Rows of results from the device's bytes: keys and ids `[queries, pitch]`, and how many of the first k are there.
fn decode(
    metric: Metric,
    k: usize,
    pitch: usize,
    keys: &[u8],
    ids: &[u8],
    counts: &[u8],
) -> Vec<Vec<Neighbor>> {
    let keys: Vec<u32> = bytemuck::pod_collect_to_vec(keys);
    let ids: Vec<[u32; 2]> = bytemuck::pod_collect_to_vec(ids);
    let counts: Vec<u32> = bytemuck::pod_collect_to_vec(counts);
    let distance = |key: u32| match metric {
        Metric::L2 => value_of(key).sqrt(),
        _ => value_of(key),
    };
    let row = |(query, &count): (usize, &u32)| -> Vec<Neighbor> {
        let range = query * pitch..query * pitch + k.min(count as usize);
        let ids = ids[range.clone()].iter().map(|&[low, high]| u64::from(high) << 32 | u64::from(low));
        keys[range].iter().zip(ids).map(|(&key, id)| Neighbor { id, distance: distance(key) }).collect()
    };
    counts.iter().enumerate().map(row).collect()
}
