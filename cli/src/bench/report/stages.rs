//! Where the time of a search goes.

use anyhow::Result;

use super::bars::{Bar, Group, Part as Piece, chart};
use super::fields::{describe, groups};
use super::page::figure;
use super::palette::{Key, OTHER, REST, color, legend};
use crate::bench::lines::Line;
use crate::bench::units::{decimal, time_text};

/// How many stages have a colour of their own.
const MOST: usize = 7;
const MOST_BARS: usize = 24;

/// The stages of every case as bars: nothing where no stage was timed.
pub(super) fn html(cases: &[&Line], keys: &[&str]) -> Result<String> {
    let staged: Vec<&Line> = cases.iter().copied().filter(|case| !case.stages().is_empty()).collect();
    // The last run of a case is the newest.
    let newest = groups(&staged, keys).into_iter().filter_map(|group| group.last().copied());
    let staged: Vec<&Line> = newest.collect();
    if staged.is_empty() {
        return Ok(String::new());
    }
    let names = largest(&staged);
    let shown: Vec<&Line> = staged.iter().copied().take(MOST_BARS).collect();
    let bars = shown.iter().map(|case| Group { title: String::new(), bars: vec![bar(case, keys, &names)] });
    let svg = chart(&bars.collect::<Vec<_>>())?;
    let mut entries: Vec<(String, _, Key)> = names
        .iter()
        .enumerate()
        .map(|(number, name)| ((*name).to_owned(), color(number), Key::Block))
        .collect();
    let others = shown.iter().any(|case| case.stages().iter().any(|(name, ..)| !names.contains(name)));
    entries.extend(others.then(|| ("other stages".to_owned(), OTHER, Key::Block)));
    entries.push(("host and waiting".to_owned(), REST, Key::Block));
    let more = staged.len().saturating_sub(MOST_BARS);
    let note =
        "Shares of the time of each search; numbers are milliseconds. Stages are timed in runs of their own.";
    let note =
        if more > 0 { format!("{note} {more} more cases are in the tables.") } else { note.to_owned() };
    Ok(figure(&svg, "Where the time of a search goes", &legend(&entries), &note, false))
}

/// Stages by the largest share that one has of any search, as many as there are colours.
fn largest<'a>(cases: &[&'a Line]) -> Vec<&'a str> {
    let mut shares: Vec<(&str, f64)> = vec![];
    for case in cases {
        let stages = case.stages();
        let all: f64 = stages.iter().map(|(_, ms, _)| ms).sum();
        for (name, ms, _) in stages {
            let share = if all > 0.0 { ms / all } else { 0.0 };
            match shares.iter_mut().find(|(other, _)| *other == name) {
                Some((_, most)) => *most = most.max(share),
                None => shares.push((name, share)),
            }
        }
    }
    shares.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    shares.into_iter().take(MOST).map(|(name, _)| name).collect()
}

fn bar(case: &Line, keys: &[&str], names: &[&str]) -> Bar {
    let stages = case.stages();
    let sum: f64 = stages.iter().map(|(_, ms, _)| ms).sum();
    let piece = |length: f64, color| Piece {
        length,
        color,
        text: decimal(length, if length < 10.0 { 2 } else { 1 }),
    };
    let of = |name: &str| stages.iter().filter(|(other, ..)| *other == name).map(|(_, ms, _)| ms).sum();
    let mut parts: Vec<Piece> =
        names.iter().enumerate().map(|(number, name)| piece(of(name), color(number))).collect();
    let others = stages.iter().filter(|(name, ..)| !names.contains(name)).map(|(_, ms, _)| ms).sum();
    parts.push(piece(others, OTHER));
    let wall = case.positive("ms");
    parts.push(piece(wall.map_or(0.0, |wall| (wall - sum).max(0.0)), REST));
    let text = wall.map(|ms| time_text(ms / 1e3)).unwrap_or_default();
    Bar { label: describe(case, keys), parts, text }
}
