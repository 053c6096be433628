//! What reaches a terminal or a pipe: whole lines, an error where nothing can be written, and nothing that steers a terminal.

use std::io::Read;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::{Here, PROGRAM};

#[test]
fn a_reader_that_leaves_early_is_no_failure() -> Result<()> {
    let here = Here::new()?;
    for arguments in ["completions bash", "help search", "info --json"] {
        let mut command = PROGRAM.at(here.path(), arguments);
        let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        drop(running.stdout.take());
        let mut said = String::new();
        running.stderr.take().context("a pipe")?.read_to_string(&mut said)?;
        ensure!(running.wait()?.success() && !said.contains("panicked"), "{arguments}: {said}");
    }
    Ok(())
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_is_full_is_a_failure() -> Result<()> {
    let here = Here::new()?;
    for arguments in ["help search", "--version", "completions zsh"] {
        let mut command: Command = PROGRAM.at(here.path(), arguments);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
        let done = command.stdout(full).output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.code() == Some(1) && said.contains("No space left"), "{arguments}: {said}");
    }
    Ok(())
}

#[cfg(unix)]
#[test]
fn names_of_files_and_rows_do_not_steer_the_terminal() -> Result<()> {
    let here = Here::with_three_rows()?;
    let name = "\u{1b}[31mred\n\u{202e}.npy";
    for arguments in [&["show", name][..], &["search", "--rows", name, "--queries", name]] {
        let done = PROGRAM.at(here.path(), "").args(arguments).output()?;
        let said = String::from_utf8(done.stderr)?;
        ensure!(!done.status.success() && said.contains(r"\u{1b}[31mred"), "{said}");
        ensure!(!said.contains(['\u{1b}', '\u{202e}']), "{said:?}");
    }
    std::fs::write(here.at("names.txt"), "one\n\u{1b}]0;two\u{7}\nthree\n")?;
    let search = "search --rows three.npy --queries three.npy --device host --k 3 --show 3 --labels";
    let printed = here.run(&format!("{search} names.txt"))?;
    ensure!(printed.contains(r"\u{1b}]0;two\u{7} (id 1)") && !printed.contains('\u{1b}'), "{printed:?}");
    // A device has no end.
    here.fail(search, &[("/dev/zero", &["--labels /dev/zero", "not a regular file"])])
}
