//! Runs fuzz targets on mutated inputs, on stable Rust and for a given time:
//!
//! ```sh
//! cargo run -p nearfield-fuzz -- --seconds 60 index npy
//! ```
//!
//! Without names all targets run, side by side. `--seed N` starts from other inputs. An input that makes a target panic, or that
//! takes more than ten seconds, is written to `fuzz-TARGET.bin`, and the program fails. `--input FILE` runs targets on such a file.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use nearfield_fuzz::mutate::Mutator;
use nearfield_fuzz::{TARGETS, Target};

/// A target that takes longer for one input has a fault.
const SLOW: Duration = Duration::from_secs(10);

/// The arguments of the program.
struct Asked {
    seconds: u64,
    seed: u64,
    input: Option<String>,
    targets: Vec<Target>,
}

fn asked() -> Result<Asked, String> {
    let mut asked = Asked { seconds: 10, seed: 1, input: None, targets: vec![] };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument}: needed a value, given none"));
        let number =
            |text: String| text.parse().map_err(|_| format!("{argument}: needed a number, given {text}"));
        match argument.as_str() {
            "--seconds" => asked.seconds = number(value()?)?,
            "--seed" => asked.seed = number(value()?)?,
            "--input" => asked.input = Some(value()?),
            name => match TARGETS.iter().find(|target| target.name == name) {
                Some(target) => asked.targets.push(*target),
                None => {
                    let names = TARGETS.map(|target| target.name).join(", ");
                    return Err(format!("target: needed one of {names}, given {name}"));
                }
            },
        }
    }
    if asked.targets.is_empty() {
        asked.targets = TARGETS.to_vec();
    }
    Ok(asked)
}

fn main() -> ExitCode {
    let asked = match asked() {
        Ok(asked) => asked,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let asked = &asked;
    let hold = thread::scope(|scope| {
        let runs: Vec<_> = asked.targets.iter().map(|target| scope.spawn(|| holds(target, asked))).collect();
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
        let mut input = seeds[mutator.below(seeds.len())].clone();
        if inputs >= seeds.len() as u64 {
            mutator.mutate(&mut input);
        } else {
            input.clone_from(&seeds[inputs as usize]);
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
