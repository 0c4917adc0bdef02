//! The KWOK provider: a cloud whose instances are Node objects without a kubelet (spec 40 §10).
//!
//! [`catalog`] holds its instance types. It serves `karpenter plan` and scale tests as well, since
//! it needs no cloud account. [`provider`] launches from it.

pub mod catalog;
mod node;
pub mod provider;

pub use node::PROVIDER_ID_PREFIX;
