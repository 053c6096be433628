//! Assigns rows to lists: the nearest centroid of each row.

use std::ops::Range;

use crate::elements::HostVectors;
use crate::engine::device::vectors::Vectors;
use crate::engine::lists::centroids::Centroids;
use crate::engine::lists::coarse::{Coarse, CoarseBuffers, CoarseQueries};
use crate::engine::pass::{BufferVectors, Selection, encode_norms, reset_refused};
use crate::error::{Error, Result};
use crate::gpu::{Buffer, BufferSlice, Commands, scratch, usable, words};
use crate::kernels::distance_tile::TILE_QUERIES;
use crate::kernels::select_k::Selected;
use crate::kernels::{norms, value_of};
use crate::memory;

/// The list of a row, and the distance to its centroid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Assigned {
    pub(crate) list: u32,
    pub(crate) distance: f32,
}

impl Assigned {
    /// A row whose list is not known yet.
    pub(crate) const NOWHERE: Self = Self { list: u32::MAX, distance: f32::INFINITY };
}

impl From<&(u32, u32)> for Assigned {
    /// From the list and the key of the distance.
    fn from(&(list, key): &(u32, u32)) -> Self {
        Self { list, distance: value_of(key) }
    }
}

/// Rows to assign.
pub(crate) enum Assigning<'a> {
    /// f32 rows on the device with their norms.
    Known { rows: &'a Buffer, norms: &'a Buffer, count: usize },
    /// Rows whose values were not checked yet.
    New(Vectors<'a>),
}

impl Assigning<'_> {
    fn count(&self) -> usize {
        match self {
            Self::Known { count, .. } => *count,
            Self::New(source) => source.rows(),
        }
    }

    /// Scratch bytes of a row and of its norms, if they are not on the device.
    fn staged_bytes(&self, row_bytes: u64) -> [u64; 2] {
        match self {
            Self::Known { .. } => [0, 0],
            Self::New(Vectors::Device(_)) => [0, 8],
            Self::New(Vectors::Host(_)) => [row_bytes, 8],
        }
    }
}

scratch! {
    /// The scratch buffers of an assignment: those of the coarse step, and the results and rows of its batches.
    pub(crate) struct AssignBuffers {
        quantized, terms, scores, candidates, keys, ids, nearest_keys, nearest_lists, nearest_counts, survivors,
        rows_on_their_way, norms_on_their_way, refused,
    }
}

/// Rows of a tile. The rows of a tile are assigned together, and each batch and range of rows starts with a tile.
const TILE: usize = TILE_QUERIES as usize;

/// Scratch bytes of a row's results.
const RESULT_BYTES: u64 = 20;

/// The nearest of the centroids for each row, under the budget of the device.
pub(crate) async fn assign(centroids: &Centroids, rows: &Assigning<'_>) -> Result<Vec<Assigned>> {
    let mut assigned = memory::filled(rows.count(), Assigned::NOWHERE)?;
    assign_into(centroids, rows, &mut assigned).await?;
    Ok(assigned)
}

/// Writes the nearest of the centroids for each row. `assigned` has [`Assigned::NOWHERE`] for every row.
pub(super) async fn assign_into(
    centroids: &Centroids,
    rows: &Assigning<'_>,
    mut assigned: &mut [Assigned],
) -> Result<()> {
    let count = rows.count();
    let mut coarse = Coarse::new(centroids, 1, count as u64);
    let mut open: Vec<_> = std::iter::once(0..count).collect();
    while !open.is_empty() {
        let mut overflowed = vec![];
        for range in open {
            assign_range(centroids, rows, coarse, range, (&mut assigned, &mut overflowed)).await?;
        }
        coarse = coarse.without_overflow();
        open = overflowed;
    }
    match assigned.iter().position(|row| row.list >= centroids.lists) {
        None => Ok(()),
        Some(row) => Err(Error::internal(format!("row {row} has no nearest centroid"))),
    }
}

/// Two ranges with at most this many rows between them become one.
const NEAR: usize = 4096;

/// Appends a range of rows behind the others, with the rows between them if these are few: each range waits for the device, and rows that are
/// assigned twice have the same answer. Ranges start at multiples of a tile's queries.
fn push(ranges: &mut Vec<Range<usize>>, next: Range<usize>) {
    match ranges.last_mut() {
        Some(last) if last.end + NEAR >= next.start => last.end = next.end,
        _ => ranges.push(next),
    }
}

