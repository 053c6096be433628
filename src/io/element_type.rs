//! Element types of files.

use safetensors::Dtype;

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
}

impl ElementType {
    /// Bytes per element.
    pub(super) fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::F16 | Self::BF16 | Self::U16 | Self::I16 => 2,
            Self::F32 | Self::U32 | Self::I32 => 4,
            Self::F64 | Self::U64 | Self::I64 => 8,
        }
    }

    /// The type's name in numpy.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F16 => "float16",
            Self::BF16 => "bfloat16",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::U8 => "uint8",
            Self::I8 => "int8",
            Self::U16 => "uint16",
            Self::I16 => "int16",
            Self::U32 => "uint32",
            Self::I32 => "int32",
            Self::U64 => "uint64",
            Self::I64 => "int64",
        }
    }

    pub(super) fn is_integer(self) -> bool {
        !matches!(self, Self::F16 | Self::BF16 | Self::F32 | Self::F64)
    }

    /// The type that numpy describes as `<f4`, say, and whether its bytes are big endian. None for types that are no numbers.
    pub(super) fn of_numpy(description: &str) -> Option<(Self, bool)> {
        let (order, name) = description.split_at_checked(1)?;
        let element = match name {
            "f2" => Self::F16,
            "f4" => Self::F32,
            "f8" => Self::F64,
            "u1" => Self::U8,
            "i1" => Self::I8,
            "u2" => Self::U16,
            "i2" => Self::I16,
            "u4" => Self::U32,
            "i4" => Self::I32,
            "u8" => Self::U64,
            "i8" => Self::I64,
            _ => return None,
        };
        match order {
            "<" => Some((element, false)),
            ">" => Some((element, true)),
            "|" if element.size() == 1 => Some((element, false)),
            _ => None,
        }
    }

    /// The type of a tensor of safetensors, little endian.
    pub(super) fn of_tensor(dtype: Dtype) -> Option<Self> {
        Some(match dtype {
            Dtype::F16 => Self::F16,
            Dtype::BF16 => Self::BF16,
            Dtype::F32 => Self::F32,
            Dtype::F64 => Self::F64,
            Dtype::U8 => Self::U8,
            Dtype::I8 => Self::I8,
            Dtype::U16 => Self::U16,
            Dtype::I16 => Self::I16,
            Dtype::U32 => Self::U32,
            Dtype::I32 => Self::I32,
            Dtype::U64 => Self::U64,
            Dtype::I64 => Self::I64,
            _ => return None,
        })
    }
}
