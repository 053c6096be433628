//! Compiles the variants of kernels, each once a device: on first use, or ahead of it on threads of its own.

mod ahead;
#[cfg(any(target_os = "linux", target_os = "android", windows))]
mod byte_matrices;
mod choice;
mod compile;
mod file;
mod forms;
#[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
mod no_byte_matrices;
mod refusals;
mod variant;

pub(crate) use ahead::Wanted;
pub(super) use ahead::{Ahead, WantedForms};
#[cfg(all(feature = "internals", any(target_os = "linux", target_os = "android", windows)))]
pub(crate) use byte_matrices::words_of_bytes;
pub(super) use compile::Compiler;
pub(crate) use forms::{FormChoice, FormTimes};
#[cfg(all(feature = "internals", not(any(target_os = "linux", target_os = "android", windows))))]
pub(crate) use no_byte_matrices::words_of_bytes;
pub(super) use refusals::multiplies_bytes;
#[cfg(feature = "internals")]
pub(crate) use refusals::with_spelled_products;
pub use refusals::{KernelForms, Refusal};
