//! The mirror: watch events in, core snapshots out.
//!
//! Wire objects are parsed here once per change into values of `karpenter-core` ([`ingest`]); a
//! single writer keeps them ([`mirror`]) and readers get immutable snapshots that share what did not
//! change (`publish`). What we are about to do is kept beside what is, with an expiry ([`assume`]),
//! and so is what it all costs ([`cost`]). A broken object becomes a marked value with a reason,
//! never a panic. Nothing here talks to an API server.

pub mod assume;
pub mod cost;
pub mod ingest;
pub mod mirror;
mod publish;
pub mod wire;
