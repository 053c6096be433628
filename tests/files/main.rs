//! Tests of vector files, saved indexes and the documents.
#![cfg(feature = "internals")]

#[path = "../common/mod.rs"]
mod common;

mod forged;
mod io;
mod judge;
#[cfg(unix)]
mod killed;
mod log;
mod persist;
mod readme;
