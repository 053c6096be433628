//! Writes the lines of a run: to the standard output, and to the directory of its report.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::lines::Line;
use crate::report;

/// The file of lines in a report's directory.
pub(super) const LINES: &str = "figures.jsonl";

pub(super) struct Told {
    is_json: bool,
    report: Option<PathBuf>,
    /// The file of the report's lines. It is created with the first line, so that wrong arguments destroy no old report.
    file: Option<File>,
    lines: Vec<Line>,
}

impl Told {
    pub(super) fn new(is_json: bool, report: Option<PathBuf>) -> Self {
        Self { is_json, report, file: None, lines: vec![] }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Writes and prints a line at once.
    pub(super) fn tell(&mut self, line: Value, text: &str) -> Result<()> {
        // One write per line, so that an interrupted run leaves whole lines.
        let json = format!("{line}\n");
        if let Some(directory) = &self.report {
            let file = match &mut self.file {
                Some(file) => file,
                none => none.insert(opened(directory)?),
            };
            file.write_all(json.as_bytes()).with_context(|| format!("--report: {}", directory.display()))?;
        }
        if let Value::Object(fields) = line {
            self.lines.push(Line(fields));
        }
        let printed = if self.is_json { json } else { format!("{text}\n") };
        let mut out = stdout().lock();
        match out.write_all(printed.as_bytes()).and_then(|()| out.flush()) {
            // A report is written even if nobody reads the output.
            Err(error) if error.kind() == ErrorKind::BrokenPipe && self.report.is_some() => Ok(()),
            done => Ok(done?),
        }
    }

    /// Writes the page, if one was requested.
    pub(super) fn finish(self) -> Result<()> {
        let Some((directory, file)) = self.report.zip(self.file) else { return Ok(()) };
        file.sync_all().with_context(|| format!("--report: {}", directory.display()))?;
        let page = report::write(&directory, &self.lines).context("--report")?;
        if !self.is_json {
            writeln!(stdout(), "{}", page.display())?;
        }
        Ok(())
    }
}

/// Opens an empty file of lines for this run alone, and removes the page of the old lines.
fn opened(directory: &Path) -> Result<File> {
    let about = || format!("--report: {}", directory.display());
    fs::create_dir_all(directory).with_context(about)?;
    let file = File::options()
        .create(true)
        .write(true)
        .truncate(false)
        .open(directory.join(LINES))
        .with_context(about)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => bail!("{}: another run is writing there", about()),
        // Some file systems have no locks.
        _ => file.set_len(0).with_context(about)?,
    }
    report::remove(directory).with_context(about)?;
    Ok(file)
}
