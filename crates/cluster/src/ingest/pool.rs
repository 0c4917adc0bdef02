//! NodePools: those that can launch nodes for pods (spec 20 §2.5), and all for disruption.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use karpenter_api::grammar::{NillableDuration, Quantity as FieldQuantity};
use karpenter_api::nodepool::{Budget as WireBudget, NodePool};
use karpenter_api::{conditions, validation};
use karpenter_core::disruption::budget::{Budget, BudgetError};
use karpenter_core::disruption::{ConsolidationPolicy, Reason};
use karpenter_core::snapshot::{ManagedPool, NodeClassRef, Pool};

use super::{Objects, Reader, quantity, requirement, taint};

const KIND: &str = "NodePool";

/// Returns the NodePools that are ours, ready, not static and not deleting. All others get a
/// diagnostic.
pub(super) fn read(objects: &Objects, reader: &mut Reader<'_>) -> Vec<Pool> {
    let mut pools: Vec<Pool> = Vec::with_capacity(objects.node_pools.len());
    for wire in &objects.node_pools {
        let Some(pool) = read_usable(wire, reader) else { continue };
        if pools.iter().any(|known| known.name == pool.name) {
            reader.reject(KIND, &wire.metadata, "another pool has the same name");
        } else {
            pools.push(pool);
        }
    }
    pools
}

/// Reads one NodePool; none if it cannot launch nodes.
pub(crate) fn read_usable(wire: &NodePool, reader: &mut Reader<'_>) -> Option<Pool> {
    let mut problems = Vec::new();
    let pool = pool(wire, reader, &mut problems);
    if let Some(reason) = unusable_reason(wire, reader) {
        reader.exclude(KIND, &wire.metadata, reason);
    } else if let Some(reason) = invalid_reason(wire, reader) {
        reader.reject(KIND, &wire.metadata, reason);
    } else if !problems.is_empty() {
        // Half a pool could launch what its owner forbade.
        reader.reject(KIND, &wire.metadata, problems.join("; "));
    } else {
        return Some(pool);
    }
    None
}

/// All pools that are ours, by name.
pub(super) fn read_managed(
    objects: &Objects,
    reader: &Reader<'_>,
) -> BTreeMap<String, ManagedPool> {
    let mut pools = BTreeMap::new();
    for pool in objects.node_pools.iter().filter_map(|wire| read_managed_pool(wire, reader)) {
        pools.entry(pool.pool.name.clone()).or_insert(pool);
    }
    pools
}

/// Reads one NodePool for disruption; none if it belongs to another installation. Problems are
/// reported where the NodePool is read for scheduling.
pub(crate) fn read_managed_pool(wire: &NodePool, reader: &Reader<'_>) -> Option<ManagedPool> {
    if !reader.settings.serves(&wire.spec.template.spec.node_class_ref) {
        return None;
    }
    let disruption = wire.spec.disruption.as_ref();
    let policy = disruption.and_then(|disruption| disruption.consolidation_policy.as_deref());
    let budgets = disruption.and_then(|disruption| disruption.budgets.as_deref());
    Some(ManagedPool {
        pool: pool(wire, reader, &mut Vec::new()),
        policy: policy.and_then(ConsolidationPolicy::from_name).unwrap_or_default(),
        budgets: match budgets {
            Some(budgets) => budgets.iter().map(budget).collect(),
            None => vec![default_budget()],
        },
        replicas: wire.spec.replicas,
        is_ready: is_ready(wire, reader),
        is_deleting: wire.metadata.deletion_timestamp.is_some(),
    })
}

