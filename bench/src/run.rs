//! A run of suites on one device: its ceilings, its clock, and its output.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args as ClapArgs;
use nearfield::{AdapterKind, Device, Residency};
use serde_json::{Value, json};
use sysinfo::System;

use super::case::{Case, extend};
use super::ceilings::{Ceilings, Reached, Warmer, Work};
use super::gpu::is_processor;
use super::report;
use super::times::{Times, WARM_UP};
use super::told::{LINES, Told};
use super::units::rounded;
use nearfield_cli::given::places::Places;
use nearfield_cli::given::{device, files};
use nearfield_cli::terminal::output;

/// The most time of a case without `--budget`, unless three runs take longer.
const CASE: Duration = Duration::from_secs(20);
/// Runs of a case by default.
const RUNS: usize = 20;
/// The fewest runs of a case.
const LEAST_RUNS: usize = 3;

/// Arguments of every suite.
#[derive(Debug, Clone, ClapArgs)]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) shared: Shared,
    #[command(flatten)]
    places: Places,
}

/// Arguments of everything that is timed, with a device or without.
#[derive(Debug, Clone, ClapArgs)]
pub(super) struct Shared {
    /// Timed runs of a case. Fewer, but at least 3, if they would take longer than 20 s or the case's share of --budget
    #[arg(long, default_value_t = RUNS, value_name = "N", value_parser = nearfield_cli::given::arguments::count)]
    runs: usize,
    /// Time for everything, like 60s or 5m. Cases without time left are named; an index or three runs that have begun are finished
    #[arg(long, value_name = "TIME", value_parser = budget)]
    budget: Option<Duration>,
    /// Write a page with charts (index.html) and the JSON lines (figures.jsonl) into this directory
    #[arg(long, value_name = "DIR", value_parser = report::directory)]
    report: Option<PathBuf>,
    /// Replace the report of an earlier run
    #[arg(long, requires = "report")]
    force: bool,
    /// Print JSON lines instead of text
    #[arg(long)]
    json: bool,
}

/// The name of the processor, if the system tells it.
fn processor() -> Option<String> {
    let mut system = System::new();
    system.refresh_cpu_all();
    let name = system.cpus().first()?.brand().trim().to_owned();
    Some(name).filter(|name| !name.is_empty())
}

fn budget(text: &str) -> Result<Duration, String> {
    let most = Duration::from_secs(365 * 24 * 3600);
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time <= most { Ok(time) } else { Err(format!("needed at most {}", humantime::format_duration(most))) }
}

pub(super) trait Suite: std::fmt::Debug {
    fn run(&self, run: &mut Run) -> Result<()>;

    /// Whether its indexes may live on several devices, and keep their rows on the host.
    fn takes_places(&self) -> bool {
        false
    }
}

impl Common {
    /// The words that select the same device and runs.
    pub(super) fn words(&self) -> Vec<String> {
        [self.places.words(), self.shared.words()].concat()
    }
}

impl Shared {
    /// Refuses to replace the report of an earlier run without being told to.
    fn check_report(&self) -> Result<()> {
        let Some(directory) = &self.report else { return Ok(()) };
        let mut written = [LINES, report::PAGE].into_iter();
        written.try_for_each(|name| files::refuse_existing("--report", &directory.join(name), self.force))
    }

    /// The words that select the same runs.
    pub(super) fn words(&self) -> Vec<String> {
        if self.runs == RUNS { vec![] } else { vec!["--runs".to_owned(), self.runs.to_string()] }
    }
}

pub(super) struct Run {
    /// The first of the devices.
    pub(super) device: Device,
    pub(super) devices: Vec<Device>,
    pub(super) places: Option<Places>,
    /// Measured when the first suite begins, after its arguments were checked.
    ceilings: Option<Ceilings>,
    warmer: Option<Warmer>,
    /// The most timed runs of a case.
    pub(super) runs: usize,
    told: Told,
    /// Names of cases, and how often each was used.
    names: HashMap<String, usize>,
    suite: String,
    /// The name of the running case, to which an error is attributed.
    case: Option<String>,
    /// When the suite has to end, and the number of its remaining cases.
    pub(super) deadline: Option<Instant>,
    cases_left: usize,
}

impl Run {
    pub(super) fn open(common: &Common) -> Result<Self> {
        let started = Instant::now();
        common.shared.check_report()?;
        let devices = common.places.open()?;
        Ok(Self { places: Some(common.places.clone()), ..Self::on(devices, &common.shared, started) })
    }

