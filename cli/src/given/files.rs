//! Reads vector files into an index, and writes results into files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nearfield::io::read_row_ids;
use nearfield::{AddOptions, ElementKind, Error, HostVectors, Index, Matrix, Metric, SavedIndex};

use super::vectors::{Vectors, file_of};
use crate::terminal::progress::bar;

/// Bytes of rows in memory at a time, because a file may be larger than the memory.
pub const PIECE_BYTES: usize = 64 << 20;

/// Arguments of a comparison of queries with rows.
#[derive(Debug, clap::Args)]
pub struct Comparison {
    /// File of the rows, or - for the standard input
    #[arg(long, value_name = "FILE")]
    pub rows: PathBuf,
    /// File of the queries
    #[arg(long, value_name = "FILE")]
    pub queries: PathBuf,
    /// Neighbours per query
    #[arg(short, long, value_name = "N", default_value = "10", value_parser = crate::given::arguments::count)]
    pub k: usize,
    /// Metric: cosine, l2sq, l2 or ip (the inner product, negated)
    #[arg(long, value_name = "METRIC", default_value = "cosine", value_parser = crate::given::arguments::metric_of_numbers)]
    pub metric: Metric,
}

impl Comparison {
    pub fn open(&self) -> Result<[Vectors; 2]> {
        let rows = open(&self.rows, "--rows")?;
        let queries = open_queries(&self.queries, (rows.dim(), false), "--rows")?;
        Ok([rows, queries])
    }
}

/// Opens the file of vectors of numbers that an argument names.
pub fn open(path: &Path, argument: &str) -> Result<Vectors> {
    open_as(path, argument, Some(false))
}

/// Opens the file of vectors that an argument names, with `bits` as [`Vectors::open`] takes it.
pub fn open_as(path: &Path, argument: &str, bits: Option<bool>) -> Result<Vectors> {
    Vectors::open(path, bits).map_err(|error| match SavedIndex::read(path) {
        Ok(_) => anyhow!(
            "{argument}: needed a file of vectors, {} is an index, which `nearfield search` takes as --index-file",
            path.display()
        ),
        Err(_) => error.context(argument.to_owned()),
    })
}

/// Refuses a metric of bits without bits, and bits without such a metric.
pub fn check_bits(metric: Metric, bits: bool) -> Result<()> {
    match (Metric::OF_BITS.contains(&metric), bits) {
        (true, false) => bail!(
            "--metric {metric}: needed --bits, which `search` and `build` have for rows of packed bits or of bools"
        ),
        (false, true) => bail!("--bits: needed --metric hamming or jaccard, given {metric}"),
        _ => Ok(()),
    }
}

/// The error of a file that is no index. Vectors are called by their name.
pub fn no_index(error: Error, path: &Path) -> anyhow::Error {
    let vectors = path.is_file().then(|| Vectors::open(path, None).ok()).flatten();
    vectors.map_or_else(
        || error.into(),
        |vectors| {
            anyhow!(
                "needed an index that `nearfield build` saved, found vectors ({}), which search, build, kmeans and \
                 reduce take as --rows",
                describe(&vectors)
            )
        },
    )
}

/// Opens the file of `--queries`, which has the dim of another argument, and is of bits where that is.
pub fn open_queries(queries: &Path, (dim, bits): (usize, bool), argument: &str) -> Result<Vectors> {
    let queries = open_as(queries, "--queries", Some(bits))?;
    let given = queries.dim();
    ensure!(given == dim, "--queries: needed dim {dim}, as {argument} has, given dim {given}");
    Ok(queries)
}

/// The shape and the path of a file, and what reading it converts.
pub fn describe(file: &Vectors) -> String {
    let (rows, kind, path) = (file.rows(), file.kind(), file.path().display());
    let dim = file.dim() * if kind == ElementKind::Bits { 8 } else { 1 };
    let note = file.converted().map(|note| format!(" ({note})")).unwrap_or_default();
    format!("{rows} x {dim} {kind}, {path}{note}")
}

/// The time it took to fill an index.
#[derive(Debug, Default)]
pub struct Filled {
    pub load: Duration,
    /// Sending rows to the device, which checks them.
    pub upload: Duration,
}

/// Reads the file of `--row-ids`: one id for each of `count` rows or documents, as `one` says.
pub fn row_ids(path: &Path, count: usize, one: &str) -> Result<Vec<u64>> {
    let ids = read_row_ids(path).context("--row-ids")?;
    let (file, given) = (path.display(), ids.len());
    ensure!(given == count, "--row-ids {file}: needed {count} ids, one a {one}, given {given}");
    Ok(ids)
}

/// Rows as an index of this element type stores them: f32 may be rounded to f16, but no number to an integer.
/// `first` is the number of the first one.
pub fn stored(rows: Matrix, kind: ElementKind, first: usize) -> Result<Matrix> {
    if !kind.is_integer() || rows.kind() == kind {
        return Ok(rows.to_kind(kind));
    }
    let mut stored = Matrix::with_room(kind, rows.rows(), rows.dim())?;
    for row in 0..rows.rows() {
        let given = HostVectors::from(&rows).slice(row..row + 1);
        stored.extend(given)?;
        let (given, kept) = (given.to_f32(), HostVectors::from(&stored).slice(row..row + 1).to_f32());
        let misfit = given.iter().zip(kept).find(|(given, kept)| *given != kept);
        if let Some((value, _)) = misfit {
            let row = first + row;
            bail!("--elements: needed numbers that {kind} holds exactly, found {value} in row {row}");
        }
    }
    Ok(stored)
}

