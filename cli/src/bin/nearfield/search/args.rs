//! The arguments of `nearfield search`.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use nearfield::{Metric, Quantization};

use super::found::{ENDINGS, Format};
use nearfield_cli::given::arguments::{self, Threads};
use nearfield_cli::given::files;
use nearfield_cli::given::places::Places;
use nearfield_cli::memory;
use nearfield_cli::terminal::output;

const LONG: &str = "\
Find the rows of a file, or of a saved index, that are nearest to each query of another file.

Rows are sent to the device piece by piece, so a file may be larger than the memory; rows of f16, bf16, i8 and u8 stay what they are. The id of a row is its \
number in the file, from 0, unless --row-ids gives others. --index-file searches an index that `nearfield build` saved. The search \
time includes compiling the kernels.

Files of vectors are .npy, .npz, .safetensors, .hdf5 (FILE.npz:MEMBER names a member), .csv, .tsv, .jsonl, .fvecs, .bvecs, .fbin, .f16bin, .bf16bin, \
.u8bin and .i8bin, of any type of numbers, and in a program with the feature `parquet` columns of .parquet and .arrow (FILE.parquet:COLUMN); - is the standard input. docs/files.md has the rules.

The first answers are printed: for each query the ids and distances of its nearest rows, nearest first. --out writes all of them. \
Distances of l2sq are squared; those of cosine are 1 - cosine; those of ip are negated, so that smaller is nearer in every metric. With --bits, \
hamming counts the bits that differ, and jaccard is their share of the bits that either vector has.

--tokens makes documents of several rows each, which are their tokens (late interaction); an index of `build --tokens` has such. They are found by their \
MaxSim: the sum, over a query's tokens, of the largest inner product with a token of the document. Larger scores are nearer. --query-tokens says which \
rows of --queries are the tokens of each query; without it, all are those of one. --out writes scores in place of distances.

--json prints one object, in one line:
  rows, queries, dim  counts
  elements            f32, f16, bf16, i8, u8 or bits, how rows are stored
  metric, k           as requested; k is null with --radius
  radius              as requested (the text inf if it is infinite), or null
  probes              as requested or found for --recall, or null
  allowed_rows        rows that --filter allows, or null
  device              {name, backend, driver, kind}
  residency           where the rows were: device, host or mapped
  plan                how the search ran, as text
  load_seconds        reading the rows, or reading and sending the index
  upload_seconds      sending them to the device
  search_seconds      searching all queries
  queries_per_second  queries / search_seconds
  found               rows found, over all queries
  refined             candidates whose reported distance was computed, over all queries
  quantized           whether a copy of the rows in 8-bit integers was kept
  searched_again      queries with too many candidates, which were searched another way
  searched_exhaustively  those of them for which every row was computed
  searched_flat       queries for which all rows were searched, because their lists would have taken no less time
  converted           what was converted to read --rows, as text, or null
  out, ids, distances the written files, or null
among documents, with scores in place of distances, without rows, metric, radius, residency and what follows found, also:
  documents, tokens   counts; query_tokens are those of all queries
  allowed_documents   documents that --filter allows, or null
  bounded             documents whose scores were bounded, over all queries
  computed            documents whose scores were computed as they are reported, over all queries
and with --truth:
  recall_at           compared neighbours: k, or the truth's columns if these are fewer
  recall_by_id        part of the true ids that was found, or null for an empty truth
  recall_by_distance  part of the results no farther than the last true one + 1e-3, or null
  truth_distances     source of the true distances: \"file\"; \"file, negated\" for inner
                      products that are larger for nearer rows; or \"recomputed\" from the
                      true ids, if the file has none or those of another metric";

const USAGE: &str = "nearfield search <--rows <FILE>|--index-file <INDEX.nf>> --queries <FILE> [OPTIONS]";

