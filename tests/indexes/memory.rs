//! Where the host has too little memory, a change is refused and the index stays as it was. Nothing aborts.
//!
//! Each test runs this program again, once for each limit of its address space: from what it takes before the index grows, up to what the
//! whole growth takes. An abort ends the process with a signal, which the test sees.

use std::process::Command;
use std::{env, fs};

use nearfield::{
    AddOptions, Device, DeviceOptions, Error, ErrorKind, Flat, Index, Ivf, KMeans, MatrixView, Metric,
    Quantization, SearchOptions, io,
};
use test_case::test_case;

use nearfield_testing::view;

const DIM: usize = 2;
const ROWS: usize = 20_000;
const LISTS: usize = 16;
const MIB: u64 = 1 << 20;

/// Variables of the processes: the scenario, and a file of an index if the scenario loads one.
const SCENARIO: &str = "NEARFIELD_TEST_SCENARIO";
const SAVED: &str = "NEARFIELD_TEST_SAVED";
/// Set where the process only tells the memory that it takes before the index grows.
const UNLIMITED: &str = "NEARFIELD_TEST_UNLIMITED";

/// The rows that a process gives to its index, and their ids: far apart, as hashes are.
struct Given {
    values: Vec<f32>,
    ids: Vec<u64>,
}

impl Given {
    fn new() -> Self {
        let values = (0..ROWS * DIM).map(|i| (i % 977) as f32 + 1.0).collect();
        Self { values, ids: (0..ROWS as u64).map(|row| (1 << 40) + 7 * row).collect() }
    }

    fn rows(&self) -> MatrixView<'_, f32> {
        view(&self.values, DIM)
    }

    /// Adds the rows under ids that no other batch has.
    fn add(&mut self, index: &mut Index) -> Result<(), Error> {
        self.ids.iter_mut().for_each(|id| *id += 1 << 30);
        index.add_with(self.rows(), &AddOptions::new().ids(&self.ids))
    }
}

fn flat(device: &Device, quantization: Quantization) -> Index {
    Flat::builder(device, Metric::L2Squared, DIM).quantization(quantization).build().expect("an index").into()
}

fn ivf(device: &Device, sample: MatrixView<'_, f32>) -> Index {
    let builder = Ivf::builder(device, Metric::L2Squared, DIM).lists(LISTS);
    builder.train(sample).expect("an index").into()
}

/// Makes a change. After an error the index is as before: the same rows, and the last one is there.
fn refused(index: &mut Index, change: impl FnOnce(&mut Index) -> Result<(), Error>) -> Result<(), Error> {
    let before = (index.len(), index.largest_id());
    let done = change(index);
    if done.is_err() {
        assert_eq!((index.len(), index.largest_id()), before);
        if let Some(id) = before.1 {
            assert_eq!(index.get(&[id]).expect("a row").len(), DIM);
        }
    }
    done
}

/// Prints the memory that the process has taken so far, in place of the rest of a scenario.
fn print_peak() -> Result<(), Error> {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    println!("{}", status.lines().find(|line| line.starts_with("VmPeak:")).expect("a peak"));
    Ok(())
}

/// The first work of a process: its threads start.
fn first(scenario: &str, path: &str) -> Result<(), Error> {
    if scenario == "first search" {
        let given = Given::new();
        let mut index = flat(&Device::host(), Quantization::Int8);
        index.add(given.rows())?;
        assert_eq!(index.search(view(&given.values[..DIM * 100], DIM), 10)?.hits().len(), 1000);
        return Ok(());
    }
    let file = io::VectorFile::open(path)?;
    assert_eq!(file.read_all()?.rows(), file.rows());
    Ok(())
}

/// Runs a scenario to its end or to the first error.
fn run(scenario: &str, device: &Device) -> Result<(), Error> {
    let saved = env::var(SAVED).unwrap_or_default();
    let mut given = Given::new();
    let mut index = flat(device, Quantization::Int8);
    let numbers: Vec<u64> = (0..ROWS as u64).collect();
    let mut wanted = vec![];
    match scenario {
        "update" | "remove" => index.add(given.rows())?,
        "search" | "search within" | "search lists" | "k-means" => {
            if scenario == "search lists" {
                index = Index::load(device, &saved)?;
            }
            index.add(given.rows())?;
            // Threads start.
            index.search(view(&given.values[..DIM * 100], DIM), 10)?;
        }
        "save" => {
            given.add(&mut index)?;
            wanted = given.ids.repeat(10);
        }
        "add to lists" => index = Index::load(device, &saved)?,
        // Threads start.
        _ => flat(device, Quantization::Int8).add(given.rows())?,
    }
    if env::var_os(UNLIMITED).is_some() {
        return print_peak();
    }
    match scenario {
        "add" | "add to lists" => {
            for _ in 0..4 {
                refused(&mut index, |index| given.add(index))?;
            }
        }
        "add numbered rows" => {
            for _ in 0..4 {
                refused(&mut index, |index| index.add(given.rows()))?;
            }
        }
        "update" => refused(&mut index, |index| index.update(&numbers, given.rows()))?,
        "remove" => {
            let odd: Vec<u64> = numbers.into_iter().filter(|id| id % 2 == 1).collect();
            refused(&mut index, |index| index.remove(&odd))?;
            refused(&mut index, |index| index.add_with(given.rows(), &AddOptions::new().ids(&given.ids)))?;
            refused(&mut index, Index::compact)?;
        }
        "save" => drop((index.get(&wanted)?, index.to_bytes()?)),
        "search" | "search lists" => {
            // Several batches.
            let queries = view(&given.values[..DIM * 2500], DIM);
            assert_eq!(index.search(queries, 10)?.hits().len(), 2500 * 10);
        }
        "search within" => {
            let queries = view(&given.values[..DIM * 500], DIM);
            assert!(index.search_with(queries, &SearchOptions::within(300.0))?.neighbors.hits().len() > ROWS);
        }
        "k-means" => {
            // As rows of one element, there are enough of them to need more than the smallest limit grants.
            let rows = view(&given.values, 1);
            let trained = KMeans::new(Metric::L2Squared, 800).iterations(1).train(device, rows)?;
            assert_eq!(trained.assignments.len(), ROWS * DIM);
        }
        "load" | "load lists" => assert_eq!(Index::load(device, saved)?.len(), 3 * ROWS),
        other => unreachable!("no scenario {other}"),
    }
    Ok(())
}

