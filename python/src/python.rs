//! What this module takes from the package's Python files, each looked up once.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// Writes functions that return an attribute of a module.
macro_rules! imports {
    ($($(#[$doc:meta])* $name:ident = $module:literal $attribute:literal;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
            static FOUND: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            let find = || Ok::<_, PyErr>(py.import($module)?.getattr($attribute)?.unbind());
            Ok(FOUND.get_or_try_init(py, find)?.bind(py).clone())
        }
    )*};
}

imports! {
    /// The error that is neither a `ValueError` nor a `TypeError`.
    error = "nearfield._types" "Error";
    out_of_memory = "nearfield._types" "OutOfMemory";
    neighbors = "nearfield._types" "Neighbors";
    ranking = "nearfield._types" "Ranking";
    ragged = "nearfield._types" "Ragged";
    csr = "nearfield._types" "Csr";
    pairs = "nearfield._types" "Pairs";
    duplicates = "nearfield._types" "Duplicates";
    spanning_tree = "nearfield._types" "SpanningTree";
    density_clusters = "nearfield._types" "DensityClusters";
    adapter = "nearfield._types" "Adapter";
    /// Any array, tensor or list as rows in C order: `to_rows(object, argument, one_vector)`.
    to_rows = "nearfield._arrays" "to_rows";
    to_values = "nearfield._arrays" "to_values";
    to_ids = "nearfield._arrays" "to_ids";
    /// The ids `[queries, candidates]`, one query after the other: `to_candidates(object, queries)`.
    to_candidates = "nearfield._arrays" "to_candidates";
    /// A filter that is no function: `to_filter(object)` gives ids or a boolean mask.
    to_filter = "nearfield._arrays" "to_filter";
    /// Token vectors as rows, and where those of each document or query begin, or None: `to_tokens(object, argument, prefix, mask, offsets,
    /// dim)`.
    to_tokens = "nearfield._documents" "to_tokens";
    to_offsets = "nearfield._documents" "to_offsets";
    to_weights = "nearfield._documents" "to_weights";
    start_progress = "nearfield._progress" "start";
    search_async = "nearfield._async" "search";
    unpickled = "nearfield._unpickled" "index";
    unpickled_documents = "nearfield._unpickled" "documents";
    dtype = "numpy" "dtype";
    zeros = "numpy" "zeros";
}

/// An exception of one of the classes above.
pub(crate) fn exception(class: PyResult<Bound<'_, PyAny>>, message: String) -> PyErr {
    match class.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
        Ok(class) => PyErr::from_type(class, message),
        Err(error) => error,
    }
}
