//! Workloads, compared with upstream and measured beside it in one run. Results with the command
//! that made them go to `bench/results`.
//!
//! - [`generate`]: random clusters from a seed.
//! - [`decision`]: what upstream's program or ours says about a cluster.
//! - [`parity`]: are the decisions the same?
//! - [`scheduling`]: how much faster, and with how much memory?
//! - [`api`]: how fast and how large is the embedded API?
//! - [`measure`]: one measurement of our own solve.
//!
//! Deliberately knows nothing of how a decision is made: both sides are programs that are given a
//! file. The one exception is the program `solve`, which measures ours without reading and printing.

pub mod api;
mod catalogue;
pub mod cli;
pub mod decision;
pub mod generate;
pub mod host;
mod limit;
mod load;
mod machine;
pub mod measure;
pub mod parity;
pub mod random;
pub mod scheduling;
