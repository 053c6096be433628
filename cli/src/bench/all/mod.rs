//! `nearfield bench all`: every suite, in sizes that suit the device.

mod plan;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args as ClapArgs, Parser, Subcommand};
use nearfield::{Error, Metric};
use serde_json::json;

use super::ceilings::is_processor;
use super::run::{Common, Run, has_kernels};
use super::shell::command;
use super::{Suite, peers};
use crate::output;
use plan::{Files, Planned, Scale, beside, plan};

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
    use std::path::Path;

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
