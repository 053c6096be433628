//! The element types of vectors: what they are called, how large they are, and how they widen to f32. A type is added here.

use std::fmt;
use std::str::FromStr;

use half::{bf16, f16};
use safetensors::Dtype;

use crate::elements::widen::widen;
use crate::error::{Error, Result};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
    impl Sealed for i8 {}
    impl Sealed for u8 {}
    impl Sealed for super::PackedBits {}
}

/// Eight bits of a vector of bits: numpy's `packbits` makes such bytes, and models call embeddings of them `ubinary`. The order of the bits does
/// not matter, as long as it is the same in all vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct PackedBits(pub u8);

/// The element types of vectors on the host: `f32`, [`half::f16`], [`half::bf16`], `i8`, `u8` and [`PackedBits`].
pub trait Element: sealed::Sealed + bytemuck::Pod + Send + Sync + 'static {
    /// The element type as a value.
    const KIND: ElementKind;

    /// Zero.
    #[doc(hidden)]
    const ZERO: Self;

    /// Widens the element to f32, exactly. Of [`PackedBits`] it is the byte as a number.
    fn widen(self) -> f32;

    /// The nearest value of this type, ties to even. Beyond its range, floats become infinite and integers the largest or smallest; a NaN
    /// becomes the integer 0.
    fn nearest(value: f32) -> Self;

    /// Widens elements; `wide` is as long.
    #[doc(hidden)]
    fn widen_all(elements: &[Self], wide: &mut [f32]) {
        elements.iter().zip(wide).for_each(|(element, wide)| *wide = element.widen());
    }
}

/// Runs an expression with the Rust type of an [`ElementKind`].
macro_rules! with_type {
    ($kind:expr, $T:ident => $run:expr) => {
        match $kind {
            $crate::elements::ElementKind::F32 => {
                type $T = f32;
                $run
            }
            $crate::elements::ElementKind::F16 => {
                type $T = half::f16;
                $run
            }
            $crate::elements::ElementKind::BF16 => {
                type $T = half::bf16;
                $run
            }
            $crate::elements::ElementKind::I8 => {
                type $T = i8;
                $run
            }
            $crate::elements::ElementKind::U8 => {
                type $T = u8;
                $run
            }
            $crate::elements::ElementKind::Bits => {
                type $T = $crate::elements::PackedBits;
                $run
            }
        }
    };
}
pub(crate) use with_type;

impl Element for f32 {
    const KIND: ElementKind = ElementKind::F32;
    const ZERO: Self = 0.0;

    fn widen(self) -> f32 {
        self
    }

    fn nearest(value: f32) -> Self {
        value
    }
}

impl Element for f16 {
    const KIND: ElementKind = ElementKind::F16;
    const ZERO: Self = f16::ZERO;

    fn widen(self) -> f32 {
        self.to_f32()
    }

    fn nearest(value: f32) -> Self {
        Self::from_f32(value)
    }

    fn widen_all(elements: &[Self], wide: &mut [f32]) {
        widen(elements, wide);
    }
}

impl Element for bf16 {
    const KIND: ElementKind = ElementKind::BF16;
    const ZERO: Self = bf16::ZERO;

    fn widen(self) -> f32 {
        self.to_f32()
    }

    fn nearest(value: f32) -> Self {
        Self::from_f32(value)
    }
}

impl Element for i8 {
    const KIND: ElementKind = ElementKind::I8;
    const ZERO: Self = 0;

    fn widen(self) -> f32 {
        self.into()
    }

    fn nearest(value: f32) -> Self {
        value.round_ties_even() as Self
    }
}

impl Element for u8 {
    const KIND: ElementKind = ElementKind::U8;
    const ZERO: Self = 0;

    fn widen(self) -> f32 {
        self.into()
    }

    fn nearest(value: f32) -> Self {
        value.round_ties_even() as Self
    }
}

impl Element for PackedBits {
    const KIND: ElementKind = ElementKind::Bits;
    const ZERO: Self = Self(0);

    fn widen(self) -> f32 {
        self.0.into()
    }

    fn nearest(value: f32) -> Self {
        Self(u8::nearest(value))
    }
}

/// The element type of vectors in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ElementKind {
    /// 32-bit IEEE floating point.
    #[default]
    F32,
    /// 16-bit IEEE floating point. Values widen to f32 exactly, and arithmetic uses f32.
    F16,
    /// The upper half of an f32, likewise.
    BF16,
    /// Integers from -128 to 127. In searches squared L2 distances and inner products of two vectors of integers, of up to 131,072 elements, are
    /// computed exactly and rounded once.
    I8,
    /// Integers from 0 to 255, likewise.
    U8,
    /// [`PackedBits`], bytes of eight bits: a vector of 1,024 bits has dim 128. Only [`Metric::OF_BITS`](crate::Metric::OF_BITS) compare them.
    Bits,
}

impl ElementKind {
    /// Every element type.
    pub const ALL: [Self; TYPES.len()] = [Self::F32, Self::F16, Self::BF16, Self::I8, Self::U8, Self::Bits];

    /// The element types that are numbers: all but [`ElementKind::Bits`].
    pub const NUMBERS: [Self; 5] = [Self::F32, Self::F16, Self::BF16, Self::I8, Self::U8];

