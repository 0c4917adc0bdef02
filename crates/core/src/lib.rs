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
//! | [`taint`], [`selector`], [`host_port`], [`volume`] | the other algebras: tolerating, selecting, colliding, attaching |
//! | [`weight`] | the order in which NodePools and NodeOverlays are tried |
//! | [`snapshot`], [`pod`], [`catalog`], [`id`], [`copy_on_write`] | the input of decisions: the cluster, its pods, the catalog |
//! | [`scheduling`] | placing pods: the solver, which pods, limits, minValues, devices, default spread |
//! | [`plan`], [`rejection`] | what was decided, and why not otherwise |
//! | [`verify`] | whether a plan can be carried out, by the rules of Kubernetes |
//! | [`lifecycle`] | the next step of one NodeClaim, from launch to finalization; repair, reboot |
//! | [`termination`] | the end of a node: tiers of a drain, evictions, volumes, the deadline |
//! | [`disruption`] | replacing and removing nodes: candidates, budgets, the methods, the search for what saves most |
//! | [`static_capacity`], [`buffers`] | replicas of static NodePools and of CapacityBuffers |
//! | [`overlay`] | NodeOverlays: price and capacity on top of what the cloud reports |
//! | `testing` (feature) | builders, small worlds in text, and what a test asks of a plan |
#![warn(missing_docs)]

mod bit_set;
pub mod buffers;
pub mod catalog;
pub mod copy_on_write;
pub mod disruption;
pub mod host_port;
pub mod id;
mod labels;
pub mod lifecycle;
pub mod overlay;
pub mod plan;
pub mod pod;
pub mod rejection;
pub mod requirement;
pub mod resources;
pub mod scheduling;
pub mod selector;
pub mod snapshot;
pub mod static_capacity;
pub mod taint;
pub mod termination;
#[cfg(feature = "testing")]
pub mod testing;
pub mod verify;
pub mod volume;
pub mod weight;
