//! Memory that grows with the data: too little of it is an error, not an abort.

use std::collections::TryReserveError;
use std::hint::black_box;

use crate::error::{Error, Result};

/// Bytes that stay free when much memory is taken, for what takes little of it without asking: messages, and the scratch memory of threads.
const SPARE_BYTES: usize = 1 << 20;

/// Requests of fewer bytes do not look for spare memory, which costs a system call.
const SMALL_BYTES: u64 = 1 << 16;

/// Resizes to `len` values; new ones are copies of `value`.
pub(crate) fn resize<T: Clone>(values: &mut Vec<T>, len: usize, value: T) -> Result<()> {
    reserve(values, len)?;
    values.resize(len, value);
    Ok(())
}

/// Reserves memory for `len` values in all, and for more when the values have to move anyway, so that later ones need not all move again.
pub(crate) fn reserve<T>(values: &mut Vec<T>, len: usize) -> Result<()> {
    if len > values.capacity() && !values.is_empty() && values.try_reserve(len - values.len()).is_ok() {
        return granted(Ok(()), (len as u64).saturating_mul(size_of::<T>() as u64));
    }
    reserve_exact(values, len)
}

/// Reserves memory for `len` values in all, and for no more.
pub(crate) fn reserve_exact<T>(values: &mut Vec<T>, len: usize) -> Result<()> {
    if len <= values.capacity() {
        return Ok(());
    }
    let reserved = values.try_reserve_exact(len - values.len());
    granted(reserved, (len as u64).saturating_mul(size_of::<T>() as u64))
}

/// Reserves memory for this many more values.
pub(crate) fn reserve_more<T>(values: &mut Vec<T>, more: usize) -> Result<()> {
    reserve(values, values.len().saturating_add(more))
}

/// Frees memory beyond that of `len` values.
pub(crate) fn shrink<T>(values: &mut Vec<T>, len: usize) {
    if align_of::<T>() <= align_of::<u64>() {
        return values.shrink_to(len);
    }
    // The allocator of the system moves values of a larger alignment, for which there may be no memory: then they stay.
    let len = len.max(values.len());
    let mut moved = vec![];
    if len < values.capacity() && moved.try_reserve_exact(len).is_ok() {
        moved.append(values);
        *values = moved;
    }
}

/// The result of a reservation of this many bytes, which has to leave some memory free.
pub(crate) fn granted(reserved: Result<(), TryReserveError>, bytes: u64) -> Result<()> {
    match reserved {
        Ok(()) if bytes < SMALL_BYTES || is_free(SPARE_BYTES) => Ok(()),
        _ => Err(out_of_memory(bytes)),
    }
}

/// Refuses work that would soon take this many bytes of scratch memory without asking, if they are not free now. Little work is not
/// checked.
pub(crate) fn check_scratch(bytes: u64) -> Result<()> {
    let is_little = bytes < SPARE_BYTES as u64;
    match is_little || usize::try_from(bytes).is_ok_and(is_free) {
        true => Ok(()),
        false => Err(out_of_memory(bytes)),
    }
}

/// Refuses work of other libraries that takes up to this many bytes without asking, if they are not free now beside the spare memory.
pub(crate) fn check_free(purpose: &'static str, bytes: u64) -> Result<()> {
    match usize::try_from(bytes).is_ok_and(|bytes| is_free(bytes.saturating_add(SPARE_BYTES))) {
        true => Ok(()),
        false => Err(Error::OutOfMemory { purpose: purpose.into(), bytes: Some(bytes) }),
    }
}

/// Refuses work that took this many bytes in small pieces, none of which looked for spare memory, if none is left.
pub(crate) fn check_small(bytes: usize) -> Result<()> {
    granted(Ok(()), bytes as u64)
}

fn is_free(bytes: usize) -> bool {
    let mut free = Vec::<u8>::new();
    let reserved = free.try_reserve_exact(bytes);
    // Otherwise the compiler leaves out memory that nobody uses.
    black_box(&mut free);
    reserved.is_ok()
}

/// A vector of `len` copies of `value`.
pub(crate) fn filled<T: Clone>(len: usize, value: T) -> Result<Vec<T>> {
    let mut values = vec![];
    resize(&mut values, len, value)?;
    Ok(values)
}

/// An empty vector with room for `len` values.
pub(crate) fn with_room<T>(len: usize) -> Result<Vec<T>> {
    let mut values = vec![];
    reserve(&mut values, len)?;
    Ok(values)
}

/// Collects values whose number is known.
pub(crate) fn collect<T>(given: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut values = with_room(given.len())?;
    values.extend(given);
    Ok(values)
}

pub(crate) fn copied<T: Copy>(given: &[T]) -> Result<Vec<T>> {
    collect(given.iter().copied())
}

pub(crate) fn out_of_memory(bytes: u64) -> Error {
    // The error takes no memory itself.
    Error::OutOfMemory { purpose: "an index or a search on the host".into(), bytes: Some(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_is_an_error_with_its_bytes() {
        let mut values = vec![1u64, 2];
        for refused in [
            reserve(&mut values, usize::MAX / 16),
            resize(&mut values, usize::MAX / 16, 0),
            filled(usize::MAX / 16, 0u64).map(drop),
        ] {
            let bytes = Some((usize::MAX / 16) as u64 * 8);
            assert!(matches!(refused, Err(Error::OutOfMemory { bytes: asked, .. }) if asked == bytes));
        }
        assert_eq!(values, [1, 2]);
    }
}
