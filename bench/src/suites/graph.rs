//! `nearfield-bench graph`: the neighbours of every row among the other rows, and all pairs of rows within a radius.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use nearfield::{ElementKind, Flat, KnnGraph, Metric, Neighbor, Neighbors, Quantization, SearchOptions};
use serde_json::{Value, json};

use super::exact::filled;
use crate::answers;
use crate::case::Case;
use crate::data::{Source, Stored, View};
use crate::run::{Run, Suite};
use crate::units::{milliseconds, rounded};
use nearfield_cli::given::arguments;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Numbers of rows, one case each
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = arguments::count)]
    sizes: Vec<usize>,
    /// Neighbours of each row, one case each
    #[arg(short, long, value_delimiter = ',', default_value = "15", value_name = "K,…", value_parser = arguments::count)]
    k: Vec<usize>,
    /// Radii within which all pairs are found, one case each; none by default
    #[arg(long, value_delimiter = ',', value_name = "R,…", allow_negative_numbers = true, value_parser = arguments::radius)]
    radius: Vec<f32>,
    /// Metrics, one case each: l2sq, l2, cosine, ip
    #[arg(long, value_delimiter = ',', default_value = "cosine", value_name = "METRIC,…", value_parser = arguments::word::<Metric>)]
    metric: Vec<Metric>,
    /// Rows of a case whose neighbours or pairs are checked against f64
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = arguments::count)]
    verify: usize,
    /// How rows are stored, and what they are rounded to: f32, f16, bf16, i8 or u8
    #[arg(long, default_value = "f32", value_name = "TYPE", value_parser = arguments::word::<ElementKind>)]
    elements: ElementKind,
}

pub(crate) const HELP: &str = "\
Examples:
  nearfield-bench graph
  nearfield-bench graph --count 1000000 --dim 768 --data embedding --scratch 8GiB
  nearfield-bench graph --rows base.npy --k 15,100 --radius 0.1 --device host

A graph is compared with a search of all rows for k + 1, of which each row is left out: all neighbours have to be the same. \
`search_ms` is the time of that search. docs/benchmark.md says how cases are checked and timed, and lists the fields of the JSON lines.";

impl Suite for Args {
    fn takes_places(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Run) -> Result<()> {
        if let Some(file) = &self.source.queries_file {
            bail!("--queries: needed none, rows are searched for, given {}", file.display());
        }
        let mut rows = self.source.rows()?;
        ensure!(!rows.values.is_empty(), "--rows: needed at least one row, given none");
        if self.elements != ElementKind::F32 {
            rows.round_to(self.elements);
        }
        let rows = rows.view()?;
        let sizes = self.source.sizes(&self.sizes, rows)?;
        run.begin("graph", sizes.len() * self.metric.len() * (self.k.len() + self.radius.len()))?;
        for size in sizes {
            for &metric in &self.metric {
                let rows = rows.slice(0..size);
                let of = format!("{size} x {} {}, {}", rows.dim(), self.source.name(), metric.name());
                if run.is_over(&of)? {
                    continue;
                }
                let given = (&self.source, self.elements);
                let (index, _) = filled(given, run, (metric, Quantization::Auto), rows)?;
                index.warm_up()?;
                for &k in &self.k {
                    self.graph(run, &index, rows, k)?;
                }
                for &radius in &self.radius {
                    self.pairs(run, &index, rows, radius)?;
                }
            }
        }
        Ok(())
    }
}

impl Args {
    fn graph(&self, run: &mut Run, index: &Flat, rows: View<'_>, k: usize) -> Result<()> {
        let Some(mut case) = self.start(run, index, (Some(k), None))? else { return Ok(()) };
        let stored = Stored::new(rows, self.elements)?;
        let graph = index.knn_graph(k)?;
        for row in self.sample(rows) {
            let hits = graph.neighbors().row(row);
            ensure!(hits.len() == k.min(rows.rows() - 1), "row {row}: {} neighbours", hits.len());
            check(index.metric(), rows, row, hits, None)?;
        }
        let found = index.search(stored.vectors(), k + 1)?;
        compare(&graph, &found, k)?;
        let (wall, _) = run.time(
            2,
            |_| {
                let started = Instant::now();
                let found = index.knn_graph(k)?;
                let elapsed = started.elapsed();
                ensure!(found == graph, "a timed graph differs from the one that was checked");
                Ok(elapsed)
            },
            |_| Ok(None),
        )?;
        let once = |_| answers::timed(&found, || index.search(stored.vectors(), k + 1));
        let (search, _) = run.time(2, once, |_| Ok(None))?;
        let (rate, beside) = (rows.rows() as f64 / wall.median.as_secs_f64(), milliseconds(search.median));
        case.add(json!({ "search_ms": beside, "rows_per_s": rounded(rate) }));
        let remarks = vec![format!("{rate:.0} rows/s"), format!("a search of all rows {beside:.3} ms")];
        run.case(Case { wall, verified: json!(self.sample(rows).count()), rotated: 1, remarks, ..case })
    }

