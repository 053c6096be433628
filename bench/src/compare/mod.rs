//! `nearfield-bench compare`: compares two runs case by case.

mod pairs;
mod print;

use std::io::{Write, stdout};
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail, ensure};
use clap::Args as ClapArgs;

use super::lines::read;
use nearfield_cli::terminal::output;
use pairs::{Pairs, cases};
use print::{Head, as_json, as_table};

#[derive(Debug, ClapArgs)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    /// JSON lines of the earlier run
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// JSON lines of the later run, which is judged
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Fail when a case is slower by more than this
    #[arg(long, value_name = "PERCENT", value_parser = percentage)]
    fail_over: Option<f64>,
    /// Print JSON lines instead of a table
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  nearfield-bench compare old.jsonl new.jsonl
  nearfield-bench compare old.jsonl new.jsonl --fail-over 10%

A ratio is the new median over the old one: above 1 is slower. The brackets hold its range: from the least new time \
over the most old one to the most new one over the least old one. Cases match by suite and name. When a file has a case twice, \
the last one counts.

Without --fail-over a case is `slower` when its least new time is above its most old one, and `faster` in the opposite case. \
Neither fails.

With --fail-over the ratio must be past the limit, too. If it is, but old and new times overlap, the case is `noisy` and does not \
fail: measure again on a quiet machine. Both the wall clock and the time on the device are judged; a case slower by either makes the exit code 1.

A case that failed or has a wrong answer in the new file makes the exit code 1 with and without --fail-over. Cases of only one \
file are listed and do not fail.

JSON lines, one object each; times in milliseconds:
  {\"record\":\"compare\", old, new, differs}
  {\"record\":\"ratio\", suite, case, old_ms, new_ms, ratio, ratio_least, ratio_most, and the same of device_ms: old_device_ms,
   new_device_ms, device_ratio, device_ratio_least, device_ratio_most, verdict (slower, faster, noisy, same), device_verdict}
  {\"record\":\"only\", suite, case, in (old or new), reason}: a case without times in the other file
  {\"record\":\"failed\", suite, case (null if it had no name yet), reason}: a failure in the new file
  {\"record\":\"mean\", suite, cases, ratio, device_ratio}, geometric means";

fn percentage(text: &str) -> Result<f64> {
    let number = text.strip_suffix('%');
    let percent = number.unwrap_or(text).trim().parse().ok().filter(|part| (0.0..1e6).contains(part));
    // 0.1 without a sign may stand for a tenth.
    match percent {
        Some(percent) if number.is_some() || percent == 0.0 || percent >= 1.0 => Ok(percent / 100.0),
        _ => Err(anyhow!("needed a percentage such as 10% or 0.5%")),
    }
}

pub(super) fn run(args: &Args) -> Result<()> {
    let [old_lines, new_lines] = [read(&args.old)?, read(&args.new)?];
    let [old, new] = [&old_lines, &new_lines].map(|lines| cases(lines));
    let pairs = Pairs::new(&old.0, &new.0, args.fail_over);
    ensure!(
        !pairs.ratios.is_empty() || !pairs.failed.is_empty(),
        "needed a case with times in both files, found none in {} cases of {} and {} of {}",
        old.0.len(),
        args.old.display(),
        new.0.len(),
        args.new.display()
    );
    let heads = [
        Head::new("old", args.old.display().to_string(), &old_lines, old.1),
        Head::new("new", args.new.display().to_string(), &new_lines, new.1),
    ];
    let text = if args.json { as_json(&heads, &pairs) } else { as_table(&heads, &pairs) };
    match stdout().write_all(text.as_bytes()).map_err(anyhow::Error::from) {
        // The exit code holds also when the reader of the table leaves early.
        Err(error) if !output::is_broken_pipe(&error) => return Err(error),
        _ => {}
    }
    let (all, failed) = (pairs.ratios.len() + pairs.failed.len(), pairs.failed.len());
    let slower = pairs.ratios.iter().filter(|ratio| ratio.is_slower()).count();
    let percent = args.fail_over.map(|limit| (limit * 1e6).round() / 1e4);
    match (percent, slower, failed) {
        (Some(percent), 1.., 0) => bail!("--fail-over {percent}%: {slower} of {all} cases slower"),
        (Some(percent), 1.., _) => {
            bail!("--fail-over {percent}%: {slower} of {all} cases slower, {failed} failed")
        }
        (_, _, 1..) => bail!("{}: {failed} of {all} cases failed", args.new.display()),
        _ => Ok(()),
    }
}