const EXAMPLES: &str = "\
Examples:
  nearfield search --rows base.npy --queries query.npy -k 100 --out found.csv
  nearfield search --rows base.npy --queries query.npy --format jsonl | head -1
  nearfield search --rows base.npy --labels names.txt --queries query.npy --radius 0.3
  nearfield search --rows sift.fvecs --queries query.fvecs --metric l2sq --truth groundtruth.ivecs
  nearfield search --rows a.npz:train --queries a.npz:test --filter allowed.npy --device radeon
  nearfield search --rows ubinary.npy --queries query.npy --bits --metric jaccard
  nearfield search --rows large.fbin --queries query.fbin --device all --residency host
  nearfield search --rows large.fbin --queries query.fbin --memory 20GiB
  nearfield search --rows larger.fbin --queries query.fbin --residency mapped
  nearfield search --index-file index.nf --queries query.npy --recall 0.95
  nearfield search --rows tokens.npy --tokens offsets.npy --queries q.npy --out found.csv
  nearfield search --index-file docs.nf --queries q.npy --query-tokens offsets.npy -k 10";

#[derive(Debug, clap::Args)]
#[command(about = "Find the rows of a file, or of an index, nearest to the queries of another file", long_about = LONG, override_usage = USAGE, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// File of the rows to search
    #[arg(long, value_name = "FILE", required_unless_present = "index_file")]
    pub(super) rows: Option<PathBuf>,
    /// Index to search, saved by `nearfield build`
    #[arg(long, value_name = "INDEX.nf", conflicts_with_all = ["rows", "metric", "quantization"])]
    pub(super) index_file: Option<PathBuf>,
    /// File of the queries
    #[arg(long, value_name = "FILE")]
    pub(super) queries: PathBuf,
    /// The rows are the tokens of documents: a .npy of whole numbers, [documents + 1], where those of each begin, from 0 to the number of rows
    #[arg(long, value_name = "FILE", requires = "rows", conflicts_with_all = ["index_file", "metric", "bits", "quantization", "radius", "recall", "truth"])]
    pub(super) tokens: Option<PathBuf>,
    /// Among documents: where the tokens of each query begin, as --tokens has it; without, all queries are the tokens of one
    #[arg(long, value_name = "FILE")]
    pub(super) query_tokens: Option<PathBuf>,
    /// Neighbours per query
    #[arg(short, long, value_name = "N", default_value = "10", value_parser = arguments::count)]
    pub(super) k: usize,
    /// Find all rows within this distance instead of the k nearest
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = arguments::radius, conflicts_with_all = ["k", "probes", "truth", "ids", "distances"])]
    pub(super) radius: Option<f32>,
    /// Metric: cosine, l2sq, l2 or ip (the inner product, negated), and of bits hamming (with --bits the default) or jaccard
    #[arg(long, value_name = "METRIC", default_value = "cosine", default_value_if("bits", "true", "hamming"), value_parser = arguments::word::<Metric>)]
    pub(super) metric: Metric,
    /// Bytes (u8, or binary columns) of the files are eight bits each, and bools are bits, eight of which make an element
    #[arg(long, conflicts_with = "index_file")]
    pub(super) bits: bool,
    /// Ids of the rows, or documents, instead of their numbers: a .npy of whole numbers, one each
    #[arg(long, value_name = "FILE", conflicts_with_all = ["index_file", "truth"])]
    pub(super) row_ids: Option<PathBuf>,
    /// Names of the rows, or documents, a line each: line i, from 0, is for the one with id i, or for number i of --row-ids
    #[arg(long, value_name = "FILE")]
    pub(super) labels: Option<PathBuf>,
    /// Search only some rows, or documents: a .npy of their ids (whole numbers), or a mask (bool: element i is for id i)
    #[arg(long, value_name = "FILE")]
    pub(super) filter: Option<PathBuf>,
    /// Lists of an ivf index that a query probes, by default a 64th of them; of documents, that each token of a query probes, by default none: all
    /// documents are searched
    #[arg(long, value_name = "N", value_parser = arguments::count, conflicts_with = "rows")]
    pub(super) probes: Option<usize>,
    /// Probe as many lists of an ivf index as find this part of the neighbours, from 0 to 1: measured on up to 500 of the queries
    #[arg(long, value_name = "PART", allow_negative_numbers = true, value_parser = arguments::part, conflicts_with_all = ["rows", "probes", "radius"])]
    pub(super) recall: Option<f64>,
    /// Copy of the rows in 8-bit integers, which excludes most rows without changing the answers: auto, none or int8
    #[arg(long, value_name = "QUANTIZATION", default_value = "auto", value_parser = arguments::word::<Quantization>)]
    pub(super) quantization: Quantization,
    #[command(flatten)]
    pub(super) places: Places,
    #[command(flatten)]
    pub(crate) threads: Threads,
    /// Queries whose nearest rows are printed
    #[arg(long, value_name = "N", default_value_t = 3, conflicts_with = "json")]
    pub(super) show: usize,
    /// Write all that was found: a line a neighbour (.csv), a line a query (.jsonl), arrays ids and distances, of documents scores (.npz), or - for
    /// csv on the standard output
    #[arg(long, value_name = "OUT", value_parser = out_path)]
    pub(super) out: Option<PathBuf>,
    /// Write all that was found to the standard output, in place of the first answers and times
    #[arg(long, value_name = "FORMAT", value_enum, conflicts_with_all = ["json", "truth", "show"])]
    format: Option<Format>,
    /// Write ids, i64 [queries, k], to this npy, padded with -1
    #[arg(long, value_name = "OUT.npy", value_parser = |text: &str| files::output_path(text, &["npy"]))]
    pub(super) ids: Option<PathBuf>,
    /// Write distances, of documents scores, f32 [queries, k], to this npy, padded with NaN
    #[arg(long, visible_alias = "scores", value_name = "OUT.npy", value_parser = |text: &str| files::output_path(text, &["npy"]))]
    pub(super) distances: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    pub(super) force: bool,
    /// True ids (.npy, .npz with a member ids, .ivecs, .ibin, .bin): print recall@k
    #[arg(long, value_name = "FILE")]
    pub(super) truth: Option<PathBuf>,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub(super) json: bool,
}

