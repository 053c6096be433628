//! `nearfield bench all`: every suite, in sizes that suit the device.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use nearfield::{AdapterKind, Device, Error};
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
  nearfield bench all --peers --python venv/bin/python --report out

Runs suite after suite, each by a command that is printed before its figures and gives them again. A suite that needs what the device has
not, or more memory than there is, is named as not run; a wrong answer ends the run with exit code 1. With --budget every command
has a share of the time that is left.";

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

/// The commands of a scale. `@` stands for the vectors to search.
fn plan(scale: Scale, device: &Device, vectors: Option<&[String]>) -> Vec<Planned> {
    let mut plan = vec![];
    let mut add = |weight: u32, text: &str| {
        let words = text.split_whitespace().flat_map(|word| match (word, vectors) {
            ("@", Some(vectors)) => vectors.to_vec(),
            _ => vec![word.to_owned()],
        });
        plan.push(Planned { words: words.collect(), weight });
    };
    let is_gpu = has_kernels(device);
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
                    "select --shapes 20000x500,1000x10000,100x100000,10x1000000 --k 1,2,4,8,16,32,64,128,256",
                );
                add(2, "select --shapes 100x1000000,1x1000000,1000x100000 --k 10,512,2048,10000,100000");
            }
        }
    }
    let search = match (vectors, scale) {
        (Some(_), _) => "@".to_owned(),
        (None, Scale::Small) => format!("--data embedding --rows {rows} --dim {high}"),
        (None, _) => format!("--data low-rank --rows {rows} --dim {high}"),
    };
    let most = if scale == Scale::Large { 10_000 } else { 1000 };
    match scale {
        Scale::Small => {
            add(1, &format!("distance --rows 4096 --dim {middle} --queries 1,64 --metric l2sq,cosine"));
            add(3, &format!("exact {search} --queries 1,16,256 --screen i8,none"));
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
                if vectors.is_some() { search } else { format!("--data embedding --rows 5000 --dim {low}") };
            add(2, &format!("ivf {vectors} --lists 300 --iterations 2 --probes 1,4,16,64 --queries 1,64"));
        }
        _ => {
            add(1, &format!("distance --rows 100000 --dim {middle} --queries 1,16,256 --metric l2sq,cosine"));
            add(1, &format!("distance --rows 100000 --dim {high} --queries 256 --metric l2sq,ip"));
            add(3, &format!("exact {search} --queries 1,8,100,1024,{most} -k 10,100"));
            add(2, &format!("exact {search} --queries 1,128,1024 --screen none"));
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
            add(4, &format!("ivf {search} --probes 1,4,16,64 --queries 1,100,{most}"));
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
fn beside(plan: &[Planned], device: &Device, python: &Path) -> Vec<Planned> {
    let mut commands = vec![];
    // Those that compute where we do: the others take minutes for what is seconds here.
    let names = if is_processor(device) { "numpy,faiss-cpu,usearch" } else { "torch,cuvs,faiss-gpu" };
    for (suite, weight) in [("exact", 3), ("ivf", 3), ("select", 1), ("reduce", 1)] {
        let Some(first) = plan.iter().find(|planned| planned.words.first().is_some_and(|word| word == suite))
        else {
            continue;
        };
        let mut words = ["peers", "--suites", suite, "--peers", names].map(str::to_owned).to_vec();
        for option in first.words[1..].chunks(2) {
            match option {
                // Of ours alone.
                [name, _] if name == "--screen" || name == "--operation" => {}
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
    let files = args.rows_file.as_ref().zip(args.queries_file.as_ref()).map(|(rows, queries)| {
        [
            "--rows-file".to_owned(),
            rows.display().to_string(),
            "--queries-file".to_owned(),
            queries.display().to_string(),
        ]
    });
    let mut plan = plan(scale, &run.device, files.as_ref().map(<[String; 4]>::as_slice));
    if args.peers {
        plan.extend(beside(&plan, &run.device, &args.python));
    }
    let deadline = run.deadline();
    let mut weights: u32 = plan.iter().map(|planned| planned.weight).sum();
    for planned in plan {
        let share = deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            Instant::now() + share_of(left, planned.weight, weights)
        });
        run.set_deadline(share);
        weights -= planned.weight;
        if let Err(error) = suite(&mut run, &planned, common) {
            // What was measured until then is to be seen.
            run.finish()?;
            return Err(error);
        }
    }
    run.finish()
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
