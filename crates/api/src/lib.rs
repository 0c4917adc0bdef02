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

pub mod annotations;
pub mod condition_set;
pub mod conditions;
pub mod grammar;
pub mod kubelet;
pub mod labels;
pub mod reasons;
pub mod taints;
pub mod validation;
