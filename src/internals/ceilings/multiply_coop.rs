//! The ceiling of cooperative matrices: f16 operands that never change, f32 sums.

use crate::gpu::{Access, Kernel, params, wgsl};

params! {
    /// Parameters of `multiply_coop`.
    pub struct Params {
        /// Turns of the loop. In each a subgroup multiplies [`MATRICES`] squared pairs.
        turns: u32,
    }
}

/// Operands of a subgroup on each side.
pub const MATRICES: u32 = 4;
/// Subgroups of a workgroup.
pub const SUBGROUPS: u32 = 4;

/// The declaration.
pub static KERNEL: Kernel = Kernel::new::<Params>("multiply_coop")
    .source(wgsl!("internals/ceilings/multiply_coop", MATRICES, SUBGROUPS))
    .buffers(&[("sums", Access::Write)])
    .multiplies_matrices()
    .workgroup(256, 4 * 16 * 16 * 2)
    .holds_tile();

/// Operations of a subgroup in a turn, with matrices of this side; a multiply-add counts as two.
pub fn operations_a_turn(side: u32) -> u64 {
    u64::from(MATRICES * MATRICES) * u64::from(side).pow(3) * 2
}

/// The sums of every subgroup, `[MATRICES, MATRICES, side, side]`.
pub fn reference(side: u32, params: &Params) -> Vec<f64> {
    let element = |matrix: u32, row: u32, column: u32| {
        let vector = (matrix * side * side + row * side + column) / 4;
        [vector % 3, vector % 5, vector % 2, vector % 7].map(f64::from)[(column % 4) as usize]
            * if column % 4 == 2 { -1.0 } else { 1.0 }
    };
    let mut sums = vec![];
    for (left, right) in (0..MATRICES).flat_map(|left| (0..MATRICES).map(move |right| (left, right))) {
        for (row, column) in (0..side).flat_map(|row| (0..side).map(move |column| (row, column))) {
            let products = (0..side).map(|d| element(left, row, d) * element(right, column, d));
            sums.push(products.sum::<f64>() * f64::from(params.turns));
        }
    }
    sums
}
