//! Compiles the variants of kernels, each once a device: on first use, or ahead of it on threads of its own.

mod ahead;
mod compile;
mod file;

pub(super) use ahead::Ahead;
pub(crate) use ahead::Wanted;
pub(super) use compile::Compiler;
