//! In place of `byte_matrices.rs` where there is no Vulkan, and so no adapter that lists such matrices.

use crate::error::{Error, Result};
use crate::gpu::kernel::{Kernel, Variant};

pub(crate) fn words_of_bytes(kernel: &Kernel, _: &Variant, _: &str) -> Result<Vec<u32>> {
    Err(Error::internal(format!("kernel {}: matrices of bytes without Vulkan", kernel.name)))
}
