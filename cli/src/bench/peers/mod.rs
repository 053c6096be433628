//! `nearfield bench peers`: times other libraries at the same work, through the script peers.py.

mod script;
mod text;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Error, Result};
use clap::{Args as ClapArgs, ValueEnum};
use nearfield::io::write_npy;
use nearfield::{Ivf, Metric};

use super::data::{Source, Vectors};
use super::run::{self, Run};
use super::suites::select::Shape;
use super::words::{Words, defaults};
use crate::memory;
use script::Script;

/// The default interpreter.
pub(super) const PYTHON: &str = "python3";
/// The default numbers of queries.
const QUERIES: [usize; 2] = [1, 1024];
/// The fewest queries to make: the script checks 100 of them, in batches of any size.
const LEAST_QUERIES: usize = 200;

/// Arguments of `nearfield bench peers`.
#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) source: Source,
    /// Suites to run
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "exact,ivf,select,reduce",
        value_name = "NAME,…"
    )]
    pub(super) suites: Vec<Suite>,
    /// Libraries to time
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "numpy,faiss-cpu,usearch,torch,cuvs,faiss-gpu",
        value_name = "NAME,…"
    )]
    pub(super) peers: Vec<Peer>,
    /// Numbers of queries, one case each; 1,1024, or as many as a file has
    #[arg(long, value_delimiter = ',', value_name = "Q,…", value_parser = crate::arguments::count)]
    pub(super) queries: Vec<usize>,
    /// Neighbours per query, one case each; ivf takes the first. 10, or as many as there are rows
    #[arg(short, long, value_delimiter = ',', value_name = "K,…", value_parser = crate::arguments::count)]
    pub(super) k: Vec<usize>,
    /// Metric: l2sq, l2, cosine, ip
    #[arg(long, default_value = "cosine")]
    pub(super) metric: Metric,
    /// Lists; by default as many as bench ivf has
    #[arg(long, value_name = "N", value_parser = crate::arguments::count)]
    pub(super) lists: Option<usize>,
    /// Lists that a query probes, one case each; 1,4,16,64, or as many as there are lists
    #[arg(long, value_delimiter = ',', value_name = "P,…", value_parser = crate::arguments::count)]
    pub(super) probes: Vec<usize>,
    /// Rows to select from and their length, one case each
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "20000x500,1000x10000,100x100000,10x1000000",
        value_name = "ROWSxLENGTH,…"
    )]
    pub(super) shapes: Vec<Shape>,
    /// Elements to select from each row, one case each
    #[arg(long, value_delimiter = ',', default_value = "1,16,256", value_name = "K,…", value_parser = crate::arguments::count)]
    pub(super) select_k: Vec<usize>,
    /// Values to reduce, one case each
    #[arg(long, value_delimiter = ',', default_value = "67108864", value_name = "N,…", value_parser = crate::arguments::count)]
    pub(super) length: Vec<usize>,
    /// Python that has the libraries
    #[arg(long, default_value = PYTHON, value_name = "PROGRAM")]
    pub(super) python: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Suite {
    Exact,
    Ivf,
    Select,
    Reduce,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Peer {
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

Libraries that are not installed are named as not run. Those for a processor are installed by:
  python3 -m venv venv && venv/bin/pip install \\\n",
    include_str!("requirements.txt"),
    "
The script is part of the program. It starts one process for each library and suite, which work on the vectors that the other \
suites would generate or read. Generated vectors go to a temporary directory (TMPDIR), which is removed afterwards. docs/benchmark.md says \
what is compared and lists the fields of the JSON lines."
);

impl run::Suite for Args {
    fn words(&self) -> Words {
        let usual: Self = defaults();
        let words = Words::new(["peers"]).names("suites", &self.suites, &usual.suites).names(
            "peers",
            &self.peers,
            &usual.peers,
        );
        let words = self.source.words(words).list("queries", &self.queries, &[]).maybe("lists", self.lists);
        self.asked(words, &usual).option("python", self.python.display(), usual.python.display())
    }

    fn run(&self, run: &mut Run) -> Result<()> {
        let deadline = run.deadline();
        // Before the vectors are generated, because there may be no Python.
        let script = Script::start(&self.python, |scratch| self.script_words(scratch, run.runs()))?;
        if self.searches() {
            self.write(script.scratch())?;
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        script.run(left, |line| {
            let text = text::of(&line);
            run.tell(line, &text)
        })
    }
}

impl Args {
    fn searches(&self) -> bool {
        self.suites.iter().any(|suite| matches!(suite, Suite::Exact | Suite::Ivf))
    }

    /// Adds the options that this program and the script name alike.
    fn asked(&self, words: Words, usual: &Self) -> Words {
        words
            .option("metric", self.metric, usual.metric)
            .list("k", &self.k, &usual.k)
            .list("probes", &self.probes, &usual.probes)
            .list("shapes", &self.shapes, &usual.shapes)
            .list("select-k", &self.select_k, &usual.select_k)
            .list("length", &self.length, &usual.length)
    }

    /// The arguments of the script, which has the same defaults.
    fn script_words(&self, scratch: &Path, runs: usize) -> Result<Vec<OsString>> {
        let words = Words::new(Vec::<String>::new())
            .maybe("runs", Some(runs))
            .names("suites", &self.suites, &[])
            .names("peers", &self.peers, &[]);
        let mut words = self.asked(words, &defaults());
        if !self.searches() {
            return Ok(words.as_slice().iter().map(OsString::from).collect());
        }
        let lists = self.lists.map_or_else(|| Ok::<_, Error>(Ivf::recommend(self.source.shape()?.0)), Ok)?;
        words = words
            .list("queries", &self.counts()?, &[])
            .maybe("lists", Some(lists))
            .maybe("data", Some(self.source.name()));
        let mut words: Vec<OsString> = words.as_slice().iter().map(OsString::from).collect();
        for (option, (file, _)) in ["--rows-file", "--queries-file"].into_iter().zip(self.files(scratch)) {
            words.extend([option.into(), file.into()]);
        }
        Ok(words)
    }

    fn counts(&self) -> Result<Vec<usize>> {
        self.source.counts(&self.queries, &QUERIES)
    }

    /// The files that the script reads, and whether they are written for it.
    fn files(&self, scratch: &Path) -> [(PathBuf, bool); 2] {
        [(&self.source.rows_file, "rows.npy"), (&self.source.queries_file, "queries.npy")].map(
            |(given, name)| match given {
                Some(file) if is_npy(file) => (file.clone(), false),
                _ => (scratch.join(name), true),
            },
        )
    }

    /// Writes the files that the script lacks.
    fn write(&self, scratch: &Path) -> Result<()> {
        let (rows, dim) = self.source.shape()?;
        let most = self.counts()?.into_iter().max().unwrap_or(1);
        let [(rows_file, is_made), (queries_file, are_made)] = self.files(scratch);
        if is_made {
            ensure_room(scratch, "--rows", rows, dim)?;
            write(&rows_file, &self.source.rows()?)?;
        }
        if are_made {
            let most = if self.source.queries_file.is_some() { most } else { most.max(LEAST_QUERIES) };
            ensure_room(scratch, "--queries", most, dim)?;
            write(&queries_file, &self.source.queries(most)?)?;
        }
        Ok(())
    }
}

fn write(path: &Path, vectors: &Vectors) -> Result<()> {
    let rows = vectors.values.len() / vectors.dim.max(1);
    write_npy(path, [rows, vectors.dim], &vectors.values).context("TMPDIR")
}

/// Fails unless the vectors fit the disk of a directory, and says how many would.
fn ensure_room(directory: &Path, argument: &str, count: usize, dim: usize) -> Result<()> {
    let path = directory.canonicalize().context("TMPDIR")?;
    let disks = sysinfo::Disks::new_with_refreshed_list();
    let disks = disks.iter().filter(|disk| path.starts_with(disk.mount_point()));
    let disk = disks.max_by_key(|disk| disk.mount_point().components().count());
    // Some file systems do not say how large they are.
    let Some(disk) = disk.filter(|disk| disk.total_space() > 0) else { return Ok(()) };
    let place = format!("{} (TMPDIR)", std::env::temp_dir().display());
    memory::ensure_room(
        argument,
        count,
        &format!("vectors of dim {dim}"),
        dim,
        disk.available_space(),
        &place,
    )
}

/// Whether the script can read a file as it is. The name of an archive's member may end in .npy, too.
fn is_npy(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("npy")) && file.is_file()
}
