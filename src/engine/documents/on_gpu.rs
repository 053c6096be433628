//! Searches for documents whose codes a GPU has.
//!
//! Tiles of codes find the largest similarity of each token of a query with the tokens of a document. The sums of these, which the host reads,
//! bound the scores. Where the GPU has the tokens themselves, it multiplies those of the candidates in f32, and the host adds up.

use std::ops::Range;

use crate::engine::device::queries::QueryNumbers;
use crate::engine::documents::buffers::{DocumentBuffers, Room};
use crate::engine::documents::cache::no_codes;
use crate::engine::documents::on_host::OnHost;
use crate::engine::documents::pairs::Pairs;
use crate::engine::documents::request::{DocumentRequest, Found, Scored};
use crate::engine::documents::shortlist::Shortlist;
use crate::engine::documents::spans::{NO_DOCUMENT, Spans};
use crate::engine::documents::tokens::TokenVectors;
use crate::engine::rows::segments::GpuRows;
use crate::engine::screens::int8::codes::{Integers, QuantizedRows, TERMS_BYTES};
use crate::engine::screens::int8::tiles::Tiles;
use crate::engine::search::batch::QueryBuffers;
use crate::engine::search::chunks::submission_flops;
use crate::error::Result;
use crate::gpu::{Buffer, Commands, Profile, Reading, Reserved, words};
use crate::host::HostRows;
use crate::host::documents::bounds::QuerySums;
use crate::kernels::{BLOCK_ROWS, Kernel, maxsim_sum, maxsim_tile_i8};
use crate::memory;
use crate::parallel::*;
use crate::screen::certificate::{QueryTerms, Terms, UNIT};

/// Documents whose bounds a thread takes at a time.
const PART: usize = 1 << 14;

/// A search, and its scratch memory.
struct Search<'a> {
    rows: &'a GpuRows,
    codes: &'a QuantizedRows,
    queries: &'a TokenVectors<'a>,
    request: &'a DocumentRequest<'a>,
    spans: &'a Spans,
    /// The blocks of the spans on the device.
    blocks: &'a Buffer,
    /// The largest length and residual of each document, by its place in the index.
    longest: &'a [[f32; 2]],
    room: Room,
    buffers: &'a DocumentBuffers,
}

/// The documents of largest MaxSim for each query. Where the host keeps the tokens, it computes the scores that are reported.
pub(super) async fn search(
    rows: &GpuRows,
    host: Option<&HostRows>,
    queries: &TokenVectors<'_>,
    request: &DocumentRequest<'_>,
) -> Result<Found> {
    let codes = rows.quantized.as_ref().ok_or_else(no_codes)?;
    let all = request.cache.placed(rows, request.ends, request.places).await?;
    let allowed = request.allowed.map(|allowed| Spans::new(request.ends, allowed)).transpose()?;
    let spans = allowed.as_ref().unwrap_or(&all.spans);
    let own: &[u8] = allowed.as_ref().map_or(&[], |spans| bytemuck::cast_slice(&spans.blocks));
    let room = Room::new((rows, codes), queries, (spans.len(), own.len() as u64), request.budget)?;
    let buffers: Reserved<DocumentBuffers> = room.bytes.reserve(&rows.gpu).await?;
    if !own.is_empty() {
        rows.gpu.upload_bytes(&buffers.blocks, 0, own).await?;
    }
    let blocks = if allowed.is_some() { &buffers.blocks } else { &all.blocks };
    let longest = &all.longest;
    let search = Search { rows, codes, queries, request, spans, blocks, longest, room, buffers: &buffers };
    let mut profile = if request.profile { Profile::new(&rows.gpu) } else { None };
    let fetched;
    let on_host = match host.filter(|_| !rows.keeps_rows) {
        Some(host) => {
            fetched = queries.fetched().await?;
            Some(OnHost::new(host, &fetched)?)
        }
        None => None,
    };
    let mut found = Found::default();
    let mut first = 0;
    while first < queries.len() {
        let end = queries.batch(first, room.tokens).end;
        let candidates = match request.candidates(first..end) {
            Some(nominated) => {
                search.load(first..end).await?;
                nominated
            }
            None => {
                found.bounded += (request.found().len() * (end - first)) as u64;
                let shortlists = search.bounded(first..end, &mut profile).await?;
                shortlists.into_iter().map(Shortlist::into_candidates).collect()
            }
        };
        if let Some(host) = &on_host {
            for (scored, computed) in host.scored(first..end, request, candidates)? {
                found.by_query.push(scored);
                found.computed += computed;
            }
        } else {
            found.computed += candidates.iter().map(|list| list.len() as u64).sum::<u64>();
            found.by_query.extend(search.scored(first..end, candidates, &mut profile).await?);
        }
        if let Some(progress) = request.progress {
            progress(end);
        }
        first = end;
    }
    if let Some(profile) = profile {
        found.stages = profile.times(&rows.gpu).await?;
    }
    Ok(found)
}

/// Documents whose sums are on their way.
struct Chunk {
    places: Range<usize>,
    reading: Reading,
}

