//! Prints the rows or documents that a search found, and writes them to files.

use std::io::{self, BufWriter, Write, stdout};
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use nearfield::io::{Ids, write_file, write_npy, write_ranking, write_truth};
use nearfield::{DocumentScore, Neighbor};
use serde_json::to_string;

use super::args::Args;
use super::labels::Labels;
use nearfield_cli::memory;

/// Endings of the files of `--out`.
pub(super) const ENDINGS: &[&str] = &["csv", "jsonl", "npz"];

/// Lines of text for all that was found.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum Format {
    /// A line a neighbour: query, rank, id, distance
    Csv,
    /// A line a query: its ids and distances
    Jsonl,
}

impl Format {
    /// That of a file's name; none for arrays.
    fn of(path: &Path) -> Option<Self> {
        Self::from_str(path.extension()?.to_str()?, true).ok()
    }
}

/// Neighbours of a query that are printed.
const PRINTED: usize = 5;

/// A row or a document that a search found.
pub(super) trait Hit {
    /// What it was found by, one and several.
    const VALUE: [&'static str; 2];
    fn id(&self) -> u64;
    fn value(&self) -> f32;
    /// Writes the arrays of all queries to an npz.
    fn write(path: &Path, ids: &Ids, values: &[f32]) -> nearfield::Result<()>;
}

impl Hit for Neighbor {
    const VALUE: [&'static str; 2] = ["distance", "distances"];

    fn id(&self) -> u64 {
        self.id
    }

    fn value(&self) -> f32 {
        self.distance
    }

    fn write(path: &Path, ids: &Ids, values: &[f32]) -> nearfield::Result<()> {
        write_truth(path, ids, values)
    }
}

impl Hit for DocumentScore {
    const VALUE: [&'static str; 2] = ["score", "scores"];

    fn id(&self) -> u64 {
        self.id
    }

    fn value(&self) -> f32 {
        self.score
    }

    fn write(path: &Path, ids: &Ids, values: &[f32]) -> nearfield::Result<()> {
        write_ranking(path, ids, values)
    }
}

/// What all queries found, with the names of rows or documents.
pub(super) struct Found<'a, H> {
    /// Of each query.
    pub(super) hits: Vec<&'a [H]>,
    /// The number asked for; none if all within a radius were.
    pub(super) k: Option<usize>,
    pub(super) labels: Option<&'a Labels>,
}

impl<H: Hit> Found<'_, H> {
    /// How many all queries found.
    pub(super) fn count(&self) -> usize {
        self.hits.iter().map(|hits| hits.len()).sum()
    }

    fn label(&self, id: u64) -> Option<&str> {
        self.labels.and_then(|labels| labels.get(id))
    }

    /// What the first queries found, a line each: `(name, value)`.
    pub(super) fn lines(&self, queries: usize) -> Vec<(String, String)> {
        let line = |(query, hits): (usize, &&[H])| {
            let texts = hits.iter().take(PRINTED).map(|hit| match self.label(hit.id()) {
                Some(label) => format!("{label} (id {}) at {}", hit.id(), hit.value()),
                None => format!("id {} at {}", hit.id(), hit.value()),
            });
            let mut text = texts.collect::<Vec<_>>().join(", ");
            match hits.len() {
                0 => text.push_str("nothing"),
                count if count > PRINTED => text.push_str(&format!(", and {} more", count - PRINTED)),
                _ => {}
            }
            (format!("query {query}"), text)
        };
        self.hits.iter().enumerate().take(queries).map(line).collect()
    }

    /// Writes what was asked for.
    pub(super) fn write(&self, args: &Args) -> Result<()> {
        if let Some(format) = args.streamed() {
            let mut out = BufWriter::new(stdout().lock());
            self.write_lines(&mut out, format)?;
            out.flush()?;
        } else if let Some(path) = &args.out {
            self.write_all(path).context("--out")?;
        }
        let shape = [self.hits.len(), self.k.unwrap_or(0)];
        if let Some(path) = &args.ids {
            write_npy(path, shape, &self.ids()?).context("--ids")?;
        }
        if let Some(path) = &args.distances {
            write_npy(path, shape, &self.values()?).context("--distances")?;
        }
        Ok(())
    }

    fn write_all(&self, path: &Path) -> Result<()> {
        if let Some(format) = Format::of(path) {
            return Ok(write_file(path, |file| self.write_lines(file, format))?);
        }
        let (rows, width) = (self.hits.len(), self.k.unwrap_or(0));
        Ok(H::write(path, &Ids { values: self.ids()?, rows, width }, &self.values()?)?)
    }

    fn write_lines(&self, file: &mut dyn Write, format: Format) -> io::Result<()> {
        let queries = self.hits.iter().enumerate();
        match format {
            Format::Csv => {
                let mut table = csv::Writer::from_writer(file);
                let names = ["query", "rank", "id", H::VALUE[0], "label"];
                let columns = if self.labels.is_some() { 5 } else { 4 };
                table.write_record(&names[..columns])?;
                for (query, hits) in queries {
                    for (rank, hit) in hits.iter().enumerate() {
                        let label = self.label(hit.id()).unwrap_or_default().to_owned();
                        let fields = [
                            query.to_string(),
                            rank.to_string(),
                            hit.id().to_string(),
                            hit.value().to_string(),
                            label,
                        ];
                        table.write_record(&fields[..columns])?;
                    }
                }
                table.flush()
            }
            Format::Jsonl => {
                for (query, hits) in queries {
                    let ids: Vec<u64> = hits.iter().map(H::id).collect();
                    let values: Vec<f32> = hits.iter().map(H::value).collect();
                    // A JSON value would widen f32 to f64.
                    let (ids, values, name) = (to_string(&ids)?, to_string(&values)?, H::VALUE[1]);
                    write!(file, r#"{{"query":{query},"ids":{ids},"{name}":{values}"#)?;
                    if self.labels.is_some() {
                        let labels: Vec<Option<&str>> = hits.iter().map(|hit| self.label(hit.id())).collect();
                        write!(file, r#","labels":{}"#, to_string(&labels)?)?;
                    }
                    writeln!(file, "}}")?;
                }
                Ok(())
            }
        }
    }

    /// Ids `[queries, k]`, padded with -1.
    fn ids(&self) -> Result<Vec<i64>> {
        self.padded(-1, |hit| i64::try_from(hit.id()).unwrap_or(-1))
    }

    /// Distances or scores `[queries, k]`, padded with NaN.
    fn values(&self) -> Result<Vec<f32>> {
        self.padded(f32::NAN, H::value)
    }

    fn padded<T: Clone>(&self, padding: T, value: impl Fn(&H) -> T) -> Result<Vec<T>> {
        let (queries, k) = (self.hits.len(), self.k.unwrap_or(0));
        let mut values = memory::filled(queries.checked_mul(k), padding, || {
            format!("needed memory for {queries} x {k} results, there is not that much")
        })?;
        for (hits, values) in self.hits.iter().zip(values.chunks_mut(k.max(1))) {
            hits.iter().zip(values).for_each(|(hit, place)| *place = value(hit));
        }
        Ok(values)
    }
}
