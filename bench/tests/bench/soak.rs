//! `nearfield-bench soak`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nearfield_testing::programs::{adapter, has_adapter, names};
use tempfile::TempDir;

use crate::PROGRAM;

#[test]
fn soaks_every_device_at_least_for_a_life() -> Result<()> {
    let here = Path::new(".");
    for device in ["host".to_owned(), adapter()] {
        if device != "host" && !has_adapter() {
            continue;
        }
        let printed = PROGRAM.succeed(here, &format!("soak --minutes 0.001 --seed 3 --device {device}"))?;
        let last = printed.lines().last().context("a line")?;
        ensure!(last.starts_with("No wrong answer in ") && last.contains(". Seeds 3 to "), "{printed}");
        ensure!(!last.contains(" 0 operations") && !last.contains(" 0 compared"), "{printed}");
    }
    PROGRAM.fail(here, "soak --minutes 0", &["--minutes", "above 0", "'0'"])?;
    PROGRAM.fail(here, "soak --minutes -1", &["--minutes", "above 0", "'-1'"])
}

#[test]
#[cfg(unix)]
fn an_interrupted_soak_leaves_no_temporary_files() -> Result<()> {
    let directory = TempDir::new()?;
    let mut soak = PROGRAM
        .at(directory.path(), "soak --minutes 5 --device host")
        .env("TMPDIR", directory.path())
        .stdout(Stdio::null())
        .spawn()?;
    let start = Instant::now();
    while names(directory.path())?.is_empty() {
        ensure!(start.elapsed() < Duration::from_secs(60), "no life begins");
        thread::sleep(Duration::from_millis(5));
    }
    ensure!(Command::new("kill").args(["-s", "INT", &soak.id().to_string()]).status()?.success());
    soak.wait()?;
    ensure!(names(directory.path())?.is_empty(), "{:?}", names(directory.path())?);
    Ok(())
}