/// Adds all rows of a file to an empty index, piece after piece, under these ids or their numbers.
pub fn fill(index: &mut Index, file: &Vectors, ids: Option<&[u64]>) -> Result<Filled> {
    let bar = bar("upload", file.rows());
    let mut filled = Filled::default();
    let mut pieces = file.pieces(PIECE_BYTES);
    loop {
        let start = Instant::now();
        let Some(piece) = pieces.next() else {
            return Ok(filled);
        };
        let (first, rows) = piece.context("--rows")?;
        let rows = if index.quantizes() { rows } else { stored(rows, index.elements(), first)? };
        filled.load += start.elapsed();
        let start = Instant::now();
        let progress = |done| bar.set_position((first + done) as u64);
        let mut options = AddOptions::new().progress(&progress);
        options.ids = ids.map(|ids| &ids[first..first + rows.rows()]);
        let added = index.add_with(&rows, &options);
        added.map_err(|error| blame(error, "--rows", file, first as u64))?;
        filled.upload += start.elapsed();
    }
}

/// An error about vectors that start at row `first` of a file, with the file's row numbers.
pub fn blame(error: Error, argument: &str, file: &Vectors, first: u64) -> anyhow::Error {
    let is_of_file = matches!(error, Error::NotFinite { .. } | Error::NormOutOfRange { .. });
    let error = anyhow::Error::from(error.with_rows(|row| first + row));
    // Other errors do not concern the file.
    if is_of_file { error.context(format!("{argument} {}", file.path().display())) } else { error }
}

/// The name of the standard output, of arguments that can write there.
pub const STDOUT: &str = "-";

/// Reads the path of a file to write, with one of these endings. Checked before the work, so that a misspelt directory does
/// not cost a search.
pub fn output_path(text: &str, endings: &[&str]) -> Result<PathBuf> {
    let path = PathBuf::from(text);
    let fits = |ending: &OsStr| endings.iter().any(|one| ending.eq_ignore_ascii_case(one));
    let needed = || endings.iter().map(|one| format!(".{one}")).collect::<Vec<_>>().join(", ");
    ensure!(path.extension().is_some_and(fits), "needed a name that ends in {}", needed());
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(directory.is_dir(), "needed a directory that is there, {} is not", directory.display());
    // A loop of links is neither there nor absent.
    path.try_exists().with_context(|| format!("needed a file, given {}", path.display()))?;
    let is_file = !text.ends_with(std::path::is_separator) && (path.is_file() || !path.exists());
    ensure!(is_file, "needed a file, {} is none", path.display());
    Ok(path)
}

/// Refuses to replace an existing output without `force`.
pub fn refuse_existing(argument: &str, path: &Path, force: bool) -> Result<()> {
    ensure!(force || !path.exists(), "{argument}: needed a new file or --force, {} is there", path.display());
    Ok(())
}

/// Refuses outputs that would overwrite an input, another output, or, without `force`, an existing file; and `force` without outputs.
pub fn check_outputs(
    inputs: &[(&str, Option<&Path>)],
    outputs: &[(&str, Option<&Path>)],
    force: bool,
) -> Result<()> {
    refuse_overwriting(inputs, outputs)?;
    if force && outputs.iter().all(|(_, path)| path.is_none()) {
        let names: Vec<&str> = outputs.iter().map(|(argument, _)| *argument).collect();
        bail!("--force: needed a file to replace by {}, given none", names.join(" or "));
    }
    let mut given = outputs.iter().filter_map(|(argument, path)| Some((argument, (*path)?)));
    given.try_for_each(|(argument, path)| refuse_existing(argument, path, force))
}

/// Refuses an output that would overwrite an input or another output.
pub fn refuse_overwriting(inputs: &[(&str, Option<&Path>)], outputs: &[(&str, Option<&Path>)]) -> Result<()> {
    // An output need not exist yet, but its directory does.
    let whole = |path: &Path| {
        let path = file_of(path);
        path.canonicalize().ok().or_else(|| {
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            Some(directory.unwrap_or(Path::new(".")).canonicalize().ok()?.join(path.file_name()?))
        })
    };
    let mut seen: Vec<(&str, PathBuf)> =
        inputs.iter().filter_map(|(name, path)| Some((*name, whole((*path)?)?))).collect();
    for (name, given) in outputs {
        let Some((given, path)) = given.and_then(|given| Some((given, whole(given)?))) else { continue };
        if let Some((other, _)) = seen.iter().find(|(_, used)| *used == path) {
            bail!("{name}: needed a file of its own, {} is that of {other}", given.display());
        }
        seen.push((name, path));
    }
    Ok(())
}
