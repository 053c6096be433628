//! A process that is killed while it saves leaves the old file or the new one. What else it leaves, the next save removes.
//!
//! The test runs this program again and again. It saves two indexes in turn over one file until SIGKILL ends it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use nearfield::{Device, Flat, Index, Metric};

use nearfield_testing::view;

const KILLS: u32 = 30;
const DIM: usize = 32;
/// A process ends by itself after this time, so that none outlives a test that failed.
const LONGEST: Duration = Duration::from_secs(60);
/// The variable that tells the process its file.
const SAVED: &str = "NEARFIELD_TEST_SAVED";

/// Two indexes of different sizes, a few MB each.
fn versions() -> [Index; 2] {
    [(20_000, 1.0f32), (35_000, 2.0)].map(|(rows, value)| {
        let mut index = Flat::builder(&Device::host(), Metric::L2, DIM).build().expect("an index");
        index.add(view(&vec![value; rows * DIM], DIM)).expect("good rows");
        index.into()
    })
}

#[test]
#[ignore = "the test below runs it, in processes that it kills"]
fn process() {
    let Ok(path) = env::var(SAVED) else { return };
    let (versions, start) = (versions(), Instant::now());
    println!("ready");
    while start.elapsed() < LONGEST {
        versions.iter().for_each(|index| index.save(&path).expect("it is saved"));
    }
}

#[test]
#[ignore = "nightly"]
fn a_killed_save_leaves_the_old_file_or_the_new_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("saved.nf");
    let versions = versions();
    let start = Instant::now();
    let whole = versions.each_ref().map(|index| {
        index.save(&path).expect("it is saved");
        fs::read(&path).expect("it is there")
    });
    let round = start.elapsed();
    let names = || {
        let entries = fs::read_dir(folder.path()).expect("a folder");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    let (mut kept, mut hit) = ([0; 2], 0);
    for kill in 0..KILLS {
        let mut command = Command::new(env::current_exe().expect("this program"));
        command.args(["--exact", "killed::process", "--ignored", "--nocapture"]).env(SAVED, &path);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        assert!(said.any(|line| line.expect("text").contains("ready")), "the process saves");
        // Over two rounds, so that every part of a save is met.
        thread::sleep(round * 2 * kill / KILLS);
        child.kill().expect("it is killed");
        child.wait().expect("it has ended");

        let left = fs::read(&path).expect("there is a file after every kill");
        let version = whole.iter().position(|whole| *whole == left);
        let version = version.unwrap_or_else(|| panic!("kill {kill}: {} bytes of no version", left.len()));
        let index = Index::load(&Device::host(), &path).expect("it is loaded");
        assert_eq!(index.len(), versions[version].len());
        kept[version] += 1;
        let names = names();
        // The saves of a process begin by removing what the one before left.
        assert!(names.len() <= 2, "kill {kill}: {names:?}");
        hit += names.len() - 1;
    }
    println!("{KILLS} kills, {hit} of them amid a save; left {kept:?} of each version");
    assert!(hit > 0, "no kill was amid a save");
    versions[0].save(&path).expect("it is saved");
    assert_eq!(names(), ["saved.nf"]);
}
