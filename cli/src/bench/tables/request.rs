//! What the comment before a table asks for.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use super::super::lines::Line;
use super::kinds;

/// A kind, files, and options.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) kind: &'static str,
    /// Names in the document, and paths.
    pub(super) files: Vec<(String, PathBuf)>,
    /// Fields, and the values that they may have.
    filters: Vec<(String, Vec<String>)>,
    pub(super) columns: Option<Vec<String>>,
    pub(super) sort: Vec<String>,
    pub(super) across: Option<String>,
}

impl Request {
    /// Reads `KIND FILE… KEY=VALUE…` in a document of a directory.
    pub(super) fn read(text: &str, directory: &Path) -> Result<Self> {
        let mut words = text.split_whitespace();
        let given = words.next().unwrap_or_default();
        let Some(kind) = kinds::names().find(|name| *name == given) else {
            bail!("table: needed one of {}, given {given:?}", kinds::names().collect::<Vec<_>>().join(", "));
        };
        let mut request =
            Self { kind, files: vec![], filters: vec![], columns: None, sort: vec![], across: None };
        let (fields, options) = kinds::keys(kind);
        for word in words {
            let Some((key, values)) = word.split_once('=') else {
                let path = directory.join(word);
                let place = fs::canonicalize(&path).ok();
                let is_same = |other: &PathBuf| place.is_some() && fs::canonicalize(other).ok() == place;
                ensure!(
                    !request.files.iter().any(|(_, other)| is_same(other)),
                    "{word}: needed every file once, this one is there already"
                );
                request.files.push((word.to_owned(), path));
                continue;
            };
            let is_known = fields.contains(&key) || options.contains(&key);
            ensure!(
                is_known,
                "{key}=: needed one of {}",
                fields.iter().chain(options).map(|key| format!("{key}=")).collect::<Vec<_>>().join(", ")
            );
            let values: Vec<String> = values.split(',').map(str::to_owned).collect();
            ensure!(values.iter().all(|value| !value.is_empty()), "{key}=: needed a value, found none");
            match key {
                "columns" if options.contains(&key) => request.columns = Some(values),
                "sort" if options.contains(&key) => {
                    let unknown = values.iter().find(|value| !fields.contains(&value.as_str()));
                    if let Some(unknown) = unknown {
                        bail!("sort=: needed some of {}, given {unknown}", fields.join(", "));
                    }
                    request.sort = values;
                }
                "across" if options.contains(&key) => {
                    let [value] = &values[..] else {
                        bail!("across=: needed one field, given {}", values.len())
                    };
                    ensure!(
                        fields.contains(&value.as_str()),
                        "across=: needed one of {}, given {value}",
                        fields.join(", ")
                    );
                    request.across = Some(value.clone());
                }
                _ => request.filters.push((key.to_owned(), values)),
            }
        }
        ensure!(!request.files.is_empty(), "table {kind}: needed a file of lines, found none");
        Ok(request)
    }

    /// Whether a line is one of those asked for.
    pub(super) fn takes(&self, line: &Line) -> bool {
        self.filters.iter().all(|(key, values)| line.plain(key).is_some_and(|value| values.contains(&value)))
    }

    /// An error where a value was asked for that no line has: a table would lack a row without a word.
    pub(super) fn check_values(&self, lines: &[&Line]) -> Result<()> {
        for (key, values) in &self.filters {
            for value in values {
                let is_there = lines.iter().any(|line| line.plain(key).as_ref() == Some(value));
                ensure!(is_there, "{key}={value}: needed a line of it, found none");
            }
        }
        Ok(())
    }

    /// The filters as they were written.
    pub(super) fn filters(&self) -> String {
        let filters = self.filters.iter().map(|(key, values)| format!(" {key}={}", values.join(",")));
        filters.collect()
    }

    /// The only values that a field may have, if there are any such.
    pub(super) fn values(&self, key: &str) -> Option<&[String]> {
        self.filters.iter().find(|(other, _)| other == key).map(|(_, values)| &values[..])
    }
}
