//! `nearfield-bench all`: every suite, in sizes that suit the device.

mod plan;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args as ClapArgs;
use nearfield::{Error, Metric};
use serde_json::json;

use super::gpu::{has_kernels, is_processor};
use super::peers::PYTHON;
use super::run::{Common, Run};
use super::step::Step;
use nearfield_cli::terminal::output;
use plan::{Files, Planned, Scale, beside, plan};

#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// Sizes of the cases: by default large for a GPU with its own memory, medium for one that shares it, small if the
    /// processor computes
    #[arg(long, value_enum, value_name = "SCALE")]
    scale: Option<Scale>,
    /// Search the rows of this file first, and with indexes as `nearfield build` makes them
    #[arg(long = "rows", value_name = "FILE", requires = "queries_file")]
    rows_file: Option<PathBuf>,
    /// File of the queries
    #[arg(long = "queries", value_name = "FILE", requires = "rows_file")]
    queries_file: Option<PathBuf>,
    /// Metric for the files: l2sq, l2, cosine, ip
    #[arg(long, default_value = "cosine", requires = "rows_file", value_parser = nearfield_cli::given::arguments::metric_of_numbers)]
    metric: Metric,
    /// Run other libraries at the same work afterwards, as `nearfield-bench peers` does
    #[arg(long)]
    peers: bool,
    /// Python that has the libraries
    #[arg(long, default_value = PYTHON, value_name = "PROGRAM", requires = "peers")]
    python: PathBuf,
}

pub(super) const HELP: &str = "\
Examples:
  nearfield-bench all --report out
  nearfield-bench all --budget 120s --report out
  nearfield-bench all --scale small --json > figures.jsonl
  nearfield-bench all --rows base.npy --queries query.npy --metric l2sq --report out
  nearfield-bench all --peers --python venv/bin/python --report out

Runs one suite after another, and prints before its figures the command that repeats it. A suite that needs a feature the \
device lacks, more memory than there is, or more than --scratch is named as not run, and the others go on. A wrong answer or \
any other error is reported as a `failed` record and ends the run with exit code 1; the report then holds what was finished. \
--budget is shared out among the commands. Numbers of queries, neighbours, lists and probes never exceed what the files hold.";

pub(super) fn run(args: &Args, common: &Common) -> Result<()> {
    let mut run = Run::open(common)?;
    run.check(false)?;
    let scale = args.scale.unwrap_or_else(|| Scale::of(&run.device));
    let files = args.rows_file.as_ref().zip(args.queries_file.as_ref());
    let files = files.map(|(rows, queries)| Files::open(rows, queries, args.metric)).transpose()?;
    let mut plan = plan(scale, has_kernels(&run.device), files.as_ref());
    if args.peers {
        plan.extend(beside(&plan, is_processor(&run.device), &args.python));
    }
    let done = run_plan(&mut run, &plan, common);
    run.finish(done)
}

fn run_plan(run: &mut Run, plan: &[Planned], common: &Common) -> Result<()> {
    // All suites use the ceilings, so they are measured before the time is shared out.
    run.begin("all", plan.len())?;
    let deadline = run.deadline;
    let mut weights: u32 = plan.iter().map(|planned| planned.weight).sum();
    for planned in plan {
        run.deadline = deadline.map(|deadline| {
            let now = Instant::now();
            now + deadline.saturating_duration_since(now) * planned.weight / weights.max(1)
        });
        weights -= planned.weight;
        run_step(run, &planned.words, common)?;
    }
    Ok(())
}

fn run_step(run: &mut Run, words: &[String], common: &Common) -> Result<()> {
    let step = Step::parse(words)?;
    let (name, case) = (&words[0], output::command(words));
    let is_peers = matches!(step, Step::Peers(_));
    let more = if is_peers { common.shared.words() } else { common.words() };
    let command = format!("nearfield-bench {}", output::command(words.iter().chain(&more)));
    run.begin(name, 1)?;
    run.tell(json!({ "record": "suite", "suite": name, "command": command }), &format!("\n$ {command}"))?;
    if run.is_over(&case)? {
        return Ok(());
    }
    let Err(error) = step.suite().run(run) else { return Ok(()) };
    // The other figures do not depend on the peers, nor on what this device cannot do.
    let is_optional = match error.downcast_ref::<Error>() {
        Some(Error::OutOfMemory { .. } | Error::Unsupported { .. } | Error::Budget { .. }) => true,
        _ => is_peers && !output::is_broken_pipe(&error),
    };
    if is_optional { run.not_run(&case, &output::one_line(&error)) } else { Err(error) }
}