/// Assigns rows `range`. Tiles with a row that has too many candidates are not done, and go to `overflowed`.
async fn assign_range(
    centroids: &Centroids,
    rows: &Assigning<'_>,
    coarse: Coarse,
    range: Range<usize>,
    (assigned, overflowed): (&mut [Assigned], &mut Vec<Range<usize>>),
) -> Result<()> {
    let gpu = &centroids.gpu;
    let budget = gpu.options.budget_bytes;
    let layout = centroids.layout();
    let row_bytes = layout.row_bytes();
    let staged_bytes = rows.staged_bytes(row_bytes);
    // The results of many batches are read at once. They take a quarter of the scratch memory.
    let at_once = (usable(budget) / 4 / RESULT_BYTES / 128 * 128).max(128) as usize;
    for done in range.clone().step_by(at_once) {
        let part = at_once.min(range.end - done);
        let kept = part as u64 * RESULT_BYTES;
        let fit =
            |coarse: Coarse| coarse.fit(centroids, staged_bytes.iter().sum(), [budget, kept], part as u64);
        // A budget that is too small for a screen may suffice for the distances of all centroids.
        let fitting = match fit(coarse) {
            Err(_) if coarse.is_screened() => fit(coarse.exhaustive())?,
            fitting => fitting?,
        };
        let CoarseBuffers { quantized, terms, scores, candidates, keys, ids } = fitting.bytes(centroids);
        let (batch, results) = (u64::from(fitting.batch), part as u64);
        let bytes = AssignBuffers {
            quantized,
            terms,
            scores,
            candidates,
            keys,
            ids,
            nearest_keys: results * 4,
            nearest_lists: results * 8,
            nearest_counts: results * 4,
            survivors: results * 4,
            rows_on_their_way: staged_bytes[0] * batch,
            norms_on_their_way: staged_bytes[1] * batch,
            refused: 8,
        };
        let buffers = bytes.reserve(gpu).await?;
        let AssignBuffers { quantized, terms, scores, candidates, keys, ids, .. } = &*buffers;
        let coarse_buffers = CoarseBuffers { quantized, terms, scores, candidates, keys, ids };
        let AssignBuffers { nearest_keys, nearest_lists, nearest_counts, survivors, .. } = &*buffers;
        let AssignBuffers { rows_on_their_way, norms_on_their_way, refused, .. } = &*buffers;
        reset_refused(gpu, refused).await?;
        for start in (0..part).step_by(fitting.batch as usize) {
            let many = (part - start).min(fitting.batch as usize);
            let slice = |buffer, first: usize, each: u64| {
                BufferSlice::range(buffer, first as u64 * each, many as u64 * each)
            };
            let first = done + start;
            let (values, norms) = match rows {
                Assigning::Known { rows, norms, .. } => {
                    (slice(*rows, first, row_bytes), slice(*norms, first, 8))
                }
                Assigning::New(Vectors::Device(matrix)) => {
                    (slice(matrix.buffer()?, first, row_bytes), BufferSlice::all(norms_on_their_way))
                }
                Assigning::New(Vectors::Host(view)) => {
                    let part = view.slice(first..first + many);
                    let bits = part.as_numbers()?;
                    let part = bits.as_ref().map_or(part, HostVectors::from);
                    gpu.upload_rows(rows_on_their_way, 0, layout, part, &mut |_| ()).await?;
                    (BufferSlice::all(rows_on_their_way), BufferSlice::all(norms_on_their_way))
                }
            };
            let queries =
                CoarseQueries { vectors: BufferVectors { values, layout }, norms, count: many as u32 };
            let mut commands = Commands::new(gpu, None);
            if let Assigning::New(_) = rows {
                let range = ([0, many as u32], first as u32);
                encode_norms(&mut commands, queries.vectors, range, (norms, refused.into()))?;
            }
            let selection = Selection {
                k: 1,
                selected: Selected {
                    keys: slice(nearest_keys, start, 4),
                    ids: slice(nearest_lists, start, 8),
                },
                pitch: 1,
                counts: slice(nearest_counts, start, 4),
                spare: None,
            };
            let into = (selection, slice(survivors, start, 4));
            fitting.encode(&mut commands, centroids, queries, &coarse_buffers, into)?;
            commands.submit_piece().await?;
        }
        let ranges = [
            (refused, 0, 8),
            (survivors, 0, results * 4),
            (nearest_keys, 0, results * 4),
            (nearest_lists, 0, results * 8),
        ];
        let own = &mut assigned[done..done + part];
        let mut refusal = vec![];
        // Results are shown range after range, in pieces.
        let mut shown = [0; 4];
        let mut show = |number: usize, bytes: &[u8]| {
            let first = shown[number];
            shown[number] += bytes.len() / [8, 4, 4, 8][number];
            let own = own.iter_mut().skip(first);
            match number {
                0 => refusal.extend_from_slice(bytes),
                1 => {
                    for (row, survivors) in (done + first..).zip(words::<u32>(bytes)) {
                        if fitting.overflowed(survivors) {
                            let tile = row - (row - done) % TILE;
                            push(overflowed, tile..(tile + TILE).min(done + part));
                        }
                    }
                }
                2 => {
                    // Centroids are compared by squared L2 or cosine.
                    own.zip(words(bytes)).for_each(|(row, key)| row.distance = value_of(key));
                }
                _ => own.zip(words::<[u32; 2]>(bytes)).for_each(|(row, id)| row.list = id[0]),
            }
        };
        Commands::new(gpu, None).read_each(&ranges, &mut show).await?;
        norms::check("rows", &refusal)?;
    }
    Ok(())
}
