//! Searches for documents whose codes a GPU has.
//!
//! Tiles of codes find the largest similarity of each token of a query with the tokens of a document. The sums of these, which the host reads,
//! bound the scores. Where the GPU has the tokens themselves, it multiplies those of the candidates in f32, and the host adds up.

use std::ops::Range;

use crate::engine::device::queries::QueryNumbers;
use crate::engine::documents::on_host;
use crate::engine::documents::pairs::{AT_ONCE, PAIR_BYTES, Pairs};
use crate::engine::documents::request::{DocumentRequest, Found, Scored};
use crate::engine::documents::shortlist::Shortlist;
use crate::engine::documents::cache::{Placed, no_codes};
use crate::engine::documents::spans::NO_DOCUMENT;
use crate::engine::documents::tokens::TokenVectors;
use crate::engine::rows::segments::GpuRows;
use crate::engine::screens::int8::tiles::Tiles;
use crate::engine::screens::int8::codes::{Integers, QuantizedRows, TERMS_BYTES};
use crate::engine::search::batch::QueryBuffers;
use crate::engine::search::chunks::submission_flops;
use crate::error::{Error, Result};
use crate::gpu::{Commands, Request, Scratch, budget_for, usable, words};
use crate::host::HostRows;
use crate::host::documents::bounds::QuerySums;
use crate::kernels::{BLOCK_ROWS, maxsim_sum, maxsim_tile_i8};
use crate::memory;
use crate::parallel::*;
use crate::screen::certificate::{QueryTerms, Terms, UNIT};

/// Tokens of queries that are searched together.
const TOKENS: usize = 2048;

/// A search, and its scratch memory.
struct Search<'a> {
    rows: &'a GpuRows,
    codes: &'a QuantizedRows,
    queries: &'a TokenVectors<'a>,
    request: &'a DocumentRequest<'a>,
    placed: &'a Placed,
    /// The most tokens of a batch, and the places of a chunk.
    tokens: usize,
    chunk: usize,
    scratch: Scratch,
}

/// The numbers of the scratch buffers.
const QUERIES: usize = 0;
const NORMS: usize = 1;
const REFUSED: usize = 2;
const CODES: usize = 3;
const QUERY_TERMS: usize = 4;
const OFFSETS: usize = 5;
const WEIGHTS: usize = 6;
const NEAREST: usize = 7;
const SUMS: usize = 8;
const ALL_PAIRS: usize = 9;

/// The documents of largest MaxSim for each query. Where the host keeps the tokens, it computes the scores that are reported.
pub(super) async fn search(
    rows: &GpuRows,
    host: Option<&HostRows>,
    queries: &TokenVectors<'_>,
    request: &DocumentRequest<'_>,
) -> Result<Found> {
    let codes = rows.quantized.as_ref().ok_or_else(no_codes)?;
    let placed = Placed::of(rows, (request.ends, request.places), request.all).await?;
    let search = Search::reserve((rows, codes), queries, request, &placed).await?;
    let mut found = Found::default();
    let (offsets, mut first) = (queries.offsets(), 0);
    while first < queries.len() {
        let mut end = first + 1;
        while end < queries.len() && offsets[end + 1] - offsets[first] <= search.tokens {
            end += 1;
        }
        let candidates = search.bounded(first..end).await?;
        found.bounded += (request.places.len() * (end - first)) as u64;
        let candidates: Vec<_> = candidates.into_iter().map(Shortlist::into_candidates).collect();
        found.computed += candidates.iter().map(|list| list.len() as u64).sum::<u64>();
        if let Some(host) = host.filter(|_| !rows.keeps_rows) {
            let queries = queries.fetched().await?;
            let best = on_host::scored(host, &queries, first..end, request, candidates)?;
            found.by_query.extend(best.into_iter().map(|(scored, _)| scored));
        } else {
            found.by_query.extend(search.scored(first..end, candidates).await?);
        }
        if let Some(progress) = request.progress {
            progress(end);
        }
        first = end;
    }
    Ok(found)
}

