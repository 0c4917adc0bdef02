//! Decisions: pure functions over plain data.
//!
//! The calculator of the product. It knows no Kubernetes type, no clock, no I/O, no async, no log
//! and no randomness: the same input gives the same answer, byte for byte. What cannot be done is
//! a value with a reason, not an error.
//!
//! | Module | Owns |
//! |---|---|
//! | [`requirement`] | which label values a node may have: the algebra under everything else |
//! | [`resources`] | exact quantities and maps of them |
//! | [`taint`] | taints that are expected to go away by themselves |
//! | [`weight`] | the order in which NodePools and NodeOverlays are tried |
//! | [`scheduling`] | placing pods: limits of a NodePool, minValues |
//! | [`disruption`] | replacing and removing nodes: budgets, do-not-disrupt |
//! | [`static_capacity`], [`buffers`] | replicas of static NodePools and of CapacityBuffers |
//! | [`overlay`] | NodeOverlays: price and capacity on top of what the cloud reports |
//! | [`go`] | Go's durations and integers, where users write or read them |
#![warn(missing_docs)]

pub mod buffers;
pub mod disruption;
pub mod go;
pub mod lifecycle;
pub mod overlay;
pub mod requirement;
pub mod resources;
pub mod scheduling;
pub mod static_capacity;
pub mod taint;
pub mod weight;
