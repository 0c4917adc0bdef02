//! Verifies the commands of a pass before the controller acts on them.
//!
//! Each command is checked on the cluster as the valid commands before it leave it, as the search
//! found it. The simulations of a pass are not checked: there are thousands of them.

use std::borrow::Cow;
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
    let mut replay = Replay::new(context, level);
    let mut results: Vec<Vec<Violation>> = Vec::with_capacity(commands.len());
    for command in commands {
        if let Some(last) = results.last().filter(|last| has_unknown_ids(last)) {
            results.push(last.clone());
            continue;
        }
        replay.prepare_next();
        let found = check_command(&replay, command, level);
        if found.is_empty() {
            replay.carry_out(command);
        } else if !has_unknown_ids(&found) {
            replay.skip(command);
        }
        results.push(found);
    }
    results
}

fn has_unknown_ids(violations: &[Violation]) -> bool {
    violations.iter().any(Violation::is_unknown_id)
}

/// The cluster as the valid commands leave it.
///
/// Commands that add no node are not applied to the snapshot with [`Level::Essential`]: the removed
/// nodes and the moved pods are enough for its rules.
struct Replay<'a> {
    context: &'a PassContext<'a>,
    snapshot: Cow<'a, Snapshot>,
    /// Valid commands that are not applied to the snapshot yet.
    pending: Vec<&'a Command>,
    removed_nodes: BTreeSet<NodeId>,
    pods_by_node: PodsByNode,
    level: Level,
}

impl<'a> Replay<'a> {
    fn new(context: &'a PassContext<'a>, level: Level) -> Self {
        Self {
            context,
            snapshot: Cow::Borrowed(context.snapshot),
            pending: Vec::new(),
            removed_nodes: BTreeSet::new(),
            pods_by_node: PodsByNode::new(context.snapshot),
            level,
        }
    }

    /// Applies the pending commands if the next check needs that.
    fn prepare_next(&mut self) {
        let has_new_nodes = self.pending.iter().any(|command| !command.plan.claims.is_empty());
        if self.level == Level::Complete || has_new_nodes {
            self.apply_pending();
        }
    }

    fn apply_pending(&mut self) {
        for command in std::mem::take(&mut self.pending) {
            apply_command(self.snapshot.to_mut(), self.context.catalog, command);
        }
    }

    fn carry_out(&mut self, command: &'a Command) {
        self.removed_nodes.extend(command.candidates.iter().map(|candidate| candidate.node));
        let pods = command.candidates.iter().flat_map(|candidate| &candidate.pods);
        let moved: BTreeSet<PodId> = pods.copied().collect();
        for (node, pods) in &command.plan.existing_nodes {
            self.pods_by_node.add(*node, pods.iter().copied().filter(|pod| moved.contains(pod)));
        }
        self.pending.push(command);
    }

    /// Adds the nodes of an invalid command as deleting ones.
    ///
    /// The search has added them too, so the ids of later commands count them.
    fn skip(&mut self, command: &Command) {
        if command.plan.claims.is_empty() {
            return;
        }
        self.apply_pending();
        let snapshot = self.snapshot.to_mut();
        let mut applied = snapshot.clone();
        apply_command(&mut applied, self.context.catalog, command);
        for mut node in applied.nodes.drain(snapshot.nodes.len()..) {
            node.is_deleting = true;
            snapshot.nodes.push(node);
        }
    }

    /// Returns whether a plan may place the pod although the command does not move it.
    fn is_demanded(&self, id: PodId) -> bool {
        self.snapshot.pods.get(id.index()).is_some_and(|pod| {
            let is_removed = pod.node.is_some_and(|node| self.removed_nodes.contains(&node));
            is_removed || is_demanded(&self.snapshot, pod)
        })
    }
}

/// Returns the violations of one command.
fn check_command(replay: &Replay<'_>, command: &Command, level: Level) -> Vec<Violation> {
    let (context, snapshot) = (replay.context, &*replay.snapshot);
    let candidates = command.candidates.iter().map(|candidate| candidate.node);
    let mut excluded_nodes = replay.removed_nodes.clone();
    excluded_nodes.extend(candidates);
    let is_known = |node: &&NodeId| node.index() < snapshot.nodes.len();
    if let Some(&unknown) = excluded_nodes.iter().find(|node| !is_known(node)) {
        return vec![Violation::UnknownNode(unknown)];
    }
    let moved = moved_pods(command);
    let plan = executed_plan(command);
    let answered = plan.placed_pods().chain(plan.rejected.keys().copied());
    let mut pods: BTreeSet<PodId> = moved.iter().copied().collect();
    pods.extend(answered.filter(|&pod| replay.is_demanded(pod)));
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
    // At the complete level the snapshot itself has the moved pods.
    let pods_by_node = (level == Level::Essential).then_some(&replay.pods_by_node);
    let facts = PlanFacts { pods_by_node, has_dropped_claims };
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
