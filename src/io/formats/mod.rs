//! The formats of files.

pub(super) mod archive;
#[cfg(feature = "hdf5")]
pub(super) mod dataset;
#[cfg(feature = "hdf5")]
pub(super) mod hdf5;
mod inflate;
pub(super) mod npy;
pub(super) mod npz;
pub(super) mod raw;
pub(super) mod tensors;
pub(super) mod text;

pub(super) use inflate::Inflater;
