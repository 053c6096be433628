//! Narrowed vectors: the device makes them, the host packs them.

use nearfield::internals::certificate::{Narrowing, Terms};
use nearfield::internals::kernels::{BLOCK_ROWS, narrow};
use nearfield::{BufferSlice, Element, Metric};

use super::bench::{Bench, Output, floats_of};
use super::padded;

/// Vectors on the device, with their norms and what `narrow` made of them.
pub(crate) struct Vectors {
    pub(crate) values: wgpu::Buffer,
    /// Vectors of four elements in each.
    pub(crate) vectors: u32,
    /// Squared and inverse norm of each.
    pub(crate) norms: Output,
    pub(crate) integers: Output,
    pub(crate) terms: Output,
    pub(crate) planes: usize,
    pub(crate) granules: usize,
    /// Words of a plane.
    pub(crate) plane_words: usize,
}

/// Which row lies in which slot of a segment with room for so many, when they are not narrowed in place.
#[derive(Clone, Copy)]
pub(crate) struct Slots<'a> {
    pub(crate) list: &'a [u32],
    pub(crate) first: u32,
    pub(crate) rows: usize,
}

/// Number of the metric, as kernels take it.
pub(crate) fn constant_of(metric: Metric) -> u32 {
    match metric {
        Metric::L2Squared | Metric::L2 => 0,
        Metric::Cosine => 1,
        Metric::InnerProduct => 2,
        other => unreachable!("no reference for {other:?}"),
    }
}

impl Vectors {
    /// Narrows the vectors from number `first` on.
    pub(crate) fn narrow<T: Element>(
        bench: Bench<'_>,
        metric: Metric,
        values: &[T],
        centre: &[f32],
        first: usize,
        planes: usize,
    ) -> Self {
        Self::narrow_to(bench, metric, values, centre, first, planes, None)
    }

    /// The same to their slots.
    pub(crate) fn narrow_to<T: Element>(
        bench: Bench<'_>,
        metric: Metric,
        values: &[T],
        centre: &[f32],
        first: usize,
        planes: usize,
        slots: Option<Slots<'_>>,
    ) -> Self {
        let dim = centre.len();
        let count = values.len() / dim;
        let granules = narrow::granules(dim) as usize;
        let room = slots.map_or(count, |slots| slots.rows);
        let plane_words = narrow::plane_bytes(room as u64, dim) as usize / 4;
        let blocks = room.max(count).next_multiple_of(BLOCK_ROWS as usize);
        let made = Self {
            values: bench.input(&padded(values, dim)),
            vectors: dim.div_ceil(4) as u32,
            norms: bench.output(2 * blocks),
            integers: bench.output(planes * plane_words),
            terms: bench.output(4 * blocks),
            planes,
            granules,
            plane_words,
        };
        let centre_buffer = bench.input(&padded(centre, dim));
        let refused = bench.filled(&[u32::MAX; 2]);
        let list = bench.input(slots.map_or(&[], |slots| slots.list));
        let params = narrow::Params {
            vectors: made.vectors,
            granules: granules as u32,
            first_row: first as u32,
            end_row: count as u32,
            plane: plane_words as u32 / 4,
            first_slot: slots.map_or(0, |slots| slots.first),
            rows: slots.map_or(0, |slots| slots.rows as u32),
            ..narrow::Params::of(Narrowing::of(metric, dim))
        };
        bench.run(|recorder| {
            recorder.norms(
                BufferSlice::all(&made.values),
                T::KIND,
                made.vectors,
                count as u32,
                made.norms.slice(),
                refused.slice(),
            )?;
            let buffers = [
                BufferSlice::all(&made.values),
                made.norms.slice(),
                BufferSlice::all(&centre_buffer),
                made.integers.slice(),
                made.terms.slice(),
                BufferSlice::all(&list),
            ];
            let constants = [constant_of(metric), planes as u32, slots.is_some().into()];
            let workgroups = ((count - first) as u32).div_ceil(8);
            // Two rows of workgroups, the second of which may be one too long.
            let grid = [workgroups.div_ceil(2), 2];
            recorder.dispatch(&narrow::KERNEL, T::KIND, &constants, &params, &buffers, grid)
        });
        assert_eq!(bench.read(&refused), [u32::MAX; 2], "vectors that an index takes");
        made
    }

    pub(crate) fn read_terms(&self, bench: Bench<'_>) -> Vec<Terms> {
        let of = |four: &[f32]| Terms { scale: four[0], length: four[1], residual: four[2], bias: four[3] };
        floats_of(&bench.read(&self.terms)).chunks_exact(4).map(of).collect()
    }
}

/// A plane of integer vectors, as kernels take it, in as many whole blocks as they fill.
pub(crate) fn packed(vectors: &[Vec<i32>], dim: usize) -> Vec<u8> {
    let granules = narrow::granules(dim) as usize;
    let mut bytes = vec![128; narrow::plane_bytes(vectors.len() as u64, dim) as usize];
    for (number, vector) in vectors.iter().enumerate() {
        for (dimension, &integer) in vector.iter().enumerate() {
            bytes[narrow::place(number, dimension, granules)] = (integer + 128) as u8;
        }
    }
    bytes
}