/// Reads a budget as written; its evaluation detects invalid values. No API server admits half a
/// window or unknown reasons: such a budget holds at all times and for all reasons, so that
/// disruption spares all nodes that the owner may have meant to keep.
fn budget(wire: &WireBudget) -> Budget {
    let named = |reasons: &Vec<String>| {
        reasons.iter().map(|name| Reason::from_name(name)).collect::<Option<Vec<_>>>()
    };
    let is_window = wire.schedule.is_some() && wire.duration.is_some();
    Budget {
        nodes: wire.nodes.clone(),
        schedule: wire.schedule.clone().filter(|_| is_window),
        duration: wire.duration.as_ref().filter(|_| is_window).map(ToString::to_string),
        reasons: wire.reasons.as_ref().and_then(named),
    }
}

/// Returns the first problem of `spec.disruption`, for NodePools that no API server has validated.
fn disruption_problem(wire: &NodePool, now: Timestamp) -> Option<String> {
    let disruption = wire.spec.disruption.as_ref()?;
    if let Some(policy) = disruption.consolidation_policy.as_deref()
        && ConsolidationPolicy::from_name(policy).is_none()
    {
        let all = ConsolidationPolicy::ALL.map(ConsolidationPolicy::name).join(", ");
        return Some(format!("spec.disruption.consolidationPolicy: {policy:?} is none of {all}"));
    }
    budgets_problem(wire, now)
}

/// Returns the first invalid budget of a NodePool and why; it blocks all disruption.
pub fn budgets_problem(wire: &NodePool, now: Timestamp) -> Option<String> {
    let budgets = wire.spec.disruption.iter().flat_map(|one| one.budgets.iter().flatten());
    budgets.enumerate().find_map(|(at, budget)| {
        let flaw = budget_problem(budget, now)?;
        Some(format!("spec.disruption.budgets[{at}]: {flaw}"))
    })
}

fn budget_problem(wire: &WireBudget, now: Timestamp) -> Option<String> {
    if wire.schedule.is_some() != wire.duration.is_some() {
        return Some("'schedule' must be set with 'duration'".to_owned());
    }
    let unknown = |name: &&String| Reason::from_name(name).is_none();
    if let Some(name) = wire.reasons.iter().flatten().find(unknown) {
        let all = Reason::ALL.map(Reason::name).join(", ");
        return Some(format!("reason {name:?} is none of {all}"));
    }
    match budget(wire).allowed(100, now) {
        Ok(_) | Err(BudgetError::AboveHundredPercent(_)) => {}
        Err(error) => return Some(error.to_string()),
    }
    let number = wire.nodes.strip_suffix('%').unwrap_or(&wire.nodes);
    let most = if wire.nodes.ends_with('%') { 100 } else { i64::MAX };
    let is_allowed = number.parse().is_ok_and(|number| (0..=most).contains(&number));
    let text = "must be a number of nodes, or a percentage from 0% to 100%";
    (!is_allowed).then(|| format!("nodes {text}, is {:?}", wire.nodes))
}

/// What a pool has that names none.
fn default_budget() -> Budget {
    Budget { nodes: "10%".to_owned(), schedule: None, duration: None, reasons: None }
}

/// Returns why the NodePool cannot launch nodes now.
fn unusable_reason(wire: &NodePool, reader: &Reader<'_>) -> Option<String> {
    let class = &wire.spec.template.spec.node_class_ref;
    if !reader.settings.serves(class) {
        return Some(format!("{}.{} is not ours", class.kind, class.group));
    }
    let is_file = reader.settings.assume_pools_ready;
    if wire.spec.replicas.is_some_and(|replicas| replicas >= 0 || !is_file) {
        return Some("static: its replicas are kept whatever pods ask for".to_owned());
    }
    if wire.metadata.deletion_timestamp.is_some() {
        return Some("is being deleted".to_owned());
    }
    (!is_ready(wire, reader)).then(|| not_ready_reason(wire))
}

