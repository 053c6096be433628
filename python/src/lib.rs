//! The Python module `nearfield._native`: nearfield's indexes over numpy arrays.
//!
//! Arguments become views of the caller's memory (`vectors`, `ids`), the library computes without the interpreter (`call`), and answers
//! become numpy arrays (`answers`). What needs no speed is written in Python, beside `nearfield/__init__.py`.

mod answers;
mod arrow;
mod call;
mod device;
mod documents;
mod errors;
mod functions;
mod given;
mod ids;
mod index;
mod kinds;
mod kmeans;
mod pairwise;
mod python;
mod shared;
mod tokens;
mod vectors;

/// The module. It says that it needs no lock of the interpreter: what is shared is behind locks of its own.
#[pyo3::pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::call::{Cancel, end, forked, is_forked};
    #[pymodule_export]
    use crate::device::{Device, devices};
    #[pymodule_export]
    use crate::documents::{MultiVector, maxsim};
    #[pymodule_export]
    use crate::functions::{distances, knn, quantize, reduce};
    #[pymodule_export]
    use crate::index::Index;
    #[pymodule_export]
    use crate::kinds::{Flat, Ivf, from_bytes, load};
    #[pymodule_export]
    use crate::kmeans::KMeans;
    #[pymodule_export]
    use crate::pairwise::{dbscan, duplicates, knn_graph, pairs_within, spanning_tree};
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
