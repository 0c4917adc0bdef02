//! Ports and the reconcile harness.
//!
//! The foundation of every controller, without decisions: options, clock, random numbers, the
//! `CloudProvider` port and its decorators, client, watches, leader election, events, metrics,
//! conditions, health. The harness knows nothing of nodes or pods.

pub mod client;
pub mod clock;
pub mod cloud;
pub mod compute;
pub mod events;
pub mod harness;
pub mod health;
pub mod leader_election;
pub mod metrics;
pub mod options;
pub mod provider;
pub mod rng;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
pub mod watch;
pub mod write;
pub mod yaml_limits;
pub mod yaml_lines;
