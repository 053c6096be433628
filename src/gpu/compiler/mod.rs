//! Compiles the variants of kernels, each once a device: on first use, or ahead of it on threads of its own.

mod ahead;
#[cfg(any(target_os = "linux", target_os = "android", windows))]
mod byte_matrices;
mod choice;
mod compile;
mod file;
mod forms;
mod refusals;

pub(crate) use ahead::Wanted;
pub(super) use ahead::{Ahead, WantedForms};
pub(super) use compile::Compiler;
#[cfg(feature = "internals")]
pub(crate) use compile::words_of_bytes;
pub(crate) use forms::{FormChoice, FormTimes};
pub(super) use refusals::multiplies_bytes;
#[cfg(feature = "internals")]
pub(crate) use refusals::with_spelled_products;
pub use refusals::{KernelForms, Refusal};
