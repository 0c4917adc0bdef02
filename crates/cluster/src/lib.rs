//! The mirror: watch events in, core snapshots out.
//!
//! Wire objects are parsed here once per change into values of `karpenter-core` ([`ingest`]); a
//! single writer keeps them ([`mirror`]) and readers get immutable snapshots that share all
//! unchanged values (`snapshot_view`). Nominations and deletion marks are kept besides, with an
//! expiry ([`assumptions`]), and so are the costs of the nodes ([`cost`]). An invalid object
//! becomes a diagnostic with a reason, never a panic. Nothing here talks to an API server.

pub mod assumptions;
pub mod cost;
pub mod ingest;
pub mod mirror;
mod snapshot_view;
pub mod wire;
