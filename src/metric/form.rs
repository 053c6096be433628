//! How the scores of screens become distances, by metric. `src/screen/certificate.rs` has the arithmetic of each form.

use crate::metric::Metric;

/// How a score becomes a distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The score is the squared L2 distance.
    Direct,
    /// Squared L2 distance from the dot product and the norms.
    L2,
    /// The dot product, negated.
    InnerProduct,
    /// One minus the dot product times the inverse norms.
    Cosine,
    /// Squared L2 distance from the dot product of integers.
    QuantizedL2,
    /// Hamming distance from the number of bits that both have.
    Hamming,
    /// Jaccard distance from the number of bits that both have.
    Jaccard,
    /// Inner product from the dot product of integers.
    QuantizedInnerProduct,
    /// Cosine from the dot product of integers.
    QuantizedCosine,
}

impl Form {
    /// The names in WGSL of the values of the override constant `FORM`.
    pub(crate) const NAMES: &'static [(&'static str, u32)] = &[
        ("FORM_DIRECT", Self::Direct as u32),
        ("FORM_L2", Self::L2 as u32),
        ("FORM_INNER_PRODUCT", Self::InnerProduct as u32),
        ("FORM_COSINE", Self::Cosine as u32),
        // The first one of integers.
        ("FORM_QUANTIZED", Self::QuantizedL2 as u32),
        ("FORM_QUANTIZED_L2", Self::QuantizedL2 as u32),
        ("FORM_HAMMING", Self::Hamming as u32),
        ("FORM_JACCARD", Self::Jaccard as u32),
        ("FORM_QUANTIZED_INNER_PRODUCT", Self::QuantizedInnerProduct as u32),
        ("FORM_QUANTIZED_COSINE", Self::QuantizedCosine as u32),
    ];

    /// The values of all forms, and of those of integers.
    pub(crate) const ALL: &'static [u32] = &[
        Self::Direct as u32,
        Self::L2 as u32,
        Self::InnerProduct as u32,
        Self::Cosine as u32,
        Self::QuantizedL2 as u32,
        Self::Hamming as u32,
        Self::Jaccard as u32,
        Self::QuantizedInnerProduct as u32,
        Self::QuantizedCosine as u32,
    ];
    pub(crate) const QUANTIZED: &'static [u32] = Self::ALL.split_at(Self::QuantizedL2 as usize).1;
    /// Those of numbers.
    pub(crate) const QUANTIZED_NUMBERS: &'static [u32] =
        &[Self::QuantizedL2 as u32, Self::QuantizedInnerProduct as u32, Self::QuantizedCosine as u32];

    /// The form whose distance is the integer score itself, negated.
    pub(crate) const OF_INTEGERS: Self = Self::QuantizedInnerProduct;

    /// The form of f32 dot products.
    pub fn of_products(metric: Metric) -> Self {
        match metric {
            Metric::L2Squared | Metric::L2 | Metric::Hamming => Self::L2,
            Metric::InnerProduct => Self::InnerProduct,
            Metric::Cosine => Self::Cosine,
            Metric::Jaccard => Self::Jaccard,
        }
    }

    /// The form of a screen on integers.
    pub fn quantized(metric: Metric) -> Self {
        match metric {
            Metric::L2Squared | Metric::L2 => Self::QuantizedL2,
            Metric::Hamming => Self::Hamming,
            Metric::InnerProduct => Self::QuantizedInnerProduct,
            Metric::Cosine => Self::QuantizedCosine,
            Metric::Jaccard => Self::Jaccard,
        }
    }

    /// The form of f32 sums of what the metric adds up: squared differences are distances already.
    pub(crate) fn of_sums(metric: Metric) -> Self {
        if metric.adds_differences() { Self::Direct } else { Self::of_products(metric) }
    }

    /// The forms whose scores are numbers of bits.
    pub(crate) const OF_BITS: [Self; 2] = [Self::Hamming, Self::Jaccard];

    /// Whether scores are numbers of bits.
    pub(crate) fn counts_bits(self) -> bool {
        Self::OF_BITS.contains(&self)
    }

    /// Whether scores are of integers.
    pub fn is_quantized(self) -> bool {
        self as u32 >= Self::QuantizedL2 as u32
    }

    /// Whether the scale of a vector that is not quantised is its inverse norm.
    #[inline(always)]
    pub(crate) fn scales_by_norms(self) -> bool {
        self == Self::Cosine
    }
}
