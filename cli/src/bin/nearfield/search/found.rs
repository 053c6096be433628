//! Prints the neighbours that a search found, and writes them to files.

use std::path::Path;

use anyhow::{Context, Result};
use nearfield::io::{Ids, write_file, write_npy, write_truth};
use nearfield::{Neighbor, Neighbors};
use serde_json::to_string;

use super::labels::Labels;
use nearfield_cli::memory;

/// Endings of the files of `--out`.
pub(super) const ENDINGS: &[&str] = &["csv", "jsonl", "npz"];

/// Neighbours of a query that are printed.
const PRINTED: usize = 5;

/// The neighbours of all queries, with the names of rows.
pub(super) struct Found<'a> {
    pub(super) neighbors: &'a Neighbors,
    /// Neighbours asked for; none if all within a radius were.
    pub(super) k: Option<usize>,
    pub(super) labels: Option<&'a Labels>,
}

impl Found<'_> {
    fn label(&self, id: u64) -> Option<&str> {
        self.labels.and_then(|labels| labels.get(id))
    }

    /// The nearest rows of the first queries, a line each: `(name, value)`.
    pub(super) fn lines(&self, queries: usize) -> Vec<(String, String)> {
        let line = |(query, hits): (usize, &[Neighbor])| {
            let texts = hits.iter().take(PRINTED).map(|hit| match self.label(hit.id) {
                Some(label) => format!("{label} (id {}) at {}", hit.id, hit.distance),
                None => format!("id {} at {}", hit.id, hit.distance),
            });
            let mut text = texts.collect::<Vec<_>>().join(", ");
            match hits.len() {
                0 => text.push_str("nothing"),
                count if count > PRINTED => text.push_str(&format!(", and {} more", count - PRINTED)),
                _ => {}
            }
            (format!("query {query}"), text)
        };
        self.neighbors.iter().enumerate().take(queries).map(line).collect()
    }

    /// Writes the files that were asked for.
    pub(super) fn write(
        &self,
        out: Option<&Path>,
        ids: Option<&Path>,
        distances: Option<&Path>,
    ) -> Result<()> {
        if let Some(path) = out {
            self.write_all(path).context("--out")?;
        }
        let shape = [self.neighbors.queries(), self.k.unwrap_or(0)];
        if let Some(path) = ids {
            write_npy(path, shape, &self.ids()?).context("--ids")?;
        }
        if let Some(path) = distances {
            write_npy(path, shape, &self.distances()?).context("--distances")?;
        }
        Ok(())
    }

    fn write_all(&self, path: &Path) -> Result<()> {
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase()).unwrap_or_default();
        let queries = self.neighbors.iter().enumerate();
        match ending.to_str() {
            Some("csv") => Ok(write_file(path, |file| {
                let mut table = csv::Writer::from_writer(file);
                let names = ["query", "rank", "id", "distance", "label"];
                let columns = if self.labels.is_some() { 5 } else { 4 };
                table.write_record(&names[..columns])?;
                for (query, hits) in queries {
                    for (rank, hit) in hits.iter().enumerate() {
                        let label = self.label(hit.id).unwrap_or_default().to_owned();
                        let fields = [
                            query.to_string(),
                            rank.to_string(),
                            hit.id.to_string(),
                            hit.distance.to_string(),
                            label,
                        ];
                        table.write_record(&fields[..columns])?;
                    }
                }
                table.flush()
            })?),
            Some("jsonl") => Ok(write_file(path, |file| {
                for (query, hits) in queries {
                    let ids: Vec<u64> = hits.iter().map(|hit| hit.id).collect();
                    let distances: Vec<f32> = hits.iter().map(|hit| hit.distance).collect();
                    // A JSON value would widen the distances to f64.
                    let (ids, distances) = (to_string(&ids)?, to_string(&distances)?);
                    write!(file, r#"{{"query":{query},"ids":{ids},"distances":{distances}"#)?;
                    if self.labels.is_some() {
                        let labels: Vec<Option<&str>> = hits.iter().map(|hit| self.label(hit.id)).collect();
                        write!(file, r#","labels":{}"#, to_string(&labels)?)?;
                    }
                    writeln!(file, "}}")?;
                }
                Ok(())
            })?),
            _ => {
                let (rows, width) = (self.neighbors.queries(), self.k.unwrap_or(0));
                Ok(write_truth(path, &Ids { values: self.ids()?, rows, width }, &self.distances()?)?)
            }
        }
    }

    /// Ids `[queries, k]`, padded with -1.
    fn ids(&self) -> Result<Vec<i64>> {
        self.padded(-1, |hit| i64::try_from(hit.id).unwrap_or(-1))
    }

    /// Distances `[queries, k]`, padded with NaN.
    fn distances(&self) -> Result<Vec<f32>> {
        self.padded(f32::NAN, |hit| hit.distance)
    }

    fn padded<T: Clone>(&self, padding: T, value: impl Fn(&Neighbor) -> T) -> Result<Vec<T>> {
        let (queries, k) = (self.neighbors.queries(), self.k.unwrap_or(0));
        let mut values = memory::filled(queries.checked_mul(k), padding, || {
            format!("needed memory for {queries} x {k} results, there is not that much")
        })?;
        for (hits, values) in self.neighbors.iter().zip(values.chunks_mut(k.max(1))) {
            hits.iter().zip(values).for_each(|(hit, place)| *place = value(hit));
        }
        Ok(values)
    }
}