#[test]
#[ignore = "the tests below run it, each in processes of its own"]
fn process() {
    let Ok(scenario) = env::var(SCENARIO) else { return };
    let options = DeviceOptions::new().budget_bytes(24 << 20);
    let done = match (scenario.starts_with("first"), env::var_os(UNLIMITED)) {
        (true, Some(_)) => print_peak(),
        (true, None) => first(&scenario, &env::var(SAVED).unwrap_or_default()),
        (false, _) => run(&scenario, &Device::open(Some("host"), options).expect("the host engine")),
    };
    match done {
        Ok(()) => println!("done"),
        Err(error) if error.kind() == ErrorKind::Memory => println!("refused: {error}"),
        Err(error) => panic!("{error}"),
    }
}

/// Runs the scenario in a process with a limit of its address space in KiB, and returns its output.
fn output_of(scenario: &str, saved: &str, limit: Option<u64>) -> String {
    let exe = env::current_exe().expect("this program");
    let mut command = Command::new("sh");
    let limit_text = limit.map_or("unlimited".to_owned(), |kib| kib.to_string());
    command.args(["-c", "ulimit -v \"$1\" && shift && exec \"$@\"", "sh", &limit_text]);
    command.arg(exe).args(["--exact", "memory::process", "--ignored", "--nocapture", "--test-threads", "1"]);
    command.env(SCENARIO, scenario).env(SAVED, saved).env("RUST_BACKTRACE", "0");
    // glibc reserves 64 MiB of addresses for each thread otherwise.
    command.env("MALLOC_ARENA_MAX", "1").env("RAYON_NUM_THREADS", "2");
    if limit.is_none() {
        command.env(UNLIMITED, "1");
    }
    let output = command.output().expect("it starts");
    let [printed, said] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{scenario}, {limit_text} KiB: {}\n{printed}{said}", output.status);
    printed
}

/// Walks the limit through a scenario whose growth takes up to this many MiB.
#[test_case("add", 12 => ignore["nightly"])]
#[test_case("add numbered rows", 6 => ignore["nightly"])]
#[test_case("add to lists", 12 => ignore["nightly"])]
#[test_case("update", 4 => ignore["nightly"])]
#[test_case("remove", 4 => ignore["nightly"])]
#[test_case("save", 5 => ignore["nightly"])]
#[test_case("search", 30 => ignore["nightly"])]
#[test_case("search lists", 30 => ignore["nightly"])]
#[test_case("search within", 40 => ignore["nightly"])]
#[test_case("k-means", 16 => ignore["nightly"])]
#[test_case("load", 10 => ignore["nightly"])]
#[test_case("load lists", 10 => ignore["nightly"])]
#[test_case("first search", 40)]
#[test_case("first text", 40)]
fn without_memory_the_index_stays_as_it_was(scenario: &str, most: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let saved = folder.path().join("saved.nf");
    let mut given = Given::new();
    let mut index = match scenario {
        "add to lists" | "load lists" | "search lists" => ivf(&Device::host(), given.rows()),
        _ => flat(&Device::host(), Quantization::Int8),
    };
    if scenario.starts_with("load") {
        (0..3).for_each(|_| given.add(&mut index).expect("good rows"));
    }
    index.save(&saved).expect("it is saved");
    let saved = match scenario {
        "first text" => {
            let text = folder.path().join("rows.csv");
            fs::write(&text, "0.25,1,-3.5\n".repeat(20_000)).expect("written");
            text
        }
        _ => saved,
    };
    let saved = saved.to_str().expect("a path");
    let unlimited = output_of(scenario, saved, None);
    let (_, peak) = unlimited.split_once("VmPeak:").expect("the peak is printed");
    let peak: u64 = peak.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number");
    let mut refused = 0;
    // No whole pages, so that limits fall into tables and between them.
    const STEPS: u64 = 12;
    for step in 0..=STEPS {
        let limit = peak + (MIB + most * MIB * step / STEPS) / 1024 + step * 37 % 64;
        let printed = output_of(scenario, saved, Some(limit));
        refused += usize::from(printed.contains("refused: "));
    }
    assert!(refused > 0, "{scenario}: the smallest limit is no limit");
    assert!(refused <= STEPS as usize, "{scenario}: the largest limit is too small");
}
