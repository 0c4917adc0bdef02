//! An embedded Kubernetes API, usable on its own.
//!
//! Knows nothing of Karpenter. So far it holds [`admission`]: what an API server does with an
//! object of a custom kind between reading and storing it (pruning, defaults, schema and CEL
//! validation), with the messages that the real one gives.

pub mod admission;
#[cfg(feature = "testing")]
pub mod testing;
