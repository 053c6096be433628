//! Vectors that grow without aborting: too little memory is an error.

use crate::error::{Error, Result};

/// Resizes to `len` values; new ones are copies of `value`.
pub(crate) fn resize<T: Clone>(values: &mut Vec<T>, len: usize, value: T) -> Result<()> {
    reserve(values, len)?;
    values.resize(len, value);
    Ok(())
}

/// Reserves memory for `len` values in all, and for more when the values have to move anyway, so that later ones need not all move again.
pub(crate) fn reserve<T>(values: &mut Vec<T>, len: usize) -> Result<()> {
    let more = len.saturating_sub(values.len());
    // An empty vector gets exactly what was asked for: this is how the capacity of an index is reserved.
    let reserved = match values.is_empty() {
        true => values.try_reserve_exact(more),
        false => values.try_reserve(more).or_else(|_| values.try_reserve_exact(more)),
    };
    reserved.map_err(|_| out_of_memory((len as u64).saturating_mul(size_of::<T>() as u64)))
}

pub(crate) fn out_of_memory(bytes: u64) -> Error {
    Error::OutOfMemory { purpose: "rows".to_owned(), bytes: Some(bytes) }
}
