//! Vectors to search: from files, or made here.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args as ClapArgs;
use nearfield::io::VectorFile;

/// Where the vectors come from.
#[derive(Debug, ClapArgs)]
pub(super) struct Source {
    /// File of rows (npy, npz, fvecs, bvecs, fbin, f16bin, u8bin, i8bin); without it rows are made
    #[arg(long, value_name = "FILE", requires = "queries_file")]
    pub(super) rows_file: Option<PathBuf>,
    /// File of queries
    #[arg(long, value_name = "FILE", requires = "rows_file")]
    pub(super) queries_file: Option<PathBuf>,
    /// How many rows to make
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub(super) rows: usize,
    /// Elements of a made vector
    #[arg(long, default_value_t = 384)]
    pub(super) dim: usize,
    /// Seed of made vectors
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
}

/// Vectors in f32.
#[derive(Debug)]
pub(super) struct Vectors {
    pub(super) values: Vec<f32>,
    pub(super) dim: usize,
}

impl Vectors {
    pub(super) fn view(&self) -> anyhow::Result<nearfield::MatrixView<'_, f32>> {
        Ok(nearfield::MatrixView::new(&self.values, self.dim)?)
    }
}

impl Source {
    pub(super) fn rows(&self) -> anyhow::Result<Vectors> {
        match &self.rows_file {
            Some(file) => read(file),
            None => self.make("--rows", self.rows, self.seed),
        }
    }

    /// Up to `count` queries: the first of the file, or made like the rows.
    pub(super) fn queries(&self, count: usize) -> anyhow::Result<Vectors> {
        match &self.queries_file {
            Some(file) => {
                let mut queries = read(file)?;
                queries.values.truncate(count * queries.dim);
                Ok(queries)
            }
            None => self.make("--queries", count, self.seed.wrapping_add(0x5eed)),
        }
    }

    /// Vectors around 256 centres, normal noise as large as the centres, every norm between 0.5 and 2: neighbours
    /// that are nearer than others, and a metric that matters.
    fn make(&self, argument: &str, count: usize, seed: u64) -> anyhow::Result<Vectors> {
        let dim = self.dim;
        ensure!(dim > 0, "--dim: needed at least 1, given 0");
        ensure!(count > 0, "{argument}: needed at least 1, given 0");
        let mut values: Vec<f32> = vec![];
        let length = count.checked_mul(dim).filter(|&length| values.try_reserve_exact(length).is_ok());
        let length = length
            .with_context(|| format!("{argument}: {count} vectors of dim {dim} do not fit the memory"))?;
        values.resize(length, 0.0);
        let mut centres = vec![0.0; 256 * dim];
        let mut random = Random(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        centres.iter_mut().for_each(|value| *value = random.normal());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let piece = count.div_ceil(threads).max(1) * dim;
        std::thread::scope(|scope| {
            for (number, piece) in values.chunks_mut(piece).enumerate() {
                let centres = &centres;
                scope.spawn(move || {
                    let mut random = Random(seed ^ (number as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03));
                    for row in piece.chunks_exact_mut(dim) {
                        let centre = (random.next() % 256) as usize * dim;
                        for (value, middle) in row.iter_mut().zip(&centres[centre..centre + dim]) {
                            *value = middle + random.normal();
                        }
                        let norm = row.iter().map(|value| value * value).sum::<f32>().sqrt().max(1e-9);
                        let scale = (0.5 + 1.5 * random.unit()) / norm;
                        row.iter_mut().for_each(|value| *value *= scale);
                    }
                });
            }
        });
        Ok(Vectors { values, dim })
    }
}

/// So many numbers, around 1: their sum is about as large as its magnitudes, or an error relative to those would tell
/// nothing of a result.
pub(super) fn numbers(argument: &str, count: usize, seed: u64) -> anyhow::Result<Vec<f32>> {
    let mut values: Vec<f32> = vec![];
    let there = values.try_reserve_exact(count);
    there.with_context(|| format!("{argument}: {count} numbers do not fit the memory"))?;
    values.resize(count, 0.0);
    // Pieces of a fixed size, so that the numbers do not depend on the machine.
    let pieces: Vec<_> = values.chunks_mut(1 << 16).enumerate().collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = pieces.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let mut pieces = pieces.into_iter().peekable();
        while pieces.peek().is_some() {
            let some: Vec<_> = pieces.by_ref().take(share).collect();
            scope.spawn(move || {
                for (number, piece) in some {
                    let mut random = Random(seed ^ (number as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03));
                    piece.iter_mut().for_each(|value| *value = 1.0 + 0.5 * random.normal());
                }
            });
        }
    });
    Ok(values)
}

fn read(file: &PathBuf) -> anyhow::Result<Vectors> {
    let file = VectorFile::open(file)?;
    let dim = file.dim();
    Ok(Vectors { values: file.read_all()?.into_f32(), dim })
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): small, seedable, and the same everywhere.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in [0, 1).
    pub(super) fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 24) as f32
    }

    /// Nearly normal: four uniform numbers of 16 bits, summed.
    fn normal(&mut self) -> f32 {
        let bits = self.next();
        let sum: u64 = (0..4).map(|part| (bits >> (16 * part)) & 0xffff).sum();
        (sum as f32 / 65536.0 - 2.0) * 1.732
    }
}
