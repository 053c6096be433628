//! A command that is killed while it replaces a file leaves the old file or the new one.

use anyhow::Result;
use nearfield_testing::Random;
use nearfield_testing::kills::kill;

use crate::{Here, PROGRAM};

#[test]
#[ignore = "nightly"]
fn a_killed_build_leaves_the_old_index_or_the_new_one() -> Result<()> {
    let here = Here::new()?;
    here.write("a.npy", [30_000, 64], &Random::new(1).floats(30_000 * 64))?;
    here.write("b.npy", [20_000, 64], &Random::new(2).floats(20_000 * 64))?;
    let build =
        ["a.npy", "b.npy"].map(|rows| format!("build --rows {rows} --out i.nf --force --device host"));
    kill(PROGRAM, here.path(), "i.nf", build.each_ref().map(String::as_str))
}
