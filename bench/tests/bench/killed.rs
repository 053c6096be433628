//! A command that is killed while it replaces a file leaves the old file or the new one.

use anyhow::Result;
use nearfield_testing::kills::kill;
use tempfile::TempDir;

use crate::PROGRAM;

#[test]
#[ignore = "nightly"]
fn a_killed_generate_leaves_the_old_file_or_the_new_one() -> Result<()> {
    let directory = TempDir::new()?;
    let generate = ["--count 50000", "--count 60000 --seed 7"]
        .map(|more| format!("generate --data uniform --dim 64 --out-rows a.npy --force {more}"));
    kill(PROGRAM, directory.path(), "a.npy", generate.each_ref().map(String::as_str))
}
