//! `nearfield bench peers`: other libraries at the same work, by the script cli/src/bench/peers/peers.py.

mod place;
mod script;
mod text;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Error, Result};
use clap::{Args as ClapArgs, ValueEnum};
use nearfield::{Ivf, Metric};

use super::data::Source;
use super::run::Run;
use super::select::Shape;
use place::Place;
use script::Script;

/// The interpreter, where nobody names one.
pub(super) const PYTHON: &str = "python3";
/// Numbers of queries, where nobody says.
const QUERIES: [usize; 2] = [1, 1024];
/// Queries that are made at least: the script checks 100 of them, in batches of any size.
const LEAST_QUERIES: usize = 200;

/// Arguments of `nearfield bench peers`, without those that other suites have too.
#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    #[command(flatten)]
    source: Source,
    /// What to time
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "exact,ivf,select,reduce",
        value_name = "NAME,…"
    )]
    suites: Vec<Suite>,
    /// Whom to time
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "numpy,faiss-cpu,usearch,torch,cuvs,faiss-gpu",
        value_name = "NAME,…"
    )]
    peers: Vec<Peer>,
    /// Numbers of queries, a case each; 1,1024, or as many as a file has
    #[arg(long, value_delimiter = ',', value_name = "Q,…", value_parser = crate::search::count)]
    queries: Vec<usize>,
    /// Neighbours wanted, a case each; ivf takes the first. 10, or as many as there are rows
    #[arg(short, long, value_delimiter = ',', value_name = "K,…", value_parser = crate::search::count)]
    k: Vec<usize>,
    /// Metric: l2sq, l2, cosine, ip
    #[arg(long, default_value = "cosine")]
    metric: Metric,
    /// Lists; by default as many as bench ivf takes
    #[arg(long, value_name = "N", value_parser = crate::search::count)]
    lists: Option<usize>,
    /// Lists that a query probes, a case each; 1,4,16,64, or as many as there are lists
    #[arg(long, value_delimiter = ',', value_name = "P,…", value_parser = crate::search::count)]
    probes: Vec<usize>,
    /// Rows and elements of each to select from, a case each
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "20000x500,1000x10000,100x100000,10x1000000",
        value_name = "ROWSxLENGTH,…"
    )]
    shapes: Vec<Shape>,
    /// Elements selected of each row, a case each
    #[arg(long, value_delimiter = ',', default_value = "1,16,256", value_name = "K,…", value_parser = crate::search::count)]
    select_k: Vec<usize>,
    /// Numbers to reduce, a case each
    #[arg(long, value_delimiter = ',', default_value = "67108864", value_name = "N,…", value_parser = crate::search::count)]
    length: Vec<usize>,
    /// The Python that has the libraries
    #[arg(long, default_value = PYTHON, value_name = "PROGRAM")]
    python: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Suite {
    Exact,
    Ivf,
    Select,
    Reduce,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peer {
    Numpy,
    FaissCpu,
    Usearch,
    Torch,
    Cuvs,
    FaissGpu,
}

pub(super) const HELP: &str = concat!(
    "\
Examples:
  nearfield bench peers --rows 100000 --dim 384 --python venv/bin/python
  nearfield bench peers --rows-file base.npy --queries-file query.npy --suites exact,ivf --json
  nearfield bench all --peers --report out

Libraries that are not installed are named as not run. What there is for a processor:
  python3 -m venv venv && venv/bin/pip install \\\n",
    include_str!("requirements.txt"),
    "
The script is part of the program: it runs in processes of its own, one for each library and suite, on the vectors that the other \
suites would make or read. Made vectors go to a directory for temporary files (TMPDIR), which is removed afterwards. \
docs/benchmark.md says what is compared, and what the JSON lines hold."
);

/// Runs the peers.
pub(super) fn run(args: &Args, run: &mut Run) -> Result<()> {
    let place = Place::new()?;
    let deadline = run.deadline();
    let words = args.words(&place, run.runs())?;
    // First of all: whoever has no Python need not wait for the vectors.
    let script = Script::start(&args.python, place, &words)?;
    if args.searches() {
        args.write(script.place())?;
    }
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    script.run(left, |line| {
        let text = text::of(&line);
        run.tell(line, &text)
    })
}

impl Args {
    fn searches(&self) -> bool {
        self.suites.iter().any(|suite| matches!(suite, Suite::Exact | Suite::Ivf))
    }

    /// The files that the script reads: those that are given, or others that are written for it.
    fn files(&self, place: &Place) -> [(PathBuf, bool); 2] {
        [(&self.source.rows_file, "rows.npy"), (&self.source.queries_file, "queries.npy")].map(
            |(given, name)| match given {
                Some(file) if is_npy(file) => (file.clone(), false),
                _ => (place.path().join(name), true),
            },
        )
    }

    /// The arguments of the script.
    fn words(&self, place: &Place, runs: usize) -> Result<Vec<OsString>> {
        let mut words = vec![];
        let mut add = |name: &str, value: String| words.push(OsString::from(format!("--{name}={value}")));
        add("suites", joined(&self.suites.iter().map(|suite| value_name(*suite)).collect::<Vec<_>>()));
        add("peers", joined(&self.peers.iter().map(|peer| value_name(*peer)).collect::<Vec<_>>()));
        add("metric", self.metric.name().to_owned());
        add("shapes", joined(&self.shapes));
        add("select-k", joined(&self.select_k));
        add("length", joined(&self.length));
        add("runs", runs.to_string());
        // What nobody says is the script's to choose: it knows how many rows there are.
        if !self.probes.is_empty() {
            add("probes", joined(&self.probes));
        }
        if !self.k.is_empty() {
            words.extend(["-k".into(), joined(&self.k).into()]);
        }
        if self.searches() {
            words.push(format!("--queries={}", joined(&self.counts()?)).into());
            let lists =
                self.lists.map_or_else(|| Ok(Ivf::recommend(self.source.shape()?.0)), Ok::<_, Error>)?;
            words.push(format!("--lists={lists}").into());
            words.push(format!("--data={}", self.source.name()).into());
            for (name, (file, _)) in ["--rows-file=", "--queries-file="].into_iter().zip(self.files(place)) {
                let mut word = OsString::from(name);
                word.push(file);
                words.push(word);
            }
        }
        Ok(words)
    }

    fn counts(&self) -> Result<Vec<usize>> {
        self.source.counts(&self.queries, &QUERIES)
    }

    /// Writes the files that are not there.
    fn write(&self, place: &Place) -> Result<()> {
        let (rows, dim) = self.source.shape()?;
        let most = self.counts()?.into_iter().max().unwrap_or(1);
        let [(rows_file, is_made), (queries_file, are_made)] = self.files(place);
        if is_made {
            place.has_room("--rows", rows, dim)?;
            place.write(&rows_file, self.source.rows()?)?;
        }
        if are_made {
            let most = if self.source.queries_file.is_some() { most } else { most.max(LEAST_QUERIES) };
            place.has_room("--queries", most, dim)?;
            place.write(&queries_file, self.source.queries(most)?)?;
        }
        Ok(())
    }
}

/// Whether the script reads a file as it is. The name of an archive's member may end like that, too.
fn is_npy(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("npy")) && file.is_file()
}

fn value_name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn joined<T: ToString>(values: &[T]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
