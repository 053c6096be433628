//! The least work of a case: what it has to read and to compute.

/// The kind of arithmetic that a case does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Multiply-adds of f32, and operations of the same cost.
    Floats,
    /// Products of 8-bit integers.
    Integers,
    /// f16 in cooperative matrices.
    Matrices,
}

impl Unit {
    /// Bytes of a row of an index whose scores are computed this way: zeros pad it.
    pub(super) fn row_bytes(self, dim: usize) -> f64 {
        (if self == Self::Floats { 4 * dim.next_multiple_of(4) } else { dim.next_multiple_of(32) }) as f64
    }
}

/// The least that a case reads and computes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) bytes: f64,
    pub(super) operations: f64,
    pub(super) unit: Unit,
    /// Bytes in use over all runs, which decide whether a cache holds them.
    pub(super) working_set: f64,
}
