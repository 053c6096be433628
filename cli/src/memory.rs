//! Memory for large arrays, refused with an error if there is too little.

use std::hint::black_box;

use anyhow::{Context, Result, ensure};

use crate::terminal::output;

/// Bytes that stay free beside large arrays, for what takes little memory without asking.
const SPARE_BYTES: usize = 1 << 20;

/// An array of `count` equal values. `None` stands for a count that overflows; `about` is the error.
pub fn filled<T: Clone>(count: Option<usize>, value: T, about: impl FnOnce() -> String) -> Result<Vec<T>> {
    let mut values = with_room(count, about)?;
    values.resize(count.unwrap_or(0), value);
    Ok(values)
}

/// An empty array with room for `count` values, refused like that of [`filled`].
pub fn with_room<T>(count: Option<usize>, about: impl FnOnce() -> String) -> Result<Vec<T>> {
    let mut values: Vec<T> = vec![];
    let has_room = |&count: &usize| {
        values.try_reserve_exact(count).is_ok()
            && (count * size_of::<T>() < SPARE_BYTES
                // Otherwise the compiler leaves out memory that nobody uses.
                || black_box(&mut Vec::<u8>::new()).try_reserve_exact(SPARE_BYTES).is_ok())
    };
    count.filter(has_room).with_context(about)?;
    Ok(values)
}

/// Fails unless `count` things of `length` f32 values each fit the free memory, and says how many would. A system that
/// promises more memory than it has would end the run without a word.
pub fn ensure_fit(argument: &str, count: usize, things: &str, length: usize) -> Result<()> {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    let limit = system.cgroup_limits().map_or(u64::MAX, |limits| limits.free_memory);
    let free = limit.min(system.available_memory());
    let each = 4u64.saturating_mul(length as u64);
    let bytes = (count as u64).saturating_mul(each);
    // Zero: the system does not say.
    ensure!(
        free == 0 || bytes <= free,
        "{argument}: {count} {things} do not fit the memory: they take {}, and {} are free, enough for {}",
        output::bytes(bytes),
        output::bytes(free),
        free / each
    );
    Ok(())
}
