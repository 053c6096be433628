//! The kinds of tables.

use anyhow::{Result, ensure};

use super::super::lines::{Line, of, read};
use super::grid::{Column, Grid};
use super::peers::{Peer, Source};
use super::request::Request;
use super::{columns, facts};

/// A table with a row for every line of some record and suite.
struct Kind {
    name: &'static str,
    record: &'static str,
    suite: &'static str,
    /// Which columns there are, unless others are asked for.
    columns: &'static [&'static str],
    across: Option<&'static str>,
    beside: Source,
}

impl Kind {
    const PLAIN: Self =
        Self { name: "", record: "case", suite: "", columns: &[], across: None, beside: Source::Nothing };

    fn of(&self) -> &'static [&'static str] {
        if self.record == "build" {
            &["rows", "dim", "lists", "iterations", "metric", "data"]
        } else {
            of(self.suite)
        }
    }

    fn is_of(&self, column: &str) -> bool {
        self.of().contains(&column) || ["shape", "how_many"].contains(&column)
    }

    fn takes(&self, line: &Line) -> bool {
        let fits = match self.name {
            "reduce" | "peers-reduce" => line.value("row_length").is_none(),
            "reduce-rows" => line.value("row_length").is_some(),
            _ => true,
        };
        fits && line.is(self.record, self.suite)
    }
}

const EXACT: &[&str] = &[
    "rows",
    "dim",
    "metric",
    "data",
    "screened",
    "scratch",
    "queries",
    "k",
    "spread",
    "queries_per_s",
    "scoring",
    "other",
    "reaches",
    "scoring_share",
    "survivors_per_query",
    "searched_again",
];
const IVF: &[&str] = &[
    "rows",
    "dim",
    "lists",
    "iterations",
    "metric",
    "data",
    "screened",
    "scratch",
    "queries",
    "k",
    "probes",
    "recall",
    "ms",
    "queries_per_s",
    "device_queries_ms",
    "device_queries_per_s",
    "survivors_per_query",
];
const SELECT: &[&str] = &["shape", "k", "values", "device_ms", "ms", "bytes_per_s", "share_of_copy"];
const REDUCE: &[&str] =
    &["operation", "elements", "summation", "length", "device_ms", "bytes_per_s", "share_of_copy", "ms"];
const DISTANCE: &[&str] =
    &["rows", "dim", "queries", "metric", "elements", "data", "device_ms", "ms", "reaches", "error"];

const KINDS: [Kind; 14] = [
    Kind { name: "exact", suite: "exact", columns: EXACT, ..Kind::PLAIN },
    Kind { name: "ivf", suite: "ivf", columns: IVF, ..Kind::PLAIN },
    Kind {
        name: "builds",
        record: "build",
        suite: "ivf",
        columns: &[
            "rows",
            "dim",
            "lists",
            "iterations",
            "metric",
            "data",
            "upload_ms",
            "train_ms",
            "add_ms",
            "largest_list",
            "empty_lists",
        ],
        ..Kind::PLAIN
    },
    Kind { name: "select", suite: "select", columns: SELECT, ..Kind::PLAIN },
    Kind { name: "reduce", suite: "reduce", columns: REDUCE, ..Kind::PLAIN },
    Kind {
        name: "reduce-rows",
        suite: "reduce",
        columns: &["row_length", "how_many", "elements", "summation", "device_share_wall"],
        across: Some("operation"),
        ..Kind::PLAIN
    },
    Kind { name: "distance", suite: "distance", columns: DISTANCE, ..Kind::PLAIN },
    Kind {
        name: "breakeven",
        suite: "breakeven",
        columns: &["rows", "dim", "k", "metric", "data", "scratch", "gpu_host"],
        across: Some("queries"),
        ..Kind::PLAIN
    },
    Kind { name: "peers-exact", suite: "exact", columns: EXACT, beside: Source::Others, ..Kind::PLAIN },
    Kind { name: "peers-ivf", suite: "ivf", columns: IVF, beside: Source::Others, ..Kind::PLAIN },
    Kind { name: "peers-select", suite: "select", columns: SELECT, beside: Source::Others, ..Kind::PLAIN },
    Kind { name: "peers-reduce", suite: "reduce", columns: REDUCE, beside: Source::Others, ..Kind::PLAIN },
    Kind {
        name: "peers-distance",
        suite: "distance",
        columns: DISTANCE,
        beside: Source::Others,
        ..Kind::PLAIN
    },
    Kind { name: "ivf-flat", suite: "ivf", columns: IVF, beside: Source::Flat, ..Kind::PLAIN },
];

/// Those that are no rows of cases.
const FACTS: [&str; 3] = ["device", "commands", "ladder"];

/// The names of all kinds.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FACTS.into_iter().chain(KINDS.iter().map(|kind| kind.name))
}

/// The fields by which lines of a kind are chosen, and its options.
pub(super) fn keys(name: &str) -> (&'static [&'static str], &'static [&'static str]) {
    match name {
        "device" => (&["rows", "dim"], &["columns"]),
        "commands" => (&["suite"], &[]),
        "ladder" => (&["length"], &[]),
        _ => {
            let fields = KINDS.iter().find(|kind| kind.name == name).map_or(&[][..], Kind::of);
            (fields, &["columns", "sort", "across"])
        }
    }
}

/// The table that is asked for, in Markdown.
pub(super) fn table(request: &Request) -> Result<String> {
    let Some(kind) = KINDS.iter().find(|kind| kind.name == request.kind) else {
        return match request.kind {
            "device" => facts::device(request),
            "commands" => facts::commands(request),
            _ => facts::ladder(request),
        };
    };
    let files = request.files.iter().map(|(_, path)| read(path)).collect::<Result<Vec<_>>>()?;
    let mut lines: Vec<&Line> = vec![];
    for ((name, _), file) in request.files.iter().zip(&files) {
        let taken: Vec<&Line> = file.iter().filter(|line| kind.takes(line) && request.takes(line)).collect();
        let is_of_use = !taken.is_empty() || file.iter().any(|line| kind.beside.takes(line, kind.suite));
        ensure!(
            is_of_use,
            "{name}: needed lines of {} {}s{}, found none",
            kind.suite,
            kind.record,
            request.filters()
        );
        lines.extend(taken);
    }
    ensure!(
        !lines.is_empty(),
        "needed lines of {} {}s{}, found none in {}",
        kind.suite,
        kind.record,
        request.filters(),
        request.files.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
    );
    request.check_values(&lines)?;
    for field in request.sort.iter().rev() {
        lines.sort_by(|one, other| by(one, other, field));
    }

    let mut shown = vec![];
    let asked = request.columns.iter().flatten().map(String::as_str);
    let default = kind.columns.iter().copied().filter(|_| request.columns.is_none());
    for name in asked.chain(default) {
        shown.push(Column::new(name, kind.is_of(name), columns::cells(name, kind.of(), &lines)?));
    }
    let peers: Vec<Peer<'_>> =
        files.iter().flatten().filter_map(|line| kind.beside.peer(line, kind.suite)).collect();
    shown.extend(kind.beside.columns(&peers, &lines));
    let mut grid = Grid::new(shown);
    if let Some(field) = request.across.as_deref().or(kind.across) {
        grid = grid.across(field, kind.of(), &lines)?;
    }
    if request.columns.is_none() {
        grid.leave_out_the_same();
    }
    Ok(grid.markdown())
}

/// By a field: numbers as such, before text.
fn by(one: &Line, other: &Line, field: &str) -> std::cmp::Ordering {
    match (one.number(field), other.number(field)) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => one.plain(field).cmp(&other.plain(field)),
    }
}
