//! Workloads, compared with upstream and measured beside it in one run. Results with the command
//! that made them go to `bench/results`.
//!
//! - [`generate`]: random clusters from a seed.
//! - [`decision`] and [`consolidation`]: what upstream's program or ours says about a cluster.
//! - [`parity`]: are the decisions the same?
//! - [`scheduling`] and [`disruption`]: how much faster, and with how much memory?
//! - [`api`]: how fast and how large is the embedded API?
//! - [`cluster`]: what does the controller cost on a real control plane?
//! - [`measure`]: one measurement of our own solve.
//!
//! Deliberately knows nothing of how a decision is made: both sides are programs that are given a
//! file. The exceptions are the programs `solve` and `disrupt`, which measure ours without reading and
//! printing.

pub mod api;
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
