//! `nearfield bench all`: every suite, in sizes that suit the device.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use nearfield::io::VectorFile;
use nearfield::{AdapterKind, Device, Error, Ivf, Metric};
use serde_json::json;

use super::ceilings::is_processor;
use super::run::{Common, Run, command, has_kernels};
use super::{Suite, peers};
use crate::output;

/// Arguments of `nearfield bench all`.
#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// Sizes of the cases: by default large for a GPU of its own memory, medium for one that shares it, small where the
    /// processor computes
    #[arg(long, value_enum, value_name = "SCALE")]
    scale: Option<Scale>,
    /// File of rows to search, instead of made ones
    #[arg(long, value_name = "FILE", requires = "queries_file")]
    rows_file: Option<PathBuf>,
    /// File of queries
    #[arg(long, value_name = "FILE", requires = "rows_file")]
    queries_file: Option<PathBuf>,
    /// Metric for the files: l2sq, l2, cosine, ip
    #[arg(long, default_value = "cosine", requires = "rows_file")]
    metric: Metric,
    /// Let other libraries do the same work afterwards, those that a Python has (bench peers)
    #[arg(long)]
    peers: bool,
    /// The Python that has the libraries
    #[arg(long, default_value = peers::PYTHON, value_name = "PROGRAM", requires = "peers")]
    python: PathBuf,
}

pub(super) const HELP: &str = "\
Examples:
  nearfield bench all --report out
  nearfield bench all --budget 120s --report out
  nearfield bench all --scale small --json > figures.jsonl
  nearfield bench all --rows-file base.npy --queries-file query.npy --metric l2sq --report out
  nearfield bench all --peers --python venv/bin/python --report out

Runs suite after suite, each by a command that is printed before its figures and gives them again. A suite that needs what the \
device has not, more memory than there is, or more than --scratch, is named as not run, and the others go on. A wrong answer, or any \
other error, is told as a `failed` record and ends the run with exit code 1; the report has what there was until then. With --budget \
every command has a share of the time that is left. Of files no more queries, neighbours, lists and probes are asked for than they \
have room for.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scale {
    Small,
    Medium,
    Large,
}

impl Scale {
    fn of(device: &Device) -> Self {
        match device.adapter().kind {
            AdapterKind::Software | AdapterKind::Host => Self::Small,
            AdapterKind::Discrete => Self::Large,
            _ => Self::Medium,
        }
    }
}

/// The words of a command behind `nearfield bench`, and its share of the time.
struct Planned {
    words: Vec<String>,
    weight: u32,
}

/// A command of a plan, read as a shell's would be.
#[derive(Debug, Parser)]
#[command(name = "nearfield bench", no_binary_name = true)]
struct Line {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    #[command(flatten)]
    Suite(Suite),
    Peers(peers::Args),
}

/// The files to search.
struct Files {
    /// The arguments that name them.
    words: [String; 6],
    rows: usize,
    queries: usize,
}

impl Files {
    fn open(rows: &Path, queries: &Path, metric: Metric) -> Result<Self> {
        let shape = |argument: &str, file: &Path| -> Result<(usize, usize)> {
            let open = VectorFile::open(file).with_context(|| argument.to_owned())?;
            ensure!(open.rows() > 0, "{argument}: needed at least one vector, {} has none", file.display());
            Ok((open.rows(), open.dim()))
        };
        let [first, second] = [rows, queries].map(|file| file.display().to_string());
        let words = ["--rows-file", &first, "--queries-file", &second, "--metric", metric.name()];
        let ((rows, dim), (queries, given)) =
            (shape("--rows-file", rows)?, shape("--queries-file", queries)?);
        ensure!(dim == given, "--queries-file: needed dim {dim}, that of the rows, given {given}");
        Ok(Self { words: words.map(str::to_owned), rows, queries })
    }
}

