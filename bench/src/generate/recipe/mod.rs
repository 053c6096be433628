//! Recipes: seeded sets of vectors of every kind that a search may meet.
//!
//! A set is made in pieces of [`PIECE`] vectors, each from its own random numbers, so that its bytes do not depend on the
//! number of threads. Nor do they depend on the machine: only sums, differences, products, quotients and square roots of f32
//! and f64 are used, in a fixed order. IEEE 754 defines their rounding, and Rust never fuses two of them. A matrix product
//! from a library would be faster, but its rounding depends on the processor.

mod clusters;
mod embedding;
mod hard;
mod make;
mod rotation;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use make::{Maker, Setting};
use nearfield_cli::memory;
use nearfield_testing::Random;

pub(crate) use make::{PIECE, Part};

/// The recipes. Most give norms that every metric accepts, and values that f16 holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Recipe {
    /// Every number uniform in [-1, 1)
    Uniform,
    /// Around 256 centres, normal noise as large as the centres, norms from 0.5 to 2
    Clustered,
    /// Around 1,000 centres in 32 dimensions, projected, plus noise of 0.1; norms 1. Nearly of rank 32
    LowRank,
    /// Like embeddings of texts: clusters, families of near-duplicates, a spectrum that falls as theirs does (half of
    /// the variance in 11 % of the dimensions, 95 % in 58 %), random pairs at cosine 0.17; norms 1
    Embedding,
    /// Whole numbers from -3 to 3: sums are exact, many distances are equal
    Integer,
    /// Stretches of 512 rows of `sorted`, `duplicates`, `outlier`, `norms` and `equal` in turn
    Adversarial,
    /// 99 % of the rows are copies of one of 8 vectors
    Duplicates,
    /// From far to near for every query, but for swaps of rows that are close in the file; norms near 1
    Sorted,
    /// `embedding`, and 16 added in one dimension
    Outlier,
    /// Norms from 2^-49 to 2^49
    Norms,
    /// All rows the same; queries are uniform
    Equal,
}

/// A set: a recipe with its sizes and its seed.
pub(crate) struct Set {
    setting: Setting,
    maker: Maker,
}

impl Recipe {
    pub(crate) fn fits_f16(self) -> bool {
        !matches!(self, Self::Norms | Self::Adversarial)
    }
}

impl Set {
    /// A set with this number of rows, and any number of queries, which follow the same recipe with another seed.
    ///
    /// A larger set starts with the same rows, except for `embedding` (whose number of families depends on the rows),
    /// `sorted`, and recipes that contain these.
    pub(crate) fn new(recipe: Recipe, rows: usize, dim: usize, seed: u64) -> Result<Self> {
        ensure!(dim > 0, "--dim: needed at least 1, given 0");
        ensure!(rows > 0, "--rows: needed at least 1, given 0");
        // Makers hold some thousand values per dimension.
        ensure!(dim <= 1 << 20, "--dim: needed at most {}, given {dim}", 1 << 20);
        let setting = Setting { dim, rows, seed };
        let maker = match recipe {
            Recipe::Uniform => clusters::uniform(),
            Recipe::Clustered => clusters::clustered(setting),
            Recipe::LowRank => clusters::low_rank(setting),
            Recipe::Embedding => embedding::maker(setting),
            Recipe::Integer => clusters::integer(),
            Recipe::Adversarial => hard::mix(setting),
            Recipe::Duplicates => hard::duplicates(setting),
            Recipe::Sorted => hard::sorted(setting),
            Recipe::Outlier => hard::outlier(setting),
            Recipe::Norms => hard::norms(setting),
            Recipe::Equal => hard::equal(setting),
        };
        Ok(Self { setting, maker })
    }

    pub(crate) fn dim(&self) -> usize {
        self.setting.dim
    }

    /// Fills `vectors`, `[n, dim]`, with those from number `first` on, a multiple of [`PIECE`].
    pub(crate) fn fill(&self, part: Part, first: usize, vectors: &mut [f32]) {
        let pieces = vectors.par_chunks_mut(PIECE * self.dim()).enumerate();
        pieces.for_each(|(number, piece)| self.piece(part, first, number, piece));
    }

    /// [`fill`](Self::fill), rounded to f16.
    pub(crate) fn fill_f16(&self, part: Part, first: usize, vectors: &mut [f16]) {
        vectors.par_chunks_mut(PIECE * self.dim()).enumerate().for_each(|(number, piece)| {
            let mut wide = vec![0.0; piece.len()];
            self.piece(part, first, number, &mut wide);
            piece.convert_from_f32_slice(&wide);
        });
    }

    /// All vectors of a part, `[count, dim]`. `argument` names the argument that says how many.
    pub(crate) fn all(&self, part: Part, count: usize, argument: &str) -> Result<Vec<f32>> {
        let dim = self.dim();
        let mut vectors = memory::filled(count.checked_mul(dim), 0.0, || {
            format!("{argument}: {count} vectors of dim {dim} do not fit the memory")
        })?;
        self.fill(part, 0, &mut vectors);
        Ok(vectors)
    }

    fn piece(&self, part: Part, first: usize, number: usize, piece: &mut [f32]) {
        debug_assert!(first.is_multiple_of(PIECE), "pieces start where they always do");
        let first = first + number * PIECE;
        let kind = match part {
            Part::Rows => 1,
            Part::Queries => 2,
        };
        let mut random = Random::of(self.setting.seed, kind, (first / PIECE) as u64);
        (self.maker)(part, first, &mut random, piece);
    }
}
