//! The places of an index: its devices, how rows lie on several, and where they are kept.

use std::path::Path;

use anyhow::{Context, Result};
use nearfield::{Device, Distribution, Residency};

use super::arguments;
use super::device::Choice;
use crate::terminal::interrupt;

#[derive(Debug, Clone, clap::Args)]
pub struct Places {
    #[command(flatten)]
    choice: Choice,
    /// On several devices (`--device 0,1`, `--device all`): `sharded` divides the rows, for large sets and single queries; `replicated` keeps
    /// all rows on each and divides the queries
    #[arg(long, value_name = "DISTRIBUTION", default_value = "sharded", value_parser = arguments::word::<Distribution>)]
    pub distribution: Distribution,
    /// Where the index of a GPU keeps its rows: `device`; `host`, with their 8-bit copy alone on the device, a quarter of the memory; `streamed`,
    /// where each search sends that copy window by window, for thousands of queries at a time; `mapped`, in the file of --rows (.npy, or one of those with
    /// a header, such as .fbin) or, in `search`, of an --index-file without lists of rows, which must stay as it is meanwhile; or `auto`: on the device as long as it has room, or
    /// --memory leaves it some, then as `host`, or as `streamed`. Distances of rows on the host take longer to report
    #[arg(long, value_name = "RESIDENCY", default_value = "auto", value_parser = arguments::word::<Residency>)]
    pub residency: Residency,
}

impl Places {
    /// Opens the devices, at least one.
    pub fn open(&self) -> Result<Vec<Device>> {
        self.choice.open_all()
    }

    /// The file to map, if rows stay in theirs.
    pub fn mapped<'f>(&self, file: Option<&'f Path>) -> Result<Option<&'f Path>> {
        if self.residency != Residency::Mapped {
            return Ok(None);
        }
        let file = file.context("--residency mapped: needed rows of a file (--rows), given none")?;
        interrupt::name_unreadable(file)?;
        Ok(Some(file))
    }

    /// The words on a command line that choose the same.
    pub fn words(&self) -> Vec<String> {
        let distribution = (self.distribution != Distribution::default())
            .then(|| ["--distribution".to_owned(), self.distribution.to_string()]);
        let residency = (self.residency != Residency::Auto)
            .then(|| ["--residency".to_owned(), self.residency.to_string()]);
        let more = [distribution, residency].into_iter().flatten().flatten();
        self.choice.words().into_iter().chain(more).collect()
    }

    /// How rows lie on this number of devices, for the name of a case. Nothing is said of one.
    pub fn spread(&self, devices: usize) -> String {
        match self.distribution {
            _ if devices < 2 => String::new(),
            Distribution::Sharded => format!("{devices} shards"),
            _ => format!("{devices} replicas"),
        }
    }
}
