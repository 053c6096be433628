//! `nearfield-bench soak`: random lives of indexes beside a model, for a given time.

use std::io::{Write, stdout};
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use nearfield::{Device, DeviceOptions, Distribution, ElementKind, Index, Metric, MultiVector, Quantization};

use nearfield_cli::given::device::{self, Name};
use nearfield_cli::terminal::interrupt;
use nearfield_cli::terminal::output;
use nearfield_testing::Random;
use nearfield_testing::life::{Case, Life, Living, Values};
use nearfield_testing::living::Kind;

const LONG: &str = "\
For developers, and for drivers that nobody has tried: random lives of indexes, one after the other, for a given time.

A life is a Flat or an Ivf of any metric, element type, quantization and dim that grows, changes, shrinks, is saved, loaded, merged, copied, \
and searched with filters, within radii and by several threads. In a third of them a MultiVector of documents lives so. A model holds the same rows. The answers have to be those of f64, \
within the bounds that metrics promise, and those of a fresh index bit for bit.

Lives have the seeds --seed, --seed + 1 and so on, which determine them. The first wrong answer ends the program with exit code 1 and \
prints the seed and the step. The first life is lived to its end, whatever the time. A life holds at most 300,000 elements, and a few MB in the directory for temporary files.";

const EXAMPLES: &str = "\
Examples:
  nearfield-bench soak --minutes 10
  nearfield-bench soak --minutes 60 --device software
  nearfield-bench soak --minutes 1 --seed 4711    # the life that failed, and those after it";

/// Dims of one element, of no whole vectors of four, and of common embeddings.
const DIMS: [usize; 14] = [1, 3, 4, 6, 17, 32, 64, 96, 100, 128, 256, 384, 768, 1025];
/// Steps of a life.
const LENGTH: usize = 60;
/// Steps from one comparison of everything to the next.
const EVERY: usize = 15;
/// The time from one line to the next.
const PAUSE: Duration = Duration::from_secs(5);
/// A week.
const MOST_MINUTES: f64 = 7.0 * 24.0 * 60.0;

#[derive(Debug, clap::Args)]
#[command(about = "Compare random lives of indexes with a model, for developers", long_about = LONG, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How long, like 10 or 0.5
    #[arg(long, value_name = "N", default_value = "1", value_parser = minutes, allow_negative_numbers = true)]
    minutes: Duration,
    /// Seed of the first life
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    device: Name,
}

fn minutes(text: &str) -> Result<Duration> {
    let minutes = text.parse::<f64>().ok().filter(|minutes| *minutes > 0.0 && *minutes <= MOST_MINUTES);
    let minutes = minutes.with_context(|| format!("needed a number above 0, at most {MOST_MINUTES}"))?;
    Ok(Duration::from_secs_f64(60.0 * minutes))
}

/// Counts the lives, operations and queries so far.
struct Tally {
    start: Instant,
    end: Instant,
    next_line: Instant,
    lives: u64,
    operations: u64,
    compared: u64,
}

