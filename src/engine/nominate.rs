//! The nominating route: score, collect, tighten, rescore, select, with one readback.

use super::plan::{Nominator, Plan, Route, chunk_parts, rounds};
use super::queries::{Numbers, Queries};
use super::rows::GpuRows;
use super::search::{SearchRequest, decode};
use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, Profile, Reading, Request, Scratch};
use crate::kernels::collect::Margin;
use crate::kernels::{
    BLOCK_ROWS, Part, collect, distance_scan, distance_tile, key_of, norms, prefix_sum, rescore, select_k,
    tighten,
};
use crate::matrix::ElementKind;
use crate::neighbors::Neighbor;

/// A nominating search: its chunks, and the scratch buffers that its batches use one after the other.
pub(super) struct Screen<'a> {
    rows: &'a GpuRows,
    request: &'a SearchRequest<'a>,
    kernel: Nominator,
    capacity: u32,
    k: u32,
    chunks: Vec<Vec<Part>>,
    columns: u32,
    buffers: Buffers,
}

/// A batch that the device works on.
pub(super) struct Pending {
    numbers: Numbers,
    reading: Reading,
}

/// The answers of a batch.
pub(super) struct Batch {
    pub(super) rows: Vec<Vec<Neighbor>>,
    /// Numbers of the queries that have no answer yet.
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

impl<'a> Screen<'a> {
    /// Takes the scratch of a plan.
    pub(super) async fn reserve(
        rows: &'a GpuRows,
        request: &'a SearchRequest<'a>,
        plan: &Plan,
    ) -> Result<Option<Self>> {
        let Route::Nominate { kernel, capacity, chunks, .. } = plan.route else { return Ok(None) };
        let (count, k) = (u64::from(plan.batch), u64::from(plan.k));
        let padded = kernel.padded(count);
        let chunks: Vec<Vec<Part>> =
            (0..chunks).map(|chunk| chunk_parts(&rows.segments, chunk, chunks)).collect();
        let columns = chunks.iter().map(|parts| blocks(parts)).max().unwrap_or(0) * BLOCK_ROWS;
        let entries = count * u64::from(capacity);
        let spare = if plan.k > select_k::SORTED_MAX { count * k } else { 0 };
        let request_of = |purpose, bytes| Request { purpose, bytes };
        // In the order of `Buffer`.
        let scratch = rows
            .gpu
            .reserve(&[
                request_of("queries", padded * rows.vectors_bytes()),
                request_of("query norms", padded * 8),
                request_of("refused", 8),
                request_of("scores", padded * u64::from(columns) * 4),
                request_of("thresholds", count * 4),
                request_of("counts", count * 4),
                request_of("overflowed", count * 4),
                request_of("lists", entries * 12),
                request_of("offsets", (count + 1) * 4),
                request_of("keys", entries * 4),
                request_of("ids", entries * 8),
                request_of("selected keys", count * k * 4),
                request_of("selected ids", count * k * 8),
                request_of("selected counts", count * 4),
                request_of("spare keys", spare * 4),
                request_of("spare ids", spare * 8),
            ])
            .await?;
        let buffers = Buffers(scratch);
        Ok(Some(Self { rows, request, kernel, capacity, k: plan.k, chunks, columns, buffers }))
    }

