//! What a case has to do at least, and what share of a ceiling it reaches: the roofline (Williams, Waterman and Patterson, "Roofline: an
//! insightful visual performance model for multicore architectures", CACM 2009).

use std::time::Duration;

use super::ceilings::Ceilings;

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Multiply-adds of f32, and what costs as much.
    Floats,
    /// Products of 8-bit integers.
    Integers,
    /// f16 in cooperative matrices.
    Matrices,
}

/// The least that a case reads and computes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) bytes: f64,
    pub(super) operations: f64,
    pub(super) unit: Unit,
    /// Bytes that are in use, by which a cache may be large enough.
    pub(super) working_set: f64,
}

/// How near a case comes to what is possible.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reached {
    pub(super) bytes_per_s: f64,
    pub(super) operations_per_s: f64,
    /// Operations a byte.
    pub(super) intensity: f64,
    /// The ceiling that is met first, and the part of it that is reached; none where what is computed has no ceiling.
    pub(super) bound: Option<(&'static str, f64)>,
}

impl Work {
    pub(super) fn reached(&self, ceilings: &Ceilings, time: Duration) -> Reached {
        let seconds = time.as_secs_f64().max(1e-9);
        let (computed, bound) = match self.unit {
            Unit::Floats => (Some(ceilings.flops), "flops"),
            Unit::Integers => (ceilings.integers, "integers"),
            Unit::Matrices => (ceilings.matrices, "matrices"),
        };
        let reading = self.bytes / ceilings.read.at(self.working_set).max(1.0);
        let bound = computed.map(|rate| {
            let computing = self.operations / rate.max(1.0);
            let (least, bound) = if computing > reading { (computing, bound) } else { (reading, "read") };
            (bound, least / seconds)
        });
        Reached {
            bytes_per_s: self.bytes / seconds,
            operations_per_s: self.operations / seconds,
            intensity: self.operations / self.bytes.max(1.0),
            bound,
        }
    }
}
