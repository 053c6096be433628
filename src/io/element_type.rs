//! Element types of files.

/// The element types of all formats, little endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementType {
    F32,
    F16,
    U8,
    I8,
    I32,
    U32,
    I64,
    U64,
}

impl ElementType {
    /// Bytes per element.
    pub(super) fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::F16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::I64 | Self::U64 => 8,
        }
    }

    /// numpy's name of the type.
    pub(super) fn dtype(self) -> &'static str {
        match self {
            Self::F32 => "<f4",
            Self::F16 => "<f2",
            Self::U8 => "|u1",
            Self::I8 => "|i1",
            Self::I32 => "<i4",
            Self::U32 => "<u4",
            Self::I64 => "<i8",
            Self::U64 => "<u8",
        }
    }
}

/// The dtypes of `elements` as text, such as `<f4 or <f2`.
pub(super) fn list(elements: &[ElementType]) -> String {
    elements.iter().map(|element| element.dtype()).collect::<Vec<_>>().join(" or ")
}
