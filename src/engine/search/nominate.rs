//! The nominating route: score, collect, tighten, rescore, select, with one readback.

use crate::engine::device::queries::{Numbers, Queries};
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::answers::Results;
use crate::engine::search::candidates::Thresholds;
use crate::engine::search::pipeline::SearchRequest;
use crate::engine::search::plan::{Nominator, Plan, Route, chunk_parts, rounds, submission_flops};
use crate::engine::search::scores::{self, Scores};
use crate::error::Result;
use crate::gpu::{BufferSlice, Commands, Profile, Reading, Request, Scratch};
use crate::kernels::collect::GROUP;
use crate::kernels::distance_tile::TILE_QUERIES;
use crate::kernels::{BLOCK_ROWS, Part, narrow, norms, select_k};
use crate::matrix::ElementKind;
use crate::screen::certificate::{Form, Margin};

/// A nominating search: its chunks, and the scratch buffers that its batches use one after the other.
pub(crate) struct Screen<'a> {
    pub(crate) rows: &'a GpuRows,
    pub(crate) request: &'a SearchRequest<'a>,
    pub(crate) kernel: Nominator,
    pub(crate) capacity: u32,
    pub(crate) k: u32,
    pub(crate) chunks: Vec<Vec<Part>>,
    /// Queries that a block of scores has room for.
    pub(crate) room: u32,
    /// Planes of integers that queries are narrowed to.
    planes: u32,
    /// The form of the scores, and how far they are off.
    pub(crate) intervals: (Form, Margin),
    pub(crate) buffers: Buffers,
}

/// A batch that the device works on.
pub(crate) struct Pending {
    numbers: Numbers,
    reading: Reading,
}

/// The answers of a batch.
pub(crate) struct Batch {
    pub(crate) numbers: Numbers,
    pub(crate) results: Results,
    /// Numbers of the queries that have no answer yet.
    pub(crate) overflowed: Vec<usize>,
    pub(crate) rescored: u64,
}

/// The scratch buffers of a nominated batch, by their place in the reservation.
#[derive(Clone, Copy)]
pub(crate) enum Buffer {
    Queries,
    QueryNorms,
    Refused,
    Scores,
    Thresholds,
    Counts,
    Overflowed,
    Lists,
    Keys,
    Ids,
    SelectedKeys,
    SelectedIds,
    SelectedCounts,
    SpareKeys,
    SpareIds,
    NarrowedQueries,
    QueryTerms,
    Allowed,
}

pub(crate) struct Buffers(Scratch);

impl std::ops::Index<Buffer> for Buffers {
    type Output = wgpu::Buffer;

    fn index(&self, buffer: Buffer) -> &wgpu::Buffer {
        &self.0[buffer as usize]
    }
}

