//! Checks of arguments that every index makes when it is built, and before it takes rows or queries.

use crate::engine::Devices;
use crate::error::{Error, Result};

/// The largest dim for which the margins of rounding are proved (docs/certified-search.md).
pub(crate) const MAX_DIM: usize = 1 << 20;

pub(crate) fn check_dim(dim: usize) -> Result<()> {
    if dim == 0 || dim > MAX_DIM {
        return Err(Error::argument("dim", format!("1 to {MAX_DIM}"), dim));
    }
    Ok(())
}

/// The scratch budget of an index: the requested one, which may not exceed the device's, or the device's. Of several
/// devices the smallest budget counts.
pub(crate) fn budget_of(devices: &Devices, asked: Option<u64>) -> Result<u64> {
    let budgets = devices.list().iter().map(|device| device.options().budget_bytes);
    let whole = budgets.min().unwrap_or(0);
    match asked {
        Some(needed) if needed > whole => {
            let purpose = "an index (the device was opened with a smaller budget)".to_owned();
            Err(Error::Budget { purpose, needed, budget: whole })
        }
        asked => Ok(asked.unwrap_or(whole)),
    }
}

pub(crate) fn check_k(k: usize) -> Result<()> {
    if k == 0 {
        return Err(Error::argument("k", "at least 1", k));
    }
    Ok(())
}
