//! Replacing and removing nodes: what allows it and what forbids it.

pub mod budget;
pub mod cron;
pub mod do_not_disrupt;
mod eviction_cost;
mod reason;

pub use eviction_cost::eviction_cost;
pub use reason::Reason;
