//! Workloads, compared with upstream and measured beside it in one run. Results with the command
//! that made them go to `bench/results`.
//!
//! - [`generate`]: random clusters from a seed.
//! - [`decision`] and [`consolidation`]: runs upstream's program or ours on a cluster.
//! - [`parity`]: compares the decisions.
//! - [`scheduling`] and [`disruption`]: compares time and memory.
//! - [`api`]: measures the embedded API.
//! - [`aws_catalog`]: measures instance types of AWS.
//! - [`cluster`]: measures the controller on a real control plane.
//! - [`measure`]: one measurement of our own solve.
//!
//! Contains no decision code: both sides are programs that read a file. The exceptions are the
//! programs `solve`, `disrupt` and `aws-catalog`, which measure our code without reading and
//! printing.

pub mod api;
pub mod aws_catalog;
mod bench_host;
mod catalog;
pub mod cli;
pub mod cluster;
pub mod consolidation;
pub mod decision;
pub mod disruption;
pub mod generate;
pub mod host;
mod limit;
mod load;
pub mod measure;
pub mod parity;
pub mod random;
mod results_page;
pub mod scheduling;
mod selection;
