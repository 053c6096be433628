//! The nominating route: score, collect, tighten, rescore, select, with one readback.

use super::plan::{Nominator, chunk_parts, rounds};
use super::queries::{Numbers, Queries};
use super::rows::GpuRows;
use super::search::{SearchRequest, decode};
use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, Profile, Request, Scratch};
use crate::kernels::collect::Margin;
use crate::kernels::{
    BLOCK_ROWS, Part, collect, distance_scan, distance_tile, key_of, norms, prefix_sum, rescore, select_k,
    tighten,
};
use crate::matrix::ElementKind;
use crate::neighbors::Neighbor;

/// What of a nominating plan a batch needs.
pub(super) struct Screen {
    pub(super) kernel: Nominator,
    pub(super) capacity: u32,
    pub(super) chunks: u32,
    pub(super) k: u32,
}

/// The answers of a batch.
pub(super) struct Batch {
    pub(super) rows: Vec<Vec<Neighbor>>,
    /// Places in the batch of queries that have no answer yet.
    pub(super) overflowed: Vec<usize>,
    pub(super) rescored: u64,
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

/// Scores all rows chunk by chunk, keeps the ones that can be among the nearest, and reports the nearest of them.
pub(super) async fn nominate(
    rows: &GpuRows,
    queries: &Queries<'_>,
    numbers: &Numbers,
    request: &SearchRequest<'_>,
    screen: &Screen,
    profile: Option<&mut Profile>,
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
    let mut commands = Commands::new(gpu, profile);
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
    // Each segment in turn writes the distances of its own rows.
    for (number, segment) in rows.segments.iter().enumerate() {
        let rescoring = rescore::Rescore {
            metric: request.metric,
            queries: BufferSlice::all(&buffers[Buffer::Queries]),
            count,
            rows: segment.rows_slice(),
            elements: rows.layout.elements,
            vectors: rows.vectors(),
            row_count: segment.len,
            first_slot: segment.first_slot,
            ids: BufferSlice::all(&segment.ids),
            candidates,
            keys,
            found_ids: ids,
            mark_absent: number == 0,
        };
        rescore::encode(&mut commands, &rescoring)?;
    }
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
    numbers.check(&parts[0])?;
    let words = |part: &[u8]| bytemuck::pod_collect_to_vec::<u8, u32>(part);
    let overflowed = words(&parts[4]);
    Ok(Batch {
        rows: decode(request.metric, k as usize, k as usize, &parts[1], &parts[2], &parts[3]),
        overflowed: (0..count as usize).filter(|&place| overflowed[place] != 0).collect(),
        rescored: words(&parts[5])[0].into(),
    })
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
