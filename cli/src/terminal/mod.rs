//! What the user sees and does meanwhile: lines, progress bars, and Ctrl-C.

pub mod interrupt;
pub mod output;
pub mod progress;

use std::process::ExitCode;

use clap::Parser;

use crate::given::device;

/// The `main` of a program: reads its arguments, and does what they ask for. An error is one line on stderr.
pub fn run<P: Parser>(work: impl FnOnce(P) -> anyhow::Result<()>) -> ExitCode {
    let parsed = match P::try_parse() {
        Ok(parsed) => parsed,
        Err(error) => return output::refuse(&error),
    };
    if let Err(error) = interrupt::clean_up() {
        output::complain(&format!("signals: {error}"));
        return ExitCode::FAILURE;
    }
    match work(parsed) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader left early: `nearfield info | head -1` is no failure.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&output::one_line(&device::in_words(error)));
            ExitCode::FAILURE
        }
    }
}
