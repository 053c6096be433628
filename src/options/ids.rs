//! Ids of any integer type.

use std::fmt::Display;

use crate::error::{Error, Result};

/// Ids are below this, so that files can hold them as i64 with -1 for none.
pub(crate) const ID_LIMIT: u64 = 1 << 63;

/// Ids of any integer type as the `u64` that indexes take, in their order.
///
/// # Errors
/// [`Error::Argument`] with the first that is negative, or [`Error::IdTooLarge`] with the first of 2^63 or more.
///
/// ```
/// assert_eq!(nearfield::to_ids([7i32, 3])?, [7, 3]);
/// assert!(nearfield::to_ids([7i64, -3]).is_err());
/// # Ok::<(), nearfield::Error>(())
/// ```
pub fn to_ids<T: TryInto<u64> + Display + Copy>(ids: impl IntoIterator<Item = T>) -> Result<Vec<u64>> {
    let id = |(place, id): (usize, T)| match id.try_into() {
        Ok(id) if id < ID_LIMIT => Ok(id),
        Ok(id) => Err(Error::IdTooLarge { id }),
        Err(_) => Err(Error::argument("ids", "0 to 2^63 - 1", format!("{id} at {place}"))),
    };
    ids.into_iter().enumerate().map(id).collect()
}
