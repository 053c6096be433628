//! The option of an index that asks for a screen on integers.

use crate::error::{Error, Result};

/// Whether an index keeps a quantised copy of its rows, with one byte for each element. With it, searches exclude most rows
/// before they compute any distance. Answers are the same, bit for bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Screen {
    /// [`Screen::I8`] where it makes searches faster: for dims from 16 to 16,384, unless the adapter is a software driver with
    /// subgroups, or its memory is full and the rows stay there (see [`RowPlace`](crate::RowPlace)).
    #[default]
    Auto,
    /// No copy: rows are screened as they are.
    None,
    /// A copy in 8-bit integers: `dim` bytes for each row, rounded up to a multiple of 32, and 16 more.
    I8,
}

impl std::str::FromStr for Screen {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            "i8" => Ok(Self::I8),
            other => Err(Error::argument("screen", "auto, none or i8", other)),
        }
    }
}

impl Screen {
    /// The word that [`FromStr`](std::str::FromStr) reads.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::I8 => "i8",
        }
    }

    /// Whether the host engine keeps a copy.
    pub(crate) fn is_wanted_on_host(self, dim: usize) -> bool {
        match self {
            Self::Auto => (16..=16_384).contains(&dim),
            Self::None => false,
            Self::I8 => true,
        }
    }
}