impl<'a> Screen<'a> {
    /// Takes the scratch of a plan.
    pub(crate) async fn reserve(
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
        let planes = kernel.planes(count);
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
                request_of("keys", entries * 4),
                request_of("ids", entries * 8),
                request_of("selected keys", count * k * 4),
                request_of("selected ids", count * k * 8),
                request_of("selected counts", count * 4),
                request_of("spare keys", spare * 4),
                request_of("spare ids", spare * 8),
                request_of("narrowed queries", u64::from(planes) * narrow::plane_bytes(padded, rows.dim)),
                request_of("terms of narrowed queries", u64::from(planes.min(1)) * padded * 16),
                request_of("allowed", request.room().bits_bytes()),
            ])
            .await?;
        let buffers = Buffers(scratch);
        if let Some(allowed) = request.allowed {
            let words = bytemuck::cast_slice(allowed.words());
            rows.gpu.upload_bytes(&buffers[Buffer::Allowed], 0, words).await?;
        }
        Ok(Some(Self {
            rows,
            request,
            kernel,
            capacity,
            k: plan.k,
            chunks,
            room: padded as u32,
            planes,
            intervals: scores::margin(rows, kernel, request.metric),
            buffers,
        }))
    }

    /// Sends a batch off: scores all rows chunk by chunk, keeps the ones that can be among the nearest, and reports the
    /// nearest of them. The next batch may be sent before this one is waited for, because the device runs them in order.
    pub(crate) async fn submit(
        &self,
        queries: &Queries<'_>,
        numbers: Numbers,
        profile: Option<&mut Profile>,
    ) -> Result<Pending> {
        let Self { rows, buffers, .. } = self;
        let count = numbers.len() as u32;
        let mut commands = self.begin(queries, &numbers, profile).await?;
        let scoring = self.scoring(count);
        let all = rows.end();
        let padded_rows: u64 =
            self.chunks.iter().map(|parts| u64::from(blocks(parts)) * u64::from(BLOCK_ROWS)).sum();
        let (mut seen, mut tightened, mut unsent) = (0, 0, 0);
        // Few queries wait longer for the dispatches that refining takes than for the rows it saves.
        let mut is_refined = self.planes == 0 || self.room <= TILE_QUERIES;
        for parts in &self.chunks {
            commands.stage(self.kernel.stage());
            for part in parts {
                scoring.encode(&mut commands, rows, *part)?;
            }
            let chunk_rows = u64::from(blocks(parts)) * u64::from(BLOCK_ROWS);
            let flops = 2 * u64::from(self.room) * chunk_rows * rows.layout.stride as u64;
            unsent += flops;
            // The device starts while the rest is recorded. Later chunks are sent several at a time, because it waits a little
            // between submissions.
            if seen == 0 || unsent + flops > submission_flops(rows) {
                commands = commands.submit_and_go_on();
                unsent = 0;
            }
            let rounds = rounds(blocks(parts), seen, self.k, self.capacity, self.kernel.spread());
            for (number, round) in rounds.iter().enumerate() {
                let is_large = seen + chunk_rows / u64::from(round.step) >= all / 2;
                if !is_refined && (seen > 0 || round.skip > 0) && (is_large || seen >= all / 16) {
                    self.encode_refining(&mut commands, count)?;
                    is_refined = true;
                }
                let thresholds = match (seen, round.skip) {
                    (0, 0) => Thresholds::Missing { groups: blocks(parts) * (BLOCK_ROWS / GROUP) },
                    _ => Thresholds::Set,
                };
                commands.stage("collect");
                for part in parts {
                    self.encode_collect(&mut commands, count, *part, *round, thresholds)?;
                }
                // As long as few rows were looked at since, the threshold would hardly fall.
                let is_last = seen + chunk_rows >= padded_rows;
                if number + 1 < rounds.len() || is_last || seen + chunk_rows >= 2 * tightened {
                    self.encode_tighten(&mut commands, count, thresholds != Thresholds::Set, false)?;
                    tightened = seen + chunk_rows / u64::from(round.step);
                }
            }
            seen += chunk_rows;
        }

        commands.stage("rescore");
        self.encode_rescore(&mut commands, count)?;
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
            keys: BufferSlice::all(&buffers[Buffer::Keys]),
            ids: Some(BufferSlice::all(&buffers[Buffer::Ids])),
            floats: false,
            rows: select_k::Rows::Lists {
                counts: BufferSlice::all(&buffers[Buffer::Counts]),
                pitch: self.capacity,
            },
            count,
            k: self.k,
            selected,
            selected_pitch: self.k,
            selected_counts: BufferSlice::all(&buffers[Buffer::SelectedCounts]),
            spare: (self.k > select_k::SORTED_MAX).then_some(spare),
            scratch: None,
        };
        crate::kernels::selection::encode(&mut commands, &select)?;

        let results = u64::from(count) * u64::from(self.k);
        let reading = commands.submit_with_readback(&[
            (&buffers[Buffer::Refused], 0, 8),
            (&buffers[Buffer::SelectedKeys], 0, results * 4),
            (&buffers[Buffer::SelectedIds], 0, results * 8),
            (&buffers[Buffer::SelectedCounts], 0, u64::from(count) * 4),
            (&buffers[Buffer::Overflowed], 0, u64::from(count) * 4),
            (&buffers[Buffer::Counts], 0, u64::from(count) * 4),
        ])?;
        Ok(Pending { numbers, reading })
    }

    /// Copies the queries to the device, and records what is made of them.
    pub(crate) async fn begin<'p>(
        &'p self,
        queries: &Queries<'_>,
        numbers: &Numbers,
        profile: Option<&'p mut Profile>,
    ) -> Result<Commands<'p>> {
        let Self { rows, buffers, .. } = self;
        let gpu = &rows.gpu;
        let count = numbers.len() as u32;
        queries.copy_to(gpu, numbers, &buffers[Buffer::Queries]).await?;
        gpu.upload_bytes(&buffers[Buffer::Refused], 0, &[0xff; 8]).await?;
        let mut commands = Commands::new(gpu, profile);
        commands.stage("prepare");
        encode_query_norms(&mut commands, rows, count, buffers)?;
        self.encode_narrowing(&mut commands, count)?;
        Ok(commands)
    }

    /// A bit a slot, where not all rows may be found or not all slots have one.
    pub(crate) fn allowed(&self) -> Option<&wgpu::Buffer> {
        match self.request.allowed {
            Some(_) => Some(&self.buffers[Buffer::Allowed]),
            None => self.rows.alive_buffer(),
        }
    }

    /// How the scores of a batch are computed.
    pub(crate) fn scoring(&self, count: u32) -> Scores<'_> {
        Scores {
            kernel: self.kernel,
            metric: self.request.metric,
            queries: &self.buffers[Buffer::Queries],
            narrowed_queries: &self.buffers[Buffer::NarrowedQueries],
            count,
            scores: &self.buffers[Buffer::Scores],
            room: self.room,
            planes: self.planes,
        }
    }

    /// The queries as integers, for the kernels that take those.
    fn encode_narrowing(&self, commands: &mut Commands<'_>, count: u32) -> Result<()> {
        let (Some(narrowed), true) = (&self.rows.narrowed, self.kernel.is_narrowed()) else { return Ok(()) };
        let buffers = &self.buffers;
        let queries = self.kernel.padded(count.into());
        let narrowing = narrow::Narrow {
            metric: narrowed.metric,
            dim: narrowed.dim,
            rows: BufferSlice::all(&buffers[Buffer::Queries]),
            elements: ElementKind::F32,
            vectors: self.rows.vectors(),
            norms: BufferSlice::all(&buffers[Buffer::QueryNorms]),
            centre: BufferSlice::all(&narrowed.centre_buffer),
            range: [0, count],
            narrowed: BufferSlice::all(&buffers[Buffer::NarrowedQueries]),
            terms: BufferSlice::all(&buffers[Buffer::QueryTerms]),
            planes: self.planes,
            plane_bytes: narrow::plane_bytes(queries, narrowed.dim),
            slots: None,
        };
        narrow::encode(commands, &narrowing)
    }

    /// The answers of a batch that was sent.
    pub(crate) async fn finish(&self, pending: Pending) -> Result<Batch> {
        let Pending { numbers, reading } = pending;
        let parts = reading.wait(&self.rows.gpu).await?;
        numbers.check(&parts[0])?;
        let words = |part: &[u8]| bytemuck::pod_collect_to_vec::<u8, u32>(part);
        let overflowed = words(&parts[4]);
        let k = self.k as usize;
        Ok(Batch {
            results: Results::new(self.request.metric, [k; 2], &parts[1], &parts[2], &parts[3]),
            overflowed: numbers
                .iter()
                .zip(overflowed)
                .filter(|(_, flag)| *flag != 0)
                .map(|(number, _)| number)
                .collect(),
            rescored: words(&parts[5]).iter().map(|&count| u64::from(count.min(self.capacity))).sum(),
            numbers,
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
