//! Lines by the device that they are of.

use crate::bench::lines::Line;

/// What was measured on one device by one version of the program.
#[derive(Debug, Default)]
pub(super) struct Part<'a> {
    /// Of every run.
    pub(super) devices: Vec<&'a Line>,
    pub(super) lines: Vec<&'a Line>,
    /// What the peers ran on.
    pub(super) peers_on: Vec<&'a Line>,
}

/// What has to be equal for figures of two runs to stand in one table.
const IDENTITY: [&str; 6] = ["adapter", "backend", "driver", "kind", "version", "revision"];

impl<'a> Part<'a> {
    /// Lines belong to the device above them, wherever it comes again; those of peers to the device of their adapter, as
    /// they come from a program of their own.
    pub(super) fn all(lines: &'a [Line]) -> Vec<Self> {
        let mut parts: Vec<Part<'a>> = vec![];
        let of = |parts: &[Part<'_>], line: &Line| parts.iter().position(|part| part.is_of(line));
        for device in lines.iter().filter(|line| is_device(line)) {
            match of(&parts, device) {
                Some(part) => parts[part].devices.push(device),
                None => parts.push(Part { devices: vec![device], ..Part::default() }),
            }
        }
        if parts.is_empty() {
            parts.push(Part::default());
        }
        let mut current = 0;
        for line in lines {
            if is_device(line) {
                current = of(&parts, line).unwrap_or(current);
            } else if matches!(line.record(), "peers" | "device") {
                let adapter = line.text("adapter");
                current = parts.iter().position(|part| part.text("adapter") == adapter).unwrap_or(current);
                parts[current].peers_on.push(line);
            } else {
                parts[current].lines.push(line);
            }
        }
        parts
    }

    fn is_of(&self, device: &Line) -> bool {
        IDENTITY.iter().all(|key| self.text(key) == device.text(key))
    }

    /// A field of the first device that has it.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.devices.iter().find_map(|device| device.text(key))
    }

    pub(super) fn positive(&self, key: &str) -> Option<f64> {
        self.devices.iter().find_map(|device| device.positive(key))
    }

    pub(super) fn curve(&self, key: &str) -> Vec<(f64, f64)> {
        let curves = self.devices.iter().map(|device| device.pairs(key));
        curves.into_iter().find(|curve| !curve.is_empty()).unwrap_or_default()
    }

    /// Different texts of a field, over all runs.
    pub(super) fn texts(&self, key: &str) -> Vec<&'a str> {
        let mut texts: Vec<&str> = vec![];
        for text in self.devices.iter().filter_map(|device| device.text(key)) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts
    }

    pub(super) fn of(&self, record: &str, suite: &str) -> Vec<&'a Line> {
        self.lines.iter().copied().filter(|line| line.is(record, suite)).collect()
    }

    /// Cases of a suite whose answers were right: a wrong one has no speed.
    pub(super) fn cases(&self, suite: &str) -> Vec<&'a Line> {
        let cases = self.of("case", suite).into_iter();
        cases.filter(|case| !is_wrong(case)).collect()
    }

    pub(super) fn records(&self, record: &str) -> Vec<&'a Line> {
        self.lines.iter().copied().filter(|line| line.record() == record).collect()
    }
}

/// Whether a case says that its answer was wrong.
pub(super) fn is_wrong(case: &Line) -> bool {
    case.value("verified").is_some_and(|verified| verified.as_bool() == Some(false))
}

fn is_device(line: &Line) -> bool {
    line.record() == "device"
}
