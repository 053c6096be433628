//! Names of rows, for people.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// The names of rows, one a line of a text file.
#[derive(Debug)]
pub(crate) struct Labels {
    names: Vec<String>,
    /// The line of each id; none where the line of an id is the id.
    lines: Option<HashMap<u64, usize>>,
}

impl Labels {
    /// Reads the file of `--labels`. It has a line for each of these ids in their order, or else for each of as many rows or
    /// documents, as the word says.
    pub(crate) fn open(path: &Path, count: Option<(usize, &str)>, ids: Option<&[u64]>) -> Result<Self> {
        let context = || format!("--labels {}", path.display());
        // A pipe or a device may have no end.
        let about = std::fs::metadata(path).with_context(context)?;
        ensure!(about.is_file(), "{}: not a regular file", context());
        let text = std::fs::read(path).with_context(context)?;
        let text = String::from_utf8(text).ok();
        let text = text.with_context(|| format!("{}: needed lines of text in UTF-8", context()))?;
        let names: Vec<String> = text.lines().map(str::to_owned).collect();
        if let Some((count, one)) = count {
            let given = names.len();
            ensure!(given == count, "{}: needed {count} lines, one a {one}, given {given}", context());
        }
        let lines = ids.map(|ids| ids.iter().copied().zip(0..).collect());
        Ok(Self { names, lines })
    }

    /// Refuses a file without a line for an id.
    pub(crate) fn check_until(&self, id: u64) -> Result<()> {
        let given = self.names.len();
        ensure!(
            self.get(id).is_some(),
            "--labels: needed a line for id {id}, the largest, given {given} lines"
        );
        Ok(())
    }

    /// The name of the row with this id; none if the file has no line for it.
    pub(crate) fn get(&self, id: u64) -> Option<&str> {
        let line = match &self.lines {
            Some(lines) => *lines.get(&id)?,
            None => usize::try_from(id).ok()?,
        };
        self.names.get(line).map(String::as_str)
    }
}
