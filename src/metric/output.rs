//! What distance kernels write, and how exactly they compute it.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The values that a distance kernel writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Output {
    /// Smaller is nearer.
    #[default]
    Distance,
    /// The cosine similarity or the inner product: larger is nearer. L2 has none.
    Similarity,
}

/// How exactly the distances of all pairs are computed.
///
/// L2 is computed from the differences of elements, so that near vectors lose nothing to cancellation. (The host engine computes
/// pairs that are far apart from products, within the same bounds.) With `u = 2^-23`, distances of vectors of `dim` elements are
/// off by at most:
///
/// | metric | `Fast` | `Compensated` | `Half` |
/// |---|---|---|---|
/// | `L2Squared`, relative | `(dim + 4) u` | `4 u + (dim u)^2` | |
/// | `L2` | half of that, plus one rounding | half of that, plus one rounding | |
/// | `Cosine` | `(dim + 16) u` | `20 u + 2 (dim u)^2` | `2^-9 + (2 dim + 32) u` |
/// | `InnerProduct` | `(dim + 4) u \|q\| \|x\|` | `4 u \|q.x\| + 2 (dim u)^2 \|q\| \|x\|` | `(2^-9 + (2 dim + 16) u) \|q\| \|x\|` |
///
/// Products below `2^-126` may count as 0: that adds `8 dim * 2^-126` to compensated sums, and `dim * 2^-126` to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Precision {
    /// Sums in f32, within [`Metric::error_bound`](crate::Metric::error_bound): as fast as the device multiplies. The order of a sum, and with it the last
    /// bits of a distance, depends on how many queries and rows there are.
    #[default]
    Fast,
    /// Sums with the rounding errors of additions and products kept beside them, as if computed in twice the precision and
    /// rounded once. A distance depends on its two vectors alone. Many times slower on a GPU.
    Compensated,
    /// Elements may be rounded to f16, and products are summed in f32: for many queries on adapters with cooperative matrices,
    /// several times as fast as f32. Elsewhere this computes what [`Precision::Fast`] does. A power of two for each vector brings
    /// its elements into the range of f16. Vectors that are of f16 already lose nothing, except for elements below 2^-28 of the
    /// norm. Cosine and inner product only: L2 from such products would lose near vectors to cancellation.
    ///
    /// The first call makes an f16 copy of each matrix, which the matrix keeps: half of its bytes on top of them.
    Half,
}

impl Precision {
    /// Every precision.
    pub const ALL: [Self; 3] = [Self::Fast, Self::Compensated, Self::Half];

    /// The name that `FromStr` reads and `Display` writes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Compensated => "compensated",
            Self::Half => "half",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let named = Self::ALL.into_iter().find(|precision| precision.name() == text);
        named.ok_or_else(|| Error::argument("precision", "fast, compensated or half", text))
    }
}
