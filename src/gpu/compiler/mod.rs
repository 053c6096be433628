//! Compiles the variants of kernels, each once a device: on first use, or ahead of it on threads of its own.

mod ahead;
mod compile;
mod file;
mod forms;

pub(crate) use ahead::Wanted;
pub(super) use ahead::{Ahead, WantedForms};
pub(super) use compile::Compiler;
pub(crate) use compile::FormChoice;
pub(crate) use forms::FormTimes;
