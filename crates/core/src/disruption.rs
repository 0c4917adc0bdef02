//! Replacing and removing nodes: what allows it, what forbids it, and what pays (spec 30, spec 45).
//!
//! ```text
//! World ──▶ Board: every node, its price and cost, why it stays ──▶ a method's candidates
//!   candidates ──▶ simulate: where would their pods go? ──▶ Command, or why not ──▶ Pass
//! ```
//!
//! [`pass`] is the entry: one look at the cluster with the methods in their order. [`validate`]
//! decides whether a command still holds after its delay. Neither knows a clock, and neither acts.

mod allowances;
mod balanced;
mod board;
mod bounds;
pub mod budget;
mod candidate;
mod command;
mod consolidation;
mod cost;
pub mod cron;
pub mod deletion_cost;
pub mod do_not_disrupt;
mod drift;
mod emptiness;
mod eviction_cost;
mod method;
mod patience;
mod pdb;
mod policy;
mod prices;
pub mod queue;
mod reason;
mod rejection;
pub mod relapse;
mod repair;
mod search;
mod simulate;
mod static_drift;
mod validation;
mod world;

pub use allowances::{Allowances, PoolAllowance};
pub use balanced::PoolScore;
pub use board::Board;
pub use candidate::Candidate;
pub use command::{
    Command, Decision, Drift, Kept, Notice, NoticeKind, Pass, Replacement, TerminateFirst,
};
pub use consolidation::Unconsolidatable;
pub use eviction_cost::{eviction_cost, is_eviction_cost};
pub use method::{Class, Method};
pub use patience::patience;
pub use policy::ConsolidationPolicy;
pub use reason::Reason;
pub use rejection::Rejection;
pub use repair::{Chosen, RebootHistory, RepairRules};
pub use search::{Time, apply, largest, pass, set_aside};
pub use validation::{FailureClass, Invalid, Valid, recheck, type_names, validate};
pub use world::{Search, Settings, World};
