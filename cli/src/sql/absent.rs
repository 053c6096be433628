//! `nearfield sql` in a program without the feature `sql`: an error that says how to get it.

use std::ffi::OsString;

use anyhow::{Result, bail};

use crate::given::vectors::WITHOUT_SQL;

#[derive(Debug, clap::Args)]
#[command(about = "Search by SQL; needs the feature `sql`", disable_help_flag = true)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _words: Vec<OsString>,
}

pub(crate) fn run(_: &Args) -> Result<()> {
    bail!("sql: {WITHOUT_SQL}")
}
