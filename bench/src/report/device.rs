//! Lines grouped by the device they were measured on.

use std::collections::HashMap;

use crate::lines::{Line, distinct, identity};

/// The measurements of one version of the program on one device.
#[derive(Debug, Default)]
pub(super) struct DeviceLines<'a> {
    /// The `device` line of every run.
    pub(super) runs: Vec<&'a Line>,
    /// The `peers` line of every run of other libraries.
    pub(super) peer_runs: Vec<&'a Line>,
    lines: Vec<&'a Line>,
}

/// Fields that must be equal for two runs to share a page.
const SAME_DEVICE: [&str; 6] = ["adapter", "backend", "driver", "kind", "version", "revision"];

impl<'a> DeviceLines<'a> {
    /// Assigns each line to the device line above it. Peers run in a program of their own, so their lines belong to the
    /// device with the same adapter.
    pub(super) fn group(lines: &'a [Line]) -> Vec<Self> {
        let mut devices: Vec<DeviceLines<'a>> = vec![];
        let mut current = 0;
        for run in lines.iter().filter(|line| line.record() == "device") {
            match devices.iter_mut().find(|device| device.has_run(run)) {
                Some(device) => device.runs.push(run),
                None => devices.push(DeviceLines { runs: vec![run], ..DeviceLines::default() }),
            }
        }
        if devices.is_empty() {
            devices.push(DeviceLines::default());
        }
        for line in lines {
            match line.record() {
                "device" => {
                    let found = devices.iter().position(|device| device.has_run(line));
                    current = found.unwrap_or(current);
                }
                "peers" => {
                    let adapter = line.text("adapter");
                    let found = devices.iter().position(|device| device.text("adapter") == adapter);
                    current = found.unwrap_or(current);
                    devices[current].peer_runs.push(line);
                }
                _ => devices[current].lines.push(line),
            }
        }
        devices.iter_mut().for_each(Self::keep_newest);
        devices
    }

    /// Keeps the newest of measurements that were repeated, in the place of the first.
    fn keep_newest(&mut self) {
        let mut places: HashMap<Vec<String>, usize> = HashMap::new();
        let mut newest: Vec<&Line> = vec![];
        for &line in &self.lines {
            let is_repeatable = ["case", "peer", "rung", "build", "upload"].contains(&line.record());
            let suite = line.text("suite").unwrap_or_default();
            let fields = ["record", "suite", "case", "peer", "rung", "not_run"].iter();
            let fields = fields.copied().chain(identity(suite));
            let fields: Vec<String> = fields.map(|key| line.plain(key).unwrap_or_default()).collect();
            match places.get(&fields) {
                Some(&place) if is_repeatable => newest[place] = line,
                _ => {
                    places.insert(fields, newest.len());
                    newest.push(line);
                }
            }
        }
        self.lines = newest;
    }

    fn has_run(&self, run: &Line) -> bool {
        SAME_DEVICE.iter().all(|key| self.text(key) == run.text(key))
    }

    /// A text field of the first run that has it.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.runs.iter().find_map(|run| run.text(key))
    }

    pub(super) fn positive(&self, key: &str) -> Option<f64> {
        self.runs.iter().find_map(|run| run.positive(key))
    }

    pub(super) fn curve(&self, key: &str) -> Vec<(f64, f64)> {
        let curves = self.runs.iter().map(|run| run.pairs(key));
        curves.into_iter().find(|curve| !curve.is_empty()).unwrap_or_default()
    }

    /// The name of the device; of the host engine, that of its processor.
    pub(super) fn name(&self) -> String {
        let threads = self.runs.iter().find_map(|run| run.count("threads"));
        match (self.text("kind"), self.processor(), threads) {
            (Some("host"), Some(processor), Some(threads)) => format!("{processor}, {threads} threads"),
            _ => self.text("adapter").unwrap_or("an unnamed device").to_owned(),
        }
    }

    /// The processor of the machine, which peers know, too.
    pub(super) fn processor(&self) -> Option<&'a str> {
        let peers = || self.peer_runs.iter().find_map(|run| run.text("cpu"));
        self.text("processor").or_else(peers)
    }

    /// The largest share of the processor that other programs used when a run began.
    pub(super) fn busy(&self) -> Option<f64> {
        self.runs.iter().filter_map(|run| run.positive("busy")).reduce(f64::max)
    }

    pub(super) fn records(&self, record: &str) -> Vec<&'a Line> {
        self.lines.iter().copied().filter(|line| line.record() == record).collect()
    }

    pub(super) fn of(&self, record: &str, suite: &str) -> Vec<&'a Line> {
        self.lines.iter().copied().filter(|line| line.is(record, suite)).collect()
    }

    /// Cases and peers of a suite that have times and correct answers.
    pub(super) fn measured(&self, record: &str, suite: &str) -> Vec<&'a Line> {
        self.of(record, suite).into_iter().filter(|line| line.is_measured()).collect()
    }

    /// Cases of a suite with correct answers: a wrong answer has no speed.
    pub(super) fn cases(&self, suite: &str) -> Vec<&'a Line> {
        self.of("case", suite).into_iter().filter(|case| !case.is_wrong()).collect()
    }

    pub(super) fn commands(&self, suite: &str) -> Vec<String> {
        distinct(self.of("suite", suite), "command")
    }
}
