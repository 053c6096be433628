//! A command that is killed while it replaces a file leaves the old file or the new one. What else it leaves, the next one removes.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::runs::{names, program, succeed};

const KILLS: u32 = 12;

/// The files that are being written, or that killed commands left.
fn unfinished(directory: &Path) -> Result<Vec<String>> {
    Ok(names(directory)?.into_iter().filter(|name| name.ends_with(".tmp")).collect())
}

/// Kills commands that write different content to one file in turn.
fn kill(path: &Path, file: &str, commands: [&str; 2]) -> Result<()> {
    let mut whole = vec![];
    for command in commands {
        succeed(path, command)?;
        whole.push(fs::read(path.join(file))?);
    }
    let before = names(path)?;
    let mut hit = 0;
    for kill in 0..KILLS {
        let left = unfinished(path)?;
        ensure!(left.len() <= 1, "kill {kill}: {left:?}");
        hit += left.len();
        let mut command = program(path, commands[kill as usize % 2]);
        let mut child = command.spawn()?;
        let start = Instant::now();
        // Until its own temporary file is there.
        while unfinished(path)?.iter().all(|name| left.contains(name)) && child.try_wait()?.is_none() {
            ensure!(start.elapsed() < Duration::from_secs(60), "the command writes nothing");
            thread::sleep(Duration::from_micros(200));
        }
        thread::sleep(Duration::from_micros(1500) * kill);
        child.kill()?;
        child.wait()?;
        let content = fs::read(path.join(file)).with_context(|| format!("kill {kill}"))?;
        ensure!(whole.contains(&content), "kill {kill}: {} bytes of neither file", content.len());
    }
    println!("{KILLS} kills of {}: {hit} or more amid a write", commands[0]);
    ensure!(hit > 0, "no kill was amid a write");
    succeed(path, commands[0])?;
    assert_eq!(names(path)?, before);
    Ok(())
}

#[test]
fn a_killed_build_leaves_the_old_index_or_the_new_one() -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path();
    succeed(path, "generate --data uniform --count 30000 --dim 64 --out-rows a.npy")?;
    succeed(path, "generate --data uniform --count 20000 --dim 64 --out-rows b.npy")?;
    let build =
        ["a.npy", "b.npy"].map(|rows| format!("build --rows {rows} --out i.nf --force --device host"));
    kill(path, "i.nf", build.each_ref().map(String::as_str))
}

#[test]
fn a_killed_generate_leaves_the_old_file_or_the_new_one() -> Result<()> {
    let directory = TempDir::new()?;
    let generate = ["--count 50000", "--count 60000 --seed 7"]
        .map(|more| format!("generate --data uniform --dim 64 --out-rows a.npy --force {more}"));
    kill(directory.path(), "a.npy", generate.each_ref().map(String::as_str))
}
