//! Cases of two files, matched by suite and name, and the verdict on each.

use crate::bench::lines::Line;

/// A case of one file.
pub(super) struct Case<'l> {
    pub(super) suite: &'l str,
    /// Empty for a failure before the name was known.
    name: String,
    /// Times by the wall clock, or the reason why there are none.
    times: Result<Times, String>,
    /// Whether the case failed or its answer was wrong.
    has_failed: bool,
    device: Option<Times>,
}

/// The median, least and most time of a case, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) median: f64,
    least: f64,
    most: f64,
}

impl Times {
    pub(super) fn of(line: &Line, key: &str) -> Option<Self> {
        let median = line.positive(key)?;
        // On a coarse clock the least time may be 0.
        let bound = |end: &str| line.number(&format!("{key}_{end}")).unwrap_or(median);
        Some(Self { median, least: bound("least").clamp(0.0, median), most: bound("most").max(median) })
    }

    /// The ratio to the `old` median, and its least and most value.
    pub(super) fn over(self, old: Self) -> [f64; 3] {
        [self.median / old.median, self.least / old.most, self.most / old.least]
    }
}

/// The cases of a file, and the number of repeated ones. The last of repeated cases counts.
pub(super) fn cases(lines: &[Line]) -> (Vec<Case<'_>>, usize) {
    let (mut cases, mut repeated) = (Vec::<Case<'_>>::new(), 0);
    for line in lines {
        let suite = line.text("suite").unwrap_or("reduce");
        let (suite, name) = match line.record() {
            "rung" => {
                let field = |key| line.plain(key).unwrap_or_default();
                ("ladder", format!("{} {}, length {}", field("rung"), field("name"), field("length")))
            }
            "case" | "not_run" | "failed" => (suite, line.text("case").unwrap_or_default().to_owned()),
            _ => continue,
        };
        let is_wrong = line.is_wrong();
        let has_failed = line.record() == "failed" || is_wrong;
        if name.is_empty() && !has_failed {
            continue;
        }
        let times = match line.text("not_run").or(line.text("reason")) {
            Some(reason) if has_failed => Err(format!("failed: {reason}")),
            None if is_wrong => Err("answer is wrong".to_owned()),
            None if has_failed => Err("failed".to_owned()),
            Some(reason) => Err(format!("not run: {reason}")),
            None => Times::of(line, "ms").ok_or_else(|| "no ms".to_owned()),
        };
        let case = Case { suite, name, times, has_failed, device: Times::of(line, "device_ms") };
        match cases.iter_mut().find(|other| (other.suite, &other.name) == (suite, &case.name)) {
            Some(other) if !case.name.is_empty() => {
                *other = case;
                repeated += 1;
            }
            _ => cases.push(case),
        }
    }
    (cases, repeated)
}

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

/// A case with times in both files.
pub(super) struct Ratio<'l> {
    pub(super) suite: &'l str,
    pub(super) name: &'l str,
    pub(super) times: [Times; 2],
    pub(super) device: Option<[Times; 2]>,
    pub(super) verdict: Verdict,
    /// The verdict by the device's clock, which may show what the wall clock hides.
    pub(super) device_verdict: Option<Verdict>,
}

impl Ratio<'_> {
    pub(super) fn is_slower(&self) -> bool {
        [Some(self.verdict), self.device_verdict].contains(&Some(Verdict::Slower))
    }

    pub(super) fn ratio(&self) -> [f64; 3] {
        self.times[1].over(self.times[0])
    }

    pub(super) fn device_ratio(&self) -> Option<[f64; 3]> {
        self.device.map(|[old, new]| new.over(old))
    }
}

/// A case with times in one file only.
pub(super) struct Only<'l> {
    pub(super) suite: &'l str,
    pub(super) name: &'l str,
    /// The file with the times: `old` or `new`.
    pub(super) file: &'static str,
    /// The reason in the other file, if it has one.
    pub(super) reason: Option<&'l str>,
}

/// A case of the new file that failed or has a wrong answer.
pub(super) struct Failed<'l> {
    pub(super) suite: &'l str,
    pub(super) name: &'l str,
    pub(super) reason: &'l str,
}

pub(super) struct Pairs<'l> {
    pub(super) ratios: Vec<Ratio<'l>>,
    pub(super) only: Vec<Only<'l>>,
    pub(super) failed: Vec<Failed<'l>>,
}

impl<'l> Pairs<'l> {
    pub(super) fn new(old: &'l [Case<'l>], new: &'l [Case<'l>], limit: Option<f64>) -> Self {
        let mut pairs = Self { ratios: vec![], only: vec![], failed: vec![] };
        let find = |cases: &'l [Case<'l>], case: &Case<'_>| {
            cases.iter().find(|other| (other.suite, &other.name) == (case.suite, &case.name))
        };
        for case in old {
            let Ok(before) = case.times else { continue };
            let Case { suite, name, .. } = case;
            let other = find(new, case);
            match other.map(|other| &other.times) {
                Some(Ok(after)) => {
                    let device = case.device.zip(other.and_then(|other| other.device));
                    pairs.ratios.push(Ratio {
                        suite,
                        name,
                        times: [before, *after],
                        device: device.map(<[_; 2]>::from),
                        verdict: Verdict::new(before, *after, limit),
                        device_verdict: device.map(|(old, new)| Verdict::new(old, new, limit)),
                    });
                }
                // Listed as failed below.
                Some(Err(_)) if other.is_some_and(|other| other.has_failed) => {}
                Some(Err(reason)) => {
                    pairs.only.push(Only { suite, name, file: "old", reason: Some(reason) });
                }
                None => pairs.only.push(Only { suite, name, file: "old", reason: None }),
            }
        }
        for case in new {
            if let (Err(reason), true) = (&case.times, case.has_failed) {
                pairs.failed.push(Failed { suite: case.suite, name: &case.name, reason });
            }
            let other = find(old, case).map(|other| &other.times);
            if case.times.is_ok() && !matches!(other, Some(Ok(_))) {
                let reason = other.and_then(|times| times.as_ref().err()).map(String::as_str);
                pairs.only.push(Only { suite: case.suite, name: &case.name, file: "new", reason });
            }
        }
        pairs
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

    /// The number of cases of a suite, and the geometric means of their ratios by both clocks.
    pub(super) fn means(&self, suite: &str) -> (usize, f64, Option<f64>) {
        let mean = |logs: Vec<f64>| (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        let all: Vec<f64> = self.of_suite(suite).map(|ratio| ratio.ratio()[0].ln()).collect();
        let device: Vec<f64> =
            self.of_suite(suite).filter_map(|ratio| Some(ratio.device_ratio()?[0].ln())).collect();
        (all.len(), mean(all), (!device.is_empty()).then(|| mean(device)))
    }
}
