//! Search in the lists of an `Ivf`: the nearest centroids of each query, and the nearest rows in their lists.
//!
//! There are two forms with one answer. The candidate form takes all rows of the lists that a query probes and reports the nearest; it
//! is the quicker one for few queries. The list-major form is for many, where rows are narrowed: queries are grouped by the lists they
//! probe, so that a list is read once for 32 of them, and screened by tiles of integers as in `Flat`.

mod form;
mod major;

use std::collections::VecDeque;

use self::form::{BLOCK_BYTES, Form};
use crate::engine::device::queries::{Numbers, Queries};
use crate::engine::lists::centroids::{self, Centroids};
use crate::engine::lists::tables::ListTables;
use crate::engine::lists::widening::Widening;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::answers::{Answers, Results};
use crate::engine::search::pipeline::{self, Found, SearchRequest, Statistics};
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, Profile, Reading, Request, Scratch, words};
use crate::kernels::{BLOCK_ROWS, narrow, norms, probe_slots, rescore, select_k};
use crate::matrix::ElementKind;

/// What is searched.
#[derive(Clone, Copy)]
pub(crate) struct Probing<'a> {
    pub(crate) rows: &'a GpuRows,
    pub(crate) centroids: &'a Centroids,
    pub(crate) tables: &'a ListTables,
    pub(crate) request: &'a SearchRequest<'a>,
    pub(crate) probes: u32,
}

/// Batches that are sent before the first of them is read. They share their scratch buffers.
const BATCHES_IN_FLIGHT: usize = 2;

/// The scratch buffers of a batch, by their place in the reservation.
#[derive(Clone, Copy)]
pub(crate) enum Buffer {
    Queries,
    QueryNorms,
    Refused,
    CoarseNarrowed,
    CoarseTerms,
    Scores,
    Lists,
    Keys,
    Ids,
    CoarseSurvivors,
    ProbedKeys,
    Probed,
    ProbedCounts,
    Counts,
    SelectedKeys,
    SelectedIds,
    SelectedCounts,
    SpareKeys,
    SpareIds,
    Allowed,
    Narrowed,
    Terms,
    ListCounts,
    Ranks,
    Starts,
    Grouped,
    Pairs,
    Thresholds,
    Overflowed,
}

pub(crate) struct Buffers(Scratch);

impl std::ops::Index<Buffer> for Buffers {
    type Output = wgpu::Buffer;

    fn index(&self, buffer: Buffer) -> &wgpu::Buffer {
        &self.0[buffer as usize]
    }
}

/// A batch that the device works on.
struct Pending {
    numbers: Numbers,
    reading: Reading,
}

/// What was found so far.
struct Progress {
    answers: Answers,
    statistics: Statistics,
    profile: Option<Profile>,
    answered: usize,
}

