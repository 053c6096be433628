//! Operations and summations, as the command line names them.

use clap::ValueEnum;
use nearfield::internals::kernels::reduce_blocks::Operation;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    Dot,
    Sum,
    SumSquares,
    Mean,
    L1,
    L2,
    MaxNorm,
    Std,
    Min,
    Max,
    Argmin,
    Argmax,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum How {
    Plain,
    Compensated,
}

impl Name {
    /// The operation whose result the truth starts from.
    pub(super) fn operation(self) -> Operation {
        match self {
            Self::Dot => Operation::Dot,
            Self::Sum | Self::Mean | Self::Std => Operation::Sum,
            Self::SumSquares | Self::L2 => Operation::SumSquares,
            Self::L1 => Operation::SumAbs,
            Self::MaxNorm => Operation::MaxAbs,
            Self::Min => Operation::Min,
            Self::Max => Operation::Max,
            Self::Argmin => Operation::ArgMin,
            Self::Argmax => Operation::ArgMax,
        }
    }

    pub(super) fn operands(self) -> usize {
        if self == Self::Dot { 2 } else { 1 }
    }
}
