//! `nearfield-bench peers`: times other libraries at the same work, through the script peers.py.

mod script;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nearfield::io::write_npy;
use nearfield::{Device, Error, Ivf, Metric};

use serde_json::{Value, json};

use crate::allowed::Allowed;
use crate::data::{Source, View, asked_or};
use crate::lines::{Line, identity, words};
use crate::run::{Run, Suite};
use crate::suites::maxsim;
use crate::suites::select::Shape;
use nearfield_cli::given::arguments;
use nearfield_cli::terminal::interrupt;
use script::Script;

pub(super) const PYTHON: &str = "python3";
const QUERIES: [usize; 2] = [1, 1024];
const PROBES: [usize; 4] = [1, 4, 16, 64];
const SHAPES: [&str; 4] = ["20000x500", "1000x10000", "100x100000", "10x1000000"];
/// The time of a run without `--budget`.
const ENDLESS: Duration = Duration::from_secs(400_000);
/// The fewest queries to make: the script checks 100 of them, in batches of any size.
const LEAST_QUERIES: usize = 200;
/// Rows that are checked at a time, in a copy of their own.
const CHECKED_AT_ONCE: usize = 1 << 14;

/// The seed of made tokens, as of `nearfield-bench maxsim`.
const TOKEN_SEED: u64 = 1;

/// The file of the numbers that filters compare.
const DRAWS: &str = "draws.npy";

const SUITES: [&str; 6] = ["exact", "ivf", "distance", "select", "reduce", "maxsim"];
const PEERS: [&str; 13] = [
    "numpy",
    "scipy",
    "faiss-cpu",
    "usearch",
    "hnswlib",
    "torch",
    "flashlib",
    "cuvs",
    "faiss-gpu",
    "flash-maxsim",
    "late-interaction-kernels",
    "fast-plaid",
    "nearfield",
];

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    source: Source,
    /// Suites to run: exact, ivf, distance, select and reduce, or also maxsim
    #[arg(long, value_delimiter = ',', default_values = &SUITES[..5], value_parser = SUITES, value_name = "NAME,…")]
    suites: Vec<String>,
    /// Libraries to time
    #[arg(long, value_delimiter = ',', default_values = PEERS, value_parser = PEERS, value_name = "NAME,…")]
    peers: Vec<String>,
    /// Numbers of queries, one case each; 1,1024, or as many as a file has
    #[arg(long = "batch", value_delimiter = ',', value_name = "Q,…", value_parser = arguments::count)]
    queries: Vec<usize>,
    /// Neighbours per query, one case each; ivf takes the first. 10, or as many as there are rows
    #[arg(short, long, value_delimiter = ',', value_name = "K,…", value_parser = arguments::count)]
    k: Vec<usize>,
    /// Metric: l2sq, l2, cosine, ip
    #[arg(long, default_value = "cosine", value_parser = arguments::metric_of_numbers)]
    metric: Metric,
    /// Lists; by default as many as nearfield-bench ivf has
    #[arg(long, value_name = "N", value_parser = arguments::count)]
    lists: Option<usize>,
    /// Lists that a query probes, one case each; 1,4,16,64, or as many as there are lists
    #[arg(long, value_delimiter = ',', value_name = "P,…", value_parser = arguments::count)]
    probes: Vec<usize>,
    #[command(flatten)]
    allowed: Allowed,
    /// Rows to select from and their length, one case each; 20000x500,1000x10000,100x100000,10x1000000
    #[arg(long, value_delimiter = ',', value_name = "ROWSxLENGTH,…")]
    shapes: Vec<Shape>,
    /// Elements to select from each row, one case each; 1,16,256
    #[arg(long, value_delimiter = ',', value_name = "K,…", value_parser = arguments::count)]
    select_k: Vec<usize>,
    /// Values to reduce, one case each; 67,108,864
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = arguments::count)]
    length: Vec<usize>,
    #[command(flatten)]
    documents: maxsim::Shape,
    /// Elements of a token
    #[arg(long, default_value_t = 128, value_name = "N", value_parser = arguments::count)]
    token_dim: usize,
    /// Python that has the libraries
    #[arg(long, default_value = PYTHON, value_name = "PROGRAM")]
    python: PathBuf,
}

