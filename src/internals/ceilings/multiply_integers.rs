//! The ceiling of 8-bit integer products: packed dot products and nothing else.

use crate::gpu::{Access, Kernel, params, wgsl};

params! {
    /// Parameters of `multiply_integers`.
    pub struct Params {
        /// Turns of the loop, with [`OPERATIONS_A_TURN`] operations each.
        turns: u32,
        /// Four 8-bit factors.
        factors: u32,
    }
}

/// Multiply-adds of each chain in a turn.
const REPEATS: u32 = 16;

/// Operations of an invocation in a turn; a multiply-add counts as two.
pub const OPERATIONS_A_TURN: u64 = REPEATS as u64 * 4 * 4 * 2;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("multiply_integers")
    .source(wgsl!("internals/ceilings/multiply_integers", REPEATS))
    .buffers(&[("sums", Access::Write)])
    .workgroup(256, 0);

/// The word that an invocation writes.
pub fn reference(invocation: u32, params: &Params) -> u32 {
    let dot = |a: u32| -> i32 {
        let pairs = a.to_le_bytes().into_iter().zip(params.factors.to_le_bytes());
        pairs.map(|(x, y)| i32::from(x as i8) * i32::from(y as i8)).sum()
    };
    let chain =
        |start: u32| (0..params.turns * REPEATS).fold(start, |sum, _| sum.wrapping_add_signed(dot(sum)));
    (0..4).map(|offset| chain(invocation.wrapping_add(offset))).fold(0, |all, one| all ^ one)
}
