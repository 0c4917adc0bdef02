//! Verifies the commands of a pass before the controller acts on them.
//!
//! Each command is checked on the cluster as the valid commands before it leave it, as the search
//! found it. The simulations of a pass are not checked: there are thousands of them.

use std::collections::{BTreeMap, BTreeSet};

use super::simulation::is_pending;
use super::{Command, Method, PassContext, Replacement, TerminateFirstReason, apply_command};
use crate::id::{NodeId, PodId};
use crate::plan::Plan;
use crate::scheduling::demand::{demand, is_demanded};
use crate::scheduling::{Options, Request};
use crate::snapshot::Snapshot;
use crate::verify::{Level, PlanFacts, PodsByNode, Violation, check_plan_with};

/// Returns the violations of each command, in order; empty for a valid one.
///
/// An invalid command counts as not carried out. After one with unknown ids, the ids of the later
/// commands cannot be trusted, so they are invalid for the same reason.
pub fn check_commands(
    context: &PassContext<'_>,
    commands: &[Command],
    level: Level,
) -> Vec<Vec<Violation>> {
    let mut snapshot = context.snapshot.clone();
    let mut pods_by_node = PodsByNode::new(&snapshot);
    let mut results: Vec<Vec<Violation>> = Vec::with_capacity(commands.len());
    for command in commands {
        if let Some(last) = results.last().filter(|last| has_unknown_ids(last)) {
            results.push(last.clone());
            continue;
        }
        let found = check_command(context, &snapshot, &pods_by_node, command, level);
        if found.is_empty() {
            apply_command(&mut snapshot, context.catalog, command);
            for (node, pods) in &command.plan.existing_nodes {
                pods_by_node.add(*node, pods.iter().copied());
            }
        } else if !has_unknown_ids(&found) {
            reserve_node_ids(&mut snapshot, context, command);
        }
        results.push(found);
    }
    results
}

fn has_unknown_ids(violations: &[Violation]) -> bool {
    violations.iter().any(Violation::is_unknown_id)
}

/// Adds the nodes of an invalid command as deleting ones.
///
/// The search has added them too, so the ids of later commands count them.
fn reserve_node_ids(snapshot: &mut Snapshot, context: &PassContext<'_>, command: &Command) {
    let mut applied = snapshot.clone();
    apply_command(&mut applied, context.catalog, command);
    for mut node in applied.nodes.drain(snapshot.nodes.len()..) {
        node.is_deleting = true;
        snapshot.nodes.push(node);
    }
}

/// Returns the violations of one command on this snapshot.
fn check_command(
    context: &PassContext<'_>,
    snapshot: &Snapshot,
    pods_by_node: &PodsByNode,
    command: &Command,
    level: Level,
) -> Vec<Violation> {
    let candidates = command.candidates.iter().map(|candidate| candidate.node);
    let excluded_nodes: BTreeSet<NodeId> = candidates.collect();
    let is_known = |node: &&NodeId| node.index() < snapshot.nodes.len();
    if let Some(&unknown) = excluded_nodes.iter().find(|node| !is_known(node)) {
        return vec![Violation::UnknownNode(unknown)];
    }
    let moved = moved_pods(command);
    let plan = executed_plan(command);
    let answered = plan.placed_pods().chain(plan.rejected.keys().copied());
    let is_expected =
        |pod: &PodId| snapshot.pods.get(pod.index()).is_some_and(|pod| is_demanded(snapshot, pod));
    let mut pods: BTreeSet<PodId> = moved.iter().copied().collect();
    pods.extend(answered.filter(is_expected));
    let mut has_dropped_claims = false;
    if level == Level::Complete {
        // Drift drops the NodeClaims of pods that are pending anyway.
        let others = demand(snapshot).to_place;
        has_dropped_claims = others.iter().any(|pod| !pods.contains(pod));
        pods.extend(others);
    }
    let pods: Vec<PodId> = pods.into_iter().collect();
    let options = options(context, command);
    let request = Request {
        snapshot,
        catalog: context.catalog,
        pods: &pods,
        excluded_nodes: &excluded_nodes,
        options: &options,
    };
    let facts = PlanFacts { pods_by_node: Some(pods_by_node), has_dropped_claims };
    let mut found = check_plan_with(&request, &plan, level, facts);
    if !has_unknown_ids(&found) {
        let placed: BTreeSet<PodId> = plan.placed_pods().collect();
        let is_unplaced = |pod: &&PodId| !placed.contains(pod) && !is_pending(snapshot, **pod);
        let unplaced = moved.iter().filter(is_unplaced);
        found.extend(
            unplaced.map(|&pod| Violation::Unplaced { pod: snapshot.pod(pod).full_name() }),
        );
    }
    found
}

/// Returns the pods for which the command has to have a place.
///
/// Empty and static nodes are removed, and nodes are restarted, without a simulation.
fn moved_pods(command: &Command) -> Vec<PodId> {
    let is_simulated = !command.is_reboot
        && !matches!(command.method, Method::Emptiness | Method::StaticDrift)
        && !command.candidates.iter().any(|candidate| candidate.is_static);
    if !is_simulated {
        return Vec::new();
    }
    let pods = command.candidates.iter().flat_map(|candidate| match command.method {
        Method::Repair => &candidate.pods,
        _ => &candidate.movable,
    });
    pods.copied().collect()
}

/// Returns the plan of the command with the NodeClaims that it launches.
///
/// A command that terminates first launches none; the provisioner does so later.
fn executed_plan(command: &Command) -> Plan {
    let planned = &command.plan;
    let claims = match command.terminate_first {
        Some(_) => planned.claims.clone(),
        None => command.replacements.iter().filter_map(Replacement::planned).cloned().collect(),
    };
    Plan {
        claims,
        existing_nodes: planned.existing_nodes.clone(),
        rejected: planned.rejected.clone(),
        // The command does not have to place pods that are pending anyway.
        was_cut_short: true,
        ..Plan::default()
    }
}

/// Returns the scheduler options that matter to verification.
fn options(context: &PassContext<'_>, command: &Command) -> Options {
    let frees_slot = command.terminate_first == Some(TerminateFirstReason::NoReservedCapacity);
    let freed = command.candidates.iter().filter(|_| frees_slot);
    let mut reservation_credits = BTreeMap::new();
    for id in freed.filter_map(|candidate| candidate.reservation_id.clone()) {
        *reservation_credits.entry(id).or_insert(0) += 1;
    }
    Options { reservation_credits, ..context.settings.scheduling.clone() }
}
