//! Helpers that several test modules share: running the program and reading what it printed.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The program under test. Without a runtime directory drivers would print errors of their own, which no user may see.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfield"));
    command.env_remove("XDG_RUNTIME_DIR").env_remove("WAYLAND_DISPLAY");
    command
}

/// Runs the program in a directory.
pub(crate) fn run(directory: &Path, arguments: &[&str]) -> Result<Output> {
    Ok(program().current_dir(directory).args(arguments).output()?)
}

/// Checks that a run succeeded, and returns what it printed.
pub(crate) fn succeeded(output: Output) -> Result<String> {
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} {complaint}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Checks that a run failed, printed nothing, and complained in one line that holds all `parts`.
pub(crate) fn failed(output: &Output, parts: &[&str]) -> Result<()> {
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(matches!(output.status.code(), Some(1 | 2)), "{} {complaint}", output.status);
    ensure!(!complaint.contains("panicked") && !complaint.contains("backtrace"), "{complaint}");
    let errors: Vec<&str> = complaint.lines().filter(|line| line.starts_with("error: ")).collect();
    ensure!(errors.len() == 1, "needed one error line, found {complaint}");
    ensure!(
        complaint.trim_end().ends_with(errors[0]),
        "needed nothing after the error line, found {complaint}"
    );
    for part in parts {
        ensure!(errors[0].contains(part), "needed {part:?} in {}", errors[0]);
    }
    ensure!(output.stdout.is_empty(), "printed {}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// Parses JSON lines.
pub(crate) fn lines(text: &str) -> Result<Vec<Value>> {
    text.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

/// Writes values as JSON lines.
pub(crate) fn jsonl(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}
