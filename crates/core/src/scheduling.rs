//! Places pods on existing nodes, in-flight NodeClaims and new NodeClaims (spec 20).
//!
//! [`solve`] is the entry. It takes a snapshot and the pods to place, and returns a
//! [`Plan`](crate::plan::Plan), with a [`PodRejection`](crate::rejection::PodRejection) for each
//! pod that it cannot place. A caller with many requests about one snapshot, such as consolidation,
//! uses a [`PreparedSolver`], which returns the same plans.

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
pub mod truncation;

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
