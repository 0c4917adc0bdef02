//! Explains in plain text why a pod gets no node, with possible fixes.
//!
//! Upstream's texts, which events carry, are in `karpenter_core::reason`; these are for people.

use karpenter_api::labels;
use karpenter_core::rejection::{
    Explanation, FailedCheck, InstanceTypeMismatch, InstanceTypesRejection, PodRejection,
    RejectionReason, ReservedOfferingRejection, TopologyKind, TopologyRejection,
};
use karpenter_core::requirement::{IncompatibleRequirements, Operator, Requirement};
use karpenter_core::resources::{CPU, MEMORY, Quantity, Resources};
use karpenter_core::scheduling::limits::LimitRejection;
use serde::Serialize;

mod text_format;

pub(crate) use text_format::quantity_text;
pub(super) use text_format::{join_first, resource_amount, truncate_text};

/// Why one NodePool does not take a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodePoolRejection {
    /// Absent where no pool was evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_pool: Option<String>,
    #[serde(rename = "what")]
    pub(crate) problem: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
    /// The instance types that came nearest, with all that they lack.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) nearest: Vec<NearestType>,
}

/// The failed checks of an instance type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NearestType {
    pub(crate) instance_type: String,
    pub(crate) misses: Vec<String>,
}

/// How many instance types are reported for one pool.
const NEAREST_MAX: usize = 3;

/// Returns why each pool rejects a pod, in the order of evaluation. If no pool was evaluated,
/// returns why the pools were `left_out`.
pub(crate) fn node_pool_rejections(
    refusal: &PodRejection,
    tree: Option<&Explanation>,
    left_out: &[NodePoolRejection],
) -> Vec<NodePoolRejection> {
    if let Some(tree) = tree.filter(|tree| !tree.pools.is_empty()) {
        return tree
            .pools
            .iter()
            .map(|pool| node_pool_rejection(&pool.pool, &pool.reason, &pool.types))
            .collect();
    }
    let plain = |problem: &str, fix: &str| {
        let fix = Some(fix.to_owned()).filter(|fix| !fix.is_empty());
        vec![NodePoolRejection {
            node_pool: None,
            problem: problem.to_owned(),
            fix,
            nearest: Vec::new(),
        }]
    };
    match refusal {
        PodRejection::Pools(refusals) => refusals
            .iter()
            .map(|refusal| node_pool_rejection(&refusal.name, &refusal.reason, &[]))
            .collect(),
        PodRejection::DynamicResourcesIgnored => plain(
            "it asks for devices (ResourceClaims), which are left alone",
            "plan with --ignore-dra-requests=false",
        ),
        PodRejection::DynamicResources(text) | PodRejection::Volumes(text) => plain(text, ""),
        PodRejection::NoUsablePool if !left_out.is_empty() => left_out.to_vec(),
        PodRejection::NoUsablePool => plain("no NodePool can launch anything", "add a NodePool"),
        PodRejection::SolveCutShort => plain("the solve ended before it could be tried again", ""),
        PodRejection::PlanViolation(_) => plain(&refusal.to_string(), "report this bug"),
        PodRejection::MinValuesMissedAfterTruncation { pool, unmet } => {
            let keys: Vec<_> = unmet.achieved.keys().map(String::as_str).collect();
            let problem = format!("the cheapest 600 types miss minValues of {}", keys.join(", "));
            let fix = Some("lower minValues, or use --min-values-policy BestEffort".to_owned());
            vec![NodePoolRejection {
                node_pool: Some(pool.clone()),
                problem,
                fix,
                nearest: Vec::new(),
            }]
        }
    }
}

fn node_pool_rejection(
    pool: &str,
    why: &RejectionReason,
    types: &[InstanceTypeMismatch],
) -> NodePoolRejection {
    let (problem, fix, nearest) = match why {
        RejectionReason::InstanceTypes(refusal) => {
            let types = sort_nearest_first(types);
            let (problem, fix) = types_rejection_text(refusal, &types);
            let near_miss = |found| nearest_type(found, &refusal.requests);
            (problem, fix, types.into_iter().take(NEAREST_MAX).map(near_miss).collect())
        }
        other => {
            let (problem, fix) = reason_text(other);
            (problem, fix, Vec::new())
        }
    };
    NodePoolRejection { node_pool: Some(pool.to_owned()), problem, fix, nearest }
}