impl<'a> Search<'a> {
    fn on_device(&self) -> QueryBuffers<'a> {
        let DocumentBuffers { queries: values, query_norms: norms, refused, .. } = self.buffers;
        QueryBuffers { values, norms, refused }
    }

    /// Brings the tokens of some queries to the device, and checks them.
    async fn load(&self, queries: Range<usize>) -> Result<()> {
        let offsets = self.queries.offsets();
        let numbers = QueryNumbers::Range(offsets[queries.start]..offsets[queries.end]);
        let mut commands = Commands::new(&self.rows.gpu, None);
        self.on_device().begin(&mut commands, &self.queries.vectors(), &numbers).await?;
        numbers.check(&commands.read(&[(&self.buffers.refused, 0, 8)]).await?[0])
    }

    /// Bounds the scores of all documents for some queries.
    async fn bounded(&self, queries: Range<usize>, profile: &mut Option<Profile>) -> Result<Vec<Shortlist>> {
        let (gpu, buffers, spans) = (&self.rows.gpu, self.buffers, self.spans);
        let offsets = self.queries.offsets();
        let tokens = offsets[queries.start]..offsets[queries.end];
        let (numbers, count) = (QueryNumbers::Range(tokens.clone()), tokens.len() as u32);
        let own = offsets[queries.start..=queries.end].iter().map(|offset| (offset - tokens.start) as u32);
        let own = memory::collect(own)?;
        let weights = &self.request.weights[tokens];
        let kernel = Tiles::of_documents(gpu, count).await?;
        let mut shortlists: Vec<_> = queries.clone().map(|_| Shortlist::new(self.request.k)).collect();
        let mut sums: Vec<QuerySums> = vec![];
        let mut before: Option<Chunk> = None;
        let mut first = 0;
        // One chunk more than there are: the last turn takes what the turn before has read.
        while first < spans.len() || before.is_some() {
            let places = first..spans.len().min(first + self.room.chunk);
            let mut chunk = None;
            if !places.is_empty() {
                let mut commands = Commands::new(gpu, profile.as_mut());
                let mut ranges = vec![(&buffers.sums, 0, (queries.len() * places.len() * 4) as u64)];
                if first == 0 {
                    self.begin(&mut commands, &numbers, &own, weights).await?;
                    ranges.push((&buffers.refused, 0, 8));
                    ranges.push((&buffers.terms, 0, u64::from(count) * TERMS_BYTES));
                }
                let commands =
                    self.encode_chunk(commands, kernel, (count, queries.len()), places.clone()).await?;
                chunk =
                    Some(Chunk { places: places.clone(), reading: commands.submit_with_readback(&ranges)? });
            }
            if let Some(Chunk { places, reading }) = std::mem::replace(&mut before, chunk) {
                let read = reading.wait(gpu).await?;
                if let [_, refused, terms] = &read[..] {
                    numbers.check(refused)?;
                    sums = self.sums_of(&own, weights, &memory::collect(words(terms))?);
                }
                self.shorten(&mut shortlists, &sums, places, &read[0]);
            }
            first = places.end;
        }
        Ok(shortlists)
    }

    /// Records what comes before the first chunk: the queries and their codes.
    async fn begin(
        &self,
        commands: &mut Commands<'_>,
        numbers: &QueryNumbers,
        offsets: &[u32],
        weights: &[f32],
    ) -> Result<()> {
        let DocumentBuffers { codes, terms, .. } = self.buffers;
        self.on_device().begin(commands, &self.queries.vectors(), numbers).await?;
        commands.write((&self.buffers.offsets, 0), bytemuck::cast_slice(offsets)).await?;
        commands.write((&self.buffers.weights, 0), bytemuck::cast_slice(weights)).await?;
        let count = numbers.len() as u32;
        let plane_bytes = self.codes.plane_bytes(u64::from(count).next_multiple_of(BLOCK_ROWS.into()));
        let into = Integers { values: codes.into(), terms: terms.into(), planes: 1, plane_bytes };
        let vectors = (self.on_device().vectors(self.rows.dim), (&self.buffers.query_norms).into());
        self.codes.encode_vectors(commands, vectors, [0, count], into, None, false)
    }

    /// Takes the documents of a chunk in, by the sums that were read.
    fn shorten(&self, shortlists: &mut [Shortlist], sums: &[QuerySums], places: Range<usize>, read: &[u8]) {
        let of_query = |(list, (sums, nearness)): (&mut Shortlist, (&QuerySums, &[u8]))| {
            let part = |(number, nearness): (usize, &[u8])| {
                let mut part = list.empty();
                for (place, near) in (places.start + number * PART..).zip(words::<f32>(nearness)) {
                    let document = self.spans.documents[place];
                    if document != NO_DOCUMENT {
                        part.add(document, sums.bounds(near.into(), self.longest[document as usize]));
                    }
                }
                part
            };
            let parts: Vec<Shortlist> = nearness.par_chunks(4 * PART).enumerate().map(part).collect();
            parts.into_iter().for_each(|part| list.merge(part));
        };
        let all: Vec<_> =
            shortlists.iter_mut().zip(sums.iter().zip(read.chunks_exact(4 * places.len()))).collect();
        all.into_par_iter().for_each(of_query);
    }

    /// What bounds the scores of each query.
    fn sums_of(&self, offsets: &[u32], weights: &[f32], terms: &[Terms]) -> Vec<QuerySums> {
        let intervals = self.codes.intervals();
        let of = |ends: &[u32]| {
            let mut sums = QuerySums::default();
            for token in ends[0] as usize..ends[1] as usize {
                sums.add(weights[token], &QueryTerms::new(intervals.form, intervals.margin, terms[token]));
                // The device adds products in f32: the error of the sum is relative to their magnitudes.
                let error = 2.0 * (ends[1] - ends[0] + 4) as f32 * UNIT;
                sums.widen(weights[token], error, terms[token], intervals.margin.centre_length);
            }
            sums
        };
        offsets.windows(2).map(of).collect()
    }

    /// Records the similarities and the sums of a chunk of places.
    async fn encode_chunk<'c>(
        &self,
        mut commands: Commands<'c>,
        kernel: (&'static Kernel, Option<u32>),
        (tokens, queries): (u32, usize),
        places: Range<usize>,
    ) -> Result<Commands<'c>> {
        let (buffers, spans) = (self.buffers, self.spans);
        commands.clear(&buffers.nearest, 0, (places.len() * tokens as usize * 4) as u64);
        let entries = spans.entries(places.clone());
        let most = self.blocks_at_once(tokens, kernel.1.is_some());
        let mut entry = entries.start;
        for segment in &self.rows.segments {
            let codes = segment.quantized.as_ref().ok_or_else(no_codes)?;
            let first_block = segment.first_slot / BLOCK_ROWS;
            let behind = first_block + segment.blocks();
            while entry < entries.end && spans.blocks[entry].number < behind {
                let own = spans.blocks[entry..entries.end].partition_point(|block| block.number < behind);
                let blocks = own.min(most);
                let params = maxsim_tile_i8::Params {
                    granules: self.codes.granules(),
                    queries: tokens,
                    first_entry: entry as u32,
                    first_block,
                    rows: segment.len,
                    first_place: places.start as u32,
                    end_place: places.end as u32,
                    pitch: tokens,
                };
                let into = maxsim_tile_i8::Buffers {
                    queries: &buffers.codes,
                    rows: &codes.rows,
                    row_terms: &codes.terms,
                    query_terms: &buffers.terms,
                    blocks: self.blocks,
                    nearest: (&buffers.nearest).into(),
                };
                commands.stage(kernel.0.name);
                maxsim_tile_i8::encode(&mut commands, kernel, &params, blocks as u32, &into)?;
                if blocks == most {
                    commands = commands.submit_and_go_on().await?;
                }
                entry += blocks;
            }
        }
        let params =
            maxsim_sum::Params { queries: queries as u32, places: places.len() as u32, pitch: tokens };
        let DocumentBuffers { nearest, offsets, weights, sums, .. } = buffers;
        commands.stage("maxsim_sum");
        maxsim_sum::encode(
            &mut commands,
            &params,
            [nearest, offsets, weights, sums].map(|buffer| buffer.into()),
        )?;
        Ok(commands)
    }

    /// Blocks whose similarities one submission computes.
    fn blocks_at_once(&self, tokens: u32, are_matrices: bool) -> usize {
        let adapter = &self.rows.gpu.adapter;
        let flops = 2 * u64::from(tokens) * u64::from(BLOCK_ROWS) * self.rows.layout.stride as u64;
        let speed = if are_matrices { 10 } else { 1 };
        let most = submission_flops(adapter.kind) * speed / flops.max(1);
        most.clamp(8, adapter.capabilities.max_workgroups.into()) as usize
    }

    /// The scores of the candidates of some queries, in any order.
    async fn scored(
        &self,
        queries: Range<usize>,
        candidates: Vec<Vec<(f32, u32)>>,
        profile: &mut Option<Profile>,
    ) -> Result<Vec<Vec<Scored>>> {
        let (buffers, request) = (self.buffers, self.request);
        let offsets = &self.queries.offsets()[queries.start..=queries.end];
        let lists = candidates.iter().enumerate();
        let all: Vec<(usize, u32)> =
            lists.flat_map(|(query, list)| list.iter().map(move |&(_, place)| (query, place))).collect();
        let pairs = Pairs {
            rows: self.rows,
            queries: &buffers.queries,
            offsets,
            weights: &request.weights[offsets[0]..],
            ends: request.ends,
            list: &buffers.pairs,
            nearest: &buffers.nearest,
            room: self.room.chunk * self.room.tokens,
        };
        let mut scored: Vec<Vec<Scored>> = queries.map(|_| vec![]).collect();
        let mut take = |(query, place): (usize, u32), score| scored[query].push(Scored { place, score });
        pairs.score(&all, profile, &mut take).await?;
        Ok(scored)
    }
}
