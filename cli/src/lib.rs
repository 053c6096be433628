//! What the programs of nearfield share: arguments, files and devices that are given, lines on a terminal, recall.
//!
//! The program `nearfield` is the product of this package. The library serves the project's other programs, and any version may
//! change it.
#![expect(
    missing_docs,
    missing_debug_implementations,
    reason = "other programs of this repository use it, and names say what is not written"
)]

pub mod given;
pub mod memory;
pub mod recall;
pub mod terminal;