/// Sorts by the number of failed checks, then by shortage; equal ones stay sorted by price.
fn sort_nearest_first(types: &[InstanceTypeMismatch]) -> Vec<&InstanceTypeMismatch> {
    let mut types: Vec<_> = types.iter().collect();
    types.sort_by(|a, b| {
        let by_shortage = || shortage(&a.failed_checks).total_cmp(&shortage(&b.failed_checks));
        a.failed_checks.len().cmp(&b.failed_checks.len()).then_with(by_shortage)
    });
    types
}

/// How many times more is needed than there is, summed; something of which there is nothing counts
/// most.
#[expect(clippy::cast_precision_loss, reason = "only compared")]
fn shortage(misses: &[FailedCheck]) -> f64 {
    let ratio = |miss: &FailedCheck| match miss {
        FailedCheck::Resource { needed, available, .. } if available.nanos() > 0 => {
            needed.nanos() as f64 / available.nanos() as f64
        }
        FailedCheck::Resource { .. } => 1e9,
        _ => 0.0,
    };
    misses.iter().map(ratio).sum()
}

fn nearest_type(found: &InstanceTypeMismatch, requests: &Resources) -> NearestType {
    NearestType {
        instance_type: found.instance_type.clone(),
        misses: found
            .failed_checks
            .iter()
            .map(|found| failed_check_text(found, requests))
            .collect(),
    }
}

fn reason_text(why: &RejectionReason) -> (String, Option<String>) {
    let (problem, fix) = match why {
        RejectionReason::Taints(taints) => {
            let all: Vec<_> = taints.iter().map(ToString::to_string).collect();
            let all = join_first(all.iter().map(String::as_str), all.len());
            let problem = format!("the pod does not tolerate {all}");
            (problem, "add a toleration to the pod, or take the taint off the pool")
        }
        RejectionReason::VolumeLimit(None) => {
            ("no type can attach so many volumes".to_owned(), "spread the volumes over more pods")
        }
        RejectionReason::VolumeLimit(Some(limit)) => {
            let (driver, count, limit) = (truncate_text(&limit.driver), limit.count, limit.limit);
            let problem =
                format!("it would attach {count} volumes of {driver}; a node takes {limit}");
            (problem, "spread the volumes over more pods")
        }
        RejectionReason::Requirements(why) => return requirements_text("the pod", why),
        RejectionReason::VolumeTopology(why) => return requirements_text("its volume", why),
        RejectionReason::TopologyResult(why) => {
            return requirements_text("its topology constraint", why);
        }
        RejectionReason::Topology(why) => return topology_text(why),
        RejectionReason::InstanceTypes(why) => return types_rejection_text(why, &[]),
        RejectionReason::Limits(LimitRejection::NodesExhausted) => (
            "the pool has as many nodes as spec.limits.nodes allows".to_owned(),
            "raise spec.limits.nodes of the pool",
        ),
        RejectionReason::Limits(LimitRejection::AllTypesExceed) => (
            "every instance type is larger than what spec.limits of the pool leaves".to_owned(),
            "raise spec.limits of the pool",
        ),
        RejectionReason::Reserved(why) => (
            match why {
                ReservedOfferingRejection::HeldByOthers
                | ReservedOfferingRejection::WouldLoseReservations => {
                    "other nodes of this plan hold the capacity reservations"
                }
                ReservedOfferingRejection::Full | ReservedOfferingRejection::FullInFallbackMode => {
                    "the capacity reservations are full"
                }
            }
            .to_owned(),
            "allow on-demand or spot as well, or reserve more",
        ),
        RejectionReason::DynamicResources(text) => (text.clone(), ""),
    };
    (problem, Some(fix.to_owned()).filter(|fix| !fix.is_empty()))
}

/// How many conflicting requirements of one candidate are reported.
const CONFLICTS_MAX: usize = 3;

/// Returns how many conflicts are not reported.
fn more_conflicts(conflicts: usize) -> Option<String> {
    let left = conflicts.checked_sub(CONFLICTS_MAX).filter(|left| *left > 0)?;
    Some(format!("{left} more"))
}

