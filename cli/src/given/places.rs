//! The places of an index: its devices, how rows lie on several, and where they are kept.

use std::path::Path;

use anyhow::{Result, bail};
use clap::ValueEnum;
use nearfield::{Device, Placement, RowPlace};

use super::arguments;
use super::device::Choice;
use crate::terminal::interrupt;

/// Where a GPU's index keeps its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum KeepRows {
    /// On the device as long as it has room for them, or --memory leaves it some; then in the host's memory, with their 8-bit copy on the
    /// device, or streamed if that has no room either
    #[default]
    Auto,
    /// On the device; too little memory is an error
    Device,
    /// In the host's memory; the device has their 8-bit copy alone, a quarter of the memory
    Host,
    /// In the host's memory; each search sends their 8-bit copy to the device, window by window. For thousands of queries at a time
    Streamed,
    /// In the file of --rows (.npy, .fbin or .f16bin) or, in `search`, of a flat --index-file. The system reads of it what is needed. The file must
    /// stay as it is meanwhile
    Mapped,
}

/// Rows that stay in their file.
pub fn mapped(file: &Path) -> Result<RowPlace> {
    interrupt::name_unreadable(file)?;
    Ok(RowPlace::Mapped(file.to_owned()))
}

#[derive(Debug, Clone, clap::Args)]
pub struct Places {
    #[command(flatten)]
    choice: Choice,
    /// On several devices (`--device 0,1`, `--device all`): `shards` spread the rows, for large sets and single queries; `replicas` keep all
    /// rows on each and divide the queries
    #[arg(long, value_name = "PLACEMENT", default_value = "shards", value_parser = arguments::word::<Placement>)]
    pub placement: Placement,
    /// Where the index of a GPU keeps its rows. Those of the host take longer to report, and a quarter of the device's memory
    #[arg(long, value_enum, value_name = "PLACE", default_value = "auto")]
    pub keep_rows: KeepRows,
}

impl Places {
    /// Opens the devices, at least one.
    pub fn open(&self) -> Result<Vec<Device>> {
        self.choice.open_all()
    }

    /// Where an index of the rows of this file keeps them.
    pub fn row_place(&self, file: Option<&Path>) -> Result<RowPlace> {
        Ok(match (self.keep_rows, file) {
            (KeepRows::Auto, _) => RowPlace::Auto,
            (KeepRows::Device, _) => RowPlace::Device,
            (KeepRows::Host, _) => RowPlace::Host,
            (KeepRows::Streamed, _) => RowPlace::Streamed,
            (KeepRows::Mapped, Some(file)) => mapped(file)?,
            (KeepRows::Mapped, None) => {
                bail!("--keep-rows mapped: needed rows of a file (--rows), given none")
            }
        })
    }

    /// The words on a command line that choose the same.
    pub fn words(&self) -> Vec<String> {
        let placement = (self.placement != Placement::default())
            .then(|| ["--placement".to_owned(), self.placement.to_string()]);
        let keep = (self.keep_rows != KeepRows::default())
            .then(|| ["--keep-rows".to_owned(), arguments::name(self.keep_rows)]);
        let more = [placement, keep].into_iter().flatten().flatten();
        self.choice.words().into_iter().chain(more).collect()
    }

    /// How rows lie on this number of devices, for the name of a case. Nothing is said of one.
    pub fn spread(&self, devices: usize) -> String {
        if devices > 1 { format!("{devices} {}", self.placement) } else { String::new() }
    }
}
