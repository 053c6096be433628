//! The metrics of vectors, and all that is particular to one of them.

use std::fmt;
use std::str::FromStr;

use crate::elements::ElementKind;
use crate::error::{Error, Result};
use crate::metric::Output;

/// Declares values of `METRIC`, and a list of them with their names, by which WGSL knows them.
macro_rules! constants {
    ($(#[$about:meta])* $names:ident: $($(#[$meta:meta])* $name:ident = $value:expr),* $(,)?) => {
        $($(#[$meta])* const $name: u32 = $value;)*
        $(#[$about])*
        pub(crate) const $names: &[(&str, u32)] = &[$((stringify!($name), $name)),*];
    };
}

constants! {
    /// The values in kernels that compute what searches order by. `L2` is computed as its square.
    REFINED_NAMES: METRIC_L2 = 0, METRIC_COSINE = 1, METRIC_INNER_PRODUCT = 2
}

constants! {
    /// The values in kernels of all pairs.
    PAIRS_NAMES:
        PAIRS_L2_SQUARED = 0,
        PAIRS_L2 = 1,
        PAIRS_COSINE = 2,
        /// Cosine of vectors known to have norm 1.
        PAIRS_COSINE_OF_UNITS = 3,
        PAIRS_INNER_PRODUCT = 4,
        /// The last one that adds up squared differences.
        PAIRS_DIFFERENCES = PAIRS_L2,
        /// The one that is divided by both norms.
        PAIRS_DIVIDED = PAIRS_COSINE,
        /// The one that is the sum of products itself.
        PAIRS_PRODUCTS = PAIRS_INNER_PRODUCT,
}

/// All values of either kind.
pub(crate) const REFINED_METRICS: &[u32] = &[METRIC_L2, METRIC_COSINE, METRIC_INNER_PRODUCT];
pub(crate) const PAIRS_METRICS: &[u32] =
    &[PAIRS_L2_SQUARED, PAIRS_L2, PAIRS_COSINE, PAIRS_COSINE_OF_UNITS, PAIRS_INNER_PRODUCT];
/// The values of pairs that are sums of products over none or both norms.
pub(crate) const PAIRS_OF_PRODUCTS: &[u32] = &[PAIRS_DIVIDED, PAIRS_PRODUCTS];

/// The distance between two vectors `q` and `x`. Smaller is always nearer.
///
/// Reported distances are `f32`. Their error is bounded, for vectors of `dim` elements:
///
/// | metric | distance | largest error |
/// |---|---|---|
/// | `L2Squared` | `sum (q - x)^2` | relative `(dim + 4) * 2^-23`, plus `dim * 2^-126` |
/// | `L2` | its square root | half the relative error above, plus one rounding |
/// | `Cosine` | `1 - q.x / (\|q\| \|x\|)` | `(dim + 16) * 2^-23` |
/// | `InnerProduct` | `-(q.x)` | `(dim + 4) * 2^-23 * \|q\| \|x\|` |
/// | `Hamming`, of bits | how many bits differ | 0 |
/// | `Jaccard`, of bits | bits that differ, over those that either vector has | one rounding |
///
/// Cosine similarities are clamped to `[-1, 1]`. A zero vector has similarity 0 to every vector, so distance 1. So have two
/// vectors without a bit by `Jaccard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Metric {
    /// Squared Euclidean distance.
    L2Squared,
    /// Euclidean distance. Searches order by its square, and take the root of results only.
    L2,
    /// One minus the cosine similarity.
    Cosine,
    /// The inner product, negated.
    InnerProduct,
    /// The number of different bits, of [`ElementKind::Bits`].
    Hamming,
    /// One minus the share of the bits of either vector that both have, of [`ElementKind::Bits`].
    Jaccard,
}

impl Metric {
    /// Every metric of vectors of numbers.
    pub const ALL: [Self; 4] = [Self::L2Squared, Self::L2, Self::Cosine, Self::InnerProduct];

    /// Every metric of vectors of bits.
    pub const OF_BITS: [Self; 2] = [Self::Hamming, Self::Jaccard];

    /// The metric of tokens: a MaxSim adds up inner products.
    pub(crate) const OF_TOKENS: Self = Self::InnerProduct;

    /// The metric of directions: i8 rows under it are as good as the longer ones that they were quantised from.
    pub(crate) const OF_DIRECTIONS: Self = Self::Cosine;

    /// Whether it compares bits, and not numbers.
    #[inline]
    pub(crate) fn counts_bits(self) -> bool {
        matches!(self, Self::Hamming | Self::Jaccard)
    }

    /// The element type of rows unless a caller asks for another: [`ElementKind::Bits`] for metrics of bits, and f32.
    pub fn default_elements(self) -> ElementKind {
        if self.counts_bits() { ElementKind::Bits } else { ElementKind::F32 }
    }

    /// An error for a metric of bits.
    pub(crate) fn check_numbers(self) -> Result<()> {
        match self.counts_bits() {
            true => {
                Err(Error::argument("metric", "l2sq, l2, cosine or ip: only an index compares bits", self))
            }
            false => Ok(()),
        }
    }

    /// An error if vectors of this type have no such distance.
    pub(crate) fn check(self, elements: ElementKind) -> Result<()> {
        match (self.counts_bits(), elements == ElementKind::Bits) {
            (true, false) => {
                Err(Error::argument("elements", format!("bits for the metric {self}"), elements))
            }
            (false, true) => Err(Error::argument("metric", "hamming or jaccard for bits", self)),
            _ => Ok(()),
        }
    }

    /// Whether it adds up the squared differences of elements. Otherwise it adds up their products.
    #[inline]
    pub(crate) fn adds_differences(self) -> bool {
        matches!(self, Self::L2Squared | Self::L2 | Self::Hamming)
    }

    /// Whether it compares the directions of vectors: sums are divided by both norms, and a mean is one of directions.
    #[inline]
    pub(crate) fn compares_directions(self) -> bool {
        self == Self::Cosine
    }

    /// Whether there is a similarity, which is larger for nearer vectors.
    pub(crate) fn has_similarity(self) -> bool {
        matches!(self, Self::Cosine | Self::InnerProduct)
    }

    /// Whether searches order by the squares of its distances.
    pub(crate) fn is_root(self) -> bool {
        self == Self::L2
    }

    /// The metric whose distances searches order by and merge: squares in place of roots, which may be equal where their squares differ.
    pub(crate) fn ordering(self) -> Self {
        if self.is_root() { Self::L2Squared } else { self }
    }

    /// An upper bound of the distances within a radius, as searches order by them.
    pub(crate) fn ordering_bound(self, radius: f64) -> f64 {
        if !self.is_root() {
            return radius;
        }
        // A root may round down to less than the radius, by one unit in its last place.
        radius * radius * (1.0 + 2f64.powi(-20)) + f64::from(f32::MIN_POSITIVE)
    }

    /// The distance, from that which searches order by.
    pub(crate) fn of_ordering(self, distance: f32) -> f32 {
        if self.is_root() { distance.sqrt() } else { distance }
    }

    /// The factor of a vector with this squared norm before it is quantised. It is the inverse norm where directions are
    /// compared, and 1 otherwise.
    #[inline]
    pub(crate) fn scale(self, squared: f64) -> f64 {
        if self.compares_directions() && squared > 0.0 { 1.0 / squared.sqrt() } else { 1.0 }
    }

    /// The names of all, as errors list them.
    pub(crate) const NAMES: &'static str = "l2sq, l2, cosine, ip, hamming or jaccard";

    /// The name that [`FromStr`] reads and `Display` writes.
    pub fn name(self) -> &'static str {
        match self {
            Self::L2Squared => "l2sq",
            Self::L2 => "l2",
            Self::Cosine => "cosine",
            Self::InnerProduct => "ip",
            Self::Hamming => "hamming",
            Self::Jaccard => "jaccard",
        }
    }

    /// The metric that assigns rows to centroids. Inner product uses cosine, because its lists are cones as well. Bits are numbers 0 and 1
    /// there ([`HostVectors::as_numbers`](crate::HostVectors::as_numbers)), and centroids their means.
    pub(crate) fn of_centroids(self) -> Self {
        match self {
            Self::L2 | Self::L2Squared | Self::Hamming | Self::Jaccard => Self::L2Squared,
            Self::Cosine | Self::InnerProduct => Self::Cosine,
        }
    }

    /// Elements of the centroids of rows with this many.
    pub(crate) fn dim_of_centroids(self, dim: usize) -> usize {
        if self.counts_bits() { 8 * dim } else { dim }
    }

    /// The value of `METRIC` in the kernels that compute what searches order by.
    pub(crate) fn refined_constant(self) -> u32 {
        match self {
            // Kernels for rows of bits count where others add up squares.
            Self::L2Squared | Self::L2 | Self::Hamming => METRIC_L2,
            Self::Cosine | Self::Jaccard => METRIC_COSINE,
            Self::InnerProduct => METRIC_INNER_PRODUCT,
        }
    }

    /// The value of `METRIC` in the kernels of all pairs. Vectors that are known to have norm 1 need no norms.
    pub(crate) fn pairs_constant(self, unit_vectors: bool) -> u32 {
        match self {
            // None of these kernels takes bits.
            Self::L2Squared | Self::Hamming | Self::Jaccard => PAIRS_L2_SQUARED,
            Self::L2 => PAIRS_L2,
            Self::Cosine if unit_vectors => PAIRS_COSINE_OF_UNITS,
            Self::Cosine => PAIRS_COSINE,
            Self::InnerProduct => PAIRS_INNER_PRODUCT,
        }
    }

    /// The distance or the similarity, from a sum that is divided by both norms where directions are compared.
    #[inline(always)]
    pub(crate) fn value(self, sum: f64, output: Output) -> f64 {
        match (self, output) {
            (Self::L2Squared | Self::Hamming | Self::Jaccard, _) => sum,
            (Self::L2, _) => sum.sqrt(),
            (Self::InnerProduct, Output::Distance) => -sum,
            (Self::InnerProduct, Output::Similarity) => sum,
            (Self::Cosine, Output::Distance) => 1.0 - sum.clamp(-1.0, 1.0),
            (Self::Cosine, Output::Similarity) => sum.clamp(-1.0, 1.0),
        }
    }

    /// A sum over the product of both norms where directions are compared, 0 for a zero vector; otherwise the sum.
    #[inline]
    pub(crate) fn divided(self, sum: f64, norms: impl FnOnce() -> f64) -> f64 {
        if !self.compares_directions() {
            return sum;
        }
        let norms = norms();
        if norms == 0.0 { 0.0 } else { sum / norms }
    }

    /// The distance of two vectors in f64, by its definition. Tests and benchmarks compare with it. Bits are given as the numbers of their
    /// bytes.
    ///
    /// # Panics
    /// If the vectors differ in length.
    pub fn exact(self, query: &[f32], row: &[f32]) -> f64 {
        assert_eq!(query.len(), row.len(), "vectors of different lengths have no distance");
        if self.counts_bits() {
            return self.of_bits(query, row);
        }
        let pairs = || query.iter().zip(row).map(|(&q, &x)| (f64::from(q), f64::from(x)));
        let sum: f64 = match self.adds_differences() {
            true => pairs().map(|(q, x)| (q - x) * (q - x)).sum(),
            false => pairs().map(|(q, x)| q * x).sum(),
        };
        let squares = || [pairs().map(|(q, _)| q * q).sum::<f64>(), pairs().map(|(_, x)| x * x).sum::<f64>()];
        let sum = self.divided(sum, || squares().into_iter().map(f64::sqrt).product());
        self.value(sum, Output::Distance)
    }
}

/// The distance of vectors of bits, given as the numbers of their bytes.
impl Metric {
    pub(crate) fn of_bits(self, query: &[f32], row: &[f32]) -> f64 {
        let counted = |count: fn(u8, u8) -> u8| {
            query.iter().zip(row).map(|(&q, &x)| u64::from(count(q as u8, x as u8).count_ones())).sum::<u64>()
                as f64
        };
        let different = counted(|q, x| q ^ x);
        match self {
            Self::Jaccard => match counted(|q, x| q | x) {
                0.0 => 1.0,
                either => different / either,
            },
            _ => different,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Metric {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "l2sq" => Ok(Self::L2Squared),
            "l2" => Ok(Self::L2),
            "cosine" | "cos" => Ok(Self::Cosine),
            "ip" | "dot" => Ok(Self::InnerProduct),
            "hamming" => Ok(Self::Hamming),
            "jaccard" => Ok(Self::Jaccard),
            other => Err(Error::argument("metric", Self::NAMES, other)),
        }
    }
}
