//! A report before it is HTML or Markdown: the facts of each device, and a table and bars for each suite.

use crate::lines::{Line, distinct, identity, words};
use crate::times::NOISY;
use crate::units::{byte_rate, decimal, operation_rate, percent, whole};

/// Everything that was measured on one device.
pub(super) struct Page {
    pub(super) title: String,
    pub(super) facts: Vec<String>,
    pub(super) commands: Vec<String>,
    pub(super) tables: Vec<Table>,
}

pub(super) struct Table {
    pub(super) title: &'static str,
    /// What all rows have in common, in words.
    pub(super) common: String,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    pub(super) bars: Vec<Bar>,
}

/// A bar of the chart of a suite.
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) value: f64,
    pub(super) text: String,
}

/// Tables: records, suite, title, fields of figures, and the field of the bars. The end of a field's name is its unit.
const TABLES: &str = "\
case peer|exact|Exact search|recall ms ms_least ms_most device_ms queries_per_s share survivors_per_query searched_again build_ms not_run|queries_per_s
case peer|ivf|Inverted lists|recall ms ms_least ms_most queries_per_s device_queries_per_s scored_per_query survivors_per_query build_ms not_run|queries_per_s
case|graph|Every row against every row|ms ms_least ms_most search_ms rows_per_s pairs not_run|rows_per_s
case|maxsim|Documents by MaxSim|ms ms_least ms_most queries_per_s survivors_per_query not_run|queries_per_s
build|ivf|Building inverted lists|upload_ms train_ms iteration_ms add_ms largest_list empty_lists|
case|serve|Many callers|ms p90_ms p99_ms p999_ms ms_most queries_per_s together|queries_per_s
case peer|reduce|Reductions|ms device_ms bytes_per_s share_of_copy share error not_run|bytes_per_s
case peer|select|Selection|ms device_ms bytes_per_s share_of_copy share not_run|bytes_per_s
case peer|distance|Distance matrix|ms ms_least ms_most device_ms operations_per_s share error not_run|operations_per_s
case|breakeven|GPU or host|ms host_ms quicker copy|
upload|exact|Uploads|ms bytes_per_s|";

/// The share of a copy's rate beyond which the bytes came from caches.
const CACHED: f64 = 1.5;

/// The records of docs/benchmark.md. Older files have others.
const RECORDS: [&str; 10] =
    ["device", "suite", "first", "upload", "build", "case", "peer", "peers", "not_run", "failed"];

/// Ceilings of a device line.
const CEILINGS: [(&str, &str); 6] = [
    ("read_bytes_per_s", "reads"),
    ("copy_bytes_per_s", "copies"),
    ("flops_per_s", "f32"),
    ("integer_ops_per_s", "8-bit integers"),
    ("matrix_flops_per_s", "f16 matrices"),
    ("latency_ms", "milliseconds of launch and readback"),
];

/// A page for each device, at least one. Lines belong to the device line above them; peers, which run in a program of their own, to the
/// device with the same adapter.
pub(super) fn pages(lines: &[Line]) -> Vec<Page> {
    let of = |line: &Line| {
        ["adapter", "backend", "driver", "kind", "version", "revision"].map(|key| line.plain(key))
    };
    let mut devices: Vec<Vec<&Line>> = vec![];
    let mut current = 0;
    for line in lines {
        let found = match line.record() {
            "device" => Some(devices.iter().position(|device| of(device[0]) == of(line))),
            "peers" => devices.iter().position(|device| of(device[0])[0] == of(line)[0]).map(Some),
            _ => None,
        };
        current = found.map_or(current, |place| place.unwrap_or(devices.len()));
        if current == devices.len() {
            devices.push(vec![]);
        }
        devices[current].push(line);
    }
    devices.iter().map(|device| page(device)).collect()
}

