//! The ceiling that arithmetic is measured against: fused multiply-adds and nothing else.

use crate::gpu::{Access, Kernel, params};

params! {
    /// Parameters of `multiply_add`.
    pub struct Params {
        /// Turns of the loop, [`FLOPS_A_TURN`] operations each.
        turns: u32,
        /// What is multiplied with and added: below 1, so that sums stay finite.
        factor: f32,
    }
}

/// Floating-point operations of an invocation in a turn; a multiply-add counts as two.
pub const FLOPS_A_TURN: u64 = 16 * 4 * 4 * 2;

/// The declaration.
pub static KERNEL: Kernel = Kernel {
    name: "multiply_add",
    source: &[wgsl!("internals/ceilings/multiply_add")],
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

/// One component of an invocation's sum, in f64.
pub fn reference(invocation: u32, params: &Params) -> f64 {
    let factor = f64::from(params.factor);
    let chain = |start: f64| (0..params.turns * 16).fold(start, |sum, _| sum * factor + factor);
    (0..4).map(|offset| chain(f64::from(invocation) + f64::from(offset))).sum()
}
