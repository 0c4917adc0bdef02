//! The KWOK provider: a cloud whose instances are Node objects that nobody runs (spec 40 §10).
//!
//! [`catalog`] holds what it offers. It serves `karpenter plan` and scale tests as well, since it
//! needs no account anywhere. [`provider`] launches from it.

pub mod catalog;
mod node;
pub mod provider;

pub use node::PROVIDER_ID_PREFIX;
