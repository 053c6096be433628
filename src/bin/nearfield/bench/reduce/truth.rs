//! What a result has to be, in f64.

use anyhow::{Context, bail, ensure};
use nearfield::kernels::reduce::{self, Operation};

use super::Name;

/// A result in f64, the sum of magnitudes that its error is relative to, and how many additions a number may pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Truth {
    pub(super) value: f64,
    magnitudes: f64,
    pub(super) additions: f64,
}

/// The result in f64, by all threads.
pub(super) fn truth<T: nearfield::Element>(name: Name, a: &[T], b: &[T]) -> anyhow::Result<Truth> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = a.len().div_ceil(threads).max(1);
    let operation = name.operation();
    let parts: Vec<_> = std::thread::scope(|scope| {
        let pieces = a.chunks(share).zip(b.chunks(share)).enumerate();
        let workers: Vec<_> = pieces
            .map(|(number, (a, b))| {
                scope.spawn(move || {
                    let magnitudes: f64 = match operation {
                        Operation::Dot => {
                            a.iter().zip(b).map(|(a, b)| f64::from(a.widen() * b.widen()).abs()).sum()
                        }
                        _ => a.iter().map(|value| f64::from(value.widen()).abs()).sum(),
                    };
                    let found = reduce::reference(operation, a, b);
                    (
                        found.map(|(value, place)| (value, place.map(|place| place + number * share))),
                        magnitudes,
                    )
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join()).collect::<Vec<_>>()
    });
    let mut best: Option<(f64, Option<usize>)> = None;
    let mut magnitudes = 0.0;
    for part in parts {
        let Ok((Some((value, place)), some)) = part else { bail!("{}: no truth", name.text()) };
        magnitudes += some;
        best = Some(match best {
            None => (value, place),
            Some((least, first)) => match operation {
                Operation::Min | Operation::ArgMin if value >= least => (least, first),
                Operation::Max | Operation::ArgMax | Operation::MaxAbs if value <= least => (least, first),
                _ if operation.is_sum() => (least + value, None),
                _ => (value, place),
            },
        });
    }
    let (value, place) = best.context("--length: needed at least 1")?;
    let value = match name {
        Name::Mean => value / a.len() as f64,
        Name::L2 => value.sqrt(),
        _ => place.map_or(value, |place| place as f64),
    };
    let magnitudes = match name {
        Name::Mean => magnitudes / a.len() as f64,
        Name::SumSquares | Name::L1 | Name::L2 => value,
        _ => magnitudes,
    };
    // What `Reduce` promises, and two roundings of what is made of a sum.
    let n = a.len() as f64;
    let additions = if operation.is_sum() { n.min(300.0 + n / 2f64.powi(22)) + 2.0 } else { 0.0 };
    Ok(Truth { value, magnitudes, additions })
}

/// The error of a result relative to the sum of magnitudes; an error when it is larger than so many additions allow.
pub(super) fn checked(truth: Truth, result: f64) -> anyhow::Result<f64> {
    let off = (result - truth.value).abs();
    let bound = truth.additions * 2f64.powi(-23) * truth.magnitudes;
    ensure!(off <= bound, "the result is {result}, but the truth {}", truth.value);
    Ok(if truth.magnitudes > 0.0 { off / truth.magnitudes } else { off })
}
