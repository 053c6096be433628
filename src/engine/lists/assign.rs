//! Assigns rows to lists: the nearest centroid of each row.

use crate::engine::device::vectors::Vectors;
use crate::engine::lists::centroids::Centroids;
use crate::engine::lists::coarse::{Coarse, CoarseBuffers, CoarseQueries};
use crate::engine::pass::{BufferVectors, Selection, encode_norms, reset_refused};
use crate::engine::search::answers::distance_of;
use crate::error::{Error, Result};
use crate::gpu::{Buffer, BufferSlice, Commands, scratch, usable, words};
use crate::kernels::select_k::Selected;
use crate::kernels::{norms, value_of};

/// The list of a row, and the distance to its centroid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Assigned {
    pub(crate) list: u32,
    pub(crate) distance: f32,
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
        narrowed, terms, scores, candidates, keys, ids, nearest_keys, nearest_lists, nearest_counts, survivors,
        rows_on_their_way, norms_on_their_way, refused,
    }
}

/// Scratch bytes of a row's results.
const RESULT_BYTES: u64 = 20;

/// The nearest of the centroids for each row, under the budget of the device.
pub(crate) async fn assign(centroids: &Centroids, rows: &Assigning<'_>) -> Result<Vec<Assigned>> {
    let (gpu, count) = (&centroids.gpu, rows.count());
    let budget = gpu.options.budget_bytes;
    let layout = centroids.layout();
    let row_bytes = layout.row_bytes();
    let staged_bytes = rows.staged_bytes(row_bytes);
    let mut assigned = Vec::with_capacity(count);
    // The results of many batches are read at once. They take a quarter of the scratch memory.
    let at_once = (usable(budget) / 4 / RESULT_BYTES / 128 * 128).max(128) as usize;
    let mut coarse = Coarse::new(centroids, 1, count as u64);
    let mut done = 0;
    while done < count {
        let part = at_once.min(count - done);
        let kept = part as u64 * RESULT_BYTES;
        let fit =
            |coarse: Coarse| coarse.fit(centroids, staged_bytes.iter().sum(), [budget, kept], part as u64);
        // A budget that is too small for a screen may suffice for the distances of all centroids.
        let fitting = match fit(coarse) {
            Err(_) if coarse.is_screened() => fit(coarse.exhaustive())?,
            fitting => fitting?,
        };
        let CoarseBuffers { narrowed, terms, scores, candidates, keys, ids } = fitting.bytes(centroids);
        let (batch, results) = (u64::from(fitting.batch), part as u64);
        let bytes = AssignBuffers {
            narrowed,
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
        let AssignBuffers { narrowed, terms, scores, candidates, keys, ids, .. } = &*buffers;
        let coarse_buffers = CoarseBuffers { narrowed, terms, scores, candidates, keys, ids };
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
                    gpu.upload_rows(
                        rows_on_their_way,
                        0,
                        layout,
                        view.slice(first..first + many),
                        &mut |_| (),
                    )
                    .await?;
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
            commands.submit();
        }
        let ranges = [
            (nearest_keys, 0, results * 4),
            (nearest_lists, 0, results * 8),
            (survivors, 0, results * 4),
            (refused, 0, 8),
        ];
        let parts = Commands::new(gpu, None).read(&ranges).await?;
        norms::check("rows", &parts[3])?;
        if words::<u32>(&parts[2]).any(|survivors| fitting.overflowed(survivors)) {
            // These rows and all later ones are assigned from the distances of all centroids.
            coarse = coarse.exhaustive();
            continue;
        }
        let lists = words::<[u32; 2]>(&parts[1]).map(|id| id[0]);
        let metric = centroids.metric;
        let found = words::<u32>(&parts[0]).zip(lists);
        assigned.extend(found.map(|(key, list)| Assigned { list, distance: distance_of(metric, key) }));
        done += part;
    }
    match assigned.iter().position(|row| row.list >= centroids.lists) {
        None => Ok(assigned),
        Some(row) => Err(Error::internal(format!("row {row} has no nearest centroid"))),
    }
}