fn page(lines: &[&Line]) -> Page {
    let of = |record: &'static str| lines.iter().copied().filter(move |line| line.record() == record);
    let first = |key: &str| of("device").find_map(|line| line.plain(key));
    let name = match (first("kind").as_deref(), first("processor")) {
        (Some("host"), Some(processor)) => Some(processor),
        _ => first("adapter"),
    };
    let columns = TABLES.lines().filter_map(|text| text.split('|').collect::<Vec<_>>().try_into().ok());
    let mut tables: Vec<Table> = columns
        .filter_map(|[records, suite, title, figures, bars]: [&'static str; 5]| {
            let is_of = |line: &&Line| records.split(' ').any(|record| line.is(record, suite));
            let keys = [&["peer"], &identity(suite)[..]].concat();
            let lines = newest(lines.iter().copied().filter(is_of), &keys);
            table(title, &lines, &keys, figures, bars)
        })
        .collect();
    let is_of_later = |line: &&Line| identity(line.text("suite").unwrap_or_default()).is_empty();
    let others: Vec<&Line> = of("case").filter(is_of_later).collect();
    let figures = "ms device_ms queries_per_s bytes_per_s operations_per_s share error";
    tables.extend(table("Other suites", &others, &["suite", "case"], figures, ""));
    let missing: Vec<&Line> = of("not_run").collect();
    tables.extend(table("Not run", &missing, &["suite", "case"], "reason", ""));
    let suites = lines.iter().copied().filter(|line| ["device", "suite"].contains(&line.record()));
    Page {
        title: format!("nearfield on {}", name.as_deref().unwrap_or("an unnamed device")),
        facts: facts(lines),
        commands: distinct(suites, "command"),
        tables,
    }
}

/// What lines tell of the device, of the program, and of what went wrong.
fn facts(lines: &[&Line]) -> Vec<String> {
    let of = |record: &str| lines.iter().copied().filter(|line| line.record() == record).collect::<Vec<_>>();
    let runs = of("device");
    let all = |keys: &[&str]| -> Vec<String> {
        keys.iter().filter_map(|key| runs.iter().find_map(|line| line.plain(key))).collect()
    };
    let mut facts = vec![all(&["adapter", "backend", "driver", "kind", "processor", "os"]).join(", ")];
    let when = |line: &&&Line| ["date", "time"].map(|key| line.plain(key).unwrap_or_default()).join(" ");
    let program = all(&["version", "revision"]);
    let dates: Vec<String> = runs.first().iter().chain(&runs.last()).map(when).collect();
    facts.extend((!program.is_empty()).then(|| format!("nearfield {}", program.join(", revision "))));
    facts.extend(match &dates[..] {
        [first, last] if first == last => Some(format!("{first} UTC")),
        [first, last] => Some(format!("{first} to {last} UTC, {} runs", runs.len())),
        _ => None,
    });
    let ceilings = CEILINGS.iter().filter_map(|(key, name)| {
        let rate = runs.iter().find_map(|run| figure(run, key))?;
        Some(format!("{name} {rate}"))
    });
    let ceilings: Vec<String> = ceilings.collect();
    facts.extend((!ceilings.is_empty()).then(|| format!("At best: {}.", ceilings.join(", "))));
    facts.extend(of("peers").last().map(|line| format!("Other libraries ran on {}.", line.machine())));
    let cases = of("case");
    let wrong = cases.iter().filter(|case| case.is_wrong()).count();
    let verified = cases.iter().filter(|case| case.value("verified").is_some()).count() - wrong;
    facts.extend(
        (!cases.is_empty())
            .then(|| format!("{verified} of {} cases verified before they were timed.", cases.len())),
    );
    facts.extend((wrong > 0).then(|| format!("Wrong answers: {wrong} of {} cases.", cases.len())));
    facts.extend(of("failed").iter().map(|line| {
        let name = ["suite", "case"].map(|key| line.plain(key).unwrap_or_default()).join(" ");
        let reason = line.plain("reason").unwrap_or_default();
        format!("Failed, which ended the run: {} ({reason}).", name.trim())
    }));
    let unknown = lines.iter().copied().filter(|line| !RECORDS.contains(&line.record()));
    let unknown = distinct(unknown, "record").join(", ");
    facts.extend(
        (!unknown.is_empty())
            .then(|| format!("Lines that this version does not know are left out: {unknown}.")),
    );
    let is_noisy = |line: &&Line| line.is_noisy("ms") || line.is_noisy("device_ms");
    facts.extend(lines.iter().copied().any(|line| is_noisy(&line)).then(|| {
        format!("~ marks times of a busy machine: the median is more than {NOISY} times the least.")
    }));
    facts.retain(|fact| !fact.is_empty());
    facts
}

