//! What the user sees and does meanwhile: lines, progress bars, and Ctrl-C.

pub mod interrupt;
pub mod output;
pub mod progress;

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Parser;

use crate::given::device;

/// The `main` of a program: reads its arguments, and does what they ask for. An error of the work is one line on
/// stderr, one of the arguments is followed by their usage.
pub fn run<P: Parser>(work: impl FnOnce(P) -> anyhow::Result<()>) -> ExitCode {
    let parsed = match P::try_parse() {
        Ok(parsed) => parsed,
        // Help, the version, or an error in clap's own words. A reader that leaves early is no failure.
        Err(error) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            return match error.print() {
                Err(cause) if cause.kind() != ErrorKind::BrokenPipe && code == 0 => {
                    output::complain(&format!("the output: {cause}"));
                    ExitCode::FAILURE
                }
                _ => ExitCode::from(code),
            };
        }
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
