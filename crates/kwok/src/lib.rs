//! The KWOK provider: a cloud whose instances are Node objects without a kubelet (spec 40 §10).
//!
//! [`provider`] plugs it into a process. [`catalog`] holds its instance types, which serve
//! `karpenter plan` and scale tests as well, since they need no cloud account. [`cloud`] launches
//! from them, and [`repair`] repairs simulated faults.

pub mod catalog;
pub mod cloud;
mod node;
pub mod provider;
pub mod repair;

pub use cloud::KwokCloud;
pub use node::PROVIDER_ID_PREFIX;
pub use provider::KwokProvider;
