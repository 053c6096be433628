//! What the user sees and does meanwhile: lines, progress bars, and Ctrl-C.

pub(crate) mod interrupt;
pub(crate) mod output;
pub(crate) mod progress;
