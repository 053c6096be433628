//! The choice of the device that a subcommand runs on.

use anyhow::{Context, Result, anyhow};
use nearfield::{Adapter, AdapterKind, Device, DeviceOptions, Error};
use serde_json::{Value, json};

use crate::terminal::output;

#[derive(Debug, Clone, clap::Args)]
pub struct Choice {
    #[command(flatten)]
    name: Name,
    /// Scratch memory on the device, like 256MiB (the default) or 1GiB
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    scratch: Option<u64>,
    /// Memory of the device, a GPU or the host, that the rows of indexes may hold with their 8-bit copies, like 20GiB; by default all there is
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<u64>,
    /// Compile kernels anew, and keep no files of compiled ones. NEARFIELD_CACHE names another directory for them than the user's own
    #[arg(long)]
    no_cache: bool,
}

/// The choice by name alone, for commands that set the rest themselves.
#[derive(Debug, Clone, clap::Args)]
pub struct Name {
    /// Device: `best`, `host` (the processor), `gpu` (the best adapter, a software driver if there is no other), `software` (a
    /// software driver), the index of an adapter in `nearfield info` (`0`), a part of its name (`h200`), or that with a number among
    /// those that have it, from 0 (`h200#1`). Commands that say so take several with commas between them (`0,1`), or `all` GPUs
    #[arg(long, value_name = "NAME", default_value = "best")]
    device: String,
}

/// Reads bytes with or without a unit.
fn bytes(text: &str) -> Result<u64> {
    let (number, unit) =
        text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()));
    let size = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => Some(1),
        "kib" => Some(1 << 10),
        "mib" => Some(1 << 20),
        "gib" => Some(1u64 << 30),
        "tib" => Some(1u64 << 40),
        "kb" => Some(1_000),
        "mb" => Some(1_000_000),
        "gb" => Some(1_000_000_000),
        "tb" => Some(1_000_000_000_000),
        _ => None,
    };
    let bytes = number.parse::<u64>().ok().zip(size).and_then(|(number, size)| number.checked_mul(size));
    bytes.context("needed a whole number with B, KiB, MiB, GiB, TiB, kB, MB, GB or TB behind it, like 256MiB")
}

impl Choice {
    /// The words on a command line that make this choice.
    pub fn words(&self) -> Vec<String> {
        let scratch = self.scratch.map(|bytes| ["--scratch".to_owned(), bytes.to_string()]);
        let memory = self.memory.map(|bytes| ["--memory".to_owned(), bytes.to_string()]);
        let cache = self.no_cache.then(|| "--no-cache".to_owned());
        let more = [scratch, memory].into_iter().flatten().flatten();
        self.name.words().into_iter().chain(more).chain(cache).collect()
    }

    pub fn open(&self) -> Result<Device> {
        self.name.open(self.options())
    }

    /// Opens a list of devices: names with commas between them, or `all` GPUs.
    pub fn open_all(&self) -> Result<Vec<Device>> {
        self.name.open_all(self.options())
    }

    fn options(&self) -> DeviceOptions {
        let mut options = DeviceOptions::default();
        options.budget_bytes = self.scratch.unwrap_or(options.budget_bytes);
        options.memory_bytes = self.memory.unwrap_or(options.memory_bytes);
        if self.no_cache {
            options.cache_dir = None;
        }
        options
    }
}

impl Name {
    /// The words on a command line that make this choice.
    pub fn words(&self) -> Vec<String> {
        let device = (self.device != "best").then(|| ["--device".to_owned(), self.device.clone()]);
        device.into_iter().flatten().collect()
    }

    /// The name. An empty one, of a variable that is not set, is the best.
    pub fn given(&self) -> &str {
        if self.device.trim().is_empty() { "best" } else { &self.device }
    }

    pub fn open(&self, options: DeviceOptions) -> Result<Device> {
        Device::open(Some(self.given()), options).map_err(|error| blame(error, self.given()))
    }

    fn open_all(&self, options: DeviceOptions) -> Result<Vec<Device>> {
        Device::open_all(self.given(), options).map_err(|error| blame(error, self.given()))
    }
}

