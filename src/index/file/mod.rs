//! Indexes as files. `docs/files.md` of the repository, which no package contains, describes the format.
//!
//! [`Writer`] and [`Reader`] handle tensors and strings and know nothing about indexes. Saving streams rows from the device
//! to the disk in pieces of a few MiB, and loading streams them back. Neither holds all rows in host memory.

mod header;
mod reader;
mod source;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use header::digits;
pub(crate) use reader::Reader;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use reader::verify;
pub(crate) use safetensors::Dtype;
pub(crate) use writer::Writer;
