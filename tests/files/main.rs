//! Tests of vector files, saved indexes and the documents.

#[path = "../common/mod.rs"]
mod common;

mod hdf5;
mod io;
mod judge;
mod persist;
mod readme;
