//! Ceilings of all threads of the processor, for the host engine.

use anyhow::Result;
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pulp::{Arch, Simd, WithSimd};

use super::super::times::{Times, WARM_UP};
use super::roofline::{Ceilings, Curve, WARM, least_of};

/// Bytes of the largest working set: larger than the caches of most processors.
const MOST: u64 = 256 << 20;
/// The fewest bytes that pass through a thread between two readings of the clock.
const LEAST: u64 = 32 << 20;

pub(super) fn measure() -> Result<Ceilings> {
    let threads = rayon::current_num_threads().max(1);
    let words = (MOST / 8) as usize / threads;
    // A piece for each thread, and the destination of its copy.
    let pieces: Vec<Mutex<[Vec<u64>; 2]>> =
        (0..threads).map(|_| Mutex::new([vec![1u64; words], vec![0u64; words / 2]])).collect();
    let flops = flops(threads)?;
    let pass = |bytes: u64, work: fn(&mut [Vec<u64>; 2], usize)| -> Result<f64> {
        let length = (bytes / 8) as usize / threads;
        let turns = (LEAST / bytes).max(1);
        let time = broadcast(|thread| {
            let mut piece = pieces[thread].lock().unwrap_or_else(PoisonError::into_inner);
            (0..turns).for_each(|_| work(black_box(&mut piece), length));
        })?;
        Ok((bytes * turns) as f64 / time.as_secs_f64())
    };
    let read = Curve::measure(MOST, |bytes| {
        pass(bytes, |[from, _], length| {
            let sum = Arch::new().dispatch(
                #[inline(always)]
                || from[..length].iter().fold(0u64, |sum, word| sum.wrapping_add(*word)),
            );
            black_box(sum);
        })
    })?;
    // One half of a working set is copied to the other.
    let copy = Curve::measure(MOST, |bytes| {
        pass(bytes, |[from, to], length| to[..length / 2].copy_from_slice(&from[..length / 2]))
    })?;
    let woken = || {
        let started = Instant::now();
        rayon::broadcast(|_| ());
        Ok(started.elapsed())
    };
    let latency = Times::of(50, |_| woken())?.median;
    Ok(Ceilings { copy, read, flops, integers: None, matrices: None, latency })
}

/// The least time of some work on every thread.
fn broadcast(work: impl Fn(usize) + Sync) -> Result<Duration> {
    least_of(WARM, || {
        let started = Instant::now();
        rayon::broadcast(|context| work(context.index()));
        Ok(started.elapsed())
    })
}

/// Chains of multiply-adds in registers, enough to hide their latency.
struct Chains(u64);

/// Registers that a thread accumulates in.
const CHAINS: usize = 12;

impl WithSimd for Chains {
    /// The number of operations, and a sum that depends on all of them.
    type Output = (u64, f32);

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let factor = simd.splat_f32s(black_box(0.5));
        let mut sums = [factor; CHAINS];
        for _ in 0..self.0 {
            for sum in &mut sums {
                *sum = simd.mul_add_f32s(*sum, factor, factor);
            }
        }
        let all = sums.into_iter().fold(factor, |all, sum| simd.add_f32s(all, sum));
        (self.0 * (CHAINS * S::F32_LANES * 2) as u64, simd.reduce_sum_f32s(all))
    }
}

fn flops(threads: usize) -> Result<f64> {
    const TURNS: u64 = 1 << 20;
    let started = Instant::now();
    let mut operations = 0;
    while started.elapsed() < WARM_UP {
        operations = black_box(Arch::new().dispatch(Chains(TURNS))).0;
    }
    let time = broadcast(|_| {
        black_box(Arch::new().dispatch(Chains(black_box(TURNS))));
    })?;
    Ok((operations * threads as u64) as f64 / time.as_secs_f64())
}
