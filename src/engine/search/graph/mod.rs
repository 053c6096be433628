//! The graph of nearest neighbours of rows on a GPU: each pair of rows is scored once, and either row may take the other.
//!
//! A sample of rows gives each row a threshold. The codes of all rows are copied in an order whose every part is like the whole. Batch by
//! batch, rows are then queries among those behind them. Tiles put the two rows of a pair on each other's lists, as far as their thresholds
//! allow, and lists are tightened before they are full. The lists of a batch are complete behind it, and are refined as those of a search.

mod pairs;
mod sample;
mod shape;
mod table;

use crate::elements::MatrixView;
use crate::engine::device::queries::QueryNumbers;
use crate::engine::device::vectors::Vectors;
use crate::engine::rows::contract::Rows;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::batches::Pass;
use crate::engine::search::nearest::{self, SearchState};
use crate::engine::search::request::SearchRequest;
use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::AdapterKind;
use crate::kernels::key_of;
use crate::memory;
use crate::neighbors::Neighbors;
use crate::parallel::*;
use crate::platform::CAN_WAIT;
use pairs::{InOrder, Pairs};
use sample::{Sample, Sampled};
use shape::Shape;
use table::Table;

/// Rows without a threshold, or with more candidates than a list holds, are searched for alone. Where more than one in this many has no
/// threshold, searches for all rows take no longer.
const ALONE: usize = 16;

/// From this many rows on, scoring each pair once saves the time in which the tiles of pairs are compiled.
const WORTH_COMPILING: usize = 1 << 20;

/// Rows that are searched for alone at a time.
const PIECE_BYTES: u64 = 64 << 20;

/// A function from slots of rows to their ids.
pub(crate) type IdOf<'f> = &'f (dyn Fn(u32) -> u64 + Sync);

/// The k nearest other rows of every row that may be found, slot by slot. None where searches for all rows take no longer, where lists of all
/// rows do not fit the budget, and as long as threads compile the tiles of few rows' pairs.
pub(crate) fn graph<'f>(
    rows: &'f GpuRows,
    request: &'f SearchRequest<'f>,
    id_of: IdOf<'f>,
) -> Boxed<'f, Option<Neighbors>> {
    Box::pin(async move {
        let slots = found(rows, request)?;
        let k = request.k.min(slots.len().saturating_sub(1));
        let (Some(codes), 1..) = (&rows.quantized, k) else { return Ok(None) };
        // The tiles of pairs compare integers.
        if codes.of_bits() {
            return Ok(None);
        }
        // A row finds itself in a sample.
        let with_own = SearchRequest { k: k + 1, progress: None, ..*request };
        let Some(sample) = Sample::new(rows, &with_own, slots.len()) else { return Ok(None) };
        let Some(mut shape) = Shape::new((rows, codes), &sample, [slots.len(), k]) else { return Ok(None) };
        // Nothing compiles ahead for software.
        let is_software = rows.gpu.adapter.kind == AdapterKind::Software;
        let can_wait = is_software || !CAN_WAIT || slots.len() >= WORTH_COMPILING;
        let tested = sample.kernel.tested_with_pairs(&rows.gpu, request.metric, can_wait).await?;
        let Some(kernel) = tested else { return Ok(None) };
        shape.kernel = kernel;
        let mut table = Table::new(slots.len(), k)?;
        let Some(Sampled { mut thresholds, passing }) = sample.thresholds(&slots, &mut table).await? else {
            return Ok(None);
        };
        let Some(steps) = shape.steps(passing) else { return Ok(None) };
        let mut alone: Vec<usize> =
            (0..slots.len()).filter(|&row| thresholds[row] >= key_of(f32::MAX)).collect();
        if alone.len() > slots.len() / ALONE {
            return Ok(None);
        }
        alone.iter().for_each(|&row| thresholds[row] = key_of(f32::MIN));

        let order = in_order(&thresholds, shape.batch as usize)?;
        let ordered = memory::collect(order.iter().map(|&row| slots[row as usize]))?;
        let thresholds = memory::collect(order.iter().map(|&row| thresholds[row as usize]))?;
        let request = SearchRequest { k, ..*request };
        let mut state = SearchState::new(rows, 0, &request)?;
        let pairs = Pairs::reserve((rows, codes), &request, (shape, steps), (ordered, thresholds)).await?;
        let Some(pairs) = pairs else { return Ok(None) };
        // The source copies rows to be queries itself.
        let queries = Vectors::from(MatrixView::<f32>::new(&[], rows.dim)?);
        let mut sink = InOrder { state: &mut state, table: &mut table, order: &order, alone: &mut alone };
        let numbers = QueryNumbers::Range(0..slots.len());
        let again = Pass::new(pairs, &queries, &mut sink).run(&numbers, shape.batch).await?;
        alone.extend(again.queries.into_iter().map(|number| order[number] as usize));
        alone.sort_unstable();
        alone.dedup();
        if !search_alone(rows, &with_own, (&slots, &alone), &mut table, id_of).await? {
            return Ok(None);
        }
        request.report(slots.len());
        table.into_neighbors().map(Some)
    })
}

