//! Element types of files.

use safetensors::Dtype;

use crate::elements::ElementKind;

/// The element types of all formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementType {
    F16,
    BF16,
    F32,
    F64,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    Bool,
}

/// Each type in the order of its declaration: its bytes, its name in numpy, its code in npy, which has none for bfloat16, and in safetensors.
const TYPES: [(ElementType, usize, &str, Option<&str>, Dtype); 13] = [
    (ElementType::F16, 2, "float16", Some("f2"), Dtype::F16),
    (ElementType::BF16, 2, "bfloat16", None, Dtype::BF16),
    (ElementType::F32, 4, "float32", Some("f4"), Dtype::F32),
    (ElementType::F64, 8, "float64", Some("f8"), Dtype::F64),
    (ElementType::U8, 1, "uint8", Some("u1"), Dtype::U8),
    (ElementType::I8, 1, "int8", Some("i1"), Dtype::I8),
    (ElementType::U16, 2, "uint16", Some("u2"), Dtype::U16),
    (ElementType::I16, 2, "int16", Some("i2"), Dtype::I16),
    (ElementType::U32, 4, "uint32", Some("u4"), Dtype::U32),
    (ElementType::I32, 4, "int32", Some("i4"), Dtype::I32),
    (ElementType::U64, 8, "uint64", Some("u8"), Dtype::U64),
    (ElementType::I64, 8, "int64", Some("i8"), Dtype::I64),
    (ElementType::Bool, 1, "bool", Some("b1"), Dtype::BOOL),
];

impl ElementType {
    /// Bytes per element.
    pub(super) fn size(self) -> usize {
        TYPES[self as usize].1
    }

    /// The type's name in numpy.
    pub(super) fn name(self) -> &'static str {
        TYPES[self as usize].2
    }

    /// The library's own type of the same values, which are read as they are.
    pub(super) fn kept(self) -> Option<ElementKind> {
        ElementKind::find(|about| about.dtype == TYPES[self as usize].4)
    }

    pub(super) fn is_integer(self) -> bool {
        !matches!(self, Self::F16 | Self::BF16 | Self::F32 | Self::F64 | Self::Bool)
    }

    /// The type of this name in numpy.
    #[cfg(feature = "hdf5")]
    pub(super) fn named(name: &str) -> Option<Self> {
        TYPES.iter().find(|about| about.2 == name).map(|about| about.0)
    }

    /// The type that numpy describes as `<f4`, say, and whether its bytes are big endian. None for types that are no numbers.
    pub(super) fn of_numpy(description: &str) -> Option<(Self, bool)> {
        let (order, code) = description.split_at_checked(1)?;
        let &(element, size, ..) = TYPES.iter().find(|about| about.3 == Some(code))?;
        match order {
            "<" => Some((element, false)),
            ">" => Some((element, true)),
            "|" if size == 1 => Some((element, false)),
            _ => None,
        }
    }

    /// The type of a tensor of safetensors, little endian.
    pub(super) fn of_tensor(dtype: Dtype) -> Option<Self> {
        TYPES.iter().find(|about| about.4 == dtype).map(|about| about.0)
    }
}