    /// Sends a batch off: scores all rows chunk by chunk, keeps the ones that can be among the nearest, and reports the
    /// nearest of them. The next batch may be sent before this one is waited for, because the device runs them in order.
    pub(super) async fn submit(
        &self,
        queries: &Queries<'_>,
        numbers: Numbers,
        profile: Option<&mut Profile>,
    ) -> Result<Pending> {
        let Self { rows, request, buffers, .. } = self;
        let gpu = &rows.gpu;
        let count = numbers.len() as u32;
        queries.copy_to(gpu, &numbers, &buffers[Buffer::Queries]).await?;
        gpu.upload_bytes(&buffers[Buffer::Refused], 0, &[0xff; 8]).await?;
        let unbounded = vec![key_of(f32::MAX); count as usize];
        gpu.upload_bytes(&buffers[Buffer::Thresholds], 0, bytemuck::cast_slice(&unbounded)).await?;
        let mut commands = Commands::new(gpu, profile);
        commands.stage("prepare");
        commands.clear(&buffers[Buffer::Counts], 0, u64::from(count) * 4);
        commands.clear(&buffers[Buffer::Overflowed], 0, u64::from(count) * 4);
        encode_query_norms(&mut commands, rows, count, buffers)?;

        let form = self.kernel.form(request.metric);
        let margin = Margin::of_rounding(form, rows.dim);
        let mut seen = 0;
        for parts in &self.chunks {
            commands.stage(self.kernel.stage());
            for part in parts {
                self.encode_scores(&mut commands, form, count, *part)?;
            }
            // The device computes while the rest is recorded.
            commands = commands.submit_and_go_on();
            for round in rounds(blocks(parts), seen, self.k, self.capacity) {
                commands.stage("collect");
                for part in parts {
                    let segment = &rows.segments[part.segment];
                    let collecting = collect::Collect {
                        form,
                        margin,
                        scores: &buffers[Buffer::Scores],
                        columns: self.columns,
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
                        capacity: self.capacity,
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
                    k: self.k,
                    capacity: self.capacity,
                };
                tighten::encode(&mut commands, &tightening)?;
            }
            seen += u64::from(blocks(parts)) * u64::from(BLOCK_ROWS);
        }

        commands.stage("rescore");
        let offsets = BufferSlice::all(&buffers[Buffer::Offsets]);
        let counts = BufferSlice::all(&buffers[Buffer::Counts]);
        prefix_sum::encode(&mut commands, counts, count, self.capacity, offsets)?;
        let candidates = rescore::Candidates::Csr {
            candidates: BufferSlice::all(&buffers[Buffer::Lists]),
            offsets,
            list_pitch: self.capacity,
            slots: None,
            total: count * self.capacity,
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
            k: self.k,
            selected,
            selected_pitch: self.k,
            selected_counts: BufferSlice::all(&buffers[Buffer::SelectedCounts]),
            spare: (self.k > select_k::SORTED_MAX).then_some(spare),
            scratch: None,
        };
        select_k::encode(&mut commands, &select)?;

        let results = u64::from(count) * u64::from(self.k);
        let reading = commands.submit_with_readback(&[
            (&buffers[Buffer::Refused], 0, 8),
            (&buffers[Buffer::SelectedKeys], 0, results * 4),
            (&buffers[Buffer::SelectedIds], 0, results * 8),
            (&buffers[Buffer::SelectedCounts], 0, u64::from(count) * 4),
            (&buffers[Buffer::Overflowed], 0, u64::from(count) * 4),
            (&buffers[Buffer::Offsets], u64::from(count) * 4, 4),
        ])?;
        Ok(Pending { numbers, reading })
    }

    fn encode_scores(
        &self,
        commands: &mut Commands<'_>,
        form: collect::Form,
        count: u32,
        part: Part,
    ) -> Result<()> {
        let segment = &self.rows.segments[part.segment];
        let (queries, scores) = (&self.buffers[Buffer::Queries], &self.buffers[Buffer::Scores]);
        let (rows, elements, vectors) = (&segment.rows, self.rows.layout.elements, self.rows.vectors());
        let columns = self.columns;
        match self.kernel {
            Nominator::Scan => {
                let direct = form == collect::Form::Direct;
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
                let tile =
                    distance_tile::Tile { queries, count, rows, elements, vectors, scores, columns, part };
                distance_tile::encode(commands, &tile)
            }
        }
    }

    /// The answers of a batch that was sent.
    pub(super) async fn finish(&self, pending: Pending) -> Result<Batch> {
        let Pending { numbers, reading } = pending;
        let parts = reading.wait(&self.rows.gpu).await?;
        numbers.check(&parts[0])?;
        let words = |part: &[u8]| bytemuck::pod_collect_to_vec::<u8, u32>(part);
        let overflowed = words(&parts[4]);
        let k = self.k as usize;
        Ok(Batch {
            rows: decode(self.request.metric, k, k, &parts[1], &parts[2], &parts[3]),
            overflowed: numbers
                .iter()
                .zip(overflowed)
                .filter(|(_, flag)| *flag != 0)
                .map(|(number, _)| number)
                .collect(),
            rescored: words(&parts[5])[0].into(),
        })
    }
}

fn blocks(parts: &[Part]) -> u32 {
    parts.iter().map(|part| part.blocks).sum()
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
