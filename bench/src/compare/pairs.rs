//! Cases of two files, matched by suite and name, and the verdict on each.

use crate::lines::Line;

/// A case of one file.
pub(super) struct Case<'l> {
    suite: &'l str,
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
    fn of(line: &Line, key: &str) -> Option<Self> {
        let median = line.positive(key)?;
        // On a coarse clock the least time may be 0.
        let bound = |end: &str| line.number(&format!("{key}_{end}")).unwrap_or(median);
        Some(Self { median, least: bound("least").clamp(0.0, median), most: bound("most").max(median) })
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

/// Times of a case by one clock in both files.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    pub(super) old: Times,
    pub(super) new: Times,
    /// `slower`, `faster`, `noisy` or `same`.
    pub(super) verdict: &'static str,
}

impl Clock {
    fn new(old: Times, new: Times, limit: Option<f64>) -> Self {
        let ratio = new.median / old.median;
        let is_past = limit.map(|limit| ratio.max(ratio.recip()) > 1.0 + limit);
        let verdict = match is_past {
            Some(false) => "same",
            _ if new.least > old.most => "slower",
            _ if new.most < old.least => "faster",
            Some(true) => "noisy",
            None => "same",
        };
        Self { old, new, verdict }
    }

    /// The ratio of the new median to the old one, and its least and most value.
    pub(super) fn ratio(&self) -> [f64; 3] {
        let Self { old, new, .. } = self;
        [new.median / old.median, new.least / old.most, new.most / old.least]
    }
}

/// A case with times in both files. The device's clock may show what the wall clock hides.
pub(super) struct Ratio<'l> {
    pub(super) suite: &'l str,
    pub(super) name: &'l str,
    pub(super) wall: Clock,
    pub(super) device: Option<Clock>,
}

impl Ratio<'_> {
    pub(super) fn is_slower(&self) -> bool {
        [Some(self.wall), self.device].into_iter().flatten().any(|clock| clock.verdict == "slower")
    }
}

/// A case without a ratio.
pub(super) struct Single<'l> {
    pub(super) suite: &'l str,
    pub(super) name: &'l str,
    /// The reason, if one is known.
    pub(super) reason: Option<&'l str>,
}

pub(super) struct Pairs<'l> {
    pub(super) ratios: Vec<Ratio<'l>>,
    /// Cases with times in only one file, with the name of that file and the reason in the other one.
    pub(super) only: Vec<(&'static str, Single<'l>)>,
    /// Cases of the new file that failed or have a wrong answer.
    pub(super) failed: Vec<Single<'l>>,
}

impl<'l> Pairs<'l> {
    pub(super) fn new(old: &'l [Case<'l>], new: &'l [Case<'l>], limit: Option<f64>) -> Self {
        let mut pairs = Self { ratios: vec![], only: vec![], failed: vec![] };
        let find = |cases: &'l [Case<'l>], case: &Case<'_>| {
            cases.iter().find(|other| (other.suite, &other.name) == (case.suite, &case.name))
        };
        let single = |case: &'l Case<'l>, other: Option<&'l Case<'l>>| {
            let reason = other.and_then(|other| other.times.as_ref().err()).map(String::as_str);
            Single { suite: case.suite, name: &case.name, reason }
        };
        for case in old {
            let Ok(before) = case.times else { continue };
            let other = find(new, case);
            match other.map(|other| &other.times) {
                Some(&Ok(after)) => pairs.ratios.push(Ratio {
                    suite: case.suite,
                    name: &case.name,
                    wall: Clock::new(before, after, limit),
                    device: case
                        .device
                        .zip(other.and_then(|other| other.device))
                        .map(|(old, new)| Clock::new(old, new, limit)),
                }),
                // Listed as failed below.
                _ if other.is_some_and(|other| other.has_failed) => {}
                _ => pairs.only.push(("old", single(case, other))),
            }
        }
        for case in new {
            let other = find(old, case);
            if case.has_failed && case.times.is_err() {
                pairs.failed.push(single(case, Some(case)));
            } else if case.times.is_ok() && other.is_none_or(|other| other.times.is_err()) {
                pairs.only.push(("new", single(case, other)));
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
        let log = |clock: &Clock| clock.ratio()[0].ln();
        let all: Vec<f64> = self.of_suite(suite).map(|ratio| log(&ratio.wall)).collect();
        let device: Vec<f64> =
            self.of_suite(suite).filter_map(|ratio| ratio.device.as_ref().map(log)).collect();
        (all.len(), mean(all), (!device.is_empty()).then(|| mean(device)))
    }
}
