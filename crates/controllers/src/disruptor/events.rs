//! Publishes the result of a disruption pass: metrics and events (spec 30 §4.2, §7.3, §12).

use jiff::Timestamp;
use karpenter_api::annotations;
use karpenter_core::disruption::budget::{NodeCounts, allowance};
use karpenter_core::disruption::do_not_disrupt::PodProtection;
use karpenter_core::disruption::{Command, Method, NodeEvent, NodeEventKind, PoolScore, Reason};
use karpenter_operator::events::{definitions as events, definitions::BalancedScore};
use karpenter_operator::metrics::labels::{
    ConsolidationType, Move, PoolReason, Reason as ByReason,
};
use kube::{Resource as _, ResourceExt as _};

use super::evaluate::PassResult;
use super::metrics;
use super::observation::Observation;
use crate::node::eviction;
use crate::{Context, objects};

/// The parameter of the Balanced policy, and the score that it asks for.
const K: i32 = 2;
const THRESHOLD: f64 = 0.5;

/// Records the result of a pass, except command outcomes.
pub(super) fn record_pass_result(context: &Context, observation: &Observation, found: &PassResult) {
    record_eligible_nodes(context, found);
    record_budgets(context, observation, found);
    for method in &found.pass.timed_out {
        let consolidation_type = method.consolidation_type();
        let timeouts = &context.metrics.voluntary_disruption_consolidation_timeouts;
        timeouts.inc(&ConsolidationType { consolidation_type });
    }
    for notice in &found.pass.node_events {
        publish_node_event(context, observation, notice);
    }
    publish_blocked_nodes(context, found);
    for command in &found.pass.commands {
        record_scores(context, observation, command);
    }
    for score in &found.pass.rejected_scores {
        let labels = labels(observation, "rejected", &score.pool);
        context.metrics.consolidation_moves.inc(&labels);
        context.metrics.consolidation_score.observe(&labels, score.score());
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of nodes")]
fn record_eligible_nodes(context: &Context, found: &PassResult) {
    for (method, count) in &found.pass.eligible_counts {
        let reason = metrics::reason_label(method.reason());
        let gauge = &context.metrics.voluntary_disruption_eligible_nodes;
        gauge.set(&ByReason { reason: &reason }, *count as f64);
    }
}

fn record_budgets(context: &Context, observation: &Observation, found: &PassResult) {
    for (reason, allowances) in &found.allowances {
        let label = metrics::reason_label(*reason);
        let has_candidates = |of: &(Method, usize)| of.0.reason() == *reason && of.1 > 0;
        let is_evaluated = found.pass.eligible_counts.iter().any(has_candidates);
        for (nodepool, pool) in allowances.pools() {
            let labels = PoolReason { nodepool, reason: &label };
            let metrics = &context.metrics;
            let allowed = f64::from(pool.allowance.allowed);
            metrics.nodepools_allowed_disruptions.set(&labels, allowed);
            let consuming = f64::from(pool.node_counts.disrupting);
            metrics.nodepools_nodes_consuming_budgets.set(&labels, consuming);
            if let Some(wire) =
                observation.pools.get(nodepool).filter(|_| is_evaluated && pool.is_blocked())
            {
                let reference = wire.object_ref(&());
                let event = events::nodepool_blocked_for_reason(reference, reason.name());
                context.events.publish(event);
            }
        }
    }
}

fn publish_node_event(context: &Context, observation: &Observation, notice: &NodeEvent) {
    let node = observation.snapshot.node(notice.node);
    let wire = context.cache.nodes.get("", &node.name).map(|node| node.object_ref(&()));
    let claim = context.cache.node_claims.get("", &node.disruption_state.node_claim);
    let claim = claim.map(|claim| claim.object_ref(&()));
    let text = &notice.text;
    let published = match (notice.kind, wire, claim) {
        (NodeEventKind::Blocked, wire, claim) => events::disruption_blocked(wire, claim, text),
        (NodeEventKind::Unconsolidatable, Some(wire), Some(claim)) => {
            events::unconsolidatable(wire, claim, text).to_vec()
        }
        (NodeEventKind::RepairBlocked, wire, claim) => {
            let pool = node.pool.as_ref().and_then(|pool| observation.pools.get(pool));
            let pool = pool.map(|pool| pool.object_ref(&()));
            events::node_repair_blocked([wire, claim, pool].into_iter().flatten(), text)
        }
        // Candidates get their event when a command is found.
        (NodeEventKind::ConsolidationCandidate | NodeEventKind::Unconsolidatable, ..) => Vec::new(),
    };
    context.events.publish_all(published);
}

/// Publishes events for nodes that no method may disrupt (spec 30 §3.2).
fn publish_blocked_nodes(context: &Context, found: &PassResult) {
    for kept in found.pass.retained_nodes.iter().filter(|kept| kept.reason == BLOCKED) {
        let node = context.cache.nodes.get("", &kept.node);
        let claim = match &node {
            Some(node) => objects::claim_of(&context.cache, node),
            None => context.cache.node_claims.get("", &kept.node),
        };
        // Unmanaged nodes and nodes with a command get no event.
        let Some(claim) = claim else { continue };
        if found.queued.contains(objects::provider_id(&claim)) {
            continue;
        }
        let node = node.map(|node| node.object_ref(&()));
        let claim = Some(claim.object_ref(&()));
        context.events.publish_all(events::disruption_blocked(node, claim, &kept.text));
    }
}

/// The reason of retained nodes that no method may disrupt.
const BLOCKED: &str = "Blocked";

/// Records the Balanced policy's scores of a consolidation command.
fn record_scores(context: &Context, observation: &Observation, command: &Command) {
    if command.reason() != Reason::Underutilized {
        return;
    }
    for pool in command.pools() {
        context.metrics.consolidation_moves.inc(&labels(observation, "approved", pool));
    }
    for score in &command.scores {
        let decision = if score.is_approved() { "approved" } else { "rejected" };
        let labels = labels(observation, decision, &score.pool);
        context.metrics.consolidation_score.observe(&labels, score.score());
        if score.is_approved() {
            publish_approval(context, observation, command, score);
        }
    }
}

fn labels<'a>(observation: &'a Observation, decision: &'static str, nodepool: &'a str) -> Move<'a> {
    let pool = observation.snapshot.managed_pools.get(nodepool);
    Move { decision, nodepool, policy: pool.map(|pool| pool.policy.name()).unwrap_or_default() }
}

