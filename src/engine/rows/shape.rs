//! The kind of rows that an index keeps, and where.

use half::f16;

use crate::error::Result;
use crate::gpu::words;
use crate::matrix::{ElementKind, Matrix};
use crate::memory;
use crate::metric::Metric;
use crate::screen::Screen;

/// The kind of rows that an index keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowShape {
    pub(crate) metric: Metric,
    pub(crate) elements: ElementKind,
    pub(crate) dim: usize,
    /// How many rows the caller expects.
    pub(crate) expected: u64,
    pub(crate) screen: Screen,
    pub(crate) kept: Kept,
}

/// Where the rows of an index on a GPU are. The host engine has all rows in the host's memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kept {
    OnDevice,
    #[cfg(not(target_arch = "wasm32"))]
    /// On the device as long as it has memory for them, then in the host's memory. The fields are as below.
    Auto {
        is_fallback: bool,
        streams: bool,
    },
    #[cfg(not(target_arch = "wasm32"))]
    /// In the host's memory. `is_fallback` says whether the host answers alone when the device fails, and `streams` whether rows whose
    /// 8-bit copy the device has no memory for become those below.
    Apart {
        is_fallback: bool,
        streams: bool,
    },
    #[cfg(not(target_arch = "wasm32"))]
    /// In the host's memory, without a copy on the device: each search sends one, window by window.
    Streamed {
        is_fallback: bool,
    },
}

impl Kept {
    /// Whether the host has the rows of a GPU's index from the start.
    pub(crate) fn is_apart(self) -> bool {
        match self {
            #[cfg(not(target_arch = "wasm32"))]
            Self::Apart { .. } | Self::Streamed { .. } => true,
            _ => false,
        }
    }
}

impl RowShape {
    /// Bytes of a row without padding.
    pub(crate) fn row_bytes(&self) -> usize {
        self.dim * self.elements.size()
    }

    /// Vectors of this kind from their bytes.
    pub(crate) fn matrix_of(&self, bytes: &[u8]) -> Result<Matrix> {
        let count = bytes.len() / self.elements.size();
        Ok(match self.elements {
            ElementKind::F32 => {
                let mut values = memory::with_room(count)?;
                values.extend(words::<f32>(bytes));
                Matrix::F32(values, self.dim)
            }
            ElementKind::F16 => {
                let mut values = memory::with_room(count)?;
                values.extend(words::<f16>(bytes));
                Matrix::F16(values, self.dim)
            }
        })
    }
}
