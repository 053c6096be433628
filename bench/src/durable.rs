//! `nearfield-bench durable`: small changes of a saved index, and what they cost when it is opened and folded.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nearfield::{DeviceOptions, Durable, Flat, Matrix, Metric, SavedIndex};
use serde_json::json;

use crate::units::{milliseconds, rounded};
use nearfield_cli::given::arguments::count;
use nearfield_cli::given::device::{self, Name};
use nearfield_cli::terminal::output;
use nearfield_testing::Random;

const LONG: &str = "\
Time small changes of a saved Flat: adds to its log, each followed by a sync, opening it with the log, and searches beside checkpoints.

`fsync_ms` is what the disk takes for as many bytes in a plain file. After the adds the index is opened again and has to have all rows. Searches \
run one after the other, of one query for 10 rows, and are compared with those without a checkpoint.

--json prints one object, in one line: rows, dim, device, file_bytes; add_ms, sync_ms and fsync_ms (medians); log_bytes and log_ratio (to the bytes of \
the rows that were added); open_ms and open_with_log_ms (least of three); checkpoint_ms, without a rate; checkpoint_rate as given; searches_per_s alone, and beside checkpoints that follow each other.";

const EXAMPLES: &str = "\
Examples:
  nearfield-bench durable --device host
  nearfield-bench durable --count 1000000 --adds 1000 --folder /var/tmp";

