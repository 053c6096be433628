//! `nearfield-bench serve`: many callers of one index, each with a search at a time.

mod load;

use std::time::Duration;

use anyhow::{Result, ensure};
use nearfield::{
    AdapterKind, Device, Distribution, Flat, Index, Ivf, Metric, Neighbors, Quantization, Residency,
    SearchOptions,
};
use serde_json::json;

use crate::answers;
use crate::case::Case;
use crate::data::{Source, View, lists};
use crate::run::{Run, Suite};
use crate::units::{milliseconds, rounded};
use load::Load;
use nearfield_cli::given::arguments;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Numbers of threads that search, one case each
    #[arg(long, value_delimiter = ',', value_name = "T,…", default_value = "1,4,16,64", value_parser = arguments::threads)]
    threads: Vec<usize>,
    /// Searches that arrive in a second, one case each: an open loop. By default each thread searches again as soon as it has an answer
    #[arg(long, value_delimiter = ',', value_name = "R,…", value_parser = arguments::count)]
    rate: Vec<usize>,
    /// Time of a case
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Lists that a query probes, one case each. Without them a `Flat` is searched, with them an `Ivf`
    #[arg(long, value_delimiter = ',', value_name = "P,…", value_parser = arguments::count)]
    probes: Vec<usize>,
    /// Lists of the `Ivf`; by default about four times the square root of the rows
    #[arg(long, value_name = "N", requires = "probes", value_parser = arguments::count)]
    lists: Option<usize>,
    /// Queries of a search
    #[arg(long = "batch", default_value_t = 1, value_name = "Q", value_parser = arguments::count)]
    queries: usize,
    /// Neighbours per query
    #[arg(short, long, default_value_t = 10, value_parser = arguments::count)]
    k: usize,
    /// Metric: l2sq, l2, cosine, ip
    #[arg(long, default_value = "cosine", value_parser = arguments::metric_of_numbers)]
    metric: Metric,
    /// 8-bit copy of the rows, which excludes most rows early: auto, none, int8
    #[arg(long, default_value = "auto", value_name = "QUANTIZATION", value_parser = arguments::word::<Quantization>)]
    quantization: Quantization,
    /// Search for each caller alone (DeviceOptions::join_searches), to compare
    #[arg(long)]
    apart: bool,
}

pub(crate) const HELP: &str = "\
Examples:
  nearfield-bench serve --count 1000000 --dim 768 --threads 1,4,16,64
  nearfield-bench serve --count 1000000 --dim 768 --device all --distribution replicated
  nearfield-bench serve --count 1000000 --dim 768 --probes 16 --threads 64 --rate 50000,100000,150000

`ms` is the median latency and `ms_most` the largest. In an open loop (--rate) a latency counts from the arrival. docs/benchmark.md says how cases are checked and timed, and lists the fields of the JSON lines.";

/// Different searches of a case.
const SEARCHES: usize = 128;

impl Suite for Args {
    fn takes_places(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Run) -> Result<()> {
        let residency = run.places.as_ref().map_or(Residency::Auto, |places| places.residency);
        ensure!(
            residency != Residency::Mapped,
            "--residency: needed auto, device, host or streamed, given mapped"
        );
        let there = self.source.queries_there()?;
        let searches = (there / self.queries).min(SEARCHES);
        ensure!(searches > 0, "--batch: needed at most {there}, as the file has, given {}", self.queries);
        let (rows, queries) = self.source.both_at_least(&[self.queries * searches], 0)?;
        let (rows, queries) = (rows.view()?, queries.view()?);
        let lists = match self.probes.is_empty() {
            true => None,
            false => Some(lists(self.lists, &self.probes, rows.rows())?),
        };
        let kinds = self.probes.len().max(1);
        run.begin("serve", self.threads.len() * self.rate.len().max(1) * kinds)?;
        let name = format!("{} x {} {}", rows.rows(), rows.dim(), self.source.name());
        if run.is_over(&name)? {
            return Ok(());
        }
        let devices =
            run.devices.iter().map(|device| if self.apart { apart(device) } else { Ok(device.clone()) });
        let devices = devices.collect::<Result<Vec<Device>>>()?;
        let distribution = run.places.as_ref().map(|places| places.distribution).unwrap_or_default();
        let index = self.built(&devices, (distribution, residency), rows, lists)?;
        let searches: Vec<View<'_>> = (0..searches)
            .map(|number| queries.slice(number * self.queries..(number + 1) * self.queries))
            .collect();
        let or_none = |numbers: &[usize]| match numbers {
            [] => vec![None],
            numbers => numbers.iter().copied().map(Some).collect(),
        };
        let rates = or_none(&self.rate);
        for probes in or_none(&self.probes) {
            let mut options = SearchOptions::new(self.k);
            options.probes = probes;
            let answers = searches
                .iter()
                .map(|&queries| Ok(index.search_with(queries, &options)?.neighbors))
                .collect::<Result<Vec<Neighbors>>>()?;
            let hits = answers.iter().flat_map(Neighbors::iter);
            answers::checked(
                self.metric,
                rows,
                queries.slice(0..searches.len() * self.queries),
                self.k,
                hits,
            )?;
            for &threads in &self.threads {
                for &rate in &rates {
                    let duration = self.duration.min(run.share());
                    let load = Load {
                        index: &index,
                        searches: &searches,
                        answers: &answers,
                        options: &options,
                        threads,
                        rate,
                        duration,
                    };
                    self.case(run, &load)?;
                }
            }
        }
        Ok(())
    }
}

