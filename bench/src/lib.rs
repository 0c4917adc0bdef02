//! Workloads, compared with upstream and measured beside it in one run. Results with the command
//! that made them go to `bench/results`.
//!
//! - [`generate`]: random clusters from a seed.
//! - [`decision`]: what upstream's program or ours says about a cluster.
//! - [`parity`]: are the decisions the same?
//! - [`scheduling`]: how much faster, and with how much memory?
//! - [`measure`]: one measurement of our own solve.
//!
//! Deliberately knows nothing of how a decision is made: both sides are programs that are given a
//! file. The one exception is the program `solve`, which measures ours without reading and printing.

mod catalogue;
pub mod cli;
pub mod decision;
pub mod generate;
pub mod host;
mod load;
pub mod measure;
pub mod parity;
pub mod random;
pub mod scheduling;
