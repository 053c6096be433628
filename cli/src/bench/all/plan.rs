//! The commands of `nearfield bench all`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use nearfield::io::VectorFile;
use nearfield::{AdapterKind, Device, Ivf, Metric, Screen};

use super::super::data::{Source, asked_or};
use super::super::peers::{self, Peer};
use super::super::run::Suite;
use super::super::suites::reduce::{Elements, How, Name};
use super::super::suites::select::Shape;
use super::super::suites::{breakeven, distance, exact, ivf, reduce, select};
use super::super::words::defaults;
use crate::recipe::Recipe;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scale {
    Small,
    Medium,
    Large,
}

impl Scale {
    pub(super) fn of(device: &Device) -> Self {
        match device.adapter().kind {
            AdapterKind::Software | AdapterKind::Host => Self::Small,
            AdapterKind::Discrete => Self::Large,
            _ => Self::Medium,
        }
    }
}

/// A suite with its arguments.
#[derive(Debug)]
pub(super) enum Step {
    Distance(distance::Args),
    Reduce(reduce::Args),
    Select(select::Args),
    Exact(exact::Args),
    Ivf(ivf::Args),
    Breakeven(breakeven::Args),
    Peers(peers::Args),
}

impl Step {
    pub(super) fn suite(&self) -> &dyn Suite {
        match self {
            Self::Distance(args) => args,
            Self::Reduce(args) => args,
            Self::Select(args) => args,
            Self::Exact(args) => args,
            Self::Ivf(args) => args,
            Self::Breakeven(args) => args,
            Self::Peers(args) => args,
        }
    }
}

/// A step, and its share of the time.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) step: Step,
    pub(super) weight: u32,
}

/// The files to search.
#[derive(Debug)]
pub(super) struct Files {
    source: Source,
    metric: Metric,
    rows: usize,
    queries: usize,
}

impl Files {
    pub(super) fn open(rows_file: &Path, queries_file: &Path, metric: Metric) -> Result<Self> {
        let shape = |argument: &str, file: &Path| -> Result<(usize, usize)> {
            let open = VectorFile::open(file).with_context(|| argument.to_owned())?;
            ensure!(open.rows() > 0, "{argument}: needed at least one vector, {} has none", file.display());
            Ok((open.rows(), open.dim()))
        };
        let (rows, dim) = shape("--rows-file", rows_file)?;
        let (queries, given) = shape("--queries-file", queries_file)?;
        ensure!(dim == given, "--queries-file: needed dim {dim}, that of the rows, given {given}");
        Ok(Self::new(rows_file.to_owned(), queries_file.to_owned(), metric, [rows, queries]))
    }

    fn new(rows_file: PathBuf, queries_file: PathBuf, metric: Metric, [rows, queries]: [usize; 2]) -> Self {
        let source = Source { rows_file: Some(rows_file), queries_file: Some(queries_file), ..defaults() };
        Self { source, metric, rows, queries }
    }
}

