//! Chooses the solvers that tests run.

use crate::disruption::{Method, PassContext, PassOutcome, SearchFuel, check_commands, run_pass};
use crate::id::{NodeId, PodId};
use crate::plan::Plan;
use crate::scheduling::{
    Fuel, ListSizes, PreparedSolver, Request, reference, solve, solve_with_sizes,
};
use crate::verify;

/// Solves with every solver and verifies the plan.
///
/// The solvers have to agree, and the plan has to keep the rules of Kubernetes.
#[track_caller]
pub fn solve_both(request: &Request<'_>) -> Plan {
    assert_no_violations(request, solve_both_unverified(request))
}

/// Solves with the product's solver alone and checks that the plan keeps the rules of Kubernetes.
#[track_caller]
pub fn solve_fast(request: &Request<'_>) -> Plan {
    assert_no_violations(request, solve(request, &mut Fuel::unlimited()))
}

/// Runs a disruption pass and checks that its commands keep the rules of Kubernetes.
#[track_caller]
pub fn run_verified_pass(context: &PassContext<'_>, from: Method) -> PassOutcome {
    let pass = run_pass(context, from, &mut SearchFuel::unlimited());
    let violations = check_commands(context, &pass.commands, verify::Level::Complete);
    assert!(violations.iter().all(Vec::is_empty), "commands break rules: {violations:#?}");
    pass
}

#[track_caller]
fn assert_no_violations(request: &Request<'_>, plan: Plan) -> Plan {
    let violations = verify::check_plan(request, &plan, verify::Level::Complete);
    assert!(violations.is_empty(), "the plan breaks rules: {violations:#?}");
    plan
}

/// Solves with every solver and checks that their plans are equal.
#[track_caller]
pub fn solve_both_unverified(request: &Request<'_>) -> Plan {
    let slow = reference::solve(request, &mut Fuel::unlimited());
    let fast = solve(request, &mut Fuel::unlimited());
    assert_equal_plans(&fast, &slow);
    let small = ListSizes { nodes_per_block: 2, claims_per_run: 2, ..ListSizes::default() };
    assert_equal_plans(&solve_with_sizes(request, &mut Fuel::unlimited(), small), &slow);
    assert_prepared_solver_agrees(request, &slow);
    fast
}

/// Checks that a prepared solver returns the expected plan.
///
/// It solves the request first, and again after another request.
#[track_caller]
fn assert_prepared_solver_agrees(request: &Request<'_>, expected: &Plan) {
    let Request { snapshot, catalog, pods, excluded_nodes: without, options } = *request;
    let prepared = PreparedSolver::new(snapshot, catalog, options);
    let mut session = prepared.session();
    assert_equal_plans(&session.solve(pods, without, &mut Fuel::unlimited()), expected);
    let all: Vec<_> = (0..snapshot.pods.len()).map(PodId::new).collect();
    let others = (0..snapshot.nodes.len()).map(NodeId::new).filter(|node| !without.contains(node));
    session.solve(&all, &others.collect(), &mut Fuel::unlimited());
    assert_equal_plans(&session.solve(pods, without, &mut Fuel::unlimited()), expected);
}

/// Solves with both solvers and a limit of instance types per NodeClaim.
#[track_caller]
pub fn solve_with_type_limit(request: &Request<'_>, listed_types: usize) -> Plan {
    let sizes = ListSizes { listed_types, ..ListSizes::default() };
    let slow = reference::solve_with_sizes(request, &mut Fuel::unlimited(), sizes);
    let fast = solve_with_sizes(request, &mut Fuel::unlimited(), sizes);
    assert_equal_plans(&fast, &slow);
    fast
}

/// Checks that two plans are equal, and reports the first difference.
///
/// Whole plans are too long to read.
#[track_caller]
fn assert_equal_plans(fast: &Plan, slow: &Plan) {
    const WHY: &str = "the fast solver (left) and the plain one disagree";
    for (fast, slow) in fast.claims.iter().zip(&slow.claims) {
        assert_eq!(fast, slow, "{WHY} on a NodeClaim");
    }
    assert_eq!(fast.claims.len(), slow.claims.len(), "{WHY} on how many NodeClaims");
    assert_eq!(fast.existing_nodes, slow.existing_nodes, "{WHY} on existing nodes");
    for ((pod, fast), (other, slow)) in fast.rejected.iter().zip(&slow.rejected) {
        assert_eq!((pod, fast), (other, slow), "{WHY} on a refusal");
    }
    assert_eq!(fast, slow, "{WHY}");
}
