//! Placing pods: on nodes that exist, on NodeClaims that were just opened, on new ones (spec 20).
//!
//! [`solve`] is the entry. It takes a snapshot and the pods to place, and returns a
//! [`Plan`](crate::plan::Plan); what cannot be placed comes back with a
//! [`PodRejection`](crate::rejection::PodRejection). Who has many questions about one snapshot, as consolidation
//! has, asks a [`PreparedSolver`] solver, which gives the same answers.

pub mod default_spread;
pub mod demand;
pub mod dra;
mod fuel;
pub mod limits;
mod list_sizes;
pub mod min_values;
mod options;
#[cfg(any(test, feature = "testing"))]
pub mod reference;
mod request;
mod solve;

pub use fuel::Fuel;
#[cfg(any(test, feature = "testing"))]
pub use list_sizes::ListSizes;
pub use options::{MinValuesPolicy, Options, PreferencePolicy, ReservedMode};
pub use request::Request;
#[cfg(any(test, feature = "testing"))]
pub use solve::solve_with_sizes;
pub use solve::{
    PlacementRequest, PlacementResult, PreparedSolver, SolverSession, StopConditions, StopReason,
    solve,
};
