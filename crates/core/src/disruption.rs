//! Decides which nodes to replace or remove, and when that is allowed (spec 30, spec 45).
//!
//! ```text
//! PassContext ──▶ CandidateIndex: every node with price and cost, or its rejection ──▶ candidates
//!   candidates ──▶ simulation: where do their pods go? ──▶ Command, or the reason ──▶ PassOutcome
//! ```
//!
//! [`run_pass`] is the entry point: it runs the methods in their order. [`validate`] decides
//! whether a command is still valid after its validation delay. Neither reads a clock or acts.

mod allowances;
mod balanced;
pub mod budget;
mod candidate;
mod candidate_index;
mod command;
mod consolidation;
mod consolidation_delay;
mod context;
mod cost;
pub mod cron;
pub mod do_not_disrupt;
mod drift;
mod emptiness;
mod eviction_cost;
pub mod failed_consolidation;
mod feasibility;
mod method;
mod pdb;
pub mod pod_deletion_cost;
mod policy;
mod prices;
pub mod queue;
mod reason;
mod rejection;
mod repair;
mod search;
mod simulation;
mod static_drift;
mod validation;
mod verification;

pub use allowances::{Allowances, PoolAllowance};
pub use balanced::PoolScore;
pub use candidate::Candidate;
pub use candidate_index::CandidateIndex;
pub use command::{
    Command, Decision, DriftStatus, NodeEvent, NodeEventKind, PassOutcome, Replacement,
    RetainedNode, TerminateFirstReason,
};
pub use consolidation::Unconsolidatable;
pub use consolidation_delay::consolidation_delay;
pub use context::{PassContext, SearchMode, Settings};
pub use eviction_cost::{eviction_cost, is_eviction_cost};
pub use method::{DisruptionClass, Method};
pub use policy::ConsolidationPolicy;
pub use reason::Reason;
pub use rejection::Rejection;
pub use repair::{RebootHistory, RepairDecision, RepairRules};
pub use search::{
    SearchFuel, apply_command, largest_capacity, move_to_placeholder_nodes, run_pass,
};
pub use validation::{
    FailureClass, ValidatedCommand, ValidationFailure, instance_type_names, recheck_candidates,
    validate,
};
pub use verification::check_commands;
