//! The ceiling of f32 arithmetic: fused multiply-adds and nothing else.

use crate::gpu::{Access, Kernel, params, wgsl};

params! {
    /// Parameters of `multiply_add`.
    pub struct Params {
        /// Turns of the loop, with [`FLOPS_A_TURN`] operations each.
        turns: u32,
        /// Factor and summand: below 1, so that sums stay finite.
        factor: f32,
    }
}

/// Multiply-adds of each chain in a turn.
const REPEATS: u32 = 16;

/// Floating-point operations of an invocation in a turn; a multiply-add counts as two.
pub const FLOPS_A_TURN: u64 = REPEATS as u64 * 4 * 4 * 2;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("multiply_add")
    .source(wgsl!("internals/ceilings/multiply_add", REPEATS))
    .buffers(&[("sums", Access::Write)])
    .workgroup(256, 0);

/// One component of an invocation's sum, in f64.
pub fn reference(invocation: u32, params: &Params) -> f64 {
    let factor = f64::from(params.factor);
    let chain = |start: f64| (0..params.turns * REPEATS).fold(start, |sum, _| sum * factor + factor);
    (0..4).map(|offset| chain(f64::from(invocation) + f64::from(offset))).sum()
}