/// Numbers of a command, of which none is larger than what there is.
fn up_to<const N: usize>(there: usize, numbers: [usize; N]) -> String {
    let mut numbers = numbers.map(|number| number.min(there)).to_vec();
    numbers.dedup();
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// The commands of a scale. `@` stands for the files to search.
fn plan(scale: Scale, is_gpu: bool, files: Option<&Files>) -> Vec<Planned> {
    let mut plan = vec![];
    let mut add = |weight: u32, text: &str| {
        let words = text.split_whitespace().flat_map(|word| match (word, files) {
            ("@", Some(files)) => files.words.to_vec(),
            _ => vec![word.to_owned()],
        });
        plan.push(Planned { words: words.collect(), weight });
    };
    // Of made vectors there are as many as a plan needs.
    let (rows_there, queries_there) =
        files.map_or((usize::MAX, usize::MAX), |files| (files.rows, files.queries));
    let lists_there = files.map_or(usize::MAX, |files| Ivf::recommend(files.rows));
    let (number, short, rows, dims) = match scale {
        Scale::Small => (1 << 22, 1 << 20, 10_000, [64, 128, 256]),
        Scale::Medium => (1 << 26, 1 << 24, 200_000, [64, 128, 384]),
        Scale::Large => (1 << 28, 1 << 26, 1_000_000, [128, 384, 768]),
    };
    let [low, middle, high] = dims;
    add(
        2,
        &format!(
            "reduce --operation dot,sum,sum-squares,mean,l1,l2,max-norm,min,max,argmin,argmax --length {number}"
        ),
    );
    add(1, &format!("reduce --operation dot,sum,min,argmin --elements f16 --length {number}"));
    add(1, &format!("reduce --operation dot,sum --summation compensated --length {number}"));
    add(1, &format!("reduce --operation dot,sum,min,argmin --length 1024,65536,1048576,{}", number / 16));
    add(1, &format!("reduce --operation sum,l2,min,argmin --row-length 4,16,64 --length {short}"));
    add(1, &format!("reduce --operation sum,l2,min,argmin --row-length 384,4096,65537 --length {number}"));
    if is_gpu {
        add(1, &format!("reduce --ladder --length {number}"));
        match scale {
            Scale::Small => add(2, "select --shapes 200x500,10x10000,1x100000,1x1000000 --k 1,10,100,2048"),
            _ => {
                add(
                    2,
                    "select --shapes 20000x500,1000x10000,100x100000,10x1000000 --k 1,2,4,8,16,32,64,128,256,512,1024,2048",
                );
                add(2, "select --shapes 100x1000000,1x1000000,1000x100000 --k 10,512,2048,10000,100000");
            }
        }
    }
    // What is asked for of made vectors by default.
    let k = files.map_or_else(String::new, |files| format!(" -k {}", files.rows.min(10)));
    let search = match (files, scale) {
        (Some(_), _) => "@".to_owned(),
        (None, Scale::Small) => format!("--data embedding --rows {rows} --dim {high}"),
        (None, _) => format!("--data low-rank --rows {rows} --dim {high}"),
    };
    let most = if scale == Scale::Large { 10_000 } else { 1000 };
    match scale {
        Scale::Small => {
            add(1, &format!("distance --rows 4096 --dim {middle} --queries 1,64 --metric l2sq,cosine"));
            let queries = up_to(queries_there, [1, 16, 256]);
            add(3, &format!("exact {search}{k} --queries {queries} --screen i8,none"));
            add(
                2,
                &format!(
                    "exact --data embedding --rows {rows} --dim {middle} --sizes 1000,3000,{rows} --queries 1,64"
                ),
            );
            add(1, &format!("exact --data embedding --rows 5000 --dim {low} --queries 1,64"));
            add(1, &format!("exact --data embedding --rows 5000 --dim {high} --queries 1,64"));
            // Training is slow on a software driver.
            let vectors =
                if files.is_some() { search } else { format!("--data embedding --rows 5000 --dim {low}") };
            let lists = rows_there.min(300);
            let (probes, queries) = (up_to(lists, [1, 4, 16, 64]), up_to(queries_there, [1, 64]));
            add(
                2,
                &format!(
                    "ivf {vectors}{k} --lists {lists} --iterations 2 --probes {probes} --queries {queries}"
                ),
            );
        }
        _ => {
            add(1, &format!("distance --rows 100000 --dim {middle} --queries 1,16,256 --metric l2sq,cosine"));
            add(1, &format!("distance --rows 100000 --dim {high} --queries 256 --metric l2sq,ip"));
            let queries = up_to(queries_there, [1, 8, 100, 1024, most]);
            add(3, &format!("exact {search} --queries {queries} -k {}", up_to(rows_there, [10, 100])));
            let queries = up_to(queries_there, [1, 128, 1024]);
            add(2, &format!("exact {search}{k} --queries {queries} --screen none"));
            let sizes = format!("1000,10000,100000,{rows}");
            add(
                2,
                &format!(
                    "exact --data low-rank --rows {rows} --dim {middle} --sizes {sizes} --queries 1,1024"
                ),
            );
            add(
                2,
                &format!(
                    "exact --data low-rank --rows {rows} --dim {low} --queries 1,1024,{most} --metric cosine,l2sq"
                ),
            );
            let probes = up_to(lists_there, [1, 4, 16, 64]);
            let queries = up_to(queries_there, [1, 100, most]);
            add(4, &format!("ivf {search}{k} --probes {probes} --queries {queries}"));
            add(
                2,
                &format!(
                    "ivf --data low-rank --rows {rows} --dim {low} --probes 1,4,16,64 --queries 1,{most}"
                ),
            );
        }
    }
    if is_gpu {
        let (sizes, queries) = match scale {
            Scale::Small => ("1000,3000,10000", "1,8,64"),
            _ => ("1000,3000,10000,30000,100000", "1,4,16,64,256"),
        };
        let most = sizes.rsplit(',').next().unwrap_or(sizes);
        add(2, &format!("breakeven --rows {most} --dim {middle} --sizes {sizes} --queries {queries}"));
    }
    plan
}

/// What the peers do beside a plan: the work of the first command of each suite that they have.
fn beside(plan: &[Planned], is_processor: bool, python: &Path) -> Vec<Planned> {
    let mut commands = vec![];
    // Those that compute where we do: the others take minutes for what is seconds here.
    let names = if is_processor { "numpy,faiss-cpu,usearch" } else { "torch,cuvs,faiss-gpu" };
    for (suite, weight) in [("exact", 3), ("ivf", 3), ("select", 1), ("reduce", 1)] {
        let Some(first) = plan.iter().find(|planned| planned.words.first().is_some_and(|word| word == suite))
        else {
            continue;
        };
        let mut words = ["peers", "--suites", suite, "--peers", names].map(str::to_owned).to_vec();
        for option in first.words[1..].chunks(2) {
            match option {
                // Of ours alone.
                [name, _] if ["--screen", "--operation", "--iterations"].contains(&name.as_str()) => {}
                [name, value] if name == "--k" => words.extend(["--select-k".to_owned(), value.clone()]),
                other => words.extend_from_slice(other),
            }
        }
        if python != Path::new(peers::PYTHON) {
            words.extend(["--python".to_owned(), python.display().to_string()]);
        }
        commands.push(Planned { words, weight });
    }
    commands
}

/// Runs all suites.
pub(super) fn run(args: &Args, common: &Common) -> Result<()> {
    let mut run = Run::open(common)?;
    let scale = args.scale.unwrap_or_else(|| Scale::of(&run.device));
    let files = args.rows_file.as_ref().zip(args.queries_file.as_ref());
    let files = files.map(|(rows, queries)| Files::open(rows, queries, args.metric)).transpose()?;
    let mut plan = plan(scale, has_kernels(&run.device), files.as_ref());
    if args.peers {
        plan.extend(beside(&plan, is_processor(&run.device), &args.python));
    }
    // Ceilings are everybody's: they are measured before the time is shared out.
    if let Err(error) = run.begin("all", plan.len()) {
        return run.finish(Err(error));
    }
    let deadline = run.deadline();
    let mut weights: u32 = plan.iter().map(|planned| planned.weight).sum();
    let mut done = Ok(());
    for planned in plan {
        let share = deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            Instant::now() + share_of(left, planned.weight, weights)
        });
        run.set_deadline(share);
        weights -= planned.weight;
        done = suite(&mut run, &planned, common);
        if done.is_err() {
            break;
        }
    }
    run.finish(done)
}

