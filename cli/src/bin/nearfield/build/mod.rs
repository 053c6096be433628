//! `nearfield build`: builds an index of the rows of a file, and saves it.

mod documents;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use nearfield::{Device, ElementKind, Flat, HostVectors, Index, Ivf, Matrix, Metric, Quantization};
use serde_json::json;

use nearfield_cli::given::arguments::{self, Threads};
use nearfield_cli::given::device;
use nearfield_cli::given::files::{self, Filled};
use nearfield_cli::given::places::Places;
use nearfield_cli::given::vectors::Vectors;
use nearfield_cli::terminal::output;
use nearfield_cli::terminal::progress::bar;

/// Training rows per list, as in the library.
const ROWS_A_LIST: usize = 64;

const LONG: &str = "\
Build an index of the rows of a file, and save it to a file that `nearfield search --index-file` reads.

Rows are read piece by piece, so a file may be larger than the memory. The id of a row is its number in the file, from 0, unless --row-ids gives others. The index is a \
safetensors file, described in docs/files.md, which appears under its name when it is complete.

--tokens makes an index of documents of several rows each, which are their tokens: `nearfield search` finds those of largest MaxSim. --row-ids are then \
one per document, and --lists puts the tokens into lists for `search --probes`.

--json prints one object, in one line:
  rows, dim                of the file
  elements                 f32, f16, bf16, i8, u8 or bits, how rows are stored
  quantises                whether rows of other types are quantised when they are added (--store)
  index, lists, metric     as requested; lists is null for flat
  device                   {name, backend, driver, kind}
  residency                where the rows were: device, host or mapped
  load_seconds             reading the rows
  train_seconds            reading the training rows and training the centroids; 0 for flat
  add_seconds              sending the rows to the device and into their lists
  save_seconds             writing the index
  out, bytes               the written file, and its size
of documents the same without rows, metric, quantises and residency, and with
  documents, tokens        counts
  index                    multivector
  train_seconds            putting the tokens into lists; 0 without";

const EXAMPLES: &str = "\
Examples:
  nearfield build --rows base.npy --index flat --metric cosine --out index.nf
  nearfield build --rows base.npy --index ivf --lists 4096 --iterations 20 --out index.nf
  nearfield build --rows base.npy --row-ids ids.npy --elements f16 --out index.nf
  nearfield build --rows ubinary.npy --bits --metric hamming --out index.nf
  nearfield build --rows base.npy --store i8 --out index.nf
  nearfield build --rows tokens.npy --tokens offsets.npy --out docs.nf
  nearfield build --rows large.fbin --memory 20GiB --out index.nf
  nearfield search --index-file index.nf --queries query.npy -k 10 --probes 16";

/// A kind of index.
#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Kind {
    /// Exact: every search compares all rows
    Flat,
    /// Approximate: a search compares the rows of the nearest lists
    Ivf,
}

