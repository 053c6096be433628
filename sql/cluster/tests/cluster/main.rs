//! Clusters of real processes on loopback, whose answers are compared with those of one machine.

mod batch;
mod client;
mod online;
mod processes;
mod statements;
#[path = "../../../datafusion/tests/sql/support.rs"]
#[expect(dead_code, reason = "the tests of one machine use all of it")]
mod support;
