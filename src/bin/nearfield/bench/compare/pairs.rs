//! Cases of two files, and which belong together.

use serde_json::Value;

use super::super::lines::{Line, of};

/// A case of one file.
pub(super) struct Case<'l> {
    pub(super) suite: &'l str,
    name: String,
    /// Or why there are none.
    times: Result<Times, String>,
    device: Option<Times>,
}

/// Milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) median: f64,
    least: f64,
    most: f64,
}

impl Times {
    pub(super) fn of(line: &Line, key: &str) -> Option<Self> {
        let median = line.positive(key)?;
        let bound = |end: &str| line.positive(&format!("{key}_{end}")).unwrap_or(median);
        Some(Self { median, least: bound("least"), most: bound("most") })
    }

    /// How many times as long as `old`, and between what.
    pub(super) fn over(self, old: Self) -> [f64; 3] {
        [self.median / old.median, self.least / old.most, self.most / old.least]
    }
}

/// The cases of a file, and how many there were more than once.
pub(super) fn cases(lines: &[Line], by_name: bool) -> (Vec<Case<'_>>, usize) {
    let (mut cases, mut repeated) = (Vec::<Case<'_>>::new(), 0);
    for line in lines {
        let suite = line.text("suite").unwrap_or("reduce");
        let (suite, name) = match line.record() {
            "rung" => {
                let field = |key| line.plain(key).unwrap_or_default();
                ("ladder", format!("{} {}, length {}", field("rung"), field("name"), field("length")))
            }
            "case" | "not_run" if by_name => (suite, line.text("case").unwrap_or_default().to_owned()),
            "case" => {
                let fields = of(suite).iter();
                let parts = fields.filter_map(|key| Some(format!("{key} {}", line.plain(key)?)));
                let name = parts.collect::<Vec<_>>().join(", ");
                // What a suite of the future is of is not known here.
                (suite, if name.is_empty() { line.plain("case").unwrap_or_default() } else { name })
            }
            _ => continue,
        };
        if name.is_empty() {
            continue;
        }
        let times = match (line.text("not_run").or(line.text("reason")), line.value("verified")) {
            (Some(reason), _) => Err(format!("not run: {reason}")),
            (None, Some(Value::Bool(false))) => Err(WRONG.to_owned()),
            _ => Times::of(line, "ms").ok_or_else(|| "no ms".to_owned()),
        };
        let case = Case { suite, name, times, device: Times::of(line, "device_ms") };
        match cases.iter_mut().find(|other| (other.suite, &other.name) == (suite, &case.name)) {
            Some(other) => {
                *other = case;
                repeated += 1;
            }
            None => cases.push(case),
        }
    }
    (cases, repeated)
}

const WRONG: &str = "answer is wrong";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Slower,
    Faster,
    Noisy,
    Same,
}

impl Verdict {
    fn new(old: Times, new: Times, limit: Option<f64>) -> Self {
        let ratio = new.median / old.median;
        match limit {
            None if new.least > old.most => Self::Slower,
            None if new.most < old.least => Self::Faster,
            Some(limit) if ratio > 1.0 + limit => {
                if new.least > old.median {
                    Self::Slower
                } else {
                    Self::Noisy
                }
            }
            Some(limit) if ratio * (1.0 + limit) < 1.0 => {
                if new.most < old.median {
                    Self::Faster
                } else {
                    Self::Noisy
                }
            }
            _ => Self::Same,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Noisy => "noisy",
            Self::Same => "same",
        }
    }
}

/// A case of both files.
pub(super) struct Ratio<'l> {
    pub(super) suite: &'l str,
    pub(super) name: &'l str,
    pub(super) times: [Times; 2],
    pub(super) device: Option<[Times; 2]>,
    pub(super) verdict: Verdict,
}

impl Ratio<'_> {
    pub(super) fn ratio(&self) -> [f64; 3] {
        self.times[1].over(self.times[0])
    }

    pub(super) fn device_ratio(&self) -> Option<[f64; 3]> {
        self.device.map(|[old, new]| new.over(old))
    }
}

/// A case that one file alone has times of.
pub(super) struct Only<'l> {
    pub(super) suite: &'l str,
    pub(super) name: &'l str,
    pub(super) side: &'static str,
    /// What the other file says of it, if anything.
    pub(super) reason: Option<&'l str>,
}

pub(super) struct Pairs<'l> {
    pub(super) ratios: Vec<Ratio<'l>>,
    pub(super) only: Vec<Only<'l>>,
}

impl<'l> Pairs<'l> {
    pub(super) fn new(old: &'l [Case<'l>], new: &'l [Case<'l>], limit: Option<f64>) -> Self {
        let mut pairs = Self { ratios: vec![], only: vec![] };
        let find = |cases: &'l [Case<'l>], case: &Case<'_>| {
            cases.iter().find(|other| (other.suite, &other.name) == (case.suite, &case.name))
        };
        for case in old {
            let Ok(before) = case.times else { continue };
            let Case { suite, name, .. } = case;
            let other = find(new, case);
            match other.map(|other| &other.times) {
                Some(Ok(after)) => pairs.ratios.push(Ratio {
                    suite,
                    name,
                    times: [before, *after],
                    device: case.device.zip(other.and_then(|other| other.device)).map(<[_; 2]>::from),
                    verdict: Verdict::new(before, *after, limit),
                }),
                Some(Err(reason)) => {
                    pairs.only.push(Only { suite, name, side: "old", reason: Some(reason) });
                }
                None => pairs.only.push(Only { suite, name, side: "old", reason: None }),
            }
        }
        for case in new {
            let other = find(old, case).map(|other| &other.times);
            if case.times.is_ok() && !matches!(other, Some(Ok(_))) {
                let reason = other.and_then(|times| times.as_ref().err()).map(String::as_str);
                pairs.only.push(Only { suite: case.suite, name: &case.name, side: "new", reason });
            }
        }
        pairs
    }

    /// What had times, and has wrong answers now.
    pub(super) fn wrong(&self) -> impl Iterator<Item = &Only<'l>> {
        self.only.iter().filter(|only| only.side == "old" && only.reason == Some(WRONG))
    }

    pub(super) fn suites(&self) -> Vec<&'l str> {
        let mut suites = vec![];
        for ratio in &self.ratios {
            if !suites.contains(&ratio.suite) {
                suites.push(ratio.suite);
            }
        }
        suites
    }

    pub(super) fn of_suite(&self, suite: &str) -> impl Iterator<Item = &Ratio<'l>> {
        self.ratios.iter().filter(move |ratio| ratio.suite == suite)
    }

    /// How many cases, and the geometric means of their ratios.
    pub(super) fn means(&self, suite: &str) -> (usize, f64, Option<f64>) {
        let mean = |logs: Vec<f64>| (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        let all: Vec<f64> = self.of_suite(suite).map(|ratio| ratio.ratio()[0].ln()).collect();
        let device: Vec<f64> =
            self.of_suite(suite).filter_map(|ratio| Some(ratio.device_ratio()?[0].ln())).collect();
        (all.len(), mean(all), (!device.is_empty()).then(|| mean(device)))
    }
}
