//! A process that is killed while it changes an index loses nothing that it had synced, and leaves no change in part.
//!
//! The test runs this program again and again. It makes changes, each by its number, and says after each sync how many are synced.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use nearfield::{Durable, Flat};

use super::script::{Model, make};
use super::{empty, host, model_of};
use crate::common::is_nightly;

/// Kills by day, and at night.
const KILLS: [u32; 2] = [25, 2000];
/// A process ends by itself after this time, so that none outlives a test that failed.
const LONGEST: Duration = Duration::from_secs(60);
/// The variable that tells the process its file.
const PATH: &str = "NEARFIELD_TEST_LOGGED";

/// How many changes an index has seen.
fn changes(index: &Flat, from: u64) -> u64 {
    let found = model_of(index);
    let mut model = Model::after(from);
    for number in from.. {
        if model == found {
            return number;
        }
        assert!(number < from + 100_000, "an index of no number of changes");
        super::Change::number(number, &model).note(&mut model);
    }
    unreachable!("the loop has no end")
}

#[test]
#[ignore = "the test below runs it, in processes that it kills"]
fn process() {
    let Ok(path) = env::var(PATH) else { return };
    let path = Path::new(&path);
    let start = Instant::now();
    let mut index = match path.exists() {
        true => Flat::open(host(), path).expect("opened"),
        false => Durable::create(empty(), path).expect("created"),
    };
    let mut number = changes(&index, 0);
    let mut model = Model::after(number);
    println!("ready");
    while start.elapsed() < LONGEST {
        make(&mut index, number..number + 1, &mut model);
        number += 1;
        match number % 16 {
            3 | 9 => index.sync().expect("synced"),
            15 => index.checkpoint().expect("a checkpoint"),
            _ => continue,
        }
        println!("synced {number}");
        io::stdout().flush().expect("said");
    }
}

#[test]
fn a_killed_writer_loses_nothing_that_was_synced() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut path = folder.path().join("0.nf");
    let (kills, mut synced, mut more, mut cut) = (KILLS[usize::from(is_nightly())], 0, 0, 0);
    let mut random = fastrand::Rng::with_seed(0x109);
    for kill in 0..kills {
        // A model of many changes takes long.
        if synced > 400 {
            (path, synced) = (folder.path().join(format!("{kill}.nf")), 0);
        }
        let mut command = Command::new(env::current_exe().expect("this program"));
        command.args(["--exact", "log::killed::process", "--ignored", "--nocapture"]).env(PATH, &path);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        while !line.contains("ready") {
            line.clear();
            assert!(
                said.read_line(&mut line).expect("text") > 0,
                "kill {kill}: the process changes the index"
            );
        }
        thread::sleep(Duration::from_micros(random.u64(0..20_000)));
        child.kill().expect("it is killed");
        child.wait().expect("it has ended");
        for line in said.lines().map_while(Result::ok) {
            // The last line may be half a number.
            if let Some(number) = line.strip_prefix("synced ").and_then(|number| number.parse().ok()) {
                synced = synced.max(number);
            }
        }
        let index = Flat::open(host(), &path).expect("the lock went with the process");
        let found = changes(&index, synced);
        assert!(found >= synced, "kill {kill}: {found} changes of {synced} that were synced");
        (more, cut) = (more + u32::from(found > synced), cut + u32::from(index.cut_bytes() > 0));
        synced = found;
    }
    println!("{kills} kills, {more} of them behind changes that were not synced, {cut} amid a change");
}
