//! Memory for large arrays, refused with an error if there is too little.

use std::hint::black_box;

use anyhow::{Context, Result, ensure};

use crate::terminal::output;

const SPARE_BYTES: usize = 1 << 20;

/// An array of `count` equal values. `None` stands for a count that overflows; `about` is the error.
pub(crate) fn filled<T: Clone>(
    count: Option<usize>,
    value: T,
    about: impl FnOnce() -> String,
) -> Result<Vec<T>> {
    let mut values: Vec<T> = vec![];
    let count = count.filter(|&count| values.try_reserve_exact(count).is_ok()).with_context(about)?;
    values.resize(count, value);
    Ok(values)
}

/// Fails unless this many bytes can be taken now, and some more for messages. For many small arrays, which nobody asks for one by one.
pub(crate) fn ensure_free(bytes: Option<usize>, about: impl FnOnce() -> String) -> Result<()> {
    let bytes = bytes.and_then(|bytes| bytes.checked_add(SPARE_BYTES));
    let is_free = |&bytes: &usize| black_box(&mut Vec::<u8>::new()).try_reserve_exact(bytes).is_ok();
    bytes.filter(is_free).map(drop).with_context(about)
}

/// Fails unless `count` things of `length` f32 values each fit the free memory, and says how many would. A system that
/// promises more memory than it has would end the run without a word.
pub(crate) fn ensure_fit(argument: &str, count: usize, things: &str, length: usize) -> Result<()> {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    let limit = system.cgroup_limits().map_or(u64::MAX, |limits| limits.free_memory);
    let free = limit.min(system.available_memory());
    let each = 4 * length.max(1) as u64;
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