/// The lines, each repeated one in the place of the first.
fn newest<'a>(lines: impl Iterator<Item = &'a Line>, keys: &[&str]) -> Vec<&'a Line> {
    let mut newest: Vec<&Line> = vec![];
    for line in lines {
        let is_same = |other: &&mut &Line| {
            other.record() == line.record() && keys.iter().all(|key| other.value(key) == line.value(key))
        };
        match newest.iter_mut().find(is_same) {
            Some(place) => *place = line,
            None => newest.push(line),
        }
    }
    newest
}

/// A table of lines: the fields that differ, then figures; none without lines. Columns without any text are left out.
fn table(
    title: &'static str,
    lines: &[&Line],
    keys: &[&'static str],
    figures: &'static str,
    bars: &str,
) -> Option<Table> {
    let first = lines.first()?;
    // A field that a line lacks is not known to differ.
    let differs = |key: &&str| {
        let mut values = lines.iter().filter_map(|line| line.value(key));
        let value = values.next();
        lines.len() == 1 || *key == "peer" || values.any(|other| Some(other) != value)
    };
    let (differing, same): (Vec<&str>, Vec<&str>) = keys.iter().copied().partition(differs);
    let has_peers = lines.iter().any(|line| line.value("peer").is_some());
    // Ours has no name of a library.
    let field = |line: &Line, key: &str| match line.field(key) {
        None if key == "peer" && has_peers => "nearfield".to_owned(),
        text => text.unwrap_or_default(),
    };
    let fields = differing.iter().map(|key| (*key, lines.iter().map(|line| field(line, key)).collect()));
    let mut columns: Vec<(&str, Vec<String>)> = fields.collect();
    columns.extend(figures.split(' ').map(|key| {
        let texts = lines.iter().map(|line| figure(line, key).unwrap_or_default());
        (key, texts.collect())
    }));
    let wrong = |line: &&Line| if line.is_wrong() { "WRONG".to_owned() } else { String::new() };
    columns.push(("answer", lines.iter().map(wrong).collect()));
    columns.retain(|(_, texts): &(_, Vec<String>)| texts.iter().any(|text| !text.is_empty()));
    let bars = lines.iter().filter_map(|line| {
        let value = line.positive(bars).filter(|_| !line.is_wrong())?;
        Some(Bar { label: words(line, &differing), value, text: figure(line, bars)? })
    });
    Some(Table {
        title,
        common: words(first, &same),
        head: columns.iter().map(|(key, _)| key.replace('_', " ")).collect(),
        rows: (0..lines.len())
            .map(|row| columns.iter().map(|(_, texts)| texts[row].clone()).collect())
            .collect(),
        bars: bars.collect(),
    })
}

/// A figure as text. A wrong answer has no speed.
fn figure(line: &Line, key: &str) -> Option<String> {
    let Some(number) = line.number(key) else { return line.plain(key) };
    Some(match key {
        _ if line.is_wrong() => return None,
        "recall" => decimal(number, 4),
        "together" => decimal(number, 1),
        "error" => format!("{number:.1e}"),
        _ if key.ends_with("bytes_per_s") => byte_rate(number),
        _ if ["ops_per_s", "operations_per_s"].iter().any(|end| key.ends_with(end)) => operation_rate(number),
        "share" => format!("{} of {}", percent(number), line.text("bound")?),
        // A copy reads and writes memory; much more than its rate comes from caches.
        "share_of_copy" if number > CACHED => format!("{} (cached)", percent(number)),
        _ if key.starts_with("share") => percent(number),
        // With a mark if the machine was busy.
        _ if key.split('_').any(|part| part == "ms") => {
            decimal(number, 3) + if line.is_noisy(key) { " ~" } else { "" }
        }
        _ => whole(number),
    })
}