impl Args {
    fn built(
        &self,
        devices: &[Device],
        (distribution, residency): (Distribution, Residency),
        rows: View<'_>,
        lists: Option<usize>,
    ) -> Result<Index> {
        let Some(lists) = lists else {
            let builder = Flat::builder(devices, self.metric, rows.dim()).quantization(self.quantization);
            let builder = builder.distribution(distribution).residency(residency);
            let mut index = builder.capacity(rows.rows()).build()?;
            index.add(rows)?;
            return Ok(index.into());
        };
        let builder =
            Ivf::builder(devices, self.metric, rows.dim()).lists(lists).quantization(self.quantization);
        let builder = builder.distribution(distribution).residency(residency);
        let mut index = builder.capacity(rows.rows() + 16 * lists).train(rows)?;
        index.add(rows)?;
        Ok(index.into())
    }

    fn case(&self, run: &mut Run, load: &Load<'_>) -> Result<()> {
        let &Load { index, options, threads, rate, .. } = load;
        let is_streamed = run.places.as_ref().is_some_and(|places| places.residency == Residency::Streamed);
        let identity = json!({
            "rows": index.len(), "dim": index.dim(), "lists": index.lists(), "probes": options.probes, "queries": self.queries,
            "k": self.k, "metric": self.metric.name(), "data": self.source.name(), "screened": index.is_quantized(),
            "scratch": run.scratch(), "threads": threads, "rate": rate, "joined": !self.apart,
            "places": run.of_places(index.residency(), is_streamed),
        });
        let Some(mut case) = run.start(identity)? else { return Ok(()) };
        let seen = load.serve()?;
        let queries_per_s = seen.queries as f64 / load.duration.as_secs_f64();
        let (together, late) = (seen.mean_together(), seen.late);
        let at = |share: f64| milliseconds(seen.at(share));
        let [p90, p99, p999] = [0.9, 0.99, 0.999].map(at);
        let mut remarks = vec![
            format!("p90 {p90:.3} ms, p99 {p99:.3} ms, p99.9 {p999:.3} ms"),
            format!("{queries_per_s:.0} queries/s"),
            format!("{together:.1} queries searched together"),
        ];
        remarks.extend((late > 0).then(|| format!("{late} searches had not begun when the time was over")));
        case.add(json!({
            "p90_ms": p90, "p99_ms": p99, "p999_ms": p999, "queries_per_s": rounded(queries_per_s), "together": rounded(together),
            "late": late,
        }));
        let wall = seen.times();
        run.case(Case {
            wall,
            verified: json!(wall.runs - late),
            rotated: load.searches.len(),
            remarks,
            ..case
        })
    }
}

/// The same device, opened anew so that it searches for each caller alone.
fn apart(device: &Device) -> Result<Device> {
    let adapter = device.adapter();
    let name = if adapter.kind == AdapterKind::Host { "host" } else { adapter.selector.as_str() };
    Ok(Device::open(Some(name), device.options().clone().join_searches(false))?)
}
