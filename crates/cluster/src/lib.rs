//! The mirror: watch events in, core snapshots out.
//!
//! Wire objects are parsed here once per change into values of `karpenter-core` ([`ingest`]); a
//! single writer keeps them ([`mirror`]) and readers get immutable snapshots that share what did not
//! change (`snapshot_view`). What we are about to do is kept beside what is, with an expiry ([`assumptions`]),
//! and so is what it all costs ([`cost`]). A broken object becomes a marked value with a reason,
//! never a panic. Nothing here talks to an API server.

pub mod assumptions;
pub mod cost;
pub mod ingest;
pub mod mirror;
mod snapshot_view;
pub mod wire;
