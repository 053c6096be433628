//! The process that runs peers.py.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

const SOURCE: &str = include_str!("peers.py");
/// The time that the script has to end its processes before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// A script that waits for its files. It ends when this program ends for any reason, because the pipe that it reads is then
/// closed, and removes its files. An interrupt from the terminal reaches both.
pub(super) struct Script {
    python: PathBuf,
    child: Child,
    pipe: Option<ChildStdin>,
    /// The directory for its files.
    pub(super) scratch: TempDir,
}

impl Script {
    pub(super) fn start(python: &Path, words: impl FnOnce(&Path) -> Result<Vec<OsString>>) -> Result<Self> {
        let scratch = tempfile::Builder::new().prefix("nearfield-peers-").tempdir().context("TMPDIR")?;
        let path = scratch.path().join("peers.py");
        fs::write(&path, SOURCE).with_context(|| format!("TMPDIR: {}", path.display()))?;
        let mut command = Command::new(python);
        command.arg(&path).arg("--scratch").arg(scratch.path()).args(words(scratch.path())?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .with_context(|| format!("--python: needed a Python, {} does not start", python.display()))?;
        let pipe = child.stdin.take();
        Ok(Self { python: python.to_owned(), child, pipe, scratch })
    }

    /// Runs the script for the remaining time, and passes on its lines as they come.
    pub(super) fn run(
        mut self,
        left: Option<Duration>,
        mut tell: impl FnMut(Value) -> Result<()>,
    ) -> Result<()> {
        let python = self.python.display().to_string();
        let time = left.map_or_else(String::new, |left| left.as_secs_f64().to_string());
        if let Some(pipe) = &mut self.pipe {
            // If it has ended already, its status says why.
            pipe.write_all(format!("{time}\n").as_bytes()).ok();
        }
        let lines = self.child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
        let mut count = 0;
        for (number, line) in (1..).zip(lines) {
            let line = line.with_context(|| format!("--python: line {number} of {python}"))?;
            let value: Value = serde_json::from_str(&line).unwrap_or_default();
            match value["record"].as_str() {
                Some("failed") => bail!("{}", value["reason"].as_str().unwrap_or("the peers failed")),
                Some("peer" | "peers") => tell(value)?,
                _ => bail!(
                    "--python: needed lines of peers from {python}, line {number} is {:?}",
                    line.chars().take(80).collect::<String>()
                ),
            }
            count = number;
        }
        let status = self.child.wait().with_context(|| format!("--python: {python}"))?;
        ensure!(status.success(), "--python: {python} ended with {status} after {count} lines");
        ensure!(count > 0, "--python: needed lines of peers from {python}, it printed none");
        Ok(())
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.pipe = None;
        let end = Instant::now() + GRACE;
        while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // It has ended, or does not react.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
