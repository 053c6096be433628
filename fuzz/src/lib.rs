//! Fuzz targets: functions of any bytes that panic when nearfield does something wrong.
//!
//! The driver of this package mutates files and lives and runs the targets on them; `libfuzzer/` has the same targets for cargo-fuzz.

mod index_files;
mod lives;
pub mod mutate;
mod vector_files;

/// A target: its name, its function, and bytes to start from.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name, on the command line and in cargo-fuzz.
    pub name: &'static str,
    /// Panics when something is wrong.
    pub run: fn(&[u8]),
    /// Makes inputs that are sound, or nearly so.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: [Target; 5] = [
    Target { name: "index", run: index_files::index, seeds: index_files::seeds },
    Target { name: "npy", run: vector_files::npy, seeds: vector_files::npy_seeds },
    Target { name: "npz", run: vector_files::npz, seeds: vector_files::npz_seeds },
    Target { name: "raw", run: vector_files::raw, seeds: vector_files::raw_seeds },
    Target { name: "life", run: lives::life, seeds: lives::seeds },
];
