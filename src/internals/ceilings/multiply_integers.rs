//! The ceiling that products of 8-bit integers are measured against: packed dot products and nothing else.

use crate::gpu::{Access, Kernel, params};

params! {
    /// Parameters of `multiply_integers`.
    pub struct Params {
        /// Turns of the loop, [`OPERATIONS_A_TURN`] operations each.
        turns: u32,
        /// Four 8-bit integers to multiply with.
        factors: u32,
    }
}

/// Operations of an invocation in a turn; a multiply-add counts as two.
pub const OPERATIONS_A_TURN: u64 = 16 * 4 * 4 * 2;

/// The declaration.
pub static KERNEL: Kernel = Kernel {
    name: "multiply_integers",
    source: &[wgsl!("internals/ceilings/multiply_integers")],
    params: Params::WGSL,
    params_bytes: size_of::<Params>(),
    buffers: &[("sums", Access::Write)],
    overrides: &[],
    loads_rows: false,
    sums_lanes: false,
    adds_floats: false,
    multiplies_matrices: false,
    workgroup_size: 256,
    workgroup_bytes: 0,
};

/// What an invocation writes.
pub fn reference(invocation: u32, params: &Params) -> u32 {
    let dot = |a: u32| -> i32 {
        let pairs = a.to_le_bytes().into_iter().zip(params.factors.to_le_bytes());
        pairs.map(|(x, y)| i32::from(x as i8) * i32::from(y as i8)).sum()
    };
    let chain = |start: u32| (0..params.turns * 16).fold(start, |sum, _| sum.wrapping_add_signed(dot(sum)));
    (0..4).map(|offset| chain(invocation.wrapping_add(offset))).fold(0, |all, one| all ^ one)
}
