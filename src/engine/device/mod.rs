//! Devices, and what the caller keeps on them.

pub(crate) mod handle;
pub(crate) mod queries;
pub(crate) mod record;
pub(crate) mod values;
