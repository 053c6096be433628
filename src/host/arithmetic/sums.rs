//! Sums over the elements of vectors, accumulated in f64, or in f32 where that is enough.

use crate::host::arithmetic::registers::with_widest_registers;

/// Independent partial sums: enough to hide the latency of addition at every register width.
const LANES: usize = 32;

/// The sum of squares.
pub(crate) fn squares(x: &[f32]) -> f64 {
    with_widest_registers(
        #[inline(always)]
        || sum_of(x, x, |a, b| a * b),
    )
}

/// The dot product.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f64 {
    with_widest_registers(
        #[inline(always)]
        || sum_of(a, b, |a, b| a * b),
    )
}

/// The sum of squared differences.
pub(crate) fn squared_differences(a: &[f32], b: &[f32]) -> f64 {
    with_widest_registers(
        #[inline(always)]
        || sum_of(a, b, |a, b| (a - b) * (a - b)),
    )
}

/// The sum of `term` over pairs of elements. The order of summation depends on the length alone.
#[inline(always)]
fn sum_of(a: &[f32], b: &[f32], term: impl Fn(f64, f64) -> f64) -> f64 {
    let mut sums = [0.0f64; LANES];
    let (whole, rest) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    // The last chunk is padded with zeros, which add nothing. Indexing lanes with an index known only at run time would force them out
    // of their registers.
    let (mut last_a, mut last_b) = ([0.0; LANES], [0.0; LANES]);
    last_a[..whole.remainder().len()].copy_from_slice(whole.remainder());
    last_b[..rest.remainder().len()].copy_from_slice(rest.remainder());
    for (a, b) in whole.zip(rest) {
        for lane in 0..LANES {
            sums[lane] += term(f64::from(a[lane]), f64::from(b[lane]));
        }
    }
    for lane in 0..LANES {
        sums[lane] += term(f64::from(last_a[lane]), f64::from(last_b[lane]));
    }
    let sums: [f64; 16] = halved(sums);
    let sums: [f64; 8] = halved(sums);
    let sums: [f64; 4] = halved(sums);
    let [one, other] = halved(sums);
    one + other
}

/// The sum of `term` over pairs of elements, in f32: for code that is compiled for the widest registers.
#[inline(always)]
pub(crate) fn quick_sum_of(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    const LANES: usize = 64;
    let mut sums = [0.0f32; LANES];
    let (whole, rest) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail = whole.remainder().iter().zip(rest.remainder());
    for (a, b) in whole.zip(rest) {
        for lane in 0..LANES {
            sums[lane] += term(a[lane], b[lane]);
        }
    }
    tail.enumerate().for_each(|(lane, (&a, &b))| sums[lane] += term(a, b));
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

/// Adds the upper half of the lanes to the lower half.
#[inline(always)]
fn halved<const N: usize, const H: usize>(lanes: [f64; N]) -> [f64; H] {
    let mut sums = [0.0; H];
    for lane in 0..H {
        sums[lane] = lanes[lane] + lanes[lane + H];
    }
    sums
}