    /// Whether values of this type are f32 as they lie, so that nothing has to widen them.
    pub(crate) fn is_wide(self) -> bool {
        self == Self::F32
    }

    /// Whether values are integers, whose sums of products are exact.
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::I8 | Self::U8)
    }

    /// Whether this type has every value of another.
    pub(crate) fn holds(self, other: Self) -> bool {
        match self {
            Self::F32 => other != Self::Bits,
            // f16 has eleven digits, bf16 eight.
            Self::F16 | Self::BF16 => self == other || other.is_integer(),
            Self::I8 | Self::U8 | Self::Bits => self == other,
        }
    }

    /// An error if elements of this type are no numbers, to calculate with.
    pub(crate) fn check_numbers(self, argument: &'static str) -> Result<()> {
        match self {
            Self::Bits => Err(Error::argument(argument, "numbers: only an index takes bits", self)),
            _ => Ok(()),
        }
    }

    /// Rows of this dim that are copied at a time: some 16 MiB, at least one.
    pub(crate) fn rows_of_piece(self, dim: usize) -> usize {
        ((16 << 20) / (dim * self.size())).max(1)
    }

    /// Bytes per element.
    pub const fn size(self) -> usize {
        self.about().size
    }

    /// The name that `Display` writes. [`FromStr`] reads it, and those that other languages have: `float32`, `float16`,
    /// `bfloat16`, `int8`, `uint8` and, of models that write bits, `ubinary`.
    pub const fn name(self) -> &'static str {
        self.about().name
    }

    /// The name that numpy and Arrow have for it: `float32`. Bits have the name `ubinary`.
    pub const fn numpy_name(self) -> &'static str {
        self.about().wide_name
    }

    /// The tag of tensors in saved indexes.
    pub(crate) const fn dtype(self) -> Dtype {
        self.about().dtype
    }

    /// The extension of headed files of rows of this type.
    pub(crate) const fn extension(self) -> &'static str {
        self.about().extension
    }

    const fn about(self) -> &'static About {
        &TYPES[self as usize]
    }

    /// The type of which this holds.
    pub(crate) fn find(holds: impl Fn(&About) -> bool) -> Option<Self> {
        TYPES.iter().find(|about| holds(about)).map(|about| about.kind)
    }

    /// The names of all types, as errors list them.
    fn names() -> String {
        let names = TYPES.map(|about| about.name);
        let [first @ .., last] = &names;
        format!("{} or {last}", first.join(", "))
    }
}

const _: () = {
    let mut place = 0;
    while place < TYPES.len() {
        assert!(TYPES[place].kind as usize == place && ElementKind::ALL[place] as usize == place);
        place += 1;
    }
};

/// The names, the size and the tags of an element type.
pub(crate) struct About {
    pub(crate) kind: ElementKind,
    size: usize,
    name: &'static str,
    /// Its name in numpy and Arrow.
    wide_name: &'static str,
    pub(crate) dtype: Dtype,
    /// Its code in npy files, whose bytes are little endian.
    pub(crate) npy: Option<&'static str>,
    pub(crate) extension: &'static str,
}

/// All types, in the order of their declaration.
const TYPES: [About; 6] = [
    About {
        kind: ElementKind::F32,
        size: 4,
        name: "f32",
        wide_name: "float32",
        dtype: Dtype::F32,
        npy: Some("<f4"),
        extension: "fbin",
    },
    About {
        kind: ElementKind::F16,
        size: 2,
        name: "f16",
        wide_name: "float16",
        dtype: Dtype::F16,
        npy: Some("<f2"),
        extension: "f16bin",
    },
    About {
        kind: ElementKind::BF16,
        size: 2,
        name: "bf16",
        wide_name: "bfloat16",
        dtype: Dtype::BF16,
        npy: None,
        extension: "bf16bin",
    },
    About {
        kind: ElementKind::I8,
        size: 1,
        name: "i8",
        wide_name: "int8",
        dtype: Dtype::I8,
        npy: Some("|i1"),
        extension: "i8bin",
    },
    About {
        kind: ElementKind::U8,
        size: 1,
        name: "u8",
        wide_name: "uint8",
        dtype: Dtype::U8,
        npy: Some("|u1"),
        extension: "u8bin",
    },
    // Files have bytes, and do not tell that these are of bits: what a tag finds first is u8.
    About {
        kind: ElementKind::Bits,
        size: 1,
        name: "bits",
        wide_name: "ubinary",
        dtype: Dtype::U8,
        npy: Some("|u1"),
        extension: "u8bin",
    },
];

impl fmt::Display for ElementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// ```
/// use nearfield::ElementKind;
///
/// assert_eq!(["f16", "float16"].map(str::parse).map(Result::ok), [Some(ElementKind::F16); 2]);
/// let refused = "int4".parse::<ElementKind>().unwrap_err();
/// assert_eq!(refused.to_string(), "elements: needed f32, f16, bf16, i8, u8 or bits, given int4");
/// ```
impl FromStr for ElementKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::find(|about| [about.name, about.wide_name].contains(&text));
        found.ok_or_else(|| Error::argument("elements", Self::names(), text))
    }
}