impl<'a> Search<'a> {
    async fn reserve(
        (rows, codes): (&'a GpuRows, &'a QuantizedRows),
        queries: &'a TokenVectors<'a>,
        request: &'a DocumentRequest<'a>,
        placed: &'a Placed,
    ) -> Result<Self> {
        let (offsets, places) = (queries.offsets(), placed.spans.len().max(1));
        let longest = offsets.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0);
        let mut tokens = longest.max(TOKENS.min(queries.tokens()));
        loop {
            // As many queries as may be in a batch, if all of them are short.
            let most = tokens.min(queries.len());
            let padded = (tokens as u64).next_multiple_of(BLOCK_ROWS.into());
            let of_queries = [
                padded * rows.query_bytes(),
                padded * 8,
                8,
                codes.plane_bytes(padded),
                padded * TERMS_BYTES,
                (most as u64 + 1) * 4,
                padded * 4,
            ];
            let pairs = AT_ONCE as u64 * PAIR_BYTES;
            let limit = rows.gpu.adapter.capabilities.max_binding_bytes;
            let rest = usable(request.budget).saturating_sub(of_queries.iter().sum::<u64>() + pairs);
            let of_place = [tokens as u64 * 4, most as u64 * 4];
            let fit = (rest / (of_place[0] + of_place[1])).min(limit / of_place[0]);
            let chunk = (fit as usize).min(places);
            // A pair needs as much as a place.
            if chunk == 0 {
                if tokens > longest {
                    tokens = longest.max(tokens / 2);
                    continue;
                }
                let purpose = format!("a query of {longest} tokens");
                let needed = of_queries.iter().sum::<u64>() + pairs + of_place.iter().sum::<u64>();
                return Err(Error::Budget { purpose, needed: budget_for(needed), budget: request.budget });
            }
            let bytes = of_queries.into_iter().chain(of_place.map(|bytes| bytes * chunk as u64)).chain([pairs]);
            let names = [
                "queries", "query norms", "refused", "quantised queries", "terms of queries", "offsets", "weights",
                "similarities", "sums", "pairs",
            ];
            let requests: Vec<Request> =
                names.into_iter().zip(bytes).map(|(purpose, bytes)| Request { purpose, bytes }).collect();
            let scratch = rows.gpu.reserve(&requests).await?;
            return Ok(Self { rows, codes, queries, request, placed, tokens, chunk, scratch });
        }
    }

    fn on_device(&self) -> QueryBuffers<'_> {
        QueryBuffers { values: &self.scratch[QUERIES], norms: &self.scratch[NORMS], refused: &self.scratch[REFUSED] }
    }

    /// Bounds the scores of all documents for some queries.
    async fn bounded(&self, queries: Range<usize>) -> Result<Vec<Shortlist>> {
        let (gpu, scratch) = (&self.rows.gpu, &self.scratch);
        let offsets = self.queries.offsets();
        let tokens = offsets[queries.start]..offsets[queries.end];
        let numbers = QueryNumbers::Range(tokens.clone());
        let count = tokens.len() as u32;
        let own: Vec<u32> =
            offsets[queries.start..=queries.end].iter().map(|offset| (offset - tokens.start) as u32).collect();
        let weights = &self.request.weights[tokens.clone()];
        let mut commands = Commands::new(gpu, None);
        self.on_device().begin(&mut commands, &self.queries.vectors(), &numbers).await?;
        commands.write((&scratch[OFFSETS], 0), bytemuck::cast_slice(&own)).await?;
        commands.write((&scratch[WEIGHTS], 0), bytemuck::cast_slice(weights)).await?;
        let padded = u64::from(count).next_multiple_of(BLOCK_ROWS.into());
        let into = Integers {
            values: (&scratch[CODES]).into(),
            terms: (&scratch[QUERY_TERMS]).into(),
            planes: 1,
            plane_bytes: self.codes.plane_bytes(padded),
        };
        let vectors = (self.on_device().vectors(self.rows.dim), (&scratch[NORMS]).into());
        self.codes.encode_vectors(&mut commands, vectors, [0, count], into, None, false)?;
        let terms_range = (&scratch[QUERY_TERMS], 0, u64::from(count) * TERMS_BYTES);
        let read = commands.read(&[(&scratch[REFUSED], 0, 8), terms_range]).await?;
        numbers.check(&read[0])?;
        let terms: Vec<Terms> = memory::collect(words(&read[1]))?;
        let sums = self.sums_of(&own, weights, &terms);

        let mut shortlists: Vec<_> = queries.clone().map(|_| Shortlist::new(self.request.k)).collect();
        let spans = &self.placed.spans;
        let mut first = 0;
        while first < spans.len() {
            let places = first..spans.len().min(first + self.chunk);
            let commands = self.encode_chunk(count, queries.len(), places.clone()).await?;
            let bytes = (queries.len() * places.len() * 4) as u64;
            let read = commands.read(&[(&scratch[SUMS], 0, bytes)]).await?;
            let sums_read = read[0].chunks_exact(places.len() * 4);
            let all: Vec<_> = shortlists.iter_mut().zip(sums_read).zip(&sums).collect();
            all.into_par_iter().for_each(|((list, nearness), sums)| {
                for (place, near) in places.clone().zip(words::<f32>(nearness)) {
                    let document = spans.documents[place];
                    if document != NO_DOCUMENT {
                        list.add(document, sums.bounds(near.into(), self.placed.longest[place]));
                    }
                }
            });
            first = places.end;
        }
        Ok(shortlists)
    }

    /// What bounds the scores of each query.
    fn sums_of(&self, offsets: &[u32], weights: &[f32], terms: &[Terms]) -> Vec<QuerySums> {
        let intervals = self.codes.intervals();
        let of = |ends: &[u32]| {
            let mut sums = QuerySums::default();
            for token in ends[0] as usize..ends[1] as usize {
                sums.add(weights[token], &QueryTerms::new(intervals.form, intervals.margin, terms[token]));
                // A sum of so many products in f32, whose error is relative to their magnitudes.
                let error = 2.0 * (ends[1] - ends[0] + 4) as f32 * UNIT;
                sums.widen(weights[token], error, terms[token], intervals.margin.centre_length);
            }
            sums
        };
        offsets.windows(2).map(of).collect()
    }

    /// Records the similarities and the sums of a chunk of places.
    async fn encode_chunk(&self, tokens: u32, queries: usize, places: Range<usize>) -> Result<Commands<'_>> {
        let (gpu, scratch, placed) = (&self.rows.gpu, &self.scratch, self.placed);
        let mut commands = Commands::new(gpu, None);
        let nearest = (places.len() * tokens as usize * 4) as u64;
        commands.clear(&scratch[NEAREST], 0, nearest);
        let entries = placed.spans.entries(places.clone());
        let kernel = Tiles::of_documents(gpu, tokens).await?;
        let most = self.blocks_at_once(tokens, kernel.1.is_some());
        let mut entry = entries.start;
        for segment in &self.rows.segments {
            let codes = segment.quantized.as_ref().ok_or_else(no_codes)?;
            let first_block = segment.first_slot / BLOCK_ROWS;
            let behind = first_block + segment.blocks();
            while entry < entries.end && placed.spans.blocks[entry][0] < behind {
                let own = placed.spans.blocks[entry..entries.end].partition_point(|&[block, _]| block < behind);
                let blocks = own.min(most);
                let params = maxsim_tile_i8::Params {
                    granules: self.codes.granules(),
                    queries: tokens,
                    first_entry: entry as u32,
                    first_block,
                    places: placed.spans.len() as u32,
                    first_place: places.start as u32,
                    end_place: places.end as u32,
                    pitch: tokens,
                };
                let buffers = maxsim_tile_i8::Buffers {
                    queries: &scratch[CODES],
                    rows: &codes.rows,
                    row_terms: &codes.terms,
                    query_terms: &scratch[QUERY_TERMS],
                    ends: &placed.ends,
                    blocks: &placed.blocks,
                    nearest: (&scratch[NEAREST]).into(),
                };
                commands.stage(kernel.0.name);
                maxsim_tile_i8::encode(&mut commands, kernel, &params, blocks as u32, &buffers)?;
                if blocks == most {
                    commands = commands.submit_and_go_on().await?;
                }
                entry += blocks;
            }
        }
        let params = maxsim_sum::Params { queries: queries as u32, places: places.len() as u32, pitch: tokens };
        let buffers = [NEAREST, OFFSETS, WEIGHTS, SUMS].map(|number| (&scratch[number]).into());
        commands.stage("maxsim_sum");
        maxsim_sum::encode(&mut commands, &params, buffers)?;
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
    ) -> Result<Vec<Vec<Scored>>> {
        let (scratch, request) = (&self.scratch, self.request);
        let offsets = &self.queries.offsets()[queries.start..=queries.end];
        let lists = candidates.iter().enumerate();
        let all: Vec<(usize, u32)> =
            lists.flat_map(|(query, list)| list.iter().map(move |&(_, place)| (query, place))).collect();
        let pairs = Pairs {
            rows: self.rows,
            queries: &scratch[QUERIES],
            offsets,
            weights: &request.weights[offsets[0]..],
            ends: request.ends,
            list: &scratch[ALL_PAIRS],
            nearest: &scratch[NEAREST],
            room: self.chunk * self.tokens,
        };
        let mut scored: Vec<Vec<Scored>> = queries.map(|_| vec![]).collect();
        let mut take = |(query, place): (usize, u32), score| scored[query].push(Scored { place, score });
        pairs.score(&all, &mut take).await?;
        Ok(scored)
    }
}
