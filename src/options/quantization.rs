//! The option of an index that asks for a quantised copy of its rows.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Whether an index keeps a quantised copy of its rows, with one byte for each element. With it, searches exclude most rows
/// before they compute any distance. Answers are the same, bit for bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Quantization {
    /// [`Quantization::Int8`] where it makes searches faster: for dims from 16 to 16,384, unless the adapter is a software driver with
    /// subgroups, or its memory is full and the rows stay there (see [`Residency`](crate::Residency)).
    #[default]
    Auto,
    /// No copy: rows are screened as they are.
    None,
    /// A copy in 8-bit integers, or of bits: `dim` bytes for each row, rounded up to a multiple of 32, and 16 more. Rows of i8 and bits,
    /// and of u8 under other metrics than cosine, are their own copy where they have up to 8,192 elements and a GPU or the host engine has
    /// them. A GPU screens bits whatever is asked for.
    Int8,
}

impl FromStr for Quantization {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            "int8" => Ok(Self::Int8),
            other => Err(Error::argument("quantization", "auto, none or int8", other)),
        }
    }
}

impl Quantization {
    /// The word that [`FromStr`](std::str::FromStr) reads.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::Int8 => "int8",
        }
    }

    /// Whether the host engine keeps a copy.
    pub(crate) fn is_wanted_on_host(self, dim: usize) -> bool {
        match self {
            Self::Auto => (16..=16_384).contains(&dim),
            Self::None => false,
            Self::Int8 => true,
        }
    }
}

/// The option as files of indexes name it: 8-bit integers are `i8` there, as in the first version.
pub(crate) struct Tag(pub(crate) Quantization);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 == Quantization::Int8 { "i8" } else { self.0.name() })
    }
}

impl FromStr for Tag {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "i8" => Ok(Self(Quantization::Int8)),
            "int8" => Err(Error::argument("screen", "auto, none or i8", text)),
            word => word.parse().map(Self),
        }
    }
}