fn share_of(time: Duration, weight: u32, weights: u32) -> Duration {
    time * weight / weights.max(1)
}

/// Runs a command of the plan.
fn suite(run: &mut Run, planned: &Planned, common: &Common) -> Result<()> {
    let name = planned.words.first().map_or("", String::as_str);
    let of_all = if name == "peers" { common.shared_words() } else { common.words() };
    let command = command("nearfield bench", planned.words.iter().cloned().chain(of_all));
    run.begin(name, 1)?;
    run.tell(json!({ "record": "suite", "suite": name, "command": command }), &format!("\n$ {command}"))?;
    if run.is_over(&planned.words.join(" "))? {
        return Ok(());
    }
    let line = Line::try_parse_from(&planned.words).with_context(|| command.clone())?;
    let suite = match line.step {
        Step::Suite(suite) => suite,
        Step::Peers(args) => {
            return match peers::run(&args, run) {
                // They stand beside the figures, which are there already.
                Err(error) if !output::is_broken_pipe(&error) => {
                    run.not_run(&planned.words.join(" "), &output::one_line(&error))
                }
                done => done,
            };
        }
    };
    match suite.run(run) {
        Ok(()) => Ok(()),
        Err(error) => match error.downcast_ref::<Error>() {
            // What is not there is no reason to go without the rest.
            Some(Error::OutOfMemory { .. } | Error::Unsupported { .. } | Error::Budget { .. }) => {
                let reason = output::one_line(&error);
                run.not_run(&planned.words.join(" "), &reason)
            }
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_a_plan_is_one() {
        let few = Files {
            words: ["--rows-file", "a", "--queries-file", "b", "--metric", "l2"].map(str::to_owned),
            rows: 5,
            queries: 3,
        };
        for scale in [Scale::Small, Scale::Medium, Scale::Large] {
            for (is_gpu, files) in [(true, None), (true, Some(&few)), (false, None), (false, Some(&few))] {
                let mut plan = plan(scale, is_gpu, files);
                let peers = beside(&plan, !is_gpu, Path::new("venv/bin/python"));
                assert_eq!(peers.len(), if is_gpu { 4 } else { 3 });
                plan.extend(peers);
                for Planned { words, .. } in plan {
                    let line = Line::try_parse_from(&words);
                    assert!(line.is_ok(), "{words:?}: {line:?}");
                }
            }
        }
    }
}