#[derive(Debug, clap::Args)]
#[command(about = "Build an index of the rows of a file, and save it", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// File of the rows
    #[arg(long, value_name = "FILE")]
    rows: PathBuf,
    /// The rows are the tokens of documents: a .npy of whole numbers, [documents + 1], where those of each begin, from 0 to the number of rows
    #[arg(long, value_name = "FILE", conflicts_with_all = ["index", "metric", "bits", "store", "iterations", "seed", "quantization"])]
    tokens: Option<PathBuf>,
    /// Kind of index
    #[arg(long, value_enum, value_name = "INDEX", default_value = "flat")]
    index: Kind,
    /// Lists of an ivf index; by default about four times the square root of the number of rows. Of documents: lists of tokens;
    /// by default none
    #[arg(long, value_name = "N", value_parser = arguments::count)]
    lists: Option<usize>,
    /// Metric: cosine, l2sq, l2 or ip (the inner product, negated), and of bits hamming (with --bits the default) or jaccard
    #[arg(long, value_name = "METRIC", default_value = "cosine", default_value_if("bits", "true", "hamming"), value_parser = arguments::word::<Metric>)]
    metric: Metric,
    /// Bytes (u8, or binary columns) of the files are eight bits each, and bools are bits, eight of which make an element
    #[arg(long)]
    bits: bool,
    /// Ids of the rows, or documents, instead of their numbers: a .npy of whole numbers, one each
    #[arg(long, value_name = "FILE")]
    row_ids: Option<PathBuf>,
    /// How rows are stored, f32, f16, bf16, i8, u8 or bits (with --bits); by default as in the file. f16 and bf16 take half the memory, and round f32 rows;
    /// i8 and u8 take a quarter, and refuse rows of other numbers than their integers
    #[arg(long, value_name = "TYPE", value_parser = arguments::word::<ElementKind>)]
    elements: Option<ElementKind>,
    /// Quantise the rows: to i8, with the metric cosine, each by its largest magnitude, or to f16 or bf16. What that loses is in
    /// docs/performance.md
    #[arg(long, value_name = "TYPE", conflicts_with = "elements", value_parser = arguments::word::<ElementKind>)]
    store: Option<ElementKind>,
    /// Iterations of k-means that train the lists of an ivf index; by default 10
    #[arg(long, value_name = "N", value_parser = arguments::count)]
    iterations: Option<usize>,
    /// Seed of the choices of k-means; by default 1
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Copy of the rows in 8-bit integers, which excludes most rows without changing the answers: auto, none or int8
    #[arg(long, value_name = "QUANTIZATION", default_value = "auto", value_parser = arguments::word::<Quantization>)]
    quantization: Quantization,
    #[command(flatten)]
    places: Places,
    /// File for the index
    #[arg(long, value_name = "OUT.nf", value_parser = |text: &str| files::output_path(text, &["nf"]))]
    out: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let inputs = [
        ("--rows", Some(args.rows.as_path())),
        ("--tokens", args.tokens.as_deref()),
        ("--row-ids", args.row_ids.as_deref()),
    ];
    files::check_outputs(&inputs, &[("--out", Some(&args.out))], args.force)?;
    if let Some(offsets) = &args.tokens {
        return documents::run(args, offsets);
    }
    files::check_bits(args.metric, args.bits)?;
    if let (true, Some(store)) = (args.bits, args.store) {
        anyhow::bail!("--store: needed none with --bits, given {store}");
    }
    if let (true, Some(elements)) = (args.bits, args.elements) {
        ensure!(elements == ElementKind::Bits, "--elements: needed bits with --bits, given {elements}");
    }
    let rows = files::open_as(&args.rows, "--rows", Some(args.bits))?;
    let ids = args.row_ids.as_deref().map(|ids| files::row_ids(ids, rows.rows(), "row")).transpose()?;
    let of_lists = [
        ("--lists", args.lists.is_some()),
        ("--iterations", args.iterations.is_some()),
        ("--seed", args.seed.is_some()),
    ];
    if let (Kind::Flat, Some((argument, _))) = (args.index, of_lists.iter().find(|(_, given)| *given)) {
        anyhow::bail!("{argument}: needed --index ivf, given flat");
    }
    let lists = match args.index {
        Kind::Flat => None,
        Kind::Ivf => Some(args.lists.unwrap_or_else(|| Ivf::recommend(rows.rows()))),
    };
    if let Some(lists) = lists {
        let most = rows.rows();
        ensure!(
            most > 0,
            "--rows: needed at least one row for an ivf index, {} has none",
            rows.path().display()
        );
        ensure!(lists <= most, "--lists: needed 1 to {most}, the number of rows, given {lists}");
    }
    let devices = args.places.open()?;
    let mapped = args.places.mapped(Some(rows.stored()))?;
    let is_mapped = mapped.is_some();
    if is_mapped {
        let other = [
            ("--row-ids", args.row_ids.is_some()),
            ("--elements", args.stored(&rows) != rows.kind()),
            ("--store", args.store.is_some()),
        ];
        if let Some((argument, _)) = other.iter().find(|(_, given)| *given) {
            anyhow::bail!("--residency mapped: needed rows as the file has them, given {argument}");
        }
    }
    let start = Instant::now();
    let mut index = match lists {
        None => {
            let builder = Flat::builder(&devices, args.metric, rows.dim());
            let builder = match args.store {
                Some(kind) => builder.store(kind),
                None => builder.elements(args.stored(&rows)),
            };
            let builder = builder.distribution(args.places.distribution).residency(args.places.residency);
            let builder = match mapped {
                Some(file) => builder.mapped(file),
                None => builder,
            };
            let built = builder.capacity(rows.rows()).quantization(args.quantization).build();
            Index::from(if is_mapped { built.context("--rows")? } else { built? })
        }
        Some(lists) => train(args, &devices, &rows, (lists, mapped))?.into(),
    };
    let train = if lists.is_some() { start.elapsed() } else { Default::default() };
    let filled = match is_mapped {
        true => Filled { load: start.elapsed() - train, upload: Duration::ZERO },
        false => files::fill(&mut index, &rows, ids.as_deref())?,
    };
    let start = Instant::now();
    index.save(&args.out).context("--out")?;
    let save = start.elapsed();
    let bytes = fs::metadata(&args.out).with_context(|| format!("--out {}", args.out.display()))?.len();

    let kind = index.elements().name();
    let record = json!({
        "rows": index.len(), "dim": rows.dim(), "elements": kind, "quantises": index.quantizes(), "index": arguments::name(args.index),
        "lists": lists, "metric": args.metric.name(), "device": device::to_json(devices[0].adapter()),
        "residency": index.residency().to_string(),
        "load_seconds": filled.load.as_secs_f64(), "train_seconds": train.as_secs_f64(),
        "add_seconds": filled.upload.as_secs_f64(), "save_seconds": save.as_secs_f64(), "out": args.out, "bytes": bytes,
    });
    let of_lists =
        lists.map(|lists| format!(", {}", output::counted(lists, "list", "lists"))).unwrap_or_default();
    let mut lines = vec![
        ("rows", files::describe(&rows)),
        ("device", device::places(&devices)),
        ("metric", args.metric.to_string()),
        ("index", arguments::name(args.index) + &of_lists),
        ("load", output::time(filled.load)),
        ("add", output::time(filled.upload)),
        ("save", output::time(save)),
        ("wrote", format!("{}, {}", args.out.display(), output::bytes(bytes))),
    ];
    if lists.is_some() {
        lines.insert(4, ("train", output::time(train)));
    }
    output::print(args.json, &record, &lines)
}