impl Tally {
    fn new(time: Duration) -> Self {
        let start = Instant::now();
        Self { start, end: start + time, next_line: start + PAUSE, lives: 0, operations: 0, compared: 0 }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    fn describe(&self) -> String {
        let Self { lives, operations, compared, .. } = self;
        let lives = output::counted(*lives as usize, "life", "lives");
        format!(
            "{:.0} s: {lives}, {operations} operations, {compared} compared queries",
            self.start.elapsed().as_secs_f64()
        )
    }

    /// Prints a line now and then.
    fn tell(&mut self) -> Result<()> {
        if Instant::now() >= self.next_line {
            writeln!(stdout(), "{}", self.describe())?;
            self.next_line = Instant::now() + PAUSE;
        }
        Ok(())
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let roomy = args.device.open(DeviceOptions::default())?;
    writeln!(stdout(), "{}", device::sentence(&roomy))?;
    let mut tally = Tally::new(args.minutes);
    let mut last = args.seed;
    while tally.lives == 0 || !tally.is_over() {
        let seed = args.seed.wrapping_add(tally.lives);
        last = seed;
        let again = [&["nearfield-bench", "soak"].map(str::to_owned)[..], &args.device.words()].concat();
        let again = format!("{} --seed {seed}", output::command(again));
        survived(seed, |step| live(args, &roomy, seed, step, &mut tally))
            .map_err(|error| anyhow!("{error:#}; to live it again: {again}"))??;
        tally.lives += 1;
    }
    writeln!(stdout(), "No wrong answer in {}. Seeds {} to {last}.", tally.describe(), args.seed)?;
    Ok(())
}

/// Lives one life until its end or, after the first, that of the given time.
fn live(args: &Args, roomy: &Device, seed: u64, step: &mut String, tally: &mut Tally) -> Result<()> {
    let mut random = Random::new(seed);
    if random.below(3) == 0 {
        let case = draw(&mut random, true);
        return live_of::<MultiVector>(args, roomy, (case, random), step, tally);
    }
    let case = draw(&mut random, false);
    live_of::<Index>(args, roomy, (case, random), step, tally)
}

fn live_of<L: Living>(
    args: &Args,
    roomy: &Device,
    (case, mut random): (Case, Random),
    step: &mut String,
    tally: &mut Tally,
) -> Result<()> {
    let folder = interrupt::temporary_directory().context("the directory for temporary files")?;
    let device = args.device.open(case.confine(DeviceOptions::default()))?;
    let devices = [device];
    let (mut life, mut index): (_, L) =
        Life::start(&devices, Distribution::Sharded, roomy, case, folder.path(), random.next());
    let mut compared = 0;
    for number in 1..=LENGTH {
        if tally.is_over() && tally.lives > 0 {
            break;
        }
        let choice = life.random.below(L::OPERATIONS.len());
        *step = format!("step {number}, {}", L::OPERATIONS[choice]);
        life.operate(&mut index, choice);
        tally.operations += 1;
        if number % EVERY == 0 {
            *step = format!("step {number}, comparison of everything");
            life.check(&index);
        }
        tally.compared += life.compared - compared;
        compared = life.compared;
        tally.tell()?;
    }
    Ok(())
}

/// The case of a life: one of those with little memory, or any.
fn draw(random: &mut Random, is_of_documents: bool) -> Case {
    let kind = [Kind::Flat, Kind::Ivf][random.below(2)];
    if random.below(4) == 0 {
        let cases = if is_of_documents { Case::of_documents() } else { Case::confined(kind) };
        return cases[random.below(cases.len())];
    }
    let elements = match ElementKind::ALL[random.below(ElementKind::ALL.len())] {
        ElementKind::Bits if is_of_documents => ElementKind::F32,
        elements => elements,
    };
    let is_of_bits = elements == ElementKind::Bits;
    let metrics: &[Metric] = if is_of_bits { &Metric::OF_BITS } else { &Metric::ALL };
    let values = [Values::Whole, Values::Floats, Values::Adversarial][random.below(3)];
    let dim = DIMS[random.below(DIMS.len())];
    let row_bytes = 4 * dim.next_multiple_of(8) as u64;
    Case {
        // Lists have no bits.
        kind: if is_of_bits { Kind::Flat } else { kind },
        metric: metrics[random.below(metrics.len())],
        elements,
        quantization: [Quantization::Auto, Quantization::Int8, Quantization::None][random.below(3)],
        dim,
        // Adversarial rows have numbers that f16 does not hold.
        values: if elements == ElementKind::F16 && values == Values::Adversarial {
            Values::Floats
        } else {
            values
        },
        rows: [0, 50, 500, 6000][random.below(4)],
        // A segment has at least 128 rows. The 8-bit copy of short vectors takes 32 bytes a row.
        segment_bytes: [128 * row_bytes, 1000 * row_bytes, u64::MAX][random.below(3)],
        budget_bytes: [16 << 20, 64 << 20, 256 << 20][random.below(3)],
    }
}

/// The first panic of a life, on any thread.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Runs a life. If it panics, the error tells the step and why.
fn survived<T>(seed: u64, life: impl FnOnce(&mut String) -> T) -> Result<T> {
    let keep = |panic: &panic::PanicHookInfo<'_>| {
        let mut first = PANIC.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        first.get_or_insert_with(|| panic.to_string());
    };
    let before = panic::take_hook();
    panic::set_hook(Box::new(keep));
    let mut step = "start".to_owned();
    let done = catch_unwind(AssertUnwindSafe(|| life(&mut step)));
    panic::set_hook(before);
    let said = PANIC.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
    done.map_err(|_| anyhow!("the life of seed {seed}, {step}: {}", said.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_that_panics_on_any_thread_tells_its_seed_and_its_step() {
        let wrong = |step: &mut String| {
            *step = "step 7, merge".to_owned();
            std::thread::scope(|scope| {
                scope.spawn(|| assert_eq!(1 + 1, 3, "an answer"));
            });
        };
        let error = output::one_line(&survived(12, wrong).expect_err("a wrong answer"));
        for part in ["the life of seed 12, step 7, merge", "an answer", "left: 2", "soak.rs"] {
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(survived(13, |_| 5).expect("no fault"), 5);
    }

    #[test]
    fn the_time_is_bounded() {
        assert_eq!(minutes("0.5").expect("half a minute"), Duration::from_secs(30));
        for refused in ["0", "-1", "nan", "inf", "10081", "ten"] {
            assert!(minutes(refused).is_err(), "{refused}");
        }
    }
}
