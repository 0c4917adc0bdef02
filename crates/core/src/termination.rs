//! The end of a node: who leaves when, and how long it is waited for (spec 40 §2, spec 45 §12).
//!
//! ```text
//! taint ──▶ drain ──▶ volumes ──▶ instance ──▶ gone
//!             │ evictions, in tiers      until the deadline of the claim, if it has one
//! ```
//!
//! The functions say what to do about the facts of this moment. Who gathers them and acts are the
//! controllers `node.termination`, `eviction-queue` and `nodeclaim.reboot`.

pub mod deadline;
pub mod drain;
pub mod eviction;
pub mod volumes;