/// The steps of a scale.
pub(super) fn plan(scale: Scale, is_gpu: bool, files: Option<&Files>) -> Vec<Planned> {
    let (length, short, rows, [low, middle, high]) = match scale {
        Scale::Small => (1 << 22, 1 << 20, 10_000, [64, 128, 256]),
        Scale::Medium => (1 << 26, 1 << 24, 200_000, [64, 128, 384]),
        Scale::Large => (1 << 28, 1 << 26, 1_000_000, [128, 384, 768]),
    };
    let mut steps = reductions(length, short);
    if is_gpu {
        steps.push((1, Step::Reduce(reduce::Args { ladder: true, length: vec![length], ..defaults() })));
        steps.extend(selections(scale));
    }
    let recipe = if scale == Scale::Small { Recipe::Embedding } else { Recipe::LowRank };
    let made = |rows, dim| Source { data: recipe, rows, dim, ..defaults() };
    // A recipe generates any number of vectors.
    let metric = files.map_or(Metric::Cosine, |files| files.metric);
    let (rows_there, queries_there) =
        files.map_or((usize::MAX, usize::MAX), |files| (files.rows, files.queries));
    let lists_there = files.map_or(usize::MAX, |files| Ivf::recommend(files.rows));
    let searched = || files.map_or_else(|| made(rows, high), |files| files.source.clone());
    let exact = |queries: &[usize]| exact::Args {
        source: searched(),
        metric: vec![metric],
        k: vec![rows_there.min(10)],
        queries: asked_or(&[], queries, queries_there),
        ..defaults()
    };
    let exact_of = |rows, dim, queries: &[usize]| exact::Args {
        source: made(rows, dim),
        queries: queries.to_vec(),
        ..defaults()
    };
    let ivf = |source: Source, probes: Vec<usize>, queries: &[usize]| ivf::Args {
        source,
        metric,
        k: rows_there.min(10),
        probes,
        queries: asked_or(&[], queries, queries_there),
        ..defaults()
    };
    let distance = |rows, dim, queries: &[usize], metric: [Metric; 2]| {
        let source = Source { rows, dim, ..defaults() };
        Step::Distance(distance::Args {
            source,
            queries: queries.to_vec(),
            metric: metric.to_vec(),
            ..defaults()
        })
    };
    let most = if scale == Scale::Large { 10_000 } else { 1000 };
    let (l2sq, cosine, ip) = (Metric::L2Squared, Metric::Cosine, Metric::InnerProduct);
    if scale == Scale::Small {
        let sizes = vec![1000, 3000, rows];
        // Training is slow on a software driver.
        let lists = rows_there.min(300);
        let probes = asked_or(&[], &[1, 4, 16, 64], lists);
        let source = files.map_or_else(|| made(5000, low), |files| files.source.clone());
        steps.extend([
            (1, distance(4096, middle, &[1, 64], [l2sq, cosine])),
            (3, Step::Exact(exact::Args { screen: vec![Screen::I8, Screen::None], ..exact(&[1, 16, 256]) })),
            (2, Step::Exact(exact::Args { sizes, ..exact_of(rows, middle, &[1, 64]) })),
            (1, Step::Exact(exact_of(5000, low, &[1, 64]))),
            (1, Step::Exact(exact_of(5000, high, &[1, 64]))),
            (2, Step::Ivf(ivf::Args { lists: Some(lists), iterations: 2, ..ivf(source, probes, &[1, 64]) })),
        ]);
    } else {
        let sizes = vec![1000, 10_000, 100_000, rows];
        let several_k = asked_or(&[], &[10, 100], rows_there);
        let probes = asked_or(&[], &[1, 4, 16, 64], lists_there);
        let metrics = vec![cosine, l2sq];
        let made_ivf = ivf::Args {
            source: made(rows, low),
            probes: vec![1, 4, 16, 64],
            queries: vec![1, most],
            ..defaults()
        };
        steps.extend([
            (1, distance(100_000, middle, &[1, 16, 256], [l2sq, cosine])),
            (1, distance(100_000, high, &[256], [l2sq, ip])),
            (3, Step::Exact(exact::Args { k: several_k, ..exact(&[1, 8, 100, 1024, most]) })),
            (2, Step::Exact(exact::Args { screen: vec![Screen::None], ..exact(&[1, 128, 1024]) })),
            (2, Step::Exact(exact::Args { sizes, ..exact_of(rows, middle, &[1, 1024]) })),
            (2, Step::Exact(exact::Args { metric: metrics, ..exact_of(rows, low, &[1, 1024, most]) })),
            (4, Step::Ivf(ivf(searched(), probes, &[1, 100, most]))),
            (2, Step::Ivf(made_ivf)),
        ]);
    }
    if is_gpu {
        let (sizes, queries) = match scale {
            Scale::Small => (vec![1000, 3000, 10_000], vec![1, 8, 64]),
            _ => (vec![1000, 3000, 10_000, 30_000, 100_000], vec![1, 4, 16, 64, 256]),
        };
        let rows = sizes.iter().copied().max().unwrap_or(1);
        let source = Source { rows, dim: middle, ..defaults() };
        steps.push((2, Step::Breakeven(breakeven::Args { source, sizes, queries, ..defaults() })));
    }
    steps.into_iter().map(|(weight, step)| Planned { step, weight }).collect()
}

fn reductions(length: usize, short: usize) -> Vec<(u32, Step)> {
    let each_row = || vec![Name::Sum, Name::L2, Name::Min, Name::Argmin];
    let whole = || reduce::Args { length: vec![length], ..defaults() };
    let lengths = vec![1024, 65_536, 1_048_576, length / 16];
    let compensated = vec![How::Compensated];
    [
        (2, reduce::Args { operation: Name::value_variants().to_vec(), ..whole() }),
        (1, reduce::Args { elements: vec![Elements::F16], ..whole() }),
        (1, reduce::Args { operation: vec![Name::Dot, Name::Sum], summation: compensated, ..whole() }),
        (1, reduce::Args { length: lengths, ..defaults() }),
        (
            2,
            reduce::Args {
                operation: each_row(),
                row_length: vec![4, 16, 64],
                length: vec![short],
                ..defaults()
            },
        ),
        (1, reduce::Args { operation: each_row(), row_length: vec![384, 4096, 65_537], ..whole() }),
    ]
    .map(|(weight, args)| (weight, Step::Reduce(args)))
    .into()
}

