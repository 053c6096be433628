//! Times of some searches, for a report.

use std::time::{Duration, Instant};

use anyhow::Result;
use nearfield::{AdapterKind, Device, Flat, Index, Ivf, MatrixView, Metric, SearchOptions};
use serde_json::{Value, json};

use crate::build::Kind;
use crate::tune::clustered;
use nearfield_cli::given::arguments;
use nearfield_cli::terminal::progress::bar;

const DIM: usize = 128;
const K: usize = 10;
const QUERIES: [usize; 3] = [1, 100, 1000];
/// Runs of a search, fewer where they take longer than a second.
const RUNS: usize = 5;

/// Times exact search and search in lists, for one query and for many.
pub(super) fn run(device: &Device) -> Result<Vec<Value>> {
    // A processor has the fewest rows that are searched in lists.
    let is_processor = matches!(device.adapter().kind, AdapterKind::Software | AdapterKind::Host);
    let count = if is_processor { 1 << 13 } else { 100_000 };
    let rows = clustered(count, DIM)?;
    let rows = MatrixView::new(&rows, DIM)?;
    let bar = bar("time", 2 * QUERIES.len());
    let mut all = vec![];
    for kind in [Kind::Flat, Kind::Ivf] {
        let mut index = match kind {
            Kind::Flat => Index::from(Flat::builder(device, Metric::Cosine, DIM).build()?),
            // Little training makes lists that are good enough to be timed.
            Kind::Ivf => {
                let builder = Ivf::builder(device, Metric::Cosine, DIM).lists(Ivf::recommend(count));
                let builder = builder.kmeans(|means| means.iterations(1));
                builder.train(rows.slice(0..count / 8))?.into()
            }
        };
        index.add(rows)?;
        for queries in QUERIES {
            let asked = rows.slice(0..queries);
            let search = |profile| index.search_with(asked, &SearchOptions::new(K).profile(profile));
            // The first search compiles kernels.
            search(false)?;
            let (start, mut times) = (Instant::now(), vec![]);
            while times.len() < RUNS && start.elapsed() < Duration::from_secs(1) {
                let start = Instant::now();
                search(false)?;
                times.push(start.elapsed());
            }
            times.sort_unstable();
            let milliseconds = |time: Duration| json!(time.as_secs_f64() * 1e3);
            let stages = search(true)?.statistics.stages;
            let stages: serde_json::Map<_, _> =
                stages.iter().map(|one| (one.stage.to_owned(), milliseconds(one.time))).collect();
            all.push(json!({
                "index": arguments::name(kind), "rows": count, "dim": DIM, "queries": queries,
                "milliseconds": milliseconds(times[times.len() / 2]),
                "stages": (!stages.is_empty()).then_some(stages),
            }));
            bar.inc(1);
        }
    }
    Ok(all)
}