/// Returns the message for a NodePool that is not ready, with the failing condition.
fn not_ready_reason(wire: &NodePool) -> String {
    let all = || wire.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let of = |kind: &str| all().find(|one| one.type_ == kind && one.status != "True");
    let dependents = conditions::NODEPOOL_DEPENDENTS.iter();
    match dependents.chain([&conditions::READY]).find_map(|kind| of(kind)) {
        Some(found) if !found.message.is_empty() => {
            format!("is not ready: {}: {}", found.type_, found.message)
        }
        Some(found) if found.type_ != conditions::READY => {
            format!("is not ready: {} is {}", found.type_, found.status)
        }
        _ => "is not ready".to_owned(),
    }
}

/// Whether the condition Ready is true. If the settings assume ready NodePools, a missing one
/// counts as true.
fn is_ready(wire: &NodePool, reader: &Reader<'_>) -> bool {
    let mut conditions = wire.status.iter().flat_map(|status| status.conditions.iter().flatten());
    match conditions.find(|condition| condition.type_ == conditions::READY) {
        Some(ready) => ready.status == "True",
        None => reader.settings.assume_pools_ready,
    }
}

/// Returns why the NodePool would never become ready, if no NodePool controller validates it.
fn invalid_reason(wire: &NodePool, reader: &Reader<'_>) -> Option<String> {
    let settings = reader.settings;
    if !settings.assume_pools_ready {
        return None;
    }
    if let Some(weight) = wire.spec.weight.filter(|weight| !(1..=100).contains(weight)) {
        return Some(format!("spec.weight must be 1 to 100, is {weight}"));
    }
    if let Some(replicas) = wire.spec.replicas {
        return Some(format!("spec.replicas must not be negative, is {replicas}"));
    }
    let mut limits = wire.spec.limits.iter().flatten();
    let is_negative = |q: &FieldQuantity| q.value().is_ok_and(|amount| amount.as_nanos() < 0);
    if let Some((name, _)) = limits.find(|(_, limit)| is_negative(limit)) {
        return Some(format!("spec.limits[{name}] must not be negative"));
    }
    disruption_problem(wire, reader.now)
        .or_else(|| validation::nodepool(&wire.spec, &settings.rules).message())
}

fn pool(wire: &NodePool, reader: &Reader<'_>, problems: &mut Vec<String>) -> Pool {
    let spec = &wire.spec;
    let template = &spec.template;
    let class = &template.spec.node_class_ref;
    let labels = template.metadata.as_ref().and_then(|meta| meta.labels.clone());
    Pool {
        name: wire.metadata.name.clone().unwrap_or_default(),
        weight: spec.weight,
        requirements: requirement::items(&template.spec.requirements, reader.aliases, problems),
        labels: labels.unwrap_or_default(),
        taints: taint::taints(template.spec.taints.as_ref(), problems),
        startup_taints: taint::taints(template.spec.startup_taints.as_ref(), problems),
        limits: quantity::field_resources(spec.limits.as_ref(), "spec.limits", problems),
        node_class: NodeClassRef {
            group: class.group.clone(),
            kind: class.kind.clone(),
            name: class.name.clone(),
        },
        consolidate_after: consolidate_after(wire, problems),
    }
}

/// Returns how long a node stays untouched after its last pod event; none for Never or an unknown
/// policy, zero by default.
fn consolidate_after(wire: &NodePool, problems: &mut Vec<String>) -> Option<SignedDuration> {
    let disruption = wire.spec.disruption.as_ref();
    let policy = disruption.and_then(|disruption| disruption.consolidation_policy.as_deref());
    if policy.is_some_and(|policy| ConsolidationPolicy::from_name(policy).is_none()) {
        // It is unknown which nodes may be consolidated, so all stay. Problems are reported where
        // no API server has validated the NodePool.
        return None;
    }
    let after = disruption.and_then(|disruption| disruption.consolidate_after.as_ref());
    match after.map(NillableDuration::value) {
        None => Some(SignedDuration::ZERO),
        Some(Ok(after)) => after,
        Some(Err(error)) => {
            problems.push(format!("spec.disruption.consolidateAfter: {error}"));
            None
        }
    }
}
