//! Keeps which forms of kernels a driver refused, and writes products of bytes in plain arithmetic for drivers that refuse `dot4I8Packed`.

/// A product of four bytes. Not every compiler takes the form that naga gives it: DXC 1.7 does not.
const BYTE_PRODUCT: &str = "dot4I8Packed(";

/// The same in plain arithmetic.
const SPELLED_PRODUCT: &str =
    "\nfn spelled_product(a: u32, b: u32) -> i32 { return dot(unpack4xI8(a), unpack4xI8(b)); }\n";

/// Whether a text multiplies bytes, four at a time.
pub(in crate::gpu) fn multiplies_bytes(text: &str) -> bool {
    text.contains(BYTE_PRODUCT)
}

/// The text with its products of bytes in plain arithmetic; none if it has no such products.
pub(crate) fn with_spelled_products(text: &str) -> Option<String> {
    multiplies_bytes(text).then(|| text.replace(BYTE_PRODUCT, "spelled_product(") + SPELLED_PRODUCT)
}

/// A variant of a kernel that the driver refused, while another took its place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The kernel's name.
    pub kernel: &'static str,
    /// Its variant, with `, plain products` behind it where products of bytes were in plain arithmetic.
    pub variant: String,
    /// What the driver said.
    pub message: String,
}

/// The forms of kernels that a device runs. What the driver refused, or computed wrongly, shows once a search has come to it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelForms {
    /// Whether lanes of a subgroup exchange values without memory.
    pub subgroups: bool,
    /// Whether products of four bytes are one operation of the driver's language.
    pub byte_products: bool,
    /// How many registers an invocation fills with a kernel's data, 128 or 64, where neither the driver nor a tuner has chosen otherwise.
    pub registers: u32,
    /// The side of the cooperative matrices that searches multiply; none where the adapter lists none that kernels are written for.
    pub matrix_side: Option<u32>,
    /// Whether those matrices gave the right sums in their self-test, which the first search that needs them runs; none before it.
    pub matrices_are_right: Option<bool>,
    /// The variants that the driver refused.
    pub refusals: Vec<Refusal>,
}
