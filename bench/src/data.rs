//! Vectors to search, from files or from a recipe.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use half::{bf16, f16};
use nearfield::{Element, ElementKind, Ivf, Matrix, MatrixView};
use rayon::prelude::*;

use crate::generate::recipe::{Part, Recipe, Set};
use nearfield_cli::given::{arguments, files};
use nearfield_cli::memory;
use nearfield_testing::Random;

const SEED: u64 = 1;
/// Batches of queries that take turns in a case.
pub(super) const BATCHES: usize = 4;

/// Vectors in memory.
pub(crate) type View<'v> = MatrixView<'v, f32>;

/// Where the vectors come from.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Source {
    /// File of rows, of any format that `search` reads. Without it rows are generated
    #[arg(long = "rows", value_name = "FILE")]
    pub(super) rows_file: Option<PathBuf>,
    /// File of queries
    #[arg(long = "queries", value_name = "FILE", requires = "rows_file")]
    pub(super) queries_file: Option<PathBuf>,
    /// Recipe of generated vectors
    #[arg(
        long,
        value_enum,
        default_value = "clustered",
        value_name = "RECIPE",
        conflicts_with = "rows_file"
    )]
    pub(super) data: Recipe,
    /// Number of generated rows
    #[arg(long = "count", default_value_t = 100_000, value_name = "N", conflicts_with = "rows_file")]
    pub(super) rows: usize,
    /// Elements per generated vector
    #[arg(long, default_value_t = 384, conflicts_with = "rows_file")]
    pub(super) dim: usize,
    /// Seed of generated vectors
    #[arg(long, default_value_t = SEED, conflicts_with = "rows_file")]
    pub(super) seed: u64,
}

pub(super) struct Vectors {
    pub(super) values: Vec<f32>,
    pub(super) dim: usize,
}

/// Vectors as an index stores them.
pub(super) enum Stored<'v> {
    /// f32, as they are.
    Wide(View<'v>),
    Other(Matrix),
}

impl<'v> Stored<'v> {
    pub(super) fn new(vectors: View<'v>, kind: ElementKind) -> Result<Self> {
        if kind == ElementKind::F32 {
            return Ok(Self::Wide(vectors));
        }
        let mut stored = Matrix::with_room(kind, vectors.rows(), vectors.dim())?;
        stored.extend(vectors)?;
        Ok(Self::Other(stored))
    }

    pub(super) fn vectors(&self) -> nearfield::Vectors<'_> {
        match self {
            Self::Wide(view) => (*view).into(),
            Self::Other(matrix) => matrix.into(),
        }
    }
}

impl Vectors {
    /// Rounds the elements to numbers of this type. For integers each vector is scaled so that its largest element is the largest of the
    /// type; for u8, 0 is in the middle, and so it is for the numbers whose code are bytes of bits.
    pub(super) fn round_to(&mut self, kind: ElementKind) {
        let nearest = |value: f32| match kind {
            ElementKind::I8 => i8::nearest(value * 127.0).widen(),
            ElementKind::U8 => u8::nearest(127.5 + value * 127.5).widen(),
            ElementKind::F16 => f16::nearest(value).widen(),
            ElementKind::BF16 => bf16::nearest(value).widen(),
            // Gray's code: neighbouring numbers differ in one bit.
            ElementKind::Bits => {
                let number = u8::nearest(127.5 + value * 127.5);
                f32::from(number ^ number >> 1)
            }
            _ => value,
        };
        self.values.par_chunks_mut(self.dim).for_each(|vector| {
            let largest = vector.iter().fold(0.0f32, |most, x| most.max(x.abs()));
            let is_scaled = kind.is_integer() || kind == ElementKind::Bits;
            let scale = if is_scaled && largest > 0.0 { 1.0 / largest } else { 1.0 };
            vector.iter_mut().for_each(|x| *x = nearest(*x * scale));
        });
    }

    pub(super) fn view(&self) -> Result<View<'_>> {
        Ok(MatrixView::new(&self.values, self.dim)?)
    }
}

/// The requested or default numbers, each once and at most `there`.
pub(super) fn asked_or(asked: &[usize], usual: &[usize], there: usize) -> Vec<usize> {
    if !asked.is_empty() {
        return asked.to_vec();
    }
    let mut numbers: Vec<usize> = usual.iter().map(|&number| number.min(there.max(1))).collect();
    numbers.dedup();
    numbers
}

/// The requested lists of an `Ivf`, or as many as are recommended for its rows. Fails for more lists or probes than there can be.
pub(super) fn lists(asked: Option<usize>, probes: &[usize], rows: usize) -> Result<usize> {
    let lists = asked.unwrap_or_else(|| Ivf::recommend(rows));
    ensure!(lists <= rows, "--lists: needed at most {rows}, the number of rows, given {lists}");
    if let Some(given) = probes.iter().find(|&&probes| probes > lists) {
        bail!("--probes: needed 1 to {lists}, the number of lists, given {given}");
    }
    Ok(lists)
}