/// Searches for some rows, each by itself. Tells whether they could be copied to be queries.
async fn search_alone(
    rows: &GpuRows,
    with_own: &SearchRequest<'_>,
    (slots, alone): (&[u32], &[usize]),
    table: &mut Table,
    id_of: IdOf<'_>,
) -> Result<bool> {
    let at_once = (PIECE_BYTES / rows.copied_layout().row_bytes()).max(1) as usize;
    for piece in alone.chunks(at_once) {
        let own: Vec<u32> = piece.iter().map(|&row| slots[row]).collect();
        let Some(copies) = Rows::copies(rows, &own).await? else { return Ok(false) };
        let found = nearest::search(rows, &Vectors::from(&copies), with_own).await?.neighbors;
        for ((&row, &slot), hits) in piece.iter().zip(&own).zip(&found) {
            let id = id_of(slot);
            let others = hits.iter().filter(|hit| hit.id != id);
            table.put(row, others.map(|hit| (key_of(hit.distance), hit.id)));
        }
    }
    Ok(true)
}

/// The slots of the rows that may be found, ascending.
fn found(rows: &GpuRows, request: &SearchRequest<'_>) -> Result<Vec<u32>> {
    let bits = request.allowed.map(|allowed| &allowed.bits).or(rows.alive.as_ref().map(|alive| &alive.bits));
    let mut slots = memory::with_room(request.scope().found(rows) as usize)?;
    match bits {
        Some(bits) => slots.extend(bits.ones_in_order().map(|slot| slot as u32)),
        None => slots.extend(0..rows.end() as u32),
    }
    Ok(slots)
}

/// Numbers of rows in an order whose every batch is like the whole, however they lie: steps of a golden section are spread evenly. The rows of
/// a batch are sorted by their thresholds, the largest first, so that tiles have rows of about the same.
fn in_order(thresholds: &[u32], batch: usize) -> Result<Vec<u32>> {
    let rows = thresholds.len() as u64;
    let is_coprime = |step: &u64| {
        let (mut one, mut other) = (*step, rows);
        while other > 0 {
            (one, other) = (other, one % other);
        }
        one == 1
    };
    let section = (u128::from(rows) * 0x9e37_79b9_7f4a_7c15) >> 64;
    let step = (section as u64..rows).find(is_coprime).unwrap_or(1);
    let mut order = memory::collect((0..rows as u32).map(|place| (u64::from(place) * step % rows) as u32))?;
    let by_threshold = |row: &u32| std::cmp::Reverse(thresholds[*row as usize]);
    order.par_chunks_mut(batch).for_each(|part| part.sort_unstable_by_key(by_threshold));
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_of_the_order_is_like_the_whole() {
        const BATCH: usize = 2048;
        for rows in [50_000, 49_999, 65_536, 1] {
            let thresholds: Vec<u32> = (0..rows as u32).map(|row| row * 7919 % 1000).collect();
            let order = in_order(&thresholds, BATCH).expect("memory");
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.iter().copied().eq(0..rows as u32));
            for batch in order.chunks_exact(BATCH) {
                assert!(batch.is_sorted_by_key(|&row| std::cmp::Reverse(thresholds[row as usize])));
                let low = batch.iter().filter(|&&row| (row as usize) < rows / 2).count();
                assert!(low.abs_diff(BATCH / 2) < 16, "{low} of {BATCH} are in the lower half of {rows}");
            }
        }
    }
}
