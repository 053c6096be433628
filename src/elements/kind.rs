//! The element types of vectors: what they are called, how large they are, and how they widen to f32. A type is added here.

use std::fmt;
use std::str::FromStr;

use half::f16;
use safetensors::Dtype;

use crate::error::{Error, Result};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::f16 {}
}

/// The element types of vectors on the host: `f32` and [`half::f16`].
pub trait Element: sealed::Sealed + bytemuck::Pod + Send + Sync + 'static {
    /// The element type as a value.
    const KIND: ElementKind;

    /// Zero.
    #[doc(hidden)]
    const ZERO: Self;

    /// Widens the element to f32, exactly.
    fn widen(self) -> f32;
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
}

impl Element for f16 {
    const KIND: ElementKind = ElementKind::F16;
    const ZERO: Self = f16::ZERO;

    fn widen(self) -> f32 {
        self.to_f32()
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
}

impl ElementKind {
    /// Every element type.
    pub const ALL: [Self; TYPES.len()] = [Self::F32, Self::F16];

    /// Whether values of this type are f32 as they lie, so that nothing has to widen them.
    pub(crate) fn is_wide(self) -> bool {
        self == Self::F32
    }

    /// Rows of this dim that are copied at a time: some 16 MiB, at least one.
    pub(crate) fn rows_of_piece(self, dim: usize) -> usize {
        ((16 << 20) / (dim * self.size())).max(1)
    }

    /// Bytes per element.
    pub const fn size(self) -> usize {
        self.about().size
    }

    /// The name that `Display` writes. [`FromStr`] reads it, and those that other languages have: `float32` and `float16`.
    pub const fn name(self) -> &'static str {
        self.about().name
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
        TYPES.map(|about| about.name).join(" or ")
    }
}

const _: () = assert!(TYPES[ElementKind::F32 as usize].kind as u32 == ElementKind::F32 as u32);
const _: () = assert!(TYPES[ElementKind::F16 as usize].kind as u32 == ElementKind::F16 as u32);

/// The names, the size and the tags of an element type.
pub(crate) struct About {
    pub(crate) kind: ElementKind,
    size: usize,
    name: &'static str,
    /// Its name in numpy and Arrow.
    wide_name: &'static str,
    pub(crate) dtype: Dtype,
    /// Its code in npy files, whose bytes are little endian.
    pub(crate) npy: &'static str,
    pub(crate) extension: &'static str,
}

/// All types, in the order of their declaration.
pub(crate) const TYPES: [About; 2] = [
    About {
        kind: ElementKind::F32,
        size: 4,
        name: "f32",
        wide_name: "float32",
        dtype: Dtype::F32,
        npy: "<f4",
        extension: "fbin",
    },
    About {
        kind: ElementKind::F16,
        size: 2,
        name: "f16",
        wide_name: "float16",
        dtype: Dtype::F16,
        npy: "<f2",
        extension: "f16bin",
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
/// let refused = "int8".parse::<ElementKind>().unwrap_err();
/// assert_eq!(refused.to_string(), "elements: needed f32 or f16, given int8");
/// ```
impl FromStr for ElementKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::find(|about| [about.name, about.wide_name].contains(&text));
        found.ok_or_else(|| Error::argument("elements", Self::names(), text))
    }
}
