//! Tests of vector files, saved indexes and the documents.

#[path = "../common/mod.rs"]
mod common;

mod io;
mod judge;
#[cfg(unix)]
mod killed;
mod persist;
mod readme;