/// An error of opening a device, with the argument or variable that requested it.
pub fn blame(error: Error, name: &str) -> anyhow::Error {
    // The variable takes the place of the best.
    let is_asked = name.eq_ignore_ascii_case("best")
        && std::env::var_os("NEARFIELD_ADAPTER").is_some_and(|name| !name.is_empty());
    let argument = if is_asked { "NEARFIELD_ADAPTER" } else { "--device" };
    match error {
        Error::NoAdapter { needed, found } => anyhow!("{argument}: needed {needed}, found {found}"),
        // Functions of the library are no cure here.
        Error::Argument { argument: "NEARFIELD_ADAPTER", given, .. } => {
            anyhow!("{argument}: needed the name of one device, given {given}")
        }
        Error::Argument { argument: "device", needed, given } => {
            anyhow!("{argument}: needed {needed}, given {given}")
        }
        other => other.into(),
    }
}

/// An error in the words of the command line: memory for scratch is that of `--scratch`, memory for rows that of `--memory`.
pub fn in_words(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<Error>() {
        Some(Error::Budget { purpose, needed, budget }) => {
            let [size, given] = [needed, budget].map(|&bytes| output::bytes(bytes));
            anyhow!("--scratch: needed at least {size} (--scratch {needed}B) for {purpose}, given {given}")
        }
        Some(Error::MemoryLimit { purpose, needed, held, limit }) => {
            let [needed, held, limit] = [needed, held, limit].map(|&bytes| output::bytes(bytes));
            anyhow!("--memory: needed {needed} for {purpose} beside the {held} that rows hold, given {limit}")
        }
        _ => error,
    }
}

/// Where commands run, and why there, as one sentence.
pub fn sentence(device: &Device) -> String {
    format!("Running on {}.", place(device))
}

/// The device and why it was chosen, in words.
pub fn place(device: &Device) -> String {
    let adapter = device.adapter();
    let place = match adapter.kind {
        AdapterKind::Host => format!("the processor ({} threads)", rayon::current_num_threads()),
        AdapterKind::Software => format!("{}, which emulates a GPU on the processor", adapter.name),
        AdapterKind::Unknown => adapter.name.clone(),
        kind => {
            let article = if kind == AdapterKind::Integrated { "an" } else { "a" };
            format!("{}, {article} {kind} GPU", adapter.name)
        }
    };
    let reason = match device.reason().split_once(" (") {
        // `nearfield info` lists the software drivers that were found.
        Some((reason, found)) if !reason.contains('"') && !found.starts_with("no adapter") => reason,
        _ => device.reason(),
    };
    format!("{place}, {}", reason.replacen("the caller", "--device", 1))
}

/// All devices of an index, in words.
pub fn places(devices: &[Device]) -> String {
    match devices {
        [device] => place(device),
        devices => {
            let names: Vec<String> = devices.iter().map(|device| device.adapter().name.clone()).collect();
            format!("{} devices: {}", devices.len(), names.join(", "))
        }
    }
}

/// An adapter's name, backend, driver and kind.
pub fn to_json(adapter: &Adapter) -> Value {
    json!({
        "name": adapter.name,
        "backend": adapter.backend,
        "driver": adapter.driver,
        "kind": adapter.kind.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(device: &str) -> Choice {
        Choice {
            name: Name { device: device.to_owned() },
            scratch: Some(1 << 26),
            memory: Some(1 << 30),
            no_cache: true,
        }
    }

    #[test]
    fn a_list_opens_each_device_with_the_options() {
        let devices = chosen("host, Host").open_all().expect("two devices");
        assert_eq!(devices.len(), 2);
        for device in devices {
            assert_eq!(device.adapter().kind, AdapterKind::Host);
            assert_eq!((device.options().budget_bytes, &device.options().cache_dir), (1 << 26, &None));
            assert_eq!(device.options().memory_bytes, 1 << 30);
        }
    }

    #[test]
    fn words_choose_the_same_device_and_memory() {
        let words = chosen("0").words();
        assert_eq!(words, ["--device", "0", "--scratch", "67108864", "--memory", "1073741824", "--no-cache"]);
    }

    #[test]
    fn errors_name_the_argument_that_sets_a_limit() {
        let error = Error::MemoryLimit { purpose: "rows".into(), needed: 2048, held: 1024, limit: 2500 };
        let text = in_words(error.into()).to_string();
        assert!(text.starts_with("--memory: needed ") && text.ends_with("given 2.4 KiB"), "{text}");
    }
}
