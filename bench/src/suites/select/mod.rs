//! `nearfield-bench select`: the k smallest elements of rows on the device.

mod place;
mod values;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::case::Case;
use crate::ceilings::{Unit, Work};
use crate::gpu::{has_kernels, is_processor, rotation};
use crate::run::{Run, Suite};
use nearfield_cli::given::arguments;
use place::Place;
use values::Truth;
pub(crate) use values::{Kind, Shape};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rows and their length, one case each; 20000x500,1000x10000,100x100000,10x1000000, or a hundredth of those rows on a
    /// software adapter
    #[arg(long, value_delimiter = ',', value_name = "ROWSxLENGTH,…")]
    shapes: Vec<Shape>,
    /// Elements to select from each row, one case each; those beyond a row's length are left out
    #[arg(
        short,
        long,
        value_delimiter = ',',
        default_value = "1,2,4,8,16,32,64,128,256",
        value_name = "K,…"
    )]
    k: Vec<u32>,
    /// Kinds of elements, one case each
    #[arg(long, value_delimiter = ',', default_value = "normal", value_name = "KIND,…")]
    values: Vec<Kind>,
}

pub(crate) const HELP: &str = "\
Examples:
  nearfield-bench select
  nearfield-bench select --shapes 100x1000000,1x1000000,10000x10000 --k 1,10,100,1000 --json
  nearfield-bench select --shapes 100x100000 --k 10,2048,10000,100000
  nearfield-bench select --shapes 1000x10000 --values normal,equal,sorted,reversed,infinite-90

Kinds of elements: normal (mean 10, deviation 100), equal (all the same), sorted and reversed (rows that rise or fall), \
infinite-10, -90, -99.9 and -100 (this percentage is infinite, the others normal), nan (one in ten is NaN). docs/benchmark.md says how cases are checked and timed, and lists the fields of the JSON lines.";

impl Suite for Args {
    fn run(&self, run: &mut Run) -> Result<()> {
        let device = run.device.clone();
        ensure!(
            has_kernels(&device),
            "--device: bench select times kernels: needed a GPU or a software driver, given {}",
            device.describe()
        );
        let fewer = if is_processor(&device) { 100 } else { 1 };
        let usual = [(20_000, 500), (1000, 10_000), (100, 100_000), (10, 1_000_000)];
        let shapes = match self.shapes.is_empty() {
            false => self.shapes.clone(),
            true => usual.map(|(rows, length)| Shape { rows: (rows / fewer).max(1), length }).to_vec(),
        };
        ensure!(self.k.iter().all(|&k| k > 0), "--k: needed at least 1, given 0");
        let limit = device.capabilities().max_binding_bytes;
        for shape in &shapes {
            ensure!(
                shape.bytes() <= limit,
                "--shapes: needed at most {limit} bytes of elements, as one binding of this adapter has, given {} for {shape}",
                shape.bytes()
            );
        }
        let fitting = shapes.iter().map(|shape| self.k.iter().filter(|&&k| k <= shape.length).count());
        let fitting: usize = fitting.sum();
        let longest = shapes.iter().map(|shape| shape.length).max().unwrap_or(0);
        ensure!(
            fitting > 0,
            "--k: needed at most {longest}, the elements of a row, given {}",
            self.k.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
        );
        run.begin("select", fitting * self.values.len())?;
        for shape in shapes {
            for &kind in &self.values {
                cases(self, run, shape, kind)?;
            }
        }
        Ok(())
    }
}

/// Runs one case for each k.
fn cases(args: &Args, run: &mut Run, shape: Shape, kind: Kind) -> Result<()> {
    let device = &run.device.clone();
    let wanted: Vec<u32> = args.k.iter().copied().filter(|&k| k <= shape.length).collect();
    let Some(&most) = wanted.iter().max() else { return Ok(()) };
    let kind_name = arguments::name(kind);
    if run.is_over(&format!("{shape}, {kind_name}"))? {
        return Ok(());
    }
    let values = values::made(shape, kind)?;
    let truth = Truth::new(&values, shape, most)?;
    let copies = (0..rotation(device, shape.bytes()))
        .map(|_| device.upload_vector(&values))
        .collect::<nearfield::Result<Vec<_>>>()?;
    drop(values);
    for k in wanted {
        let identity = json!({
            "rows": shape.rows, "length": shape.length, "k": k, "values": kind_name,
        });
        let Some(mut case) = run.start(identity)? else { continue };
        let places = copies.iter().map(|values| Place::new(device, values, shape, k));
        let places = places.collect::<Result<Vec<_>>>()?;
        let place = |number: usize| &places[number % places.len()];
        for place in &places {
            place.run(device)?;
            place.check(device, &truth)?;
        }
        let (wall, on_device) = run.time(
            1,
            |number| place(number).run(device),
            |number| {
                run.warm()?;
                Ok(place(number).timed(device, false)?.map(|(total, _)| total))
            },
        )?;
        run.warm()?;
        let kernels = place(0).timed(device, true)?.map(|(_, kernels)| kernels);
        place(0).check(device, &truth)?;
        let bytes = shape.bytes() as f64;
        let time = on_device.unwrap_or(wall).median;
        let share_of_copy = run.share_of_copy(bytes, time);
        let rotated = places.len();
        case.add(json!({
            "scratch_bytes": place(0).scratch_bytes, "share_of_copy": share_of_copy, "kernels": kernels,
        }));
        run.case(Case {
            wall,
            on_device,
            // At least one comparison per element.
            work: Some(Work {
                bytes,
                operations: bytes / 4.0,
                unit: Unit::Floats,
                working_set: bytes * rotated as f64,
            }),
            verified: json!(true),
            rotated,
            ..case
        })?;
    }
    Ok(())
}
