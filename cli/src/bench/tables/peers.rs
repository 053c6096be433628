//! What others take for the same things.

use super::super::lines::{Line, of};
use super::super::units::decimal;
use super::columns::{milliseconds_text, words};
use super::grid::Column;

/// Where what stands beside cases comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Nothing,
    /// Other libraries.
    Others,
    /// Our own exact search.
    Flat,
}

/// A line of one of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer<'l> {
    name: &'l str,
    line: &'l Line,
}

impl Source {
    /// Whether a line has what stands beside cases of a suite.
    pub(super) fn takes(self, line: &Line, suite: &str) -> bool {
        self.peer(line, suite).is_some()
    }

    pub(super) fn peer<'l>(self, line: &'l Line, suite: &str) -> Option<Peer<'l>> {
        let name = match self {
            // Older lines know where queries were; cases have them on the host.
            Self::Others if line.is("peer", suite) && line.text("from") != Some("device") => {
                line.text("peer")?
            }
            Self::Flat if line.is("case", "exact") => "`Flat`",
            _ => return None,
        };
        Some(Peer { name, line })
    }

    /// A column for everyone who was timed on any of these cases.
    pub(super) fn columns(self, peers: &[Peer<'_>], cases: &[&Line]) -> Vec<Column> {
        let mut names: Vec<&str> = vec![];
        for peer in peers {
            if !names.contains(&peer.name) && cases.iter().any(|case| peer.times(case).is_some()) {
                names.push(peer.name);
            }
        }
        let columns = names.into_iter().map(|name| {
            let of_case = |case: &&Line| -> (String, Option<f64>) {
                let mut own = peers.iter().rev().filter(|peer| peer.name == name);
                let timed =
                    own.clone().find_map(|peer| Some((peer.times(case)?, peer.line.number("recall"))));
                match timed {
                    Some((ms, recall)) => (milliseconds_text(ms), recall),
                    None if own.any(|peer| peer.line.value("not_run").is_some() && peer.is_of(case)) => {
                        ("not run".into(), None)
                    }
                    None => (String::new(), None),
                }
            };
            let cells: Vec<_> = cases.iter().map(of_case).collect();
            // Of those who are exact it goes without saying.
            let is_inexact = cells.iter().any(|(_, recall)| recall.is_some_and(|recall| recall < 1.0));
            let head = format!("{}, ms{}", words(name), if is_inexact { " (recall)" } else { "" });
            let text = |(ms, recall): (String, Option<f64>)| match recall {
                Some(recall) if is_inexact => format!("{ms} ({})", decimal(recall, 4)),
                _ => ms,
            };
            Column::new(name, false, (head, cells.into_iter().map(text).collect()))
        });
        columns.collect()
    }
}

impl Peer<'_> {
    /// What it takes for what a case is of.
    fn times(&self, case: &Line) -> Option<f64> {
        // As cases of kernels show times on the device first.
        let on_device = ["select", "reduce", "distance"].contains(&case.text("suite")?);
        let device = self.line.positive("device_ms").filter(|_| on_device);
        device.or_else(|| self.line.positive("ms")).filter(|_| self.is_of(case))
    }

    /// Whether it is of the same things as a case. A peer that was not run need not say of what.
    fn is_of(&self, case: &Line) -> bool {
        let is_own = self.line.record() == "case";
        // How we come to an answer; a library trains as it does by default.
        let ours = ["screened", "scratch", "iterations"];
        let fields = of(self.line.text("suite").unwrap_or_default()).iter();
        fields.filter(|key| !ours.contains(*key)).all(|key| {
            match (self.line.plain(key), case.plain(key)) {
                // A file of vectors may have another name there.
                _ if *key == "data" && !is_own => true,
                (None, _) if self.line.value("not_run").is_some() => true,
                (own, of_case) => own.or_else(|| default(key)) == of_case,
            }
        })
    }
}

/// What others need not say: their vectors are f32, and sums are plain.
fn default(key: &str) -> Option<String> {
    match key {
        "elements" => Some("f32".to_owned()),
        "summation" => Some("plain".to_owned()),
        _ => None,
    }
}
