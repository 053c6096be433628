//! Runs fuzz targets on mutated inputs, on stable Rust and for a given time:
//!
//! ```sh
//! cargo run -p nearfield-fuzz -- --seconds 60 index npy
//! ```
//!
//! Without names all targets run, side by side. An input that makes a target panic, or that takes more than ten seconds, is written to
//! `fuzz-TARGET.bin`, and the program fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{fs, thread};

use clap::Parser;
use clap::builder::PossibleValuesParser;
use nearfield_fuzz::mutate::Mutator;
use nearfield_fuzz::{TARGETS, Target};

/// A target that takes longer for one input has a fault.
const SLOW: Duration = Duration::from_secs(10);

/// Runs fuzz targets on mutated inputs.
#[derive(Debug, clap::Parser)]
struct Asked {
    /// How long, each target
    #[arg(long, value_name = "N", default_value_t = 10)]
    seconds: u64,
    /// Where mutations begin
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs the targets on a kept input instead
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// All, when none is given
    #[arg(value_parser = PossibleValuesParser::new(TARGETS.map(|target| target.name)))]
    targets: Vec<String>,
}

fn main() -> ExitCode {
    let asked = &Asked::parse();
    let is_asked =
        |target: &Target| asked.targets.is_empty() || asked.targets.iter().any(|name| name == target.name);
    let targets: Vec<Target> = TARGETS.into_iter().filter(is_asked).collect();
    let hold = thread::scope(|scope| {
        let runs: Vec<_> = targets.iter().map(|target| scope.spawn(|| holds(target, asked))).collect();
        runs.into_iter().all(|run| run.join().unwrap_or(false))
    });
    if hold { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a target holds for all inputs that are tried.
fn holds(target: &Target, asked: &Asked) -> bool {
    if let Some(path) = &asked.input {
        return fs::read(path).is_ok_and(|input| runs(target, &input));
    }
    let seeds = (target.seeds)();
    let end = Instant::now() + Duration::from_secs(asked.seconds);
    let mut inputs = 0u64;
    while Instant::now() < end {
        let mut mutator = Mutator::new(asked.seed.wrapping_add(inputs).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut input = match seeds.get(inputs as usize) {
            Some(seed) => seed.clone(),
            None => seeds[mutator.below(seeds.len())].clone(),
        };
        if inputs >= seeds.len() as u64 {
            mutator.mutate(&mut input);
        }
        inputs += 1;
        if !runs(target, &input) {
            let path = format!("fuzz-{}.bin", target.name);
            let written = fs::write(&path, &input).map_or_else(|error| error.to_string(), |()| path);
            println!("{}: input {inputs} of seed {} fails: {written}", target.name, asked.seed);
            return false;
        }
    }
    println!("{}: {inputs} inputs", target.name);
    true
}

/// Whether a target neither panics nor takes long.
fn runs(target: &Target, input: &[u8]) -> bool {
    let start = Instant::now();
    let done = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let took = start.elapsed();
    if took > SLOW {
        println!("{}: {took:?} for one input", target.name);
    }
    done.is_ok() && took <= SLOW
}