fn requirements_text(subject: &str, why: &IncompatibleRequirements) -> (String, Option<String>) {
    match why {
        IncompatibleRequirements::UnknownLabel { key, typo_of } => {
            let key = truncate_text(key);
            let problem = format!("{subject} asks for label {key}, which the pool does not set");
            let fix = match typo_of {
                Some(label) => format!("is {label} meant? Else add {key} to the pool's labels"),
                None => format!("add {key} to labels or requirements of the pool, or drop it"),
            };
            (problem, Some(fix))
        }
        IncompatibleRequirements::Conflicts(conflicts) => {
            let all = conflicts.iter().take(CONFLICTS_MAX).map(|conflict| {
                let (requested, has) =
                    (values_text(&conflict.incoming), values_text(&conflict.existing));
                format!(
                    "{} {requested}; the pool has {has}",
                    truncate_text(conflict.incoming.key())
                )
            });
            let all: Vec<_> = all.chain(more_conflicts(conflicts.len())).collect();
            let problem = format!("{subject} asks for {}", all.join(", and for "));
            let fix = "change what it asks for, or the requirements of the pool";
            (problem, Some(fix.to_owned()))
        }
    }
}

/// Returns the fix if a storage object of an ignored pod is missing.
pub(super) fn missing_object_fix(reason: &str) -> Option<&'static str> {
    let is_storage = ["PersistentVolumeClaim", "PersistentVolume", "StorageClass"]
        .iter()
        .any(|kind| reason.contains(kind));
    let is_missing = reason.contains("not found") || reason.contains("must define a storage class");
    (is_storage && is_missing)
        .then_some("add what is missing: kubectl get pvc,pv,storageclasses -A -o yaml")
}

/// Returns a requirement without its key: `a, b`, `at least 4`, `none`.
pub(super) fn values_text(requirement: &Requirement) -> String {
    let all = requirement.values();
    let list = join_first(all.iter().map(String::as_str), all.len());
    match requirement.operator() {
        Operator::In => list,
        Operator::NotIn => format!("anything but {list}"),
        Operator::DoesNotExist => "none".to_owned(),
        _ => match (requirement.gte(), requirement.lte()) {
            (Some(low), Some(high)) => format!("{low} to {high}"),
            (Some(low), None) => format!("at least {low}"),
            (None, Some(high)) => format!("at most {high}"),
            (None, None) => "any value".to_owned(),
        },
    }
}

fn topology_text(why: &TopologyRejection) -> (String, Option<String>) {
    let TopologyRejection { kind, counts, .. } = why;
    let domains = domains_text(why);
    let (problem, fix) = match kind {
        TopologyKind::Spread => (
            format!("no domain {domains} keeps the spread within its skew"),
            "raise maxSkew, use ScheduleAnyway, or let the pool reach more domains",
        ),
        TopologyKind::Affinity if counts.iter().all(|(_, count)| *count == 0) => (
            format!("no pod that its affinity asks for is in any domain {domains}"),
            "start the pods that it wants to be near, or drop the affinity",
        ),
        TopologyKind::Affinity => (
            format!("the pods that its affinity asks for are in no domain {domains}"),
            "let the pool reach their domain, or drop the affinity",
        ),
        TopologyKind::AntiAffinity => (
            format!("anti-affinity leaves no domain {domains}"),
            "let the pool reach more domains, or make the anti-affinity a preference",
        ),
    };
    (problem, Some(fix.to_owned()))
}

/// Returns `of <key>`, with the limits and the counts of domains.
fn domains_text(why: &TopologyRejection) -> String {
    const SHOWN: usize = 4;
    // Names of nodes that do not exist yet do not help the user.
    if why.key == labels::HOSTNAME {
        return format!("of {}", why.key);
    }
    let limits = [("pod", &why.pod_domains), ("pool", &why.node_domains)].into_iter();
    let limits = limits
        .filter(|(_, allowed)| allowed.operator() != Operator::Exists)
        .map(|(subject, allowed)| format!("{subject}: {}", values_text(allowed)));
    let counted = why.counts.iter().take(SHOWN);
    let mut counted: Vec<_> = match why.kind {
        // A pod whose domain is still open counts in every possible domain.
        TopologyKind::AntiAffinity => {
            counted.filter(|(_, count)| *count > 0).map(|(name, _)| truncate_text(name)).collect()
        }
        _ => counted.map(|(name, count)| format!("{count} in {}", truncate_text(name))).collect(),
    };
    if why.counts.len() > SHOWN || why.omitted_domains > 0 {
        counted.push("...".to_owned());
    }
    let head = match why.kind {
        TopologyKind::AntiAffinity => "taken, or may be taken",
        _ => "pods",
    };
    let counted = (!counted.is_empty()).then(|| format!("{head}: {}", counted.join(", ")));
    let details: Vec<_> = limits.chain(counted).collect();
    match details.as_slice() {
        [] => format!("of {}", why.key),
        details => format!("of {} ({})", why.key, details.join("; ")),
    }
}

