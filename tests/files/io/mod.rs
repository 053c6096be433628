//! Tests of the readers and writers of vector files.

mod bytes;
mod conversion;
mod damage;
mod formats;
mod hdf5;
mod writing;
