//! The places of an index: its devices, how rows lie on several, and where they are kept.

use anyhow::Result;
use clap::ValueEnum;
use nearfield::{Device, Placement, RowPlace};

use super::arguments;
use super::device::Choice;

/// What the name of a case says of rows that the host keeps for a GPU.
pub(crate) const ROWS_ON_HOST: &str = ", rows on the host";

/// The same of rows whose 8-bit copy searches send window by window.
pub(crate) const ROWS_STREAMED: &str = ", rows streamed";

/// Where a GPU's index keeps its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum KeepRows {
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
}

impl From<KeepRows> for RowPlace {
    fn from(keep: KeepRows) -> Self {
        match keep {
            KeepRows::Auto => Self::Auto,
            KeepRows::Device => Self::Device,
            KeepRows::Host => Self::Host,
            KeepRows::Streamed => Self::Streamed,
        }
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Places {
    #[command(flatten)]
    choice: Choice,
    /// On several devices (`--device 0,1`, `--device all`): `shards` spread the rows, for large sets and single queries; `replicas` keep all
    /// rows on each and divide the queries
    #[arg(long, value_name = "PLACEMENT", default_value = "shards", value_parser = arguments::word::<Placement>)]
    pub(crate) placement: Placement,
    /// Where the index of a GPU keeps its rows. Those of the host take longer to report, and a quarter of the device's memory
    #[arg(long, value_enum, value_name = "PLACE", default_value = "auto")]
    pub(crate) keep_rows: KeepRows,
}

impl Places {
    /// Opens the devices, at least one.
    pub(crate) fn open(&self) -> Result<Vec<Device>> {
        self.choice.open_all()
    }

    /// The words on a command line that choose the same.
    pub(crate) fn words(&self) -> Vec<String> {
        let placement = (self.placement != Placement::default())
            .then(|| ["--placement".to_owned(), self.placement.to_string()]);
        let keep = (self.keep_rows != KeepRows::default())
            .then(|| ["--keep-rows".to_owned(), arguments::name(self.keep_rows)]);
        let more = [placement, keep].into_iter().flatten().flatten();
        self.choice.words().into_iter().chain(more).collect()
    }

    /// What is unusual about the places, for the name of a case.
    pub(crate) fn name(&self, devices: usize) -> String {
        let spread = if devices > 1 { format!(", {devices} {}", self.placement) } else { String::new() };
        let keep = match self.keep_rows {
            KeepRows::Auto | KeepRows::Device => "",
            KeepRows::Host => ROWS_ON_HOST,
            KeepRows::Streamed => ROWS_STREAMED,
        };
        spread + keep
    }
}
