//! What commands are given: values of arguments, devices, files and names.

pub mod arguments;
#[cfg(feature = "parquet")]
mod columns;
pub mod device;
pub mod documents;
pub mod files;
pub mod places;
pub mod vectors;
