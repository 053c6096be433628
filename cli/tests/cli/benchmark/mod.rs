//! `nearfield bench`: its suites, peers, comparisons and report.

mod bench;
mod compare;
mod peers;
mod reduce;
mod report;
mod select;