/// Up to four batches of `count` queries that take turns: a repeated batch would find its data in caches.
pub(super) fn batches(queries: View<'_>, count: usize) -> Vec<View<'_>> {
    let batches = (queries.rows() / count).clamp(1, BATCHES);
    (0..batches).map(|number| queries.slice(number * count..(number + 1) * count)).collect()
}

impl Source {
    /// The requested or default numbers of queries, at most what the file holds.
    pub(super) fn counts(&self, asked: &[usize], usual: &[usize]) -> Result<Vec<usize>> {
        Ok(asked_or(asked, usual, self.queries_there()?))
    }

    /// The rows, and queries for the largest of these counts, up to `wanted` if there are more.
    pub(super) fn both_at_least(&self, counts: &[usize], wanted: usize) -> Result<(Vectors, Vectors)> {
        let most = counts.iter().copied().max().unwrap_or(1);
        let (rows, queries) = (self.rows()?, self.queries(most.max(wanted.min(self.queries_there()?)))?);
        let (needed, given) = (rows.dim, queries.dim);
        ensure!(!rows.values.is_empty(), "--rows: needed at least one row, given none");
        ensure!(needed == given, "--queries: needed dim {needed}, as the rows have, given {given}");
        Ok((rows, queries))
    }

    /// The number of queries in the file. A recipe generates any number.
    pub(super) fn queries_there(&self) -> Result<usize> {
        let is_missing = self.rows_file.is_some() && self.queries_file.is_none();
        ensure!(!is_missing, "--queries: needed a file beside --rows, given none");
        Ok(self
            .queries_file
            .as_ref()
            .map(|file| files::open(file, "--queries"))
            .transpose()?
            .map_or(usize::MAX, |file| file.rows()))
    }

    /// The requested numbers of rows, or all rows.
    pub(super) fn sizes(&self, asked: &[usize], rows: View<'_>) -> Result<Vec<usize>> {
        let Some(&most) = asked.iter().max() else { return Ok(vec![rows.rows()]) };
        let there = rows.rows();
        ensure!(most <= there, "--sizes: needed at most {there}, as there are rows, given {most}");
        Ok(asked.to_vec())
    }

    /// The number of rows, and their dim.
    pub(super) fn shape(&self) -> Result<(usize, usize)> {
        match &self.rows_file {
            Some(file) => files::open(file, "--rows").map(|file| (file.rows(), file.dim())),
            None => Ok((self.rows, self.dim)),
        }
    }

    pub(super) fn rows(&self) -> Result<Vectors> {
        match &self.rows_file {
            Some(file) => read(file, "--rows"),
            None => self.make("--count", Part::Rows, self.rows),
        }
    }

    /// The first queries of the file, or generated ones.
    pub(super) fn queries(&self, count: usize) -> Result<Vectors> {
        match &self.queries_file {
            Some(file) => {
                let mut queries = read(file, "--queries")?;
                let there = queries.values.len() / queries.dim.max(1);
                ensure!(there >= count, "--batch: needed at most {there}, as the file has, given {count}");
                queries.values.truncate(count * queries.dim);
                Ok(queries)
            }
            None => self.make("--batch", Part::Queries, count),
        }
    }

    /// The name of the vectors: the files, or the recipe and its seed unless that is the default.
    pub(super) fn name(&self) -> String {
        // Without directories: the same files are the same data anywhere.
        let of = |file: &PathBuf| file.file_name().unwrap_or(file.as_os_str()).display().to_string();
        let files: Vec<String> =
            [&self.rows_file, &self.queries_file].into_iter().flatten().map(of).collect();
        if !files.is_empty() {
            return files.join(" with ");
        }
        let recipe = arguments::name(self.data);
        if self.seed == SEED { recipe } else { format!("{recipe}, seed {}", self.seed) }
    }

    /// [`name`](Self::name) of the first `size` rows. In some recipes they depend on the number of all rows.
    pub(super) fn name_of(&self, size: usize) -> String {
        let name = self.name();
        if self.rows_file.is_none() && size != self.rows { format!("{name} of {}", self.rows) } else { name }
    }

    fn make(&self, argument: &str, part: Part, count: usize) -> Result<Vectors> {
        ensure!(count > 0, "{argument}: needed at least 1, given 0");
        memory::ensure_fit(argument, count, &format!("vectors of dim {}", self.dim), self.dim)?;
        let set = Set::new(self.data, self.rows, self.dim, self.seed)?;
        Ok(Vectors { values: set.all(part, count, argument)?, dim: self.dim })
    }
}

/// Values around 1. Their sum is about as large as their magnitudes, so that an error relative to those means something.
pub(super) fn numbers(argument: &str, count: usize, seed: u64) -> Result<Vec<f32>> {
    memory::ensure_fit(argument, count, "numbers", 1)?;
    let mut values =
        memory::filled(Some(count), 0.0, || format!("{argument}: {count} numbers do not fit the memory"))?;
    // Pieces of a fixed size, so that the values do not depend on the machine.
    values.par_chunks_mut(1 << 16).enumerate().for_each(|(number, piece)| {
        let mut random = Random::new(seed ^ (number as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03));
        piece.iter_mut().for_each(|value| *value = 1.0 + 0.5 * random.normal());
    });
    Ok(values)
}

fn read(file: &Path, argument: &str) -> Result<Vectors> {
    let file = files::open(file, argument)?;
    let dim = file.dim();
    Ok(Vectors { values: file.read_all()?.into_f32(), dim })
}
