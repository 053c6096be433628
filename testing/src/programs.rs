//! Runs of a program in a directory, and what it printed.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A program under test, by its path: `Program(env!("CARGO_BIN_EXE_nearfield"))`.
#[derive(Debug, Clone, Copy)]
pub struct Program(pub &'static str);

impl Program {
    /// The program without arguments. It has no runtime directory, without which drivers would print errors of their own: no user may
    /// see those.
    pub fn command(self) -> Command {
        let mut command = Command::new(self.0);
        command.env_remove("XDG_RUNTIME_DIR").env_remove("WAYLAND_DISPLAY");
        command
    }

    /// The program in a directory, with arguments in one line.
    pub fn at(self, directory: &Path, arguments: &str) -> Command {
        let mut command = self.command();
        command.current_dir(directory).args(arguments.split_whitespace());
        command
    }

    /// Runs the program in a directory.
    pub fn run(self, directory: &Path, arguments: &str) -> Result<Output> {
        Ok(self.at(directory, arguments).output()?)
    }

    /// As [`run`](Self::run), with arguments that may hold spaces.
    pub fn run_words(self, directory: &Path, arguments: &[&str]) -> Result<Output> {
        Ok(self.command().current_dir(directory).args(arguments).output()?)
    }

    /// Runs the program, which has to succeed, and returns what it printed.
    pub fn succeed(self, directory: &Path, arguments: &str) -> Result<String> {
        succeeded(self.run(directory, arguments)?).with_context(|| arguments.to_owned())
    }

    /// As [`succeed`](Self::succeed), for a run that prints one JSON object.
    pub fn record(self, directory: &Path, arguments: &str) -> Result<Value> {
        let printed = self.succeed(directory, &format!("{arguments} --json"))?;
        ensure!(printed.lines().count() == 1, "{arguments}: needed one line, found {printed}");
        Ok(serde_json::from_str(&printed)?)
    }

    /// Runs the program, which has to fail with one line that holds all `parts`, print nothing, and leave no file behind.
    pub fn fail(self, directory: &Path, arguments: &str, parts: &[&str]) -> Result<()> {
        let before = names(directory)?;
        failed(&self.run(directory, arguments)?, parts).with_context(|| arguments.to_owned())?;
        ensure!(names(directory)? == before, "{arguments}: {before:?} became {:?}", names(directory)?);
        Ok(())
    }
}

/// Hides the drivers of this machine from a program: the loader of Vulkan drivers, told of none, finds none.
pub fn hide_drivers(command: &mut Command) -> &mut Command {
    for name in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        command.env(name, "/no/such/file");
    }
    // OpenGL would show a software driver.
    command.env("WGPU_BACKEND", "vulkan").env_remove("VK_ADD_DRIVER_FILES").env_remove("NEARFIELD_ADAPTER")
}

/// Checks that a run succeeded, and returns what it printed.
pub fn succeeded(output: Output) -> Result<String> {
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} {complaint}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Checks that a run failed, printed nothing, and complained: in one line of all `parts`, or, about its arguments, with their usage
/// behind that line.
pub fn failed(output: &Output, parts: &[&str]) -> Result<()> {
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(matches!(output.status.code(), Some(1 | 2)), "{} {complaint}", output.status);
    ensure!(!complaint.contains("panicked") && !complaint.contains("backtrace"), "{complaint}");
    let (_, error) = complaint.rsplit_once("error: ").context("needed an error, found none")?;
    ensure!(
        output.status.code() == Some(2) || error.lines().count() == 1,
        "needed one line, found {complaint}"
    );
    for part in parts {
        ensure!(complaint.contains(part), "needed {part:?} in {complaint}");
    }
    ensure!(output.stdout.is_empty(), "printed {}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// Parses JSON lines.
pub fn lines(text: &str) -> Result<Vec<Value>> {
    text.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

/// Writes values as JSON lines.
pub fn jsonl(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

/// The names of the files in a directory, in order.
pub fn names(directory: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(directory)?.collect::<std::io::Result<Vec<_>>>()?;
    let mut names: Vec<_> =
        entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Whether there is a device. A test without one says that it is skipped.
pub fn has_device() -> bool {
    is_there(nearfield::Device::best())
}

/// The adapter for tests of kernels: the one that the environment asks for, or any GPU or software driver.
pub fn adapter() -> String {
    std::env::var("NEARFIELD_ADAPTER")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "gpu".to_owned())
}

/// Whether there is an adapter for tests of kernels.
pub fn has_adapter() -> bool {
    is_there(nearfield::Device::named(&adapter()))
}

fn is_there(device: nearfield::Result<nearfield::Device>) -> bool {
    let Err(error) = device else { return true };
    assert_ne!(std::env::var("NEARFIELD_REQUIRE_GPU").as_deref(), Ok("1"), "{error}");
    println!("skipped: {error}");
    false
}

/// An fbin file of zeros, which takes no space on the disk.
pub fn zeros(path: &Path, rows: u32, dim: u32) -> Result<File> {
    let mut file = File::create(path)?;
    file.write_all(&rows.to_le_bytes())?;
    file.write_all(&dim.to_le_bytes())?;
    file.set_len(8 + u64::from(rows) * u64::from(dim) * 4)?;
    Ok(file)
}
