//! What commands are given: values of arguments, devices, files and names.

pub(crate) mod arguments;
#[cfg(feature = "sql")]
mod columns;
pub(crate) mod device;
pub(crate) mod files;
pub(crate) mod labels;
mod place;
pub(crate) mod places;
pub(crate) mod vectors;