fn selections(scale: Scale) -> Vec<(u32, Step)> {
    let of = |shapes: &[(u32, u32)], k: &[u32]| {
        let shapes = shapes.iter().map(|&(rows, length)| Shape { rows, length }).collect();
        (2, Step::Select(select::Args { shapes, k: k.to_vec(), ..defaults() }))
    };
    if scale == Scale::Small {
        return vec![of(&[(200, 500), (10, 10_000), (1, 100_000), (1, 1_000_000)], &[1, 10, 100, 2048])];
    }
    let powers: Vec<u32> = (0..12).map(|exponent| 1 << exponent).collect();
    vec![
        of(&[(20_000, 500), (1000, 10_000), (100, 100_000), (10, 1_000_000)], &powers),
        of(&[(100, 1_000_000), (1, 1_000_000), (1000, 100_000)], &[10, 512, 2048, 10_000, 100_000]),
    ]
}

/// The steps of the peers beside a plan: the first step of each suite that they have.
pub(super) fn beside(plan: &[Planned], is_processor: bool, python: &Path) -> Vec<Planned> {
    // Only peers on the same kind of processor: the others take minutes for what takes seconds here.
    let peers = match is_processor {
        true => vec![Peer::Numpy, Peer::FaissCpu, Peer::Usearch],
        false => vec![Peer::Torch, Peer::Cuvs, Peer::FaissGpu],
    };
    let usual = |suite| peers::Args {
        suites: vec![suite],
        peers: peers.clone(),
        python: python.to_owned(),
        ..defaults()
    };
    let mut seen = vec![];
    let steps = plan.iter().filter_map(|planned| {
        let (suite, weight) = match planned.step {
            Step::Exact(_) => (peers::Suite::Exact, 3),
            Step::Ivf(_) => (peers::Suite::Ivf, 3),
            Step::Select(_) => (peers::Suite::Select, 1),
            Step::Reduce(_) => (peers::Suite::Reduce, 1),
            _ => return None,
        };
        if seen.contains(&suite) {
            return None;
        }
        seen.push(suite);
        let args = match &planned.step {
            Step::Exact(exact::Args { source, queries, k, metric, .. }) => peers::Args {
                source: source.clone(),
                queries: queries.clone(),
                k: k.clone(),
                metric: metric.first().copied().unwrap_or(Metric::Cosine),
                ..usual(suite)
            },
            Step::Ivf(ivf::Args { source, queries, k, metric, lists, probes, .. }) => peers::Args {
                source: source.clone(),
                queries: queries.clone(),
                k: vec![*k],
                metric: *metric,
                lists: *lists,
                probes: probes.clone(),
                ..usual(suite)
            },
            Step::Select(select::Args { shapes, k, .. }) => peers::Args {
                shapes: shapes.clone(),
                select_k: k.iter().map(|&k| k as usize).collect(),
                ..usual(suite)
            },
            Step::Reduce(args) => peers::Args { length: args.length.clone(), ..usual(suite) },
            _ => return None,
        };
        Some(Planned { step: Step::Peers(args), weight })
    });
    steps.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses words into arguments, and returns the words of these arguments.
    fn again<A: clap::Args + Suite>(words: &[String]) -> Vec<String> {
        let command = A::augment_args(clap::Command::new("nearfield"));
        let matches = command.try_get_matches_from(words).expect("a command");
        A::from_arg_matches(&matches).expect("arguments").words().as_slice().to_vec()
    }

    #[test]
    fn every_printed_command_gives_the_same_arguments_again() {
        let few = Files::new("a".into(), "b c".into(), Metric::L2, [5, 3]);
        for scale in [Scale::Small, Scale::Medium, Scale::Large] {
            for (is_gpu, files) in [(true, None), (true, Some(&few)), (false, None), (false, Some(&few))] {
                let mut plan = plan(scale, is_gpu, files);
                let peers = beside(&plan, !is_gpu, Path::new("venv/bin/python"));
                assert_eq!(peers.len(), if is_gpu { 4 } else { 3 });
                plan.extend(peers);
                for Planned { step, .. } in plan {
                    let words = step.suite().words().as_slice().to_vec();
                    let found = match step {
                        Step::Distance(_) => again::<distance::Args>(&words),
                        Step::Reduce(_) => again::<reduce::Args>(&words),
                        Step::Select(_) => again::<select::Args>(&words),
                        Step::Exact(_) => again::<exact::Args>(&words),
                        Step::Ivf(_) => again::<ivf::Args>(&words),
                        Step::Breakeven(_) => again::<breakeven::Args>(&words),
                        Step::Peers(_) => again::<peers::Args>(&words),
                    };
                    assert_eq!(found, words);
                }
            }
        }
    }
}
