//! For the project's benchmarks and tests only: any version may change it.

pub mod ceilings;
pub mod slots;
pub mod vectors_seen;

use std::path::Path;

use crate::engine::ops::distances;
use crate::engine::{Device, DeviceMatrix, DistanceMatrix};
use crate::error::Result;
use crate::index::file::Writer;
use crate::options::distance::DistanceOptions;

/// The kernels: declarations, parameters, `encode` and references.
pub mod kernels {
    pub use crate::kernels::*;
}

/// Compiles a variant as a search does, if it is one that this device uses. Returns whether it is.
///
/// # Errors
/// [`Error::Device`](crate::Error::Device) where the driver refuses it, and [`Error::Argument`](crate::Error::Argument) on the host engine.
pub fn compile(
    device: &Device,
    kernel: &'static kernels::Kernel,
    variant: &kernels::Variant,
) -> Result<bool> {
    let compiler = &device.gpu("kernels")?.compiler;
    let usual = compiler.variant(kernel, variant.elements, variant.constants.clone());
    if usual != *variant {
        return Ok(false);
    }
    compiler.get(kernel, usual).map(|_| true)
}

/// Has a device refuse the variants whose text has these words, as a driver might. None of them may have been compiled before.
///
/// # Errors
/// [`Error::Argument`](crate::Error::Argument) on the host engine.
pub fn refuse(device: &Device, words: &'static str) -> Result<()> {
    device.gpu("kernels")?.compiler.refuse(words);
    Ok(())
}

/// A kernel's text with its products of bytes in plain arithmetic, for drivers that refuse the others; none if it has no such products.
pub fn with_spelled_products(text: &str) -> Option<String> {
    crate::gpu::with_spelled_products(text)
}

/// The SPIR-V that a device with matrices of bytes runs for such a variant, with this text.
///
/// # Errors
/// Where naga refuses the text, or writes what is not known.
pub fn with_byte_matrices(
    kernel: &kernels::Kernel,
    variant: &kernels::Variant,
    text: &str,
) -> Result<Vec<u32>> {
    crate::gpu::words_of_bytes(kernel, variant, text)
}

/// The intervals that screens certify.
pub mod certificate {
    pub use crate::metric::Form;
    pub use crate::screen::certificate::*;
}

/// The distances of [`Device::distances_with`], with as few queries a submission as there can be.
///
/// # Errors
/// [`Error::OutOfMemory`](crate::Error::OutOfMemory), and [`Error::Argument`](crate::Error::Argument) on the host engine.
pub fn in_smallest_bands(
    device: &Device,
    vectors: [&DeviceMatrix; 2],
    options: DistanceOptions,
) -> Result<DistanceMatrix> {
    let gpu = device.gpu("distances")?;
    device.block_on(distances::in_smallest_bands(gpu, vectors, options))
}

/// A tensor of a file: its name, type, shape and bytes.
pub type Tensor<'t> = (&'t str, safetensors::Dtype, &'t [usize], &'t [u8]);

/// Writes a file in the format of saved indexes, with right checksums whatever it contains.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io), and [`Error::Argument`](crate::Error::Argument) for bytes that are not those of the shape.
pub fn write_file(path: &Path, metadata: &[(&str, String)], tensors: &[Tensor<'_>]) -> Result<()> {
    let heads: Vec<_> = tensors.iter().map(|&(name, dtype, shape, _)| (name, dtype, shape)).collect();
    let mut writer = Writer::create(path, metadata, &heads)?;
    for (name, .., bytes) in tensors {
        writer.write(name, bytes)?;
    }
    writer.finish()
}

/// Whether two devices are one GPU, or clones of one device.
pub fn are_same_hardware(one: &Device, other: &Device) -> bool {
    one.is_same_hardware(other)
}
