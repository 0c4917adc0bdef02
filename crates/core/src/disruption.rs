//! Replacing and removing nodes: what allows it and what forbids it.

pub mod budget;
pub mod cron;
pub mod do_not_disrupt;
mod reason;

pub use reason::Reason;
