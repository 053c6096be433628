//! Quantised vectors: the device makes them, the host packs them.

use nearfield::internals::certificate::{Quantizing, Terms};
use nearfield::internals::kernels::{BLOCK_ROWS, metric_constant, quantize};
use nearfield::{Element, Metric};

use super::bench::{Bench, Buffer, two_rows};
use super::padded;
use nearfield_testing::Random;

/// Vectors on the device, with their norms and what `quantize` made of them.
pub(crate) struct Vectors {
    pub(crate) values: Buffer,
    /// Vectors of four elements in each.
    pub(crate) vectors: u32,
    /// Squared and inverse norm of each.
    pub(crate) norms: Buffer,
    pub(crate) integers: Buffer,
    pub(crate) terms: Buffer,
    pub(crate) planes: usize,
    pub(crate) granules: usize,
    /// Words of a plane.
    pub(crate) plane_words: usize,
}

/// The slot of each row, in a segment with this first slot and room for this many rows.
#[derive(Clone, Copy)]
pub(crate) struct Slots<'a> {
    pub(crate) list: &'a [u32],
    pub(crate) first: u32,
    pub(crate) rows: usize,
}

impl Vectors {
    /// Quantises the vectors from number `first` on, in place or to their slots.
    pub(crate) fn quantize<T: Element>(
        bench: Bench<'_>,
        metric: Metric,
        values: &[T],
        centre: &[f32],
        (first, planes): (usize, usize),
        slots: Option<Slots<'_>>,
    ) -> Self {
        let dim = centre.len();
        let count = values.len() / dim;
        let granules = quantize::granules(dim) as usize;
        let room = slots.map_or(count, |slots| slots.rows);
        let plane_words = quantize::plane_bytes(room as u64, dim) as usize / 4;
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
        // Integers are their own codes.
        let is_whole = T::KIND.is_integer();
        let quantizing = if is_whole { Quantizing::whole(metric, dim) } else { Quantizing::of(metric, dim) };
        let params = quantize::Params {
            vectors: made.vectors,
            granules: granules as u32,
            first_row: first as u32,
            end_row: count as u32,
            plane: plane_words as u32 / 4,
            first_slot: slots.map_or(0, |slots| slots.first),
            rows: slots.map_or(0, |slots| slots.rows as u32),
            whole: T::KIND.is_integer().into(),
            ..quantize::Params::of(quantizing)
        };
        bench.run(|recorder| {
            let (values, norms) = (made.values.slice(), made.norms.slice());
            recorder.norms(values, T::KIND, made.vectors, count as u32, norms, refused.slice())
        });
        let constants = [metric_constant(metric), planes as u32, slots.is_some().into()];
        let buffers = [&made.values, &made.norms, &centre_buffer, &made.integers, &made.terms, &list];
        let grid = two_rows((count - first).div_ceil(8));
        bench.dispatch_on(T::KIND, &quantize::KERNEL, &constants, &params, &buffers, grid);
        assert_eq!(bench.read(&refused), [u32::MAX; 2], "vectors that an index takes");
        made
    }

    pub(crate) fn read_terms(&self, bench: Bench<'_>) -> Vec<Terms> {
        bytemuck::cast_vec(bench.read_records::<4>(&self.terms))
    }
}

/// Vectors of integers: all extreme, of either sign, alternating, random.
pub(crate) fn integers(random: &mut Random, count: usize, dim: usize, levels: usize) -> Vec<Vec<i32>> {
    let most = levels as i32;
    let mut one = |number: usize| -> Vec<i32> {
        let mut random = || random.below(2 * levels + 1) as i32 - most;
        match number % 5 {
            0 => vec![most; dim],
            1 => vec![-most; dim],
            2 => (0..dim).map(|d| if d % 2 == 0 { most } else { -most }).collect(),
            _ => (0..dim).map(|_| random()).collect(),
        }
    };
    (0..count).map(&mut one).collect()
}

/// Vectors of bytes of eight bits: all bits, none, alternating, random.
pub(crate) fn bytes_of_bits(random: &mut Random, count: usize, dim: usize) -> Vec<Vec<i32>> {
    let mut one = |number: usize| match number % 5 {
        0 => vec![0xff; dim],
        1 => vec![0; dim],
        2 => vec![0x55; dim],
        _ => (0..dim).map(|_| random.below(256) as i32).collect(),
    };
    (0..count).map(&mut one).collect()
}

/// The number of bits that two vectors of [`bytes_of_bits`] both have.
pub(crate) fn common_bits(one: &[i32], other: &[i32]) -> u32 {
    one.iter().zip(other).map(|(a, b)| (a & b).count_ones()).sum()
}

/// A plane of vectors, as kernels take it, in as many whole blocks as they fill. `zero` is the byte that stands for 0: 128 of integers,
/// 0 of bits.
pub(crate) fn packed(vectors: &[Vec<i32>], dim: usize, zero: u8) -> Vec<u8> {
    let granules = quantize::granules(dim) as usize;
    let mut bytes = vec![zero; quantize::plane_bytes(vectors.len() as u64, dim) as usize];
    for (number, vector) in vectors.iter().enumerate() {
        for (dimension, &integer) in vector.iter().enumerate() {
            bytes[quantize::place(number, dimension, granules)] = (integer + i32::from(zero)) as u8;
        }
    }
    bytes
}