impl Args {
    /// The elements of the index.
    fn stored(&self, rows: &Vectors) -> ElementKind {
        self.elements.unwrap_or_else(|| rows.kind())
    }
}

/// Trains an index without rows on a sample of the file.
fn train(
    args: &Args,
    devices: &[Device],
    rows: &Vectors,
    (lists, mapped): (usize, Option<&Path>),
) -> Result<Ivf> {
    let wanted = lists.saturating_mul(ROWS_A_LIST).min(rows.rows());
    // Numbers that the index does not hold are named when its rows come in.
    let sample = sample(rows, wanted)?.to_kind(args.stored(rows));
    let iterations = args.iterations.unwrap_or(ITERATIONS);
    let bar = bar("train", iterations);
    let progress = |iteration: usize, _: f64| bar.set_position(iteration as u64);
    let builder = Ivf::builder(devices, args.metric, rows.dim())
        .lists(lists)
        .distribution(args.places.distribution)
        .residency(args.places.residency)
        .capacity(rows.rows())
        .quantization(args.quantization)
        .kmeans(|means| means.iterations(iterations).seed(args.seed.unwrap_or(1)).progress(&progress));
    let builder = match args.store {
        Some(kind) => builder.store(kind),
        None => builder.elements(args.stored(rows)),
    };
    let builder = match mapped {
        Some(file) => builder.mapped(file),
        None => builder,
    };
    let trained = builder.train(&sample);
    // Errors name a row by its number in the file, not in the sample.
    let number = |row: u64| sampled(rows, wanted, row as usize) as u64;
    trained.map_err(|error| files::blame(error.with_rows(number), "--rows", rows, 0))
}

/// The number in the file of a row of a sample of `wanted` rows.
fn sampled(file: &Vectors, wanted: usize, number: usize) -> usize {
    (number as u128 * file.rows() as u128 / wanted as u128) as usize
}

/// Rounds of k-means, as in the library.
const ITERATIONS: usize = 10;

/// Reads `wanted` rows, spread over the file, in one pass.
fn sample(file: &Vectors, wanted: usize) -> Result<Matrix> {
    let bar = bar("sample", file.rows());
    let about = || format!("--rows: no memory for a sample of {wanted} rows");
    let mut sample = Matrix::with_room(file.kind(), wanted, file.dim()).with_context(about)?;
    let mut numbers = (0..wanted).map(|number| sampled(file, wanted, number)).peekable();
    for piece in file.pieces(files::PIECE_BYTES) {
        let (first, rows) = piece.context("--rows")?;
        let end = first + rows.rows();
        while let Some(number) = numbers.next_if(|&number| number < end) {
            sample.extend(HostVectors::from(&rows).slice(number - first..number - first + 1))?;
        }
        bar.set_position(end as u64);
    }
    Ok(sample)
}