    fn pairs(&self, run: &mut Run, index: &Flat, rows: View<'_>, radius: f32) -> Result<()> {
        let Some(mut case) = self.start(run, index, (None, Some(radius)))? else { return Ok(()) };
        let options = SearchOptions::within(radius);
        let mut near: HashMap<u64, Vec<Neighbor>> =
            self.sample(rows).map(|row| (row as u64, vec![])).collect();
        let mut pairs = 0;
        index.visit_pairs(&options, &mut |found| {
            pairs += found.len();
            for pair in found {
                for (row, id) in [(pair.a, pair.b), (pair.b, pair.a)] {
                    if let Some(hits) = near.get_mut(&row) {
                        hits.push(Neighbor { id, distance: pair.distance });
                    }
                }
            }
            Ok(())
        })?;
        for (row, mut hits) in near {
            hits.sort_by(|one, other| one.distance.total_cmp(&other.distance).then(one.id.cmp(&other.id)));
            check(index.metric(), rows, row as usize, &hits, Some(radius))?;
        }
        let once = |_| {
            let (started, mut found) = (Instant::now(), 0);
            index.visit_pairs(&options, &mut |piece| {
                found += piece.len();
                Ok(())
            })?;
            let elapsed = started.elapsed();
            ensure!(found == pairs, "timed, {found} pairs were found, of {pairs}");
            Ok(elapsed)
        };
        let (wall, _) = run.time(1, once, |_| Ok(None))?;
        let rate = rows.rows() as f64 / wall.median.as_secs_f64();
        case.add(json!({ "pairs": pairs, "rows_per_s": rounded(rate) }));
        let remarks = vec![format!("{rate:.0} rows/s"), format!("{pairs} pairs")];
        run.case(Case { wall, verified: json!(self.sample(rows).count()), rotated: 1, remarks, ..case })
    }

    /// Rows whose answers are checked against f64, from the first to the last.
    fn sample(&self, rows: View<'_>) -> impl Iterator<Item = usize> + use<> {
        let (all, checked) = (rows.rows(), self.verify.min(rows.rows()));
        (0..checked).map(move |number| number * (all - 1) / (checked - 1).max(1))
    }

    /// Begins a case of k neighbours or of a radius.
    fn start(
        &self,
        run: &mut Run,
        index: &Flat,
        (k, radius): (Option<usize>, Option<f32>),
    ) -> Result<Option<Case>> {
        let is_streamed = index.plan(index.len(), k.unwrap_or(1))?.windows > 0;
        let elements: Option<Value> =
            (self.elements != ElementKind::F32).then(|| self.elements.name().into());
        run.start(json!({
            "rows": index.len(), "dim": index.dim(), "k": k, "radius": radius.map(shortest),
            "metric": index.metric().name(), "elements": elements,
            "data": self.source.name_of(index.len()), "screened": index.is_quantized(), "scratch": run.scratch(),
            "places": run.of_places(index.residency(), is_streamed),
        }))
    }
}

/// The f64 with the fewest digits that is this number in f32: 0.1, not 0.10000000149011612.
fn shortest(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(number.into())
}

/// Checks the neighbours of a row among the others against f64.
fn check(metric: Metric, rows: View<'_>, row: usize, hits: &[Neighbor], radius: Option<f32>) -> Result<()> {
    answers::complete(metric, rows, rows.row(row), hits, radius, |other| other != row)
        .with_context(|| format!("row {row}"))
}

/// Compares a graph with a search of all rows for a neighbour more than k.
fn compare(graph: &KnnGraph, found: &Neighbors, k: usize) -> Result<()> {
    let (needed, given) = (found.queries(), graph.ids().len());
    ensure!(given == needed, "needed {needed} rows, found {given}");
    for (row, (own, hits)) in graph.ids().iter().zip(found).enumerate() {
        let others = hits.iter().filter(|hit| hit.id != *own).take(k);
        ensure!(
            others.eq(graph.neighbors().row(row)),
            "row {own}: its neighbours differ from those of a search"
        );
    }
    Ok(())
}
