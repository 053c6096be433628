//! Kills of a program while it replaces a file.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, ensure};

use crate::programs::{Program, names};

const KILLS: u32 = 12;

/// The files that are being written, or that killed commands left.
fn unfinished(directory: &Path) -> Result<Vec<String>> {
    Ok(names(directory)?.into_iter().filter(|name| name.ends_with(".tmp")).collect())
}

/// Kills commands that write different content to one file in turn: the old file or the new one is there, and what else a killed command
/// leaves, the next one removes.
pub fn kill(program: Program, path: &Path, file: &str, commands: [&str; 2]) -> Result<()> {
    let mut whole = vec![];
    for command in commands {
        program.succeed(path, command)?;
        whole.push(fs::read(path.join(file))?);
    }
    let before = names(path)?;
    let mut hit = 0;
    for kill in 0..KILLS {
        let left = unfinished(path)?;
        ensure!(left.len() <= 1, "kill {kill}: {left:?}");
        hit += left.len();
        let mut command = program.at(path, commands[kill as usize % 2]);
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
    program.succeed(path, commands[0])?;
    assert_eq!(names(path)?, before);
    Ok(())
}
