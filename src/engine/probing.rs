//! Search in the lists of an `Ivf`: the nearest centroids of each query, and the nearest rows in their lists.
//!
//! There are two forms with one answer. The candidate form takes all rows of the lists that a query probes and reports the nearest; it
//! is the quicker one for few queries. The list-major form is for many, where rows are narrowed: queries are grouped by the lists they
//! probe, so that a list is read once for 64 of them, and screened by tiles of integers as in `Flat`.

use std::collections::VecDeque;

use super::centroids::{self, Centroids, Coarse};
use super::list_tables::ListTables;
use super::plan::{budget_for, usable};
use super::queries::{Numbers, Queries};
use super::rows::GpuRows;
use super::search::{Found, SearchRequest, Statistics, decode};
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, Profile, Reading, Request, Scratch, words};
use crate::kernels::screen_lists_i8::{HEIGHT, ListBlocks};
use crate::kernels::{
    BLOCK_ROWS, group, list_work, narrow, norms, probe_slots, rescore, screen_lists_coop, screen_lists_i8,
    select_k, winnow,
};
use crate::matrix::ElementKind;
use crate::neighbors::{Neighbor, Neighbors};

/// What is searched.
#[derive(Clone, Copy)]
pub(super) struct Probing<'a> {
    pub(super) rows: &'a GpuRows,
    pub(super) centroids: &'a Centroids,
    pub(super) tables: &'a ListTables,
    pub(super) request: &'a SearchRequest<'a>,
    pub(super) probes: u32,
}

/// How a batch is searched.
#[derive(Debug, Clone, Copy)]
struct Form {
    coarse: Coarse,
    k: u32,
    /// Queries at a time.
    batch: u32,
    /// Entries of a query's list: all rows that it can have in the candidate form.
    capacity: u32,
    /// Blocks of scores that there is room for; 0 in the candidate form.
    blocks: u32,
}

/// Queries up to which the candidate form is the quicker one.
const FEW: u64 = 64;

/// Queries of a batch at most.
const BATCH: u64 = 8192;

/// Batches that are sent before the first of them is read. They share their scratch buffers.
const BATCHES_IN_FLIGHT: usize = 2;

/// Bytes of a block of scores.
const BLOCK_BYTES: u64 = HEIGHT as u64 * BLOCK_ROWS as u64 * 4;

/// The scratch buffers of a batch, by their place in the reservation.
#[derive(Clone, Copy)]
enum Buffer {
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
}

struct Buffers(Scratch);

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
struct Answers {
    /// A row a query, in order.
    rows: Vec<Vec<Neighbor>>,
    statistics: Statistics,
    profile: Option<Profile>,
    answered: usize,
}

