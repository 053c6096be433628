//! What `nearfield bench reduce --ladder --json` printed, read again.

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value};

use crate::bench::lines::Line;

/// The adapter of a run, and its ceiling.
#[derive(Debug, Clone, Default)]
pub(super) struct Device {
    pub(super) adapter: Option<String>,
    pub(super) backend: Option<String>,
    pub(super) driver: Option<String>,
    pub(super) version: Option<String>,
    pub(super) date: Option<String>,
    pub(super) copy_bytes: Option<f64>,
}

/// The rungs of one length.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) device: Device,
    pub(super) length: u64,
    pub(super) rungs: Vec<Rung>,
}

#[derive(Debug)]
pub(super) struct Rung {
    line: usize,
    pub(super) letter: String,
    pub(super) name: String,
    /// Or why there is none.
    pub(super) measured: std::result::Result<Measured, String>,
}

/// Times in seconds.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) wall: f64,
    pub(super) on_device: Option<f64>,
    pub(super) bytes: Option<f64>,
    pub(super) share: Option<f64>,
    pub(super) error: Option<f64>,
}

/// A number of a line, or of none (0), and what is wrong there.
pub(super) type Fault = (usize, anyhow::Error);

/// The rungs of some lines, by length in the order in which lengths come.
pub(super) fn read(text: &str) -> std::result::Result<Vec<Run>, Fault> {
    let mut device: Option<Device> = None;
    let mut runs: Vec<Run> = vec![];
    for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
        let record: Value = serde_json::from_str(text)
            .map_err(|fault| (line, anyhow!("needed JSON, found none at column {}", fault.column())))?;
        let record = record.as_object().ok_or_else(|| (line, anyhow!("needed a JSON object")))?;
        let of_another = record.get("suite").is_some_and(|suite| suite != "reduce");
        match record.get("record").and_then(Value::as_str) {
            Some("device") => {
                let found = Device::read(record).map_err(|fault| (line, fault))?;
                let is_other = |device: &Device| !device.is_same(&found);
                if device.as_ref().is_some_and(is_other) && !runs.is_empty() {
                    return Err((line, anyhow!("needed one device, found rungs of another above")));
                }
                device = Some(found);
            }
            Some("rung") if !of_another => {
                let (length, rung) = Rung::read(line, record).map_err(|fault| (line, fault))?;
                let Some(run) = runs.iter_mut().find(|run| run.length == length) else {
                    let device = device.clone().unwrap_or_default();
                    runs.push(Run { device, length, rungs: vec![rung] });
                    continue;
                };
                if let Some(other) = run.rungs.iter().find(|other| other.letter == rung.letter) {
                    let letter = &rung.letter;
                    let fault =
                        format!("needed each rung once a length, {letter} is on line {} too", other.line);
                    return Err((line, anyhow!(fault)));
                }
                run.rungs.push(rung);
            }
            _ => {}
        }
    }
    if runs.is_empty() {
        let needed = "needed lines of `nearfield bench reduce --ladder --json`, found no rung";
        return Err((0, anyhow!(needed)));
    }
    Ok(runs)
}

/// The rungs of lines that another reader has taken apart, by length; one that says nonsense is left out.
pub(super) fn runs(lines: &[&Line]) -> Vec<Run> {
    let mut device = Device::default();
    let mut runs: Vec<Run> = vec![];
    for line in lines {
        if line.record() == "device" {
            device = Device::read(line.fields()).unwrap_or_default();
        }
        let Some((length, rung)) =
            line.is("rung", "reduce").then(|| Rung::read(0, line.fields()).ok()).flatten()
        else {
            continue;
        };
        match runs.iter_mut().find(|run| run.length == length) {
            // The last run of a rung is the newest.
            Some(run) => match run.rungs.iter_mut().find(|other| other.letter == rung.letter) {
                Some(other) => *other = rung,
                None => run.rungs.push(rung),
            },
            None => runs.push(Run { device: device.clone(), length, rungs: vec![rung] }),
        }
    }
    runs
}

impl Device {
    fn read(record: &Map<String, Value>) -> Result<Self> {
        Ok(Self {
            adapter: string(record, "adapter")?,
            backend: string(record, "backend")?,
            driver: string(record, "driver")?,
            version: string(record, "version")?,
            date: string(record, "date")?,
            copy_bytes: positive(record, "copy_bytes_per_s")?,
        })
    }

    fn is_same(&self, other: &Self) -> bool {
        (&self.adapter, &self.backend, &self.driver) == (&other.adapter, &other.backend, &other.driver)
    }

    /// Everything that is known, in a line.
    pub(super) fn describe(&self) -> String {
        let adapter = [&self.adapter, &self.backend, &self.driver].into_iter().flatten();
        let adapter = adapter.cloned().collect::<Vec<_>>().join(", ");
        let version = self.version.as_ref().map(|version| format!("nearfield {version}"));
        let parts = [Some(adapter).filter(|text| !text.is_empty()), version, self.date.clone()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }
}

impl Rung {
    fn read(line: usize, record: &Map<String, Value>) -> Result<(u64, Self)> {
        let length = record.get("length").and_then(Value::as_u64).filter(|&length| length > 0);
        let rung = Self {
            line,
            letter: string(record, "rung")?.context("rung: needed a letter, found none")?,
            name: string(record, "name")?.context("name: needed text, found none")?,
            measured: match string(record, "not_run")? {
                Some(reason) => Err(format!("not run: {reason}")),
                None if record.get("verified") == Some(&Value::Bool(false)) => Err("not verified".to_owned()),
                None => Ok(Measured::read(record)?),
            },
        };
        Ok((length.context("length: needed a whole number above 0")?, rung))
    }
}

impl Measured {
    fn read(record: &Map<String, Value>) -> Result<Self> {
        Ok(Self {
            wall: positive(record, "ms")?.context("ms: needed a number above 0, found none")? / 1e3,
            on_device: not_negative(record, "device_ms")?.map(|ms| ms / 1e3),
            bytes: positive(record, "bytes_per_s")?,
            share: positive(record, "share_of_copy")?,
            error: not_negative(record, "error")?,
        })
    }
}

/// A field of text in one line, if it is there. What no XML may hold is left out.
fn string(record: &Map<String, Value>, name: &str) -> Result<Option<String>> {
    match record.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => {
            let allowed = |letter: &char| !letter.is_control() && !matches!(letter, '\u{fffe}' | '\u{ffff}');
            Ok(Some(text.chars().filter(allowed).collect()))
        }
        Some(other) => bail!("{name}: needed text, found {other}"),
    }
}

/// A number, if it is there.
fn number(record: &Map<String, Value>, name: &str) -> Result<Option<f64>> {
    match record.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(other) => match other.as_f64() {
            Some(number) => Ok(Some(number)),
            None => bail!("{name}: needed a number, found {other}"),
        },
    }
}

/// A number of at least 0, if it is there.
fn not_negative(record: &Map<String, Value>, name: &str) -> Result<Option<f64>> {
    match number(record, name)? {
        Some(found) if found < 0.0 => bail!("{name}: needed no number below 0, found {found}"),
        found => Ok(found),
    }
}

/// A number above 0, if it is there. What nothing takes or moves is no measurement, and has no place on the axis.
fn positive(record: &Map<String, Value>, name: &str) -> Result<Option<f64>> {
    match number(record, name)? {
        Some(found) if found < f64::MIN_POSITIVE => bail!("{name}: needed a number above 0, found {found}"),
        found => Ok(found),
    }
}