#[derive(Debug, clap::Args)]
#[command(about = "Time small changes of a saved index", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Rows of the index at first
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = count)]
    count: usize,
    /// Elements of a row
    #[arg(long, value_name = "D", default_value_t = 128, value_parser = count)]
    dim: usize,
    /// Rows of an add
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = count)]
    rows: usize,
    /// Adds
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = count)]
    adds: usize,
    /// Bytes of rows that the checkpoints beside searches write a second, in MB; by default as many as there can be
    #[arg(long, value_name = "MB", value_parser = count)]
    checkpoint_rate: Option<usize>,
    /// Folder of the index, on the disk to be timed; by default that of temporary files
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    device: Name,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let device = args.device.open(DeviceOptions::default())?;
    let folder = match &args.folder {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir(),
    };
    let folder = folder.context("--folder")?;
    let path = folder.path().join("index.nf");
    let mut random = Random::new(1);
    let mut some = |rows: usize| -> Matrix {
        let values = (0..rows * args.dim).map(|_| random.below(2001) as f32 / 1000.0 - 1.0);
        Matrix::F32(values.collect(), args.dim)
    };
    let mut index = Flat::builder(&device, Metric::L2Squared, args.dim).capacity(args.count).build()?;
    index.add(&some(args.count))?;
    let mut index = Durable::create(index, &path)?.checkpoint_at(None);
    let (mut adds, mut syncs, mut last) = (vec![], vec![], None);
    for _ in 0..args.adds {
        let rows = some(args.rows);
        adds.push(timed(|| Ok(index.add(&rows)?))?);
        syncs.push(timed(|| Ok(index.sync()?))?);
        last = Some(rows);
    }
    let (log_bytes, total) = (index.log_bytes(), index.len());
    let fsync = plain(&folder.path().join("plain"), args.adds, args.rows * args.dim * 4)?;
    drop(index);

    let log = SavedIndex::log_path(&path);
    let open = |path: &Path| timed(|| Flat::open(&device, path).map(drop).map_err(Into::into));
    let with_log = (0..3).map(|_| open(&path)).collect::<Result<Vec<_>>>()?;
    let index = Flat::open(&device, &path)?.checkpoint_at(None);
    ensure!(index.len() == total, "{} rows of {total}", index.len());
    let ids: Vec<u64> = (total as u64 - args.rows as u64..total as u64).collect();
    ensure!(Some(Matrix::F32(index.get(&ids)?, args.dim)) == last, "the last rows differ");
    drop(index);
    let kept = fs::read(&log)?;
    fs::write(&log, &kept[..32])?;
    let without = (0..3).map(|_| open(&path)).collect::<Result<Vec<_>>>()?;
    fs::write(&log, &kept)?;

    let index = Flat::open(&device, &path)?.checkpoint_at(None);
    let query = some(1);
    let checked = index.search(&query, 10)?;
    let checkpoint = timed(|| Ok(index.checkpoint()?))?;
    let index = match args.checkpoint_rate {
        Some(rate) => index.checkpoint_rate(rate as u64 * 1_000_000),
        None => index,
    };
    let search = || -> Result<()> {
        ensure!(index.search(&query, 10)? == checked, "a search differs");
        Ok(())
    };
    // Two checkpoints or more.
    let at_rate =
        args.checkpoint_rate.map_or(0.0, |rate| (args.count * args.dim * 4) as f64 / (rate as f64 * 1e6));
    let pause = (3 * checkpoint).max(Duration::from_secs_f64((2.0 * at_rate).clamp(0.2, 600.0)));
    search()?;
    let alone = rate(pause, search)?;
    let is_over = AtomicBool::new(false);
    let beside = thread::scope(|scope| -> Result<f64> {
        let folds = scope.spawn(|| -> Result<()> {
            while !is_over.load(Ordering::Relaxed) {
                index.checkpoint()?;
            }
            Ok(())
        });
        let beside = rate(pause, search);
        is_over.store(true, Ordering::Relaxed);
        folds.join().map_err(|_| anyhow::anyhow!("a checkpoint panicked"))??;
        beside
    })?;

    let file = fs::metadata(&path)?.len();
    let [add, sync, fsync] = [adds, syncs, fsync].map(median);
    let [open, with_log] = [without, with_log].map(|times| times.into_iter().min().unwrap_or_default());
    let ratio = log_bytes as f64 / (args.adds * args.rows * args.dim * 4) as f64;
    let ms = |time: Duration| rounded(milliseconds(time));
    let record = json!({
        "rows": args.count, "dim": args.dim, "added": args.adds * args.rows, "device": device::to_json(device.adapter()), "file_bytes": file,
        "add_ms": ms(add), "sync_ms": ms(sync), "fsync_ms": ms(fsync), "log_bytes": log_bytes, "log_ratio": rounded(ratio),
        "open_ms": ms(open), "open_with_log_ms": ms(with_log), "checkpoint_ms": ms(checkpoint),
        "checkpoint_rate": args.checkpoint_rate, "searches_per_s": rounded(alone), "searches_per_s_beside": rounded(beside),
    });
    let lines = [
        ("index", format!("{} x {}, {}", args.count, args.dim, output::bytes(file))),
        ("device", device::place(&device)),
        (
            "add",
            format!(
                "{} of {} rows, the sync behind it {}; fsync of a plain file {}",
                output::time(add),
                args.rows,
                output::time(sync),
                output::time(fsync)
            ),
        ),
        ("log", format!("{}, {ratio:.3} times the rows", output::bytes(log_bytes))),
        ("open", format!("{}, with the log {}", output::time(open), output::time(with_log))),
        ("checkpoint", output::time(checkpoint)),
        (
            "searches",
            format!("{} a second, beside checkpoints {}", output::rate(alone), output::rate(beside)),
        ),
    ];
    output::print(args.json, &record, &lines)
}

/// The times of appending bytes to a plain file and making them durable.
fn plain(path: &Path, times: usize, bytes: usize) -> Result<Vec<Duration>> {
    let mut file = File::create(path)?;
    let bytes = vec![1; bytes];
    (0..times)
        .map(|_| {
            file.write_all(&bytes)?;
            timed(|| Ok(file.sync_data()?))
        })
        .collect()
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// How often a second something succeeds, over some time.
fn rate(time: Duration, work: impl Fn() -> Result<()>) -> Result<f64> {
    let (start, mut done) = (Instant::now(), 0);
    while start.elapsed() < time {
        work()?;
        done += 1;
    }
    Ok(f64::from(done) / start.elapsed().as_secs_f64())
}
