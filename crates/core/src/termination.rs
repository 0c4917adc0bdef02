//! Decides how a node is terminated: when its pods leave, and how long that may take (spec 40 §2,
//! spec 45 §12).
//!
//! ```text
//! taint ──▶ drain ──▶ volumes ──▶ instance ──▶ gone
//!             │ evictions, in tiers      until the deadline of the claim, if it has one
//! ```
//!
//! The functions decide from the facts of this moment. The controllers `node.termination`,
//! `eviction-queue` and `nodeclaim.reboot` gather the facts and act.

pub mod deadline;
pub mod drain;
pub mod eviction;
pub mod volumes;