fn publish_approval(
    context: &Context,
    observation: &Observation,
    command: &Command,
    score: &PoolScore,
) {
    let pool = || observation.pools.get(&score.pool).map(|pool| pool.object_ref(&()));
    let objects = match &command.candidates[..] {
        [only] if command.method == Method::SingleNode => {
            let (node, claim) = metrics::references(context, only);
            vec![node, claim]
        }
        _ => vec![pool()],
    };
    let score = BalancedScore {
        score: score.score(),
        threshold: THRESHOLD,
        k: K,
        savings_percent: score.savings_fraction * 100.0,
        disruption_percent: score.disruption_fraction * 100.0,
    };
    let events = events::consolidation_approved(objects.into_iter().flatten(), score);
    context.events.publish_all(events);
}

/// Publishes events for the nodes that a consolidation command will replace.
pub(super) fn publish_candidates(context: &Context, command: &Command) {
    if command.replacements.is_empty() || command.reason() != Reason::Underutilized {
        return;
    }
    for candidate in &command.candidates {
        if let (Some(node), Some(claim)) = metrics::references(context, candidate) {
            let text = command.describe_for_node(&candidate.name);
            let events = events::consolidation_candidate(node, claim, &text, command.savings);
            context.events.publish_all(events);
        }
    }
}

/// Publishes events for the nodes of an invalid command.
pub(super) fn publish_rejection(context: &Context, command: &Command, class: &str) {
    for candidate in &command.candidates {
        if let (Some(node), Some(claim)) = metrics::references(context, candidate) {
            let text = command.describe_for_node(&candidate.name);
            let events = events::consolidation_rejected(node, claim, &text, class, command.savings);
            context.events.publish_all(events);
        }
    }
}

/// Publishes events that explain unusual do-not-disrupt annotations (spec 30 §3.3). Only pods on
/// the nodes of NodeClaims get one.
pub(super) fn publish_pod_protections(context: &Context, now: Timestamp) {
    for pod in context.cache.pods.all() {
        let text = pod.annotations().get(annotations::DO_NOT_DISRUPT);
        let Some(text) = text.filter(|text| *text != "true") else { continue };
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let node = node.and_then(|node| context.cache.nodes.get("", node));
        if node.and_then(|node| objects::claim_of(&context.cache, &node)).is_none() {
            continue;
        }
        let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
        let protection =
            PodProtection::from_annotation(Some(text), started.map(|time| time.0), now);
        eviction::publish_protection(context, &pod, &protection);
    }
}

/// Returns the errors in the budgets of all pools as one text (spec 30 §2 step 2). Empty without
/// errors.
pub(super) fn budget_errors(observation: &Observation) -> String {
    let all = NodeCounts { total: 100, disrupting: 0 };
    let errors = observation.snapshot.managed_pools.iter().filter_map(|(name, pool)| {
        let found = allowance(&pool.budgets, Reason::Empty, observation.now, all);
        let first = found.problems.first()?;
        Some(format!("invalid disruption budgets in nodepool {name}, {first}"))
    });
    errors.collect::<Vec<_>>().join("; ")
}