impl Probing<'_> {
    fn lists(&self) -> u32 {
        self.centroids.lists
    }

    /// Bytes of a bit a slot.
    fn allowed_bytes(&self) -> u64 {
        self.request.allowed.map_or(0, |allowed| allowed.words().len() as u64 * 4)
    }

    /// The nearest rows in the lists that are nearest to each query. Where a filter leaves a query fewer than k rows of them, it
    /// probes twice as many lists, until it has k or has probed all.
    pub(crate) async fn search(&self, queries: &Queries<'_>) -> Result<Found> {
        let count = queries.rows();
        let mut progress = Progress {
            answers: Answers::new(count),
            statistics: Statistics::default(),
            profile: if self.request.profile { Profile::new(&self.rows.gpu) } else { None },
            answered: 0,
        };
        let found = self.request.room().found(self.rows);
        let wanted = (self.request.k as u64).min(found) as usize;
        let mut open = Numbers::Range(0..count);
        if wanted == 0 {
            queries.check_values("queries")?;
            open = Numbers::Range(0..0);
        }
        let wanted = self.request.allowed.map(|_| wanted);
        let mut widening = Widening { probes: self.probes, lists: self.lists(), wanted };
        loop {
            let wider = Self { probes: widening.probes, ..*self };
            wider.search_some(queries, open, &mut progress).await?;
            let Some(short) = widening.short(count, |number| progress.answers.len_of(number)) else { break };
            progress.answered -= short.len();
            open = Numbers::List(short);
        }
        let Progress { answers, mut statistics, profile, .. } = progress;
        if let Some(profile) = profile {
            statistics.stages = profile.times(&self.rows.gpu).await?;
        }
        Ok(Found { neighbors: answers.collected(), statistics })
    }

    /// Answers some queries, those whose lists overflow in the candidate form.
    async fn search_some(&self, queries: &Queries<'_>, some: Numbers, progress: &mut Progress) -> Result<()> {
        let gpu = &self.rows.gpu;
        let mut open = some;
        let mut is_again = false;
        while open.len() > 0 {
            let form = match self.form(open.len() as u64, is_again) {
                Err(_) if self.probes >= self.lists() => {
                    return self.search_all(queries, open, progress).await;
                }
                form => form?,
            };
            let buffers = self.reserve(&form).await?;
            if let Some(allowed) = self.request.allowed {
                let words = bytemuck::cast_slice(allowed.words());
                gpu.upload_bytes(&buffers[Buffer::Allowed], 0, words).await?;
            }
            let mut overflowed = vec![];
            let mut batches = open.batches(form.batch as usize).into_iter();
            // The device works on one batch while the host prepares the next and reads the last.
            let mut pending = VecDeque::new();
            loop {
                while pending.len() < BATCHES_IN_FLIGHT
                    && let Some(numbers) = batches.next()
                {
                    let profile = progress.profile.as_mut();
                    pending.push_back(self.submit(&form, &buffers, queries, numbers, profile).await?);
                }
                let Some(Pending { numbers, reading }) = pending.pop_front() else { break };
                let parts = reading.wait(gpu).await?;
                numbers.check(&parts[0])?;
                let k = form.k as usize;
                let found = Results::new(self.request.metric, [k; 2], &parts[1], &parts[2], &parts[3]);
                let survivors = words::<u32>(&parts[4]).zip(words::<u32>(&parts[5]));
                let statistics = &mut progress.statistics;
                let mut flags = words::<u32>(&parts[7]);
                for ((number, row), (listed, coarse)) in numbers.iter().zip(found.rows()).zip(survivors) {
                    let is_cut = listed > form.capacity || flags.next().is_some_and(|flag| flag != 0);
                    if is_cut || form.coarse.overflowed(coarse) {
                        overflowed.push(number);
                        continue;
                    }
                    statistics.rescored += u64::from(listed);
                    if form.blocks == 0 {
                        statistics.scored += u64::from(listed);
                    }
                    progress.answers.put(number, row);
                    progress.answered += 1;
                }
                if form.blocks > 0 {
                    let probed = words::<u32>(&parts[6]).zip(&self.tables.sizes);
                    statistics.scored +=
                        probed.map(|(queries, rows)| u64::from(queries) * u64::from(*rows)).sum::<u64>();
                }
                self.request.report(progress.answered);
            }
            // Lists of candidates have room for all of them: a fault of ours must not become a loop without end.
            if let (true, Some(query)) = (is_again, overflowed.first()) {
                return Err(Error::Device {
                    message: format!("query {query} has more candidates than its lists rows"),
                });
            }
            progress.statistics.searched_again += overflowed.len() as u64;
            open = Numbers::List(overflowed);
            is_again = true;
        }
        Ok(())
    }

    /// Answers some queries from all rows, as `Flat` does: where there is no room for lists of all of them.
    async fn search_all(&self, queries: &Queries<'_>, some: Numbers, progress: &mut Progress) -> Result<()> {
        let request = SearchRequest { progress: None, ..*self.request };
        let Progress { answers, statistics, profile, answered } = progress;
        *answered += some.len();
        pipeline::search_some(self.rows, queries, some, &request, (answers, statistics, profile.as_mut()))
            .await?;
        self.request.report(*answered);
        Ok(())
    }

    async fn reserve(&self, form: &Form) -> Result<Buffers> {
        let Form { coarse, batch, capacity, blocks, .. } = *form;
        let (count, k, capacity) = (u64::from(batch), u64::from(form.k), u64::from(capacity));
        let [coarse_narrowed, coarse_terms, coarse_scores, coarse_lists, coarse_keys, coarse_ids] =
            coarse.bytes(self.centroids);
        let pairs = count * u64::from(self.probes);
        let is_major = blocks > 0;
        let if_major = |bytes: u64| if is_major { bytes } else { 0 };
        let entries = count * capacity;
        let if_many = |many: u32| if many > select_k::SORTED_MAX { count * u64::from(many) } else { 0 };
        let spare = if_many(form.k).max(if_many(self.probes));
        let lists = u64::from(self.lists());
        let padded =
            if is_major { count.next_multiple_of(BLOCK_ROWS.into()) } else { u64::from(coarse.batch) };
        let request_of = |purpose, bytes| Request { purpose, bytes };
        // In the order of `Buffer`.
        let scratch = self
            .rows
            .gpu
            .reserve(&[
                request_of("queries", padded * self.rows.vectors_bytes()),
                request_of("query norms", padded * 8),
                request_of("refused", 8),
                request_of("narrowed queries", coarse_narrowed),
                request_of("terms of narrowed queries", coarse_terms),
                request_of("scores", coarse_scores.max(u64::from(blocks) * BLOCK_BYTES)),
                request_of("lists", coarse_lists.max(entries * if is_major { 12 } else { 4 })),
                request_of("keys", coarse_keys.max(entries * 4)),
                request_of("ids", coarse_ids.max(entries * 8)),
                request_of("survivors", count * 4),
                request_of("distances of centroids", pairs * 4),
                request_of("probed lists", pairs * 8),
                request_of("probes", count * 4),
                request_of("counts", count * 4),
                request_of("selected keys", count * k * 4),
                request_of("selected ids", count * k * 8),
                request_of("selected counts", count * 4),
                request_of("spare keys", spare * 4),
                request_of("spare ids", spare * 8),
                request_of("allowed", self.allowed_bytes()),
                request_of("narrowed queries", if_major(narrow::plane_bytes(padded, self.rows.dim))),
                request_of("terms of narrowed queries", if_major(padded * 16)),
                request_of("queries of lists", if_major(lists * 4)),
                request_of("ranks", if_major(pairs * 4)),
                request_of("starts of lists", if_major((lists + 1) * 8)),
                request_of("grouped queries", if_major(pairs * 4)),
                request_of("pairs", if_major(pairs * 16)),
                request_of("thresholds", if_major(count * 4)),
                request_of("overflowed", if_major(count * 4)),
            ])
            .await?;
        Ok(Buffers(scratch))
    }

    /// Sends a batch off.
    async fn submit(
        &self,
        form: &Form,
        buffers: &Buffers,
        queries: &Queries<'_>,
        numbers: Numbers,
        profile: Option<&mut Profile>,
    ) -> Result<Pending> {
        let gpu = &self.rows.gpu;
        let count = numbers.len() as u32;
        queries.copy_to(gpu, &numbers, &buffers[Buffer::Queries]).await?;
        gpu.upload_bytes(&buffers[Buffer::Refused], 0, &[0xff; 8]).await?;
        let mut commands = Commands::new(gpu, profile);
        commands.stage("prepare");
        norms::encode(
            &mut commands,
            &norms::Norms {
                rows: BufferSlice::all(&buffers[Buffer::Queries]),
                elements: ElementKind::F32,
                vectors: self.rows.vectors(),
                range: [0, count],
                first_number: 0,
                norms: BufferSlice::all(&buffers[Buffer::QueryNorms]),
                refused: BufferSlice::all(&buffers[Buffer::Refused]),
            },
        )?;
        self.encode_coarse(&mut commands, form, buffers, count)?;
        if form.blocks > 0 {
            self.encode_major(&mut commands, form, buffers, count)?;
        } else {
            self.encode_candidates(&mut commands, form, buffers, count)?;
        }
        self.encode_results(&mut commands, form, buffers, count)?;
        let results = u64::from(count) * u64::from(form.k);
        let reading = commands.submit_with_readback(&[
            (&buffers[Buffer::Refused], 0, 8),
            (&buffers[Buffer::SelectedKeys], 0, results * 4),
            (&buffers[Buffer::SelectedIds], 0, results * 8),
            (&buffers[Buffer::SelectedCounts], 0, u64::from(count) * 4),
            (&buffers[Buffer::Counts], 0, u64::from(count) * 4),
            (&buffers[Buffer::CoarseSurvivors], 0, u64::from(count) * 4),
            (&buffers[Buffer::ListCounts], 0, if form.blocks > 0 { u64::from(self.lists()) * 4 } else { 0 }),
            (&buffers[Buffer::Overflowed], 0, if form.blocks > 0 { u64::from(count) * 4 } else { 0 }),
        ])?;
        Ok(Pending { numbers, reading })
    }

    /// The lists that each query probes.
    fn encode_coarse(
        &self,
        commands: &mut Commands<'_>,
        form: &Form,
        buffers: &Buffers,
        count: u32,
    ) -> Result<()> {
        let scratch = centroids::Buffers {
            narrowed: &buffers[Buffer::CoarseNarrowed],
            terms: &buffers[Buffer::CoarseTerms],
            scores: &buffers[Buffer::Scores],
            lists: &buffers[Buffer::Lists],
            keys: &buffers[Buffer::Keys],
            ids: &buffers[Buffer::Ids],
        };
        let found = centroids::Found {
            selected: select_k::Selected {
                keys: BufferSlice::all(&buffers[Buffer::ProbedKeys]),
                ids: BufferSlice::all(&buffers[Buffer::Probed]),
            },
            spare: (self.probes > select_k::SORTED_MAX).then(|| select_k::Selected {
                keys: BufferSlice::all(&buffers[Buffer::SpareKeys]),
                ids: BufferSlice::all(&buffers[Buffer::SpareIds]),
            }),
            counts: BufferSlice::all(&buffers[Buffer::ProbedCounts]),
            survivors: BufferSlice::all(&buffers[Buffer::CoarseSurvivors]),
        };
        let queries = BufferSlice::all(&buffers[Buffer::Queries]);
        let norms = BufferSlice::all(&buffers[Buffer::QueryNorms]);
        form.coarse.encode(commands, self.centroids, (queries, norms, count), &scratch, &found)
    }

    /// A bit a slot: those that may be found.
    fn allowed_buffer<'b>(&'b self, buffers: &'b Buffers) -> &'b wgpu::Buffer {
        match self.request.allowed {
            Some(_) => &buffers[Buffer::Allowed],
            None => self.rows.alive_buffer().unwrap_or(&self.tables.full),
        }
    }

    /// All rows of the lists that are probed, on the queries' lists.
    fn encode_candidates(
        &self,
        commands: &mut Commands<'_>,
        form: &Form,
        buffers: &Buffers,
        count: u32,
    ) -> Result<()> {
        commands.stage("probe_slots");
        for (number, tables) in self.tables.segments.iter().enumerate() {
            let probing = probe_slots::ProbeSlots {
                probed: &buffers[Buffer::Probed],
                queries: count,
                probes: self.probes,
                lists: self.lists(),
                list_tiles: &tables.list_tiles,
                tiles: &tables.tiles,
                allowed: self.allowed_buffer(buffers),
                counts: &buffers[Buffer::Counts],
                slots: &buffers[Buffer::Lists],
                capacity: form.capacity,
                is_first: number == 0,
            };
            probe_slots::encode(commands, &probing)?;
        }
        Ok(())
    }

    /// The distances of the rows on the lists, and the nearest of them.
    fn encode_results(
        &self,
        commands: &mut Commands<'_>,
        form: &Form,
        buffers: &Buffers,
        count: u32,
    ) -> Result<()> {
        commands.stage("rescore");
        let candidates = rescore::Candidates::Lists {
            candidates: BufferSlice::all(&buffers[Buffer::Lists]),
            counts: BufferSlice::all(&buffers[Buffer::Counts]),
            pitch: form.capacity,
        };
        for (number, segment) in self.rows.segments.iter().enumerate() {
            let rescoring = rescore::Rescore {
                metric: self.request.metric,
                queries: BufferSlice::all(&buffers[Buffer::Queries]),
                count,
                rows: segment.rows_slice(),
                elements: self.rows.layout.elements,
                vectors: self.rows.vectors(),
                row_count: segment.len,
                first_slot: segment.first_slot,
                ids: BufferSlice::all(&segment.ids),
                candidates,
                keys: BufferSlice::all(&buffers[Buffer::Keys]),
                found_ids: BufferSlice::all(&buffers[Buffer::Ids]),
                mark_absent: number == 0,
            };
            rescore::encode(commands, &rescoring)?;
        }
        commands.stage("select");
        let place = |keys: Buffer, ids: Buffer| select_k::Selected {
            keys: BufferSlice::all(&buffers[keys]),
            ids: BufferSlice::all(&buffers[ids]),
        };
        let select = select_k::Select {
            keys: BufferSlice::all(&buffers[Buffer::Keys]),
            ids: Some(BufferSlice::all(&buffers[Buffer::Ids])),
            floats: false,
            rows: select_k::Rows::Lists {
                counts: BufferSlice::all(&buffers[Buffer::Counts]),
                pitch: form.capacity,
            },
            count,
            k: form.k,
            selected: place(Buffer::SelectedKeys, Buffer::SelectedIds),
            selected_pitch: form.k,
            selected_counts: BufferSlice::all(&buffers[Buffer::SelectedCounts]),
            spare: (form.k > select_k::SORTED_MAX).then(|| place(Buffer::SpareKeys, Buffer::SpareIds)),
            scratch: None,
        };
        crate::kernels::selection::encode(commands, &select)
    }
}
