//! Wire types: what users write and read.
//!
//! Every kind, label, annotation, taint, condition, reason and text grammar of the product's
//! interface, once. The crate parses and checks texts and decides nothing: the requirement algebra
//! and budget allowance are in `karpenter-core`, on plain values. It knows no other workspace
//! crate and does no I/O.
//!
//! Start with [`nodepool`], then [`crds`], which renders every kind as a
//! CustomResourceDefinition.
#![warn(missing_docs)]
// Every `printcolumn` of a kind is an attribute of the same name.
#![allow(clippy::duplicated_attributes)]

mod serde_default;

pub mod annotations;
pub mod capacity_buffer;
pub mod condition_set;
pub mod conditions;
pub mod crds;
pub mod ec2_nodeclass;
pub mod finalizers;
pub mod grammar;
pub mod hash;
pub mod kubelet;
pub mod kwok_nodeclass;
pub mod labels;
pub mod node_class_ref;
pub mod nodeclaim;
pub mod nodeoverlay;
pub mod nodepool;
pub mod reasons;
pub mod requirement;
pub mod resources;
pub mod schema;
pub mod tags;
pub mod taints;
pub mod validation;
