//! Generates, runs and checks many worlds, each with objects, steps and faults from one seed.
//!
//! ```text
//! seed ── generate ──▶ Plan ── run ──▶ Outcome: what was wrong, and how much happened
//!                               ├─ check          rules over the whole world, now and then
//!                               ├─ write_checker  each deletion of the product, when it happens
//!                               ├─ commands       each disruption by the product, start to end
//!                               └─ invariants     limits of pools; at the end: all runs, no writes
//! ```
//!
//! A world is a simulated day: twenty hours in which things happen, then faults end, everything
//! comes to rest, and for an hour the product must not write at all. One seed gives one world,
//! always the same, so a seed that fails is a bug report. [`runner`] runs a range of them on all
//! cores.

mod commands;
pub mod generate;
mod invariants;
mod log_subscriber;
pub mod plan;
mod run;
pub mod runner;
mod write_checker;

#[cfg(test)]
mod tests;

pub use self::plan::{Options, Plan};
pub use self::run::{Outcome, Stats, replay, run};
