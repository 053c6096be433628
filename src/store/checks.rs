//! What every index checks before it is made, and before it takes rows.

use crate::engine::{Device, Queries};
use crate::error::{Error, Result};
use crate::matrix::ElementKind;

/// The margins of rounding are proved up to this (docs/certified-search.md).
pub(crate) const MAX_DIM: usize = 1 << 20;

/// Whether an index can have vectors of this dim.
pub(crate) fn check_dim(dim: usize) -> Result<()> {
    if dim == 0 || dim > MAX_DIM {
        return Err(Error::argument("dim", format!("1 to {MAX_DIM}"), dim));
    }
    Ok(())
}

/// The scratch budget of an index: what was asked for, or the device's whole one, which it may not exceed.
pub(crate) fn budget_of(device: &Device, asked: Option<u64>) -> Result<u64> {
    let whole = device.options().budget_bytes;
    match asked {
        Some(needed) if needed > whole => {
            let purpose = "an index (the device was opened with a smaller budget)".to_owned();
            Err(Error::Budget { purpose, needed, budget: whole })
        }
        asked => Ok(asked.unwrap_or(whole)),
    }
}

/// Whether an index of a dim and element type can take rows of another.
pub(crate) fn check_rows(
    argument: &'static str,
    (dim, elements): (usize, ElementKind),
    (row_dim, row_elements): (usize, ElementKind),
) -> Result<()> {
    if row_dim != dim {
        return Err(Error::argument(argument, format!("dim {dim}, as the index has"), row_dim));
    }
    if elements == ElementKind::F16 && row_elements == ElementKind::F32 {
        return Err(Error::argument(argument, "f16 rows, because the index stores f16", "f32 rows"));
    }
    Ok(())
}

/// Queries of the index's dim, in the host's memory or on the index's device.
pub(crate) fn check_queries(queries: &Queries<'_>, device: &Device, dim: usize) -> Result<()> {
    if queries.dim() != dim {
        return Err(Error::argument("queries", format!("dim {dim}, as the index has"), queries.dim()));
    }
    queries.check_device(device)
}

/// How many rows are wanted.
pub(crate) fn check_k(k: usize) -> Result<()> {
    if k == 0 {
        return Err(Error::argument("k", "at least 1", k));
    }
    Ok(())
}
