//! The one place that chooses which solvers tests run.

use crate::id::{NodeId, PodId};
use crate::plan::Plan;
use crate::scheduling::{Fuel, Prepared, Request, Sizes, reference, solve, solve_sized};
use crate::verify;

/// Solves with every solver there is, checks that they agree and that the plan keeps the rules of
/// Kubernetes.
#[track_caller]
pub fn solve_both(request: &Request<'_>) -> Plan {
    verified(request, solve_alike(request))
}

/// Solves with the product's solver alone and checks that the plan keeps the rules of Kubernetes.
#[track_caller]
pub fn solve_fast(request: &Request<'_>) -> Plan {
    verified(request, solve(request, &mut Fuel::unlimited()))
}

#[track_caller]
fn verified(request: &Request<'_>, plan: Plan) -> Plan {
    let violations = verify::plan(request, &plan);
    assert!(violations.is_empty(), "the plan breaks rules: {violations:#?}");
    plan
}

/// Solves with every solver there is and checks that they agree.
#[track_caller]
pub fn solve_alike(request: &Request<'_>) -> Plan {
    let slow = reference::solve(request, &mut Fuel::unlimited());
    let fast = solve(request, &mut Fuel::unlimited());
    assert_alike(&fast, &slow);
    let small = Sizes { nodes_per_block: 2, claims_per_run: 2, ..Sizes::default() };
    assert_alike(&solve_sized(request, &mut Fuel::unlimited(), small), &slow);
    assert_prepared(request, &slow);
    fast
}

/// Asks somebody who is prepared for many questions, first and after another question.
#[track_caller]
fn assert_prepared(request: &Request<'_>, expected: &Plan) {
    let Request { snapshot, catalog, pods, without, options } = *request;
    let prepared = Prepared::new(snapshot, catalog, options);
    let mut session = prepared.session();
    assert_alike(&session.solve(pods, without, &mut Fuel::unlimited()), expected);
    let all: Vec<_> = (0..snapshot.pods.len()).map(PodId::new).collect();
    let others = (0..snapshot.nodes.len()).map(NodeId::new).filter(|node| !without.contains(node));
    session.solve(&all, &others.collect(), &mut Fuel::unlimited());
    assert_alike(&session.solve(pods, without, &mut Fuel::unlimited()), expected);
}

/// The same where NodeClaims list so few instance types only.
#[track_caller]
pub fn solve_listing(request: &Request<'_>, listed_types: usize) -> Plan {
    let sizes = Sizes { listed_types, ..Sizes::default() };
    let slow = reference::solve_sized(request, &mut Fuel::unlimited(), sizes);
    let fast = solve_sized(request, &mut Fuel::unlimited(), sizes);
    assert_alike(&fast, &slow);
    fast
}

/// Says where two plans differ first, since whole ones are too long to read.
#[track_caller]
fn assert_alike(fast: &Plan, slow: &Plan) {
    const WHY: &str = "the fast solver (left) and the plain one disagree";
    for (fast, slow) in fast.claims.iter().zip(&slow.claims) {
        assert_eq!(fast, slow, "{WHY} on a NodeClaim");
    }
    assert_eq!(fast.claims.len(), slow.claims.len(), "{WHY} on how many NodeClaims");
    assert_eq!(fast.existing, slow.existing, "{WHY} on existing nodes");
    for ((pod, fast), (other, slow)) in fast.refused.iter().zip(&slow.refused) {
        assert_eq!((pod, fast), (other, slow), "{WHY} on a refusal");
    }
    assert_eq!(fast, slow, "{WHY}");
}
