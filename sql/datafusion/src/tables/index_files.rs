//! The files of saved indexes that a text names, and their partitions.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::physical_plan::ExecutionPlan;

use crate::index_paths::source_of_paths;

/// The index files that a text names, in the order of their names.
pub(crate) fn index_files(text: &str) -> Result<Vec<String>> {
    let mut files: Vec<PathBuf> = vec![];
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let path = Path::new(part);
        if !path.is_dir() {
            files.push(path.to_owned());
            continue;
        }
        let mut inside: Vec<PathBuf> = path
            .read_dir()
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
            .map_err(|error| plan_datafusion_err!("{part}: {error}"))?;
        inside.retain(|path| path.extension().is_some_and(|extension| extension == "nf"));
        inside.sort();
        if inside.is_empty() {
            return plan_err!("needed index files (.nf), there are none in {part}");
        }
        files.extend(inside);
    }
    if files.is_empty() {
        return plan_err!("needed a file, given {text:?}");
    }
    let mut seen = HashSet::new();
    // A file that is not on the machine that plans counts by its name.
    files.retain(|file| seen.insert(file.canonicalize().unwrap_or_else(|_| file.clone())));
    let text = |file: PathBuf| {
        file.into_os_string()
            .into_string()
            .map_err(|name| plan_datafusion_err!("needed a name in UTF-8, given {name:?}"))
    };
    files.into_iter().map(text).collect()
}

/// The input of an operator that reads these files. Each partition reads a stretch of them, one after the other: all at once would load all.
pub(crate) fn paths_of_partitions(files: &[String], session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
    let at_once = session.config().target_partitions().clamp(1, files.len().max(1));
    let start = |number: usize| number * files.len() / at_once;
    let partition = |number: usize| files[start(number)..start(number + 1)].to_vec();
    source_of_paths(&(0..at_once).map(partition).collect::<Vec<_>>())
}