pub(super) const HELP: &str = concat!(
    "\
Examples:
  nearfield-bench peers --count 100000 --dim 384 --python venv/bin/python
  nearfield-bench peers --rows base.npy --queries query.npy --suites exact,ivf --json
  nearfield-bench all --peers --report out

Libraries that are not installed are named as not run. Those for a processor are installed by:
  python3 -m venv venv && venv/bin/pip install \\\n",
    include_str!("requirements.txt"),
    "hnswlib==0.8.0, which pip compiles with a C++ compiler, is not among them.

The script is part of the program. It starts one process for each library and suite, which work on the vectors that the other \
suites would generate or read. Generated vectors go to a temporary directory (TMPDIR), which is removed afterwards. docs/benchmark.md says \
what is compared and lists the fields of the JSON lines."
);

impl Suite for Args {
    fn run(&self, run: &mut Run) -> Result<()> {
        self.check_suites()?;
        // Before the vectors are generated, because there may be no Python.
        script::check(&self.python)?;
        let scratch = interrupt::temporary_directory().context("TMPDIR")?;
        let options = self.options(scratch.path(), run)?;
        // Before the files are written, which it removes after an interrupt.
        let script = Script::start(&self.python, scratch.path(), &options)?;
        if self.has_vectors() {
            self.write(scratch.path())?;
        }
        if self.has_documents() {
            let queries = self.batches_of_documents().into_iter().max().unwrap_or(1);
            maxsim::write(scratch.path(), self.documents, (self.token_dim, TOKEN_SEED), queries)
                .context("TMPDIR")?;
        }
        script.run(|line| {
            let text = told(&line);
            run.tell(line, &text)
        })
    }
}

/// A line of a peer as text.
fn told(line: &Value) -> String {
    let line = Line::of(line);
    if line.record() == "peers" {
        return format!("peers     on {}", line.machine());
    }
    let [suite, peer] = ["suite", "peer"].map(|key| line.text(key).unwrap_or_default());
    let name = [peer.to_owned(), words(&line, &identity(suite))].join(" ");
    let name = format!("{suite:<9} {}", name.trim());
    if let Some(reason) = line.text("not_run") {
        return format!("{name}: not run: {reason}");
    }
    let mut text = format!("{name}: {}", line.times());
    for (key, unit) in [("queries_per_s", "queries/s"), ("bytes_per_s", "B/s")] {
        text += &line.field(key).map_or(String::new(), |number| format!(", {number} {unit}"));
    }
    text + &line.number("recall").map_or(String::new(), |recall| format!(", recall {recall:.4}"))
}

impl Args {
    /// Refuses the options of suites that do not run.
    fn check_suites(&self) -> Result<()> {
        let searches = self.suites.iter().any(|suite| ["exact", "ivf"].contains(&suite.as_str()));
        let (is_unused, suites) = (self.allowed.parts.is_empty(), self.suites.join(","));
        ensure!(searches || is_unused, "--allowed: needed --suites exact or ivf, given {suites}");
        for (option, is_given, suite) in [
            ("--lists", self.lists.is_some(), "ivf"),
            ("--probes", !self.probes.is_empty(), "ivf"),
            ("--shapes", !self.shapes.is_empty(), "select"),
            ("--select-k", !self.select_k.is_empty(), "select"),
            ("--length", !self.length.is_empty(), "reduce"),
        ] {
            let runs = self.suites.iter().any(|one| one == suite);
            ensure!(runs || !is_given, "{option}: needed --suites {suite}, given {}", self.suites.join(","));
        }
        Ok(())
    }

    fn has_vectors(&self) -> bool {
        self.suites.iter().any(|suite| ["exact", "ivf", "distance"].contains(&suite.as_str()))
    }

    fn has_documents(&self) -> bool {
        self.suites.iter().any(|suite| suite == "maxsim")
    }

    /// Queries for documents, one case each.
    fn batches_of_documents(&self) -> Vec<usize> {
        asked_or(&self.queries, &[1, 64], usize::MAX)
    }

