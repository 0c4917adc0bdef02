//! The reference solver: implements spec 20 §3 and §4 line by line, on strings, ordered maps and
//! [`Requirements`](crate::requirement::Requirements), so that it is obviously right.
//!
//! It interns nothing, remembers nothing and tries everything again. The fast solver must give an
//! equal [`Plan`] for every request; tests compare the two on random clusters.
//!
//! | Module | Owns | Spec 20 |
//! |---|---|---|
//! | `input` | which nodes and pools take part, and in which order | §2.5, §3.4 |
//! | `relaxable_pod` | the constraints of a pod after relaxation | §1.7, §3.7 |
//! | `preferences` | one step of relaxation | §3.15 |
//! | `templates` | what each NodePool can launch, daemon overhead | §3.2, §3.3 |
//! | `types` | the instance type filter | §3.10 |
//! | `existing` | nodes that exist | §3.4, §3.8 |
//! | `claim` | NodeClaims that were opened in this solve | §3.9 |
//! | `reservations` | reserved capacity | §3.14, spec 45 §11.1 |
//! | `topology` | spread, affinity and anti-affinity | §4 |
//! | `zones` | the effective zone of a pending pod | §4.9 |
//! | `finish` | NodeClaims as the plan has them | §3.24 |
//! | `solver` | queue and main loop | §3.5 to §3.7, §3.13 |
//!
//! What the spec leaves open is settled here, and the fast solver follows:
//!
//! - The placeholder hostname of a NodeClaim is numbered by the NodeClaims that were opened before
//!   it, so failed attempts take no number.
//! - Requirements in a rejection by the type filter have no hostname: the NodeClaim does not exist.
//! - A hostname group knows every node and every open NodeClaim, whenever it was created.
//! - A pod on an existing node is counted by the node's labels; the pod's requirements add nothing.
//! - Topology constraints that leave no common domain of a label are not met by its absence.
//! - Daemons tolerate PreferNoSchedule taints on existing nodes as on new ones.
//! - Requests name each pod once; a second mention is ignored.

mod claim;
mod existing;
mod finish;
mod input;
mod preferences;
mod relaxable_pod;
mod reservations;
mod solver;
mod templates;
#[cfg(test)]
pub(crate) mod tests;
mod topology;
mod types;
mod zones;

#[cfg(test)]
pub(crate) use preferences::relax;

use super::{Fuel, ListSizes, Request};
use crate::plan::Plan;

/// Solves a request with the reference solver.
pub fn solve(request: &Request<'_>, fuel: &mut Fuel<'_>) -> Plan {
    solve_with_sizes(request, fuel, ListSizes::default())
}

/// Solves a request with other list sizes, for tests.
pub fn solve_with_sizes(request: &Request<'_>, fuel: &mut Fuel<'_>, sizes: ListSizes) -> Plan {
    let input = input::SolverInput::new(request, sizes.listed_types);
    solver::Solver::new(&input).run(fuel)
}