    /// A run of something that is timed elsewhere. The host engine stands for its device.
    pub(super) fn without_device(suite: &str, shared: &Shared) -> Result<Self> {
        shared.check_report()?;
        Ok(Self { suite: suite.to_owned(), ..Self::on(vec![Device::host()], shared, Instant::now()) })
    }

    fn on(devices: Vec<Device>, shared: &Shared, started: Instant) -> Self {
        Self {
            device: devices[0].clone(),
            devices,
            places: None,
            ceilings: None,
            warmer: None,
            runs: shared.runs,
            told: Told::new(shared.json, shared.report.clone()),
            names: HashMap::new(),
            suite: String::new(),
            case: None,
            deadline: shared.budget.map(|budget| started + budget),
            cases_left: 0,
        }
    }

    /// An error where a suite would leave out what was asked for.
    pub(super) fn check(&self, takes_places: bool) -> Result<()> {
        let Some(places) = &self.places else { return Ok(()) };
        let keeps_rows = matches!(places.residency, Residency::Auto | Residency::Device);
        ensure!(
            takes_places || self.devices.len() == 1 && keeps_rows,
            "--device, --distribution, --residency: needed one device that keeps the rows, which `exact`, `graph` and `serve` alone do without; given {}",
            places.words().join(" ")
        );
        Ok(())
    }

    /// How rows lie on several devices, and where those of an index are if not on the device, for the name of a case.
    pub(super) fn of_places(&self, residency: Residency, is_streamed: bool) -> String {
        let spread = self.places.as_ref().map_or(String::new(), |places| places.spread(self.devices.len()));
        let is_on_host = self.device.adapter().kind == AdapterKind::Host;
        let kept = match (residency, is_streamed) {
            (Residency::Host, _) if is_on_host => "",
            (Residency::Host, false) => "rows on the host",
            (Residency::Host, true) => "rows streamed",
            (Residency::Mapped, false) => "rows in their file",
            (Residency::Mapped, true) => "rows in their file, streamed",
            _ => "",
        };
        [&spread, kept].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }

    /// Begins a suite with this number of cases.
    pub(super) fn begin(&mut self, suite: &str, cases: usize) -> Result<()> {
        (self.suite, self.case, self.cases_left) = (suite.to_owned(), None, cases);
        if self.ceilings.is_some() {
            return Ok(());
        }
        self.warmer = Some(Warmer::new(&self.device)?);
        let ceilings = Ceilings::measure(&self.device)?;
        let adapter = self.device.adapter();
        let processor = processor();
        let now = time::OffsetDateTime::now_utc();
        let seconds = now.time();
        let command = format!("nearfield-bench {}", output::command(std::env::args().skip(1)));
        let mut line = json!({
            "record": "device", "schema": 1, "date": now.date().to_string(),
            "time": format!("{:02}:{:02}:{:02}", seconds.hour(), seconds.minute(), seconds.second()),
            "adapter": adapter.name, "backend": adapter.backend, "driver": adapter.driver,
            "kind": adapter.kind.to_string(), "threads": rayon::current_num_threads(), "processor": processor,
            "os": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            "version": env!("CARGO_PKG_VERSION"), "revision": option_env!("NEARFIELD_REVISION"), "command": command,
        });
        extend(&mut line, ceilings.fields());
        let processor = format!("processor: {}", processor.as_deref().unwrap_or("unknown"));
        let text = [device::sentence(&self.device), processor, ceilings.text()].join("\n");
        self.ceilings = Some(ceilings);
        self.tell(line, &text)
    }

    /// Bytes of scratch memory.
    pub(super) fn scratch(&self) -> u64 {
        self.device.options().budget_bytes
    }

    /// The rates of a case and its share of a ceiling. `None` before a suite has begun.
    pub(super) fn reached(&self, work: &Work, time: Duration) -> Option<Reached> {
        Some(self.ceilings.as_ref()?.reached(work, time))
    }

    /// Keeps the clocks of a card up before kernels that are timed.
    pub(super) fn warm(&self) -> Result<()> {
        self.warmer.as_ref().map_or(Ok(()), |warmer| warmer.warm(&self.device))
    }

    /// The share of a copy's bandwidth that `bytes` in `time` reach.
    pub(super) fn share_of_copy(&self, bytes: f64, time: Duration) -> Option<f64> {
        let copy = self.ceilings.as_ref()?.copy.of_memory();
        Some(rounded(bytes / time.as_secs_f64().max(1e-9) / copy))
    }

    /// Writes and prints a line at once.
    pub(super) fn tell(&mut self, line: Value, text: &str) -> Result<()> {
        self.told.tell(line, text)
    }

