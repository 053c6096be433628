//! The process that runs peers.py.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

const SOURCE: &str = include_str!("peers.py");
/// The time that the script has to end its processes before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// A script that waits for its files. It ends when this program ends for any reason, because the pipe that it reads is then
/// closed, and removes its directory. An interrupt from the terminal reaches both.
pub(super) struct Script {
    python: String,
    child: Child,
    pipe: Option<ChildStdin>,
}

/// Fails without a Python that has numpy.
pub(super) fn check(python: &Path) -> Result<()> {
    let name = python.display();
    let absent = || format!("--python: needed a Python, {name} does not start");
    let tried = Command::new(python).args(["-c", "import numpy"]).output().with_context(absent)?;
    let text = String::from_utf8_lossy(&tried.stderr);
    let reason = text.lines().last().map_or_else(|| tried.status.to_string(), str::to_owned);
    ensure!(tried.status.success(), "--python: needed a Python with numpy 2, {name} says: {reason}");
    Ok(())
}

impl Script {
    pub(super) fn start(python: &Path, scratch: &Path, options: &Value) -> Result<Self> {
        let path = scratch.join("peers.py");
        fs::write(&path, SOURCE).with_context(|| format!("TMPDIR: {}", path.display()))?;
        let mut command = Command::new(python);
        command.arg(&path).arg(options.to_string());
        let python = python.display().to_string();
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("--python: {python}"))?;
        Ok(Self { python, pipe: child.stdin.take(), child })
    }

    /// Lets the script begin, and passes on its lines as they come.
    pub(super) fn run(mut self, mut tell: impl FnMut(Value) -> Result<()>) -> Result<()> {
        let python = &self.python;
        if let Some(pipe) = &mut self.pipe {
            // If it has ended already, its status says why.
            let _ = pipe.write_all(b"\n");
        }
        let lines = self.child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
        let mut count = 0;
        for (number, line) in (1..).zip(lines) {
            let line = line.with_context(|| format!("--python: line {number} of {python}"))?;
            let value: Value = serde_json::from_str(&line).unwrap_or_default();
            match value["record"].as_str() {
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