    /// The options of the script.
    fn options(&self, scratch: &Path, run: &Run) -> Result<Value> {
        let all = |given: &[usize], usual: &[usize]| asked_or(given, usual, usize::MAX);
        let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        let mut shapes: Vec<String> = self.shapes.iter().map(Shape::to_string).collect();
        if shapes.is_empty() {
            shapes = SHAPES.map(str::to_owned).into();
        }
        let text = |argument: &str, path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.with_context(|| format!("{argument}: needed a name in UTF-8, given {}", path.display()))
        };
        let mut options = json!({
            "scratch": text("TMPDIR", scratch)?, "runs": run.runs, "budget": run.deadline.map_or(ENDLESS, left).as_secs_f64(),
            "suites": self.suites, "peers": self.peers, "metric": self.metric.name(), "shapes": shapes,
            "select_k": all(&self.select_k, &[1, 16, 256]), "length": all(&self.length, &[1 << 26]),
        });
        if self.has_documents() {
            let maxsim::Shape { tokens, query_tokens, .. } = self.documents;
            for (name, value) in [
                ("tokens", json!(tokens)),
                ("query_tokens", json!(query_tokens)),
                ("dim", json!(self.token_dim)),
                ("token_data", json!(maxsim::data(TOKEN_SEED))),
                ("batch", json!(self.batches_of_documents())),
                ("k", json!(asked_or(&self.k, &[10], usize::MAX))),
            ] {
                options[name] = value;
            }
        }
        if self.has_vectors() {
            let (rows, _) = self.source.shape()?;
            let lists = self.lists.unwrap_or_else(|| Ivf::recommend(rows));
            for (name, given, usual, most) in [
                ("batch", &self.queries, &QUERIES[..], self.source.queries_there()?),
                ("k", &self.k, &[10], rows),
                ("lists", &vec![lists], &[], rows),
                ("probes", &self.probes, &PROBES, lists),
            ] {
                let numbers = asked_or(given, usual, most);
                if let Some(given) = numbers.iter().find(|&&number| number > most) {
                    bail!("--{name}: needed at most {most}, as there are no more, given {given}");
                }
                options[name] = json!(numbers);
            }
            let [(rows_file, _), (queries_file, _)] = self.files(scratch);
            // Without a filter there is one case, of no part.
            let parts = &self.allowed.parts;
            options["allowed"] = if parts.is_empty() { json!([null]) } else { json!(parts) };
            options["contiguous"] = json!(self.allowed.contiguous);
            options["draws"] = json!(text("TMPDIR", &scratch.join(DRAWS))?);
            options["lists"] = json!(lists);
            options["data"] = json!(self.source.name());
            options["rows"] = json!(text("--rows", &rows_file)?);
            options["queries"] = json!(text("--queries", &queries_file)?);
        }
        Ok(options)
    }

    /// The files that the script reads, and whether they are written for it.
    fn files(&self, scratch: &Path) -> [(PathBuf, bool); 2] {
        // The name of an archive's member may end in .npy, too.
        let is_npy = |file: &Path| file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("npy"));
        [(&self.source.rows_file, "rows.npy"), (&self.source.queries_file, "queries.npy")].map(
            |(given, name)| match given {
                Some(file) if is_npy(file) && file.is_file() => (file.clone(), false),
                _ => (scratch.join(name), true),
            },
        )
    }

    /// Checks the vectors, and writes the files that the script lacks.
    fn write(&self, scratch: &Path) -> Result<()> {
        let counts = self.source.counts(&self.queries, &QUERIES)?;
        let (rows, queries) = self.source.both_at_least(&counts, LEAST_QUERIES)?;
        if !self.allowed.parts.is_empty() {
            let draws = self.allowed.draws(rows.view()?.rows());
            write_npy(scratch.join(DRAWS), [draws.len(), 1], &draws).context("TMPDIR")?;
        }
        let arguments = ["--rows", "--queries"].into_iter().zip([rows, queries]);
        for ((argument, vectors), (path, is_made)) in arguments.zip(self.files(scratch)) {
            let view = vectors.view()?;
            check(argument, view)?;
            if is_made {
                write_npy(&path, [view.rows(), view.dim()], &vectors.values).context("TMPDIR")?;
            }
        }
        Ok(())
    }
}

/// Fails for vectors without distances, which the host engine refuses to take.
fn check(argument: &'static str, vectors: View<'_>) -> nearfield::Result<()> {
    let host = Device::host();
    for start in (0..vectors.rows()).step_by(CHECKED_AT_ONCE) {
        let piece = vectors.slice(start..vectors.rows().min(start + CHECKED_AT_ONCE));
        host.upload(piece).map_err(|error| match error.with_rows(|row| row + start as u64) {
            Error::NotFinite { row, .. } => Error::NotFinite { argument, row },
            Error::NormOutOfRange { row, .. } => Error::NormOutOfRange { argument, row },
            other => other,
        })?;
    }
    Ok(())
}