/// The path of `--out`.
fn out_path(text: &str) -> Result<PathBuf> {
    if text == files::STDOUT { Ok(text.into()) } else { files::output_path(text, ENDINGS) }
}

impl Args {
    /// The lines that standard output gets in place of the report.
    pub(super) fn streamed(&self) -> Option<Format> {
        let is_stdout = self.out.as_deref() == Some(Path::new(files::STDOUT));
        self.format.or(is_stdout.then_some(Format::Csv))
    }

    /// The file of `--out`.
    pub(super) fn file(&self) -> Option<&Path> {
        self.out.as_deref().filter(|&path| path != Path::new(files::STDOUT))
    }

    /// Whether `--out` is a file of arrays, which have neither rows of different lengths nor names.
    fn is_npz(&self) -> bool {
        let ending = self.out.as_deref().and_then(Path::extension);
        ending.is_some_and(|ending| ending.eq_ignore_ascii_case("npz"))
    }

    /// Refuses a file of `--out` that cannot hold rows of different lengths, and names that nobody would see.
    pub(super) fn check(&self) -> Result<()> {
        let given = self.out.as_deref().unwrap_or(Path::new("")).display();
        let is_npz = self.is_npz();
        if self.streamed().is_some() {
            let needed = "--format: needed no file, which has the format of its ending, given --out";
            ensure!(self.file().is_none(), "{needed} {given}");
            for (argument, is_given) in [("--json", self.json), ("--truth", self.truth.is_some())] {
                ensure!(!is_given, "{argument}: needed a file of --out, as it prints itself, given {given}");
            }
        }
        ensure!(
            !is_npz || self.radius.is_none(),
            "--out: needed .csv or .jsonl with --radius, given {given}"
        );
        let are_named = (self.out.is_some() || self.format.is_some()) && !is_npz;
        if self.labels.is_some() && !are_named {
            ensure!(!self.json, "--labels: needed --out .csv or .jsonl with --json, which prints no names");
            ensure!(
                self.show > 0,
                "--labels: needed --out .csv or .jsonl, or --show of 1 or more, given --show 0"
            );
        }
        Ok(())
    }

    /// Refuses a k whose padded arrays do not fit the memory, before the search.
    pub(super) fn ensure_fit(&self, queries: usize) -> Result<()> {
        // Ids have eight bytes, distances four. Only an npz has both at once.
        let words = match (self.is_npz(), &self.ids, &self.distances) {
            (true, ..) => 3,
            (_, Some(_), _) => 2,
            (_, _, Some(_)) => 1,
            _ => return Ok(()),
        };
        let things = format!("results for each of {}", output::queries(queries));
        memory::ensure_fit("--k", self.k, &things, queries.saturating_mul(words))
    }
}
