//! Ports and the reconcile harness.
//!
//! What every controller stands on and nothing that decides: options, clock, chance, the
//! `CloudProvider` port and its decorators, client, watches, leader election, events, metrics,
//! conditions, health. The harness knows nothing of nodes or pods.

pub mod chance;
pub mod clock;
pub mod cloud;
pub mod harness;
pub mod kwok;
#[cfg(feature = "testing")]
pub mod testing;