impl Probing<'_> {
    fn lists(&self) -> u32 {
        self.centroids.lists
    }

    fn is_narrowed(&self) -> bool {
        self.rows.narrowed.is_some() && self.rows.segments.iter().all(|segment| segment.narrowed.is_some())
    }

    /// Bytes of a bit a slot.
    fn allowed_bytes(&self) -> u64 {
        self.request.allowed.map_or(0, |allowed| allowed.words().len() as u64 * 4)
    }

    /// How many queries would be searched.
    fn form(&self, queries: u64, is_again: bool) -> Result<Form> {
        let k = (self.request.k as u64).min(self.rows.len()).max(1) as u32;
        let is_major = !is_again && queries > FEW && k <= winnow::K_MAX && self.is_narrowed();
        let coarse = Coarse::new(self.centroids, self.probes, queries);
        let coarse = if is_again { coarse.exhaustive() } else { coarse };
        if is_major && let Some(form) = self.major(coarse, k, queries) {
            return Ok(form);
        }
        let capacity = self.tables.most_rows(self.probes).max(1);
        let results = if k > select_k::SORTED_MAX { 24 } else { 12 } * u64::from(k);
        let own =
            self.own_bytes() + results + capacity * 4 + capacity.max(coarse.entries(self.centroids)) * 12;
        let each = own + coarse.screen_bytes(self.centroids);
        let binding = self.rows.gpu.adapter.capabilities.max_binding_bytes;
        let widest = 8 * capacity.max(coarse.entries(self.centroids)).max(k.into());
        let room = usable(self.request.budget).saturating_sub(self.allowed_bytes());
        let batch = (room / each).min(binding / widest).min(BATCH).min(u64::from(u32::MAX) / capacity);
        if batch == 0 {
            let purpose = format!("a search of {} of {} lists", self.probes, self.lists());
            self.rows.gpu.check_binding(&purpose, widest)?;
            let needed = budget_for(each + self.allowed_bytes());
            return Err(Error::Budget { purpose, needed, budget: self.request.budget });
        }
        let batch = batch.min(queries) as u32;
        Ok(Form { coarse: coarse.of(batch), k, batch, capacity: capacity as u32, blocks: 0 })
    }

    /// Scratch bytes a query of itself and its probes.
    fn own_bytes(&self) -> u64 {
        let probes = u64::from(self.probes) * if self.probes > select_k::SORTED_MAX { 24 } else { 12 };
        self.rows.vectors_bytes() + 8 + probes + 16
    }

    /// The list-major form, where the budget has room for it.
    fn major(&self, coarse: Coarse, k: u32, queries: u64) -> Option<Form> {
        let binding = self.rows.gpu.adapter.capabilities.max_binding_bytes;
        let capacity = (16 * u64::from(k)).next_power_of_two().max(512);
        let narrowed = narrow::plane_bytes(BLOCK_ROWS.into(), self.rows.dim) / u64::from(BLOCK_ROWS) + 16;
        let entries = capacity.max(coarse.entries(self.centroids)) * 24;
        let scores = coarse.score_bytes(self.centroids);
        let each =
            self.own_bytes() + u64::from(k) * 12 + 2 * narrowed + u64::from(self.probes) * 24 + entries;
        let lists = u64::from(self.lists()) * 16 + self.allowed_bytes();
        let room = usable(self.request.budget).checked_sub(lists)?;
        let unit = u64::from(BLOCK_ROWS);
        let most = (room / 2 / each)
            .min(room / (each + scores))
            .min(binding / (capacity * 12))
            .min(binding / (u64::from(self.probes) * 16))
            .min(binding / scores.max(1))
            .min(BATCH);
        let batch =
            queries.div_ceil(queries.div_ceil(most.max(1))).next_multiple_of(unit).min(most / unit * unit);
        if batch < unit {
            return None;
        }
        let bound = |segment: &super::list_tables::SegmentTables| {
            segment.most_blocks(batch as u32, self.probes, HEIGHT)
        };
        let wanted = self.tables.segments.iter().map(bound).max().unwrap_or(1).max(1);
        let blocks = ((room - batch * each).min(binding) / BLOCK_BYTES).min(wanted);
        // With few blocks at a time many dispatches find nothing to do.
        if blocks == 0 || wanted / blocks > 64 || wanted > 1 << 31 {
            return None;
        }
        let batch = batch as u32;
        Some(Form { coarse: coarse.of(batch), k, batch, capacity: capacity as u32, blocks: blocks as u32 })
    }

    /// The nearest rows in the lists that are nearest to each query. Where a filter leaves a query fewer than k rows of them, it
    /// probes twice as many lists, until it has k or has probed all.
    pub(super) async fn search(&self, queries: &Queries<'_>) -> Result<Found> {
        let count = queries.rows();
        queries.check_device(&self.rows.gpu)?;
        if self.request.k == 0 {
            return Err(Error::argument("k", "at least 1", 0));
        }
        let mut answers = Answers {
            rows: vec![vec![]; count],
            statistics: Statistics::default(),
            profile: if self.request.profile { Profile::new(&self.rows.gpu) } else { None },
            answered: 0,
        };
        let found = self.request.room().found(self.rows);
        let wanted = (self.request.k as u64).min(found) as usize;
        let mut open = Numbers::Range(0..if wanted == 0 { 0 } else { count });
        let mut wider = *self;
        loop {
            wider.search_some(queries, open, &mut answers).await?;
            let is_short = |&number: &usize| answers.rows[number].len() < wanted;
            let short: Vec<usize> = (0..count).filter(is_short).collect();
            if self.request.allowed.is_none() || short.is_empty() || wider.probes >= self.lists() {
                break;
            }
            wider.probes = (2 * wider.probes).min(self.lists());
            answers.answered -= short.len();
            open = Numbers::List(short);
        }
        let Answers { rows, mut statistics, profile, .. } = answers;
        if let Some(profile) = profile {
            statistics.stages = profile.times(&self.rows.gpu).await?;
        }
        let mut neighbors = Neighbors::with_capacity(count, rows.first().map_or(0, Vec::len));
        rows.into_iter().for_each(|row| neighbors.push_row(row));
        Ok(Found { neighbors, statistics })
    }

    /// Answers some queries, those whose lists overflow in the candidate form.
    async fn search_some(&self, queries: &Queries<'_>, some: Numbers, answers: &mut Answers) -> Result<()> {
        let gpu = &self.rows.gpu;
        let mut open = some;
        let mut is_again = false;
        while open.len() > 0 {
            let form = self.form(open.len() as u64, is_again)?;
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
                    let profile = answers.profile.as_mut();
                    pending.push_back(self.submit(&form, &buffers, queries, numbers, profile).await?);
                }
                let Some(Pending { numbers, reading }) = pending.pop_front() else { break };
                let parts = reading.wait(gpu).await?;
                numbers.check(&parts[0])?;
                let k = form.k as usize;
                let found = decode(self.request.metric, k, k, &parts[1], &parts[2], &parts[3]);
                let survivors = words::<u32>(&parts[4]).zip(words::<u32>(&parts[5]));
                let statistics = &mut answers.statistics;
                for ((number, row), (listed, coarse)) in numbers.iter().zip(found).zip(survivors) {
                    if listed > form.capacity || form.coarse.overflowed(coarse) {
                        overflowed.push(number);
                        continue;
                    }
                    statistics.rescored += u64::from(listed);
                    if form.blocks == 0 {
                        statistics.scored += u64::from(listed);
                    }
                    answers.rows[number] = row;
                    answers.answered += 1;
                }
                if form.blocks > 0 {
                    let probed = words::<u32>(&parts[6]).zip(&self.tables.sizes);
                    statistics.scored +=
                        probed.map(|(queries, rows)| u64::from(queries) * u64::from(*rows)).sum::<u64>();
                }
                self.request.report(answers.answered);
            }
            // Lists of candidates have room for all of them: a fault of ours must not become a loop without end.
            if let (true, Some(query)) = (is_again, overflowed.first()) {
                return Err(Error::Device {
                    message: format!("query {query} has more candidates than its lists rows"),
                });
            }
            answers.statistics.searched_again += overflowed.len() as u64;
            open = Numbers::List(overflowed);
            is_again = true;
        }
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
        let padded = count.next_multiple_of(BLOCK_ROWS.into());
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

    /// The rows that cannot be excluded of the lists that are probed, on the queries' lists.
    fn encode_major(
        &self,
        commands: &mut Commands<'_>,
        form: &Form,
        buffers: &Buffers,
        count: u32,
    ) -> Result<()> {
        let Some(narrowed) = &self.rows.narrowed else { return Ok(()) };
        commands.stage("narrow");
        let narrowing = narrow::Narrow {
            metric: narrowed.metric,
            dim: narrowed.dim,
            rows: BufferSlice::all(&buffers[Buffer::Queries]),
            elements: ElementKind::F32,
            vectors: self.rows.vectors(),
            norms: BufferSlice::all(&buffers[Buffer::QueryNorms]),
            centre: BufferSlice::all(&narrowed.centre_buffer),
            range: [0, count],
            narrowed: BufferSlice::all(&buffers[Buffer::Narrowed]),
            terms: BufferSlice::all(&buffers[Buffer::Terms]),
            planes: 1,
            plane_bytes: buffers[Buffer::Narrowed].size(),
            slots: None,
        };
        narrow::encode(commands, &narrowing)?;
        commands.stage("group");
        commands.clear(&buffers[Buffer::ListCounts], 0, u64::from(self.lists()) * 4);
        let (form_of, margin) = narrowed.margin();
        let mut is_first = true;
        for (segment, tables) in self.rows.segments.iter().zip(&self.tables.segments) {
            let grouping = group::Group {
                probed: &buffers[Buffer::Probed],
                queries: count,
                probes: self.probes,
                lists: self.lists(),
                height: HEIGHT,
                counts: &buffers[Buffer::ListCounts],
                ranks: &buffers[Buffer::Ranks],
                starts: &buffers[Buffer::Starts],
                list_tiles: &tables.list_tiles,
                grouped: &buffers[Buffer::Grouped],
                pairs: &buffers[Buffer::Pairs],
            };
            commands.stage("group");
            if is_first {
                group::encode(commands, &grouping, false)?;
            }
            let counts = &buffers[Buffer::ListCounts];
            let starts = &buffers[Buffer::Starts];
            list_work::encode(commands, (self.lists(), HEIGHT), counts, &tables.list_tiles, starts)?;
            group::encode(commands, &grouping, true)?;
            let Some(copy) = &segment.narrowed else { continue };
            let most = tables.most_blocks(count, self.probes, HEIGHT);
            let mut first = 0;
            while u64::from(first) < most {
                commands.stage("screen_lists");
                let blocks = [first, form.blocks];
                let scoring = ListBlocks {
                    queries: &buffers[Buffer::Narrowed],
                    rows: &copy.rows,
                    segment: [segment.first_slot, segment.capacity],
                    granules: narrow::granules(self.rows.dim),
                    lists: self.lists(),
                    starts,
                    list_tiles: &tables.list_tiles,
                    tiles: &tables.tiles,
                    grouped: &buffers[Buffer::Grouped],
                    scores: &buffers[Buffer::Scores],
                    blocks,
                    most,
                };
                match narrowed.side {
                    Some(side) => screen_lists_coop::encode(commands, &scoring, side)?,
                    None => screen_lists_i8::encode(commands, &scoring)?,
                }
                commands.stage("winnow");
                let winnowing = winnow::Winnow {
                    form: form_of,
                    margin,
                    scores: &buffers[Buffer::Scores],
                    room: HEIGHT,
                    blocks,
                    row_terms: &copy.terms,
                    rows: segment.len,
                    first_slot: segment.first_slot,
                    query_terms: &buffers[Buffer::Terms],
                    queries: count,
                    k: form.k,
                    probed: Some(winnow::Probed {
                        probes: self.probes,
                        pairs: &buffers[Buffer::Pairs],
                        tiles: &tables.tiles,
                        allowed: self.allowed_buffer(buffers),
                    }),
                    counts: BufferSlice::all(&buffers[Buffer::Counts]),
                    lists: &buffers[Buffer::Lists],
                    capacity: form.capacity,
                    is_first,
                };
                winnow::encode(commands, &winnowing)?;
                is_first = false;
                first += form.blocks;
            }
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
        select_k::encode(commands, &select)
    }
}
