//! All rows within a radius: the pipeline with a threshold that is fixed.

use crate::engine::device::queries::{Numbers, Queries};
use crate::engine::rows::allowed::Looked;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::answers::Answers;
use crate::engine::search::candidates::Thresholds;
use crate::engine::search::nominate::{Buffer, Screen};
use crate::engine::search::pipeline::{Found, SearchRequest, Statistics, distance_of};
use crate::engine::search::plan::{Plan, Route, is_selective};
use crate::error::Result;
use crate::gpu::{BufferSlice, Request, words};
use crate::kernels::collect::Round;
use crate::kernels::{key_of, norms, rescore};
use crate::matrix::ElementKind;
use crate::metric::Metric;
use crate::neighbors::Neighbor;

/// Room of a list at first. What a query needs is known when its list overflows.
const CAPACITY: u64 = 4096;

pub(crate) async fn search_within(
    rows: &GpuRows,
    queries: &Queries<'_>,
    radius: f32,
    request: &SearchRequest<'_>,
) -> Result<Found> {
    let count = queries.rows();
    let mut answers = Answers::new(count);
    let mut statistics = Statistics::default();
    let within = Within { rows, queries, request, radius };
    // Queries without an answer, and the room their lists need.
    let mut open = Numbers::Range(0..count);
    if request.room().found(rows) == 0 {
        queries.check_values("queries")?;
        open = Numbers::Range(0..0);
    }
    let mut capacity = CAPACITY;
    let mut answered = 0;
    while open.len() > 0 {
        let Some(plan) = Plan::within(rows, open.len() as u64, capacity, request.room()) else {
            let plan = Plan::exhaustive(rows, open.len() as u64, 1, request.room())?;
            // Where a filter allows few rows, this is not a way round, but the way.
            if !is_selective(rows, request.room()) {
                statistics.searched_exhaustively += open.len() as u64;
            }
            statistics.scored += open.len() as u64 * request.room().looked_at(rows);
            for numbers in open.batches(plan.batch as usize) {
                within.exhaustive(&plan, &numbers, &mut answers).await?;
                answered += numbers.len();
                request.report(answered);
            }
            break;
        };
        let Some(screen) = Screen::reserve(rows, request, &plan).await? else { break };
        let mut overflowed = vec![];
        for numbers in open.batches(plan.batch as usize) {
            let needed = within.nominated(&screen, &numbers, &mut answers, &mut statistics).await?;
            capacity = needed.iter().map(|(_, needed)| u64::from(*needed)).fold(capacity, u64::max);
            let needed_again = needed.len();
            overflowed.extend(needed.into_iter().map(|(number, _)| number));
            answered += numbers.len() - needed_again;
            request.report(answered);
        }
        statistics.scored += open.len() as u64 * rows.end();
        statistics.searched_again += overflowed.len() as u64;
        capacity = capacity.next_power_of_two();
        open = Numbers::List(overflowed);
    }
    Ok(Found { neighbors: answers.collected(), statistics })
}

/// A number that is not below any distance within a radius: L2 is computed as its square.
pub(crate) fn limit_of(metric: Metric, radius: f32) -> f32 {
    let radius = f64::from(radius);
    let limit = match metric {
        // A root may round down to less than the radius, by one unit of it.
        Metric::L2 => radius * radius * (1.0 + 2f64.powi(-20)) + f64::from(f32::MIN_POSITIVE),
        _ => radius,
    };
    (limit as f32).next_up().clamp(f32::MIN, f32::MAX)
}

/// What is asked for.
struct Within<'a> {
    rows: &'a GpuRows,
    queries: &'a Queries<'a>,
    request: &'a SearchRequest<'a>,
    radius: f32,
}