/// Returns the failed checks of the nearest type, with a fix.
fn types_rejection_text(
    refusal: &InstanceTypesRejection,
    types: &[&InstanceTypeMismatch],
) -> (String, Option<String>) {
    if let Some(unmet) = &refusal.min_values {
        let all: Vec<_> =
            unmet.achieved.iter().map(|(key, count)| format!("{key} (only {count})")).collect();
        let problem = format!("too few distinct values for minValues of {}", all.join(", "));
        let fix = "lower minValues, loosen the pool, or use --min-values-policy BestEffort";
        return (problem, Some(fix.to_owned()));
    }
    let Some(nearest) = types.iter().find(|found| !found.failed_checks.is_empty()) else {
        let requests: Vec<_> = refusal
            .requests
            .iter()
            .filter(|(name, _)| *name != "pods")
            .map(|(name, quantity)| resource_amount(name, quantity))
            .collect();
        let problem = format!("no instance type has {}", requests.join(" and "));
        return (problem, Some("request less, or let the pool use larger types".to_owned()));
    };
    // Without the requested zone there is no offering either: one of the two will do.
    let hides_offering =
        nearest.failed_checks.iter().any(|miss| matches!(miss, FailedCheck::Requirement(_)));
    let misses: Vec<_> = nearest
        .failed_checks
        .iter()
        .filter(|miss| !(hides_offering && **miss == FailedCheck::Offering))
        .map(|found| failed_check_text(found, &refusal.requests))
        .collect();
    let name = truncate_text(&nearest.instance_type);
    let problem = format!("nearest type {name}: {}", misses.join(" and "));
    let fix = match nearest.failed_checks.first() {
        Some(FailedCheck::Resource { name, .. }) if name == CPU || name == MEMORY => {
            format!("request less {name}, or let the pool use larger types")
        }
        Some(FailedCheck::Resource { name, .. }) => {
            format!("request less {name}, or allow types with it")
        }
        Some(FailedCheck::Requirement(_)) => {
            "change what the pod asks for, or the requirements of the pool".to_owned()
        }
        Some(FailedCheck::Offering) => "allow more zones or capacity types".to_owned(),
        Some(FailedCheck::HostPort) => "use another host port".to_owned(),
        Some(FailedCheck::Limits) => "raise spec.limits of the pool".to_owned(),
        None => return (problem, None),
    };
    (problem, Some(fix))
}

/// Describes a failed check of a type for a pod with these requests.
fn failed_check_text(miss: &FailedCheck, requests: &Resources) -> String {
    match miss {
        FailedCheck::Requirement(IncompatibleRequirements::UnknownLabel { key, .. }) => {
            format!("has no label {}", truncate_text(key))
        }
        FailedCheck::Requirement(IncompatibleRequirements::Conflicts(conflicts)) => {
            let all = conflicts.iter().take(CONFLICTS_MAX).map(|conflict| {
                let (requested, has) =
                    (values_text(&conflict.incoming), values_text(&conflict.existing));
                format!("{} is {has}, not {requested}", truncate_text(conflict.incoming.key()))
            });
            all.chain(more_conflicts(conflicts.len())).collect::<Vec<_>>().join(", ")
        }
        FailedCheck::Resource { name, needed, available } => {
            let daemons = needed.nanos().saturating_sub(requests.amount(name).nanos());
            let daemons = match Quantity::from_nanos(daemons) {
                share if share > Quantity::ZERO => {
                    format!(" (daemons take {} of it)", quantity_text(name, share))
                }
                _ => String::new(),
            };
            let (needed, available) =
                (resource_amount(name, *needed), quantity_text(name, *available));
            format!("needs {needed}{daemons}, has {available}")
        }
        FailedCheck::Offering => {
            "has no offering in the zones and capacity types that are left".to_owned()
        }
        FailedCheck::HostPort => "a daemon of the node takes the host port".to_owned(),
        FailedCheck::Limits => "is larger than what spec.limits leaves".to_owned(),
    }
}
