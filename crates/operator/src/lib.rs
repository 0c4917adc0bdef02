//! Ports and the reconcile harness.
//!
//! What every controller stands on and nothing that decides: options, clock, chance, the
//! `CloudProvider` port and its decorators, client, watches, leader election, events, metrics,
//! conditions, health. The harness knows nothing of nodes or pods.

pub mod chance;
pub mod client;
pub mod clock;
pub mod cloud;
pub mod devices;
pub mod events;
pub mod harness;
pub mod health;
pub mod kwok;
pub mod leader;
pub mod metrics;
pub mod options;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
pub mod think;
pub mod watch;
pub mod write;