impl Within<'_> {
    /// The key of the limit of distances.
    fn threshold(&self) -> u32 {
        key_of(limit_of(self.request.metric, self.radius))
    }

    /// The rows among these that are within the radius, in their order.
    fn hits(&self, keys: impl Iterator<Item = u32>, ids: impl Iterator<Item = u64>) -> Vec<Neighbor> {
        // What is not there is a NaN, which is not below anything.
        let neighbors = keys
            .zip(ids)
            .map(|(key, id)| (key, Neighbor { id, distance: distance_of(self.request.metric, key) }));
        let mut within: Vec<_> = neighbors.filter(|(_, one)| one.distance < self.radius).collect();
        within.sort_unstable_by_key(|(key, one)| (*key, one.id));
        within.into_iter().map(|(_, one)| one).collect()
    }

    /// Answers a batch by lists; tells which of them overflowed, and how many rows they would have held.
    async fn nominated(
        &self,
        screen: &Screen<'_>,
        numbers: &Numbers,
        answers: &mut Answers,
        statistics: &mut Statistics,
    ) -> Result<Vec<(usize, u32)>> {
        let gpu = &self.rows.gpu;
        let buffers = &screen.buffers;
        let count = numbers.len() as u32;
        let thresholds = vec![self.threshold(); numbers.len()];
        gpu.upload_bytes(&buffers[Buffer::Thresholds], 0, bytemuck::cast_slice(&thresholds)).await?;
        let mut commands = screen.begin(self.queries, numbers, None).await?;
        commands.clear(&buffers[Buffer::Counts], 0, u64::from(count) * 4);
        let scoring = screen.scoring(count);
        for parts in &screen.chunks {
            for part in parts {
                scoring.encode(&mut commands, self.rows, *part)?;
            }
            for part in parts {
                let round = Round { step: 1, skip: 0 };
                screen.encode_collect(&mut commands, count, *part, round, Thresholds::Set)?;
            }
            commands = commands.submit_and_go_on();
        }
        screen.encode_rescore(&mut commands, count)?;
        let ranges = [(&buffers[Buffer::Refused], 0, 8), (&buffers[Buffer::Counts], 0, u64::from(count) * 4)];
        let parts = commands.read(&ranges).await?;
        numbers.check(&parts[0])?;
        let counts: Vec<u32> = words(&parts[1]).collect();
        let fits = |&count: &u32| count <= screen.capacity;
        let mut ranges = vec![];
        for (query, &found) in counts.iter().enumerate().filter(|(_, found)| fits(found)) {
            let first = query as u64 * u64::from(screen.capacity);
            ranges.push((&buffers[Buffer::Keys], first * 4, u64::from(found) * 4));
            ranges.push((&buffers[Buffer::Ids], first * 8, u64::from(found) * 8));
        }
        let mut read = crate::gpu::Commands::new(gpu, None).read(&ranges).await?.into_iter();
        let mut overflowed = vec![];
        for (number, found) in numbers.iter().zip(&counts) {
            if !fits(found) {
                overflowed.push((number, *found));
                continue;
            }
            let (Some(keys), Some(ids)) = (read.next(), read.next()) else { break };
            statistics.rescored += u64::from(*found);
            answers.put(number, self.hits(words(&keys), words(&ids)));
        }
        Ok(overflowed)
    }

    /// Answers a batch by the distances of all rows, chunk after chunk.
    async fn exhaustive(&self, plan: &Plan, numbers: &Numbers, answers: &mut Answers) -> Result<()> {
        let Route::Exhaustive { chunk_rows } = plan.route else { return Ok(()) };
        let Self { rows, queries, request, .. } = self;
        let gpu = &rows.gpu;
        let (count, pitch) = (numbers.len() as u64, u64::from(chunk_rows));
        let request_of = |purpose, bytes| Request { purpose, bytes };
        let looked = Looked::new(rows, request.room());
        let scratch = gpu
            .reserve(&[
                request_of("queries", count * rows.vectors_bytes()),
                request_of("query norms", count * 8),
                request_of("refused", 8),
                request_of("keys", count * pitch * 4),
                request_of("ids", count * pitch * 8),
                looked.request(),
            ])
            .await?;
        looked.upload(&scratch[5]).await?;
        queries.copy_to(gpu, numbers, &scratch[0]).await?;
        gpu.upload_bytes(&scratch[2], 0, &[0xff; 8]).await?;
        let mut commands = crate::gpu::Commands::new(gpu, None);
        norms::encode(
            &mut commands,
            &norms::Norms {
                rows: BufferSlice::all(&scratch[0]),
                elements: ElementKind::F32,
                vectors: rows.vectors(),
                range: [0, count as u32],
                first_number: 0,
                norms: BufferSlice::all(&scratch[1]),
                refused: BufferSlice::all(&scratch[2]),
            },
        )?;
        let mut commands = Some(commands);
        let mut hits = vec![vec![]; numbers.len()];
        for stretch in looked.stretches(chunk_rows) {
            let segment = &rows.segments[stretch.segment];
            let mut recording = commands.take().unwrap_or_else(|| crate::gpu::Commands::new(gpu, None));
            let rescoring = rescore::Rescore {
                metric: request.metric,
                queries: BufferSlice::all(&scratch[0]),
                count: count as u32,
                rows: segment.rows_slice(),
                elements: rows.layout.elements,
                vectors: rows.vectors(),
                row_count: segment.len,
                first_slot: segment.first_slot,
                ids: BufferSlice::all(&segment.ids),
                candidates: looked.candidates(stretch, [chunk_rows, 0], &scratch[5]),
                keys: BufferSlice::all(&scratch[3]),
                found_ids: BufferSlice::all(&scratch[4]),
                mark_absent: true,
            };
            rescore::encode(&mut recording, &rescoring)?;
            let ranges = [
                (&scratch[2], 0, 8),
                (&scratch[3], 0, count * pitch * 4),
                (&scratch[4], 0, count * pitch * 8),
            ];
            let parts = recording.read(&ranges).await?;
            numbers.check(&parts[0])?;
            for (place, hits) in hits.iter_mut().enumerate() {
                let from = place * chunk_rows as usize;
                let to = from + stretch.count as usize;
                let keys = words(&parts[1][from * 4..to * 4]);
                let ids = words(&parts[2][from * 8..to * 8]);
                hits.extend(self.hits(keys, ids));
            }
        }
        for (number, mut hits) in numbers.iter().zip(hits) {
            // Chunks are in order each, but not together.
            hits.sort_unstable_by_key(|one: &Neighbor| (key_of(one.distance), one.id));
            answers.put(number, hits);
        }
        Ok(())
    }
}