    /// Begins a case, or a group of cases. Returns the reason if no time is left for it.
    pub(super) fn enter(&mut self, name: &str) -> Option<&'static str> {
        self.case = Some(name.to_owned());
        self.is_late().then_some("no time was left of --budget")
    }

    /// Begins a case. Reports it as not run and returns true if no time is left for it.
    pub(super) fn is_over(&mut self, name: &str) -> Result<bool> {
        let Some(reason) = self.enter(name) else { return Ok(false) };
        self.not_run(name, reason)?;
        Ok(true)
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Begins a case of these identity fields. None if no time is left for it, which is reported.
    pub(super) fn start(&mut self, identity: Value) -> Result<Option<Case>> {
        let case = Case::of(&self.suite, identity);
        match self.enter(&case.name) {
            Some(reason) => self.not_run(&case.name, reason).map(|()| None),
            None => Ok(Some(case)),
        }
    }

    /// Reports why a case, or a group of cases, was not run.
    pub(super) fn not_run(&mut self, name: &str, reason: &str) -> Result<()> {
        self.cases_left = self.cases_left.saturating_sub(1);
        self.case = None;
        let name = self.unique(name);
        let line = json!({ "record": "not_run", "suite": self.suite, "case": name, "reason": reason });
        self.tell(line, &format!("{:<9} {name}: not run: {reason}", self.suite))
    }

    fn failed(&mut self, error: &anyhow::Error) -> Result<()> {
        let (case, reason) = (self.case.take(), output::one_line(error));
        let case = case.map(|name| self.unique(&name));
        let of = case.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        let text = format!("{:<9} {of}failed: {reason}", self.suite);
        self.tell(json!({ "record": "failed", "suite": self.suite, "case": case, "reason": reason }), &text)
    }

    /// Makes a name unique in the suite: a case can be requested twice.
    fn unique(&mut self, name: &str) -> String {
        let times = self.names.entry(format!("{} {name}", self.suite)).or_insert(0);
        *times += 1;
        if *times > 1 { format!("{name} ({times})") } else { name.to_owned() }
    }

    /// The time for the next case.
    pub(super) fn share(&self) -> Duration {
        self.deadline.map_or(CASE, |deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            (left / self.cases_left.max(1) as u32).min(CASE)
        })
    }

    /// Warms up, then times one of several parts of a case by the wall clock and on the device. Both closures get the number
    /// of the run and return its time.
    pub(super) fn time(
        &self,
        parts: u32,
        mut wall: impl FnMut(usize) -> Result<Duration>,
        mut on_device: impl FnMut(usize) -> Result<Option<Duration>>,
    ) -> Result<(Times, Option<Times>)> {
        let share = self.share() / parts;
        // Figures of a cold card mean nothing, so only a processor shortens its warm-up.
        let warm = if is_processor(&self.device) { WARM_UP.min(share / 5) } else { WARM_UP };
        let (started, mut longest) = (Instant::now(), Duration::ZERO);
        for number in 0.. {
            let before = Instant::now();
            wall(number)?;
            longest = before.elapsed();
            if started.elapsed() >= warm {
                break;
            }
        }
        // Half of the remaining time for each clock.
        let half = share.saturating_sub(started.elapsed()).as_secs_f64() / 2.0;
        let runs = (half / longest.as_secs_f64().max(1e-6)) as usize;
        let runs = runs.clamp(LEAST_RUNS, self.runs.max(LEAST_RUNS));
        let walls = Times::of(runs, &mut wall)?;
        let mut times = vec![];
        for number in 0..runs {
            // Some devices have no clock.
            let Some(time) = on_device(number)? else { break };
            times.push(time);
            if self.is_late() {
                break;
            }
        }
        Ok((walls, (!times.is_empty()).then(|| Times::from(times))))
    }

    /// Reports the figures of a case.
    pub(super) fn case(&mut self, case: Case) -> Result<()> {
        self.cases_left = self.cases_left.saturating_sub(1);
        self.case = None;
        let name = self.unique(&case.name);
        let reached =
            case.work.and_then(|work| self.reached(&work, case.on_device.unwrap_or(case.wall).median));
        let (line, text) = case.told(&self.suite, &name, reached);
        self.tell(line, &text)
    }

    /// Ends the run: reports an error, and writes the page in any case.
    pub(super) fn finish(mut self, done: Result<()>) -> Result<()> {
        let told = match &done {
            // Without a line the arguments are wrong. A reader that left is no failure.
            Err(error) if !self.told.is_empty() && !output::is_broken_pipe(error) => self.failed(error),
            _ => Ok(()),
        };
        done.and(told).and(self.told.finish())
    }
}
