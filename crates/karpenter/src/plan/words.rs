//! Why a pod goes nowhere, in plain words and with what could be done about it.
//!
//! Upstream's texts, which events carry, are in `karpenter_core::reason`; these are for people.

use karpenter_api::labels;
use karpenter_core::reason::{
    Explanation, Miss, Refusal, ReservedRefusal, TopologyKind, TopologyRefusal, TypeMiss,
    TypesRefusal, Why,
};
use karpenter_core::requirement::{Incompatible, Operator, Requirement};
use karpenter_core::resources::{CPU, MEMORY, Quantity, Resources};
use karpenter_core::scheduling::limits::LimitRefusal;
use serde::Serialize;

mod short;

pub(super) use short::{amount, bare_amount, list, short};

/// What one NodePool has against a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolVerdict {
    /// Absent where no pool was even asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_pool: Option<String>,
    pub(crate) what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
    /// The instance types that came nearest, with all that they lack.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) nearest: Vec<NearMiss>,
}

/// What an instance type lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NearMiss {
    pub(crate) instance_type: String,
    pub(crate) misses: Vec<String>,
}

/// Instance types that are told of one pool.
const NEAREST: usize = 3;

/// What each pool has against a pod, in the order in which they were asked.
/// Where no pool could be asked, why not is what pools were `left_out` for.
pub(crate) fn verdicts(
    refusal: &Refusal,
    tree: Option<&Explanation>,
    left_out: &[PoolVerdict],
) -> Vec<PoolVerdict> {
    if let Some(tree) = tree.filter(|tree| !tree.pools.is_empty()) {
        return tree.pools.iter().map(|pool| verdict(&pool.pool, &pool.why, &pool.types)).collect();
    }
    let plain = |what: &str, fix: &str| {
        let fix = Some(fix.to_owned()).filter(|fix| !fix.is_empty());
        vec![PoolVerdict { node_pool: None, what: what.to_owned(), fix, nearest: Vec::new() }]
    };
    match refusal {
        Refusal::Pools(refusals) => {
            refusals.iter().map(|refusal| verdict(&refusal.name, &refusal.why, &[])).collect()
        }
        Refusal::DynamicResourcesIgnored => plain(
            "it asks for devices (ResourceClaims), which are left alone",
            "plan with --ignore-dra-requests=false",
        ),
        Refusal::DynamicResources(text) | Refusal::Volumes(text) => plain(text, ""),
        Refusal::NoUsablePool if !left_out.is_empty() => left_out.to_vec(),
        Refusal::NoUsablePool => plain("no NodePool can launch anything", "add a NodePool"),
        Refusal::NotTriedAgain => plain("the solve ended before it could be tried again", ""),
        Refusal::Truncated { pool, unmet } => {
            let keys: Vec<_> = unmet.achieved.keys().map(String::as_str).collect();
            let what = format!("the cheapest 600 types miss minValues of {}", keys.join(", "));
            let fix = Some("lower minValues, or use --min-values-policy BestEffort".to_owned());
            vec![PoolVerdict { node_pool: Some(pool.clone()), what, fix, nearest: Vec::new() }]
        }
    }
}

fn verdict(pool: &str, why: &Why, types: &[TypeMiss]) -> PoolVerdict {
    let (what, fix, nearest) = match why {
        Why::InstanceTypes(refusal) => {
            let types = nearest_first(types);
            let (what, fix) = types_refusal(refusal, &types);
            let near_miss = |found| near_miss(found, &refusal.requests);
            (what, fix, types.into_iter().take(NEAREST).map(near_miss).collect())
        }
        other => {
            let (what, fix) = plain(other);
            (what, fix, Vec::new())
        }
    };
    PoolVerdict { node_pool: Some(pool.to_owned()), what, fix, nearest }
}

/// The types that lack the fewest things, and of those the ones that are least short; of equal ones
/// the cheapest, as they come.
fn nearest_first(types: &[TypeMiss]) -> Vec<&TypeMiss> {
    let mut types: Vec<_> = types.iter().collect();
    types.sort_by(|a, b| {
        let by_shortage = || shortage(&a.misses).total_cmp(&shortage(&b.misses));
        a.misses.len().cmp(&b.misses.len()).then_with(by_shortage)
    });
    types
}

/// How many times more is needed than there is, summed; something of which there is nothing counts
/// most.
#[expect(clippy::cast_precision_loss, reason = "only compared")]
fn shortage(misses: &[Miss]) -> f64 {
    let ratio = |miss: &Miss| match miss {
        Miss::Resource { needed, available, .. } if available.nanos() > 0 => {
            needed.nanos() as f64 / available.nanos() as f64
        }
        Miss::Resource { .. } => 1e9,
        _ => 0.0,
    };
    misses.iter().map(ratio).sum()
}

fn near_miss(found: &TypeMiss, requests: &Resources) -> NearMiss {
    NearMiss {
        instance_type: found.instance_type.clone(),
        misses: found.misses.iter().map(|found| miss(found, requests)).collect(),
    }
}

fn plain(why: &Why) -> (String, Option<String>) {
    let (what, fix) = match why {
        Why::Taints(taints) => {
            let all: Vec<_> = taints.iter().map(ToString::to_string).collect();
            let all = list(all.iter().map(String::as_str), all.len());
            let what = format!("the pod does not tolerate {all}");
            (what, "add a toleration to the pod, or take the taint off the pool")
        }
        Why::VolumeLimit(None) => {
            ("no type can attach so many volumes".to_owned(), "spread the volumes over more pods")
        }
        Why::VolumeLimit(Some(limit)) => {
            let (driver, count, limit) = (short(&limit.driver), limit.count, limit.limit);
            let what = format!("it would attach {count} volumes of {driver}; a node takes {limit}");
            (what, "spread the volumes over more pods")
        }
        Why::Requirements(why) => return requirements("the pod", why),
        Why::VolumeTopology(why) => return requirements("its volume", why),
        Why::TopologyResult(why) => return requirements("its topology constraint", why),
        Why::Topology(why) => return topology(why),
        Why::InstanceTypes(why) => return types_refusal(why, &[]),
        Why::Limits(LimitRefusal::NodesExhausted) => (
            "the pool has as many nodes as spec.limits.nodes allows".to_owned(),
            "raise spec.limits.nodes of the pool",
        ),
        Why::Limits(LimitRefusal::AllTypesExceed) => (
            "every instance type is larger than what spec.limits of the pool leaves".to_owned(),
            "raise spec.limits of the pool",
        ),
        Why::Reserved(why) => (
            match why {
                ReservedRefusal::HeldByOthers | ReservedRefusal::WouldLose => {
                    "other nodes of this plan hold the capacity reservations"
                }
                ReservedRefusal::Full | ReservedRefusal::FullFallThrough => {
                    "the capacity reservations are full"
                }
            }
            .to_owned(),
            "allow on-demand or spot as well, or reserve more",
        ),
        Why::DynamicResources(text) => (text.clone(), ""),
    };
    (what, Some(fix.to_owned()).filter(|fix| !fix.is_empty()))
}

/// Conflicts between requirements that are told of one candidate.
const CONFLICTS: usize = 3;

/// How many conflicts are not told.
fn others(conflicts: usize) -> Option<String> {
    let left = conflicts.checked_sub(CONFLICTS).filter(|left| *left > 0)?;
    Some(format!("{left} more"))
}

fn requirements(who: &str, why: &Incompatible) -> (String, Option<String>) {
    match why {
        Incompatible::UnknownLabel { key, typo_of } => {
            let key = short(key);
            let what = format!("{who} asks for label {key}, which the pool does not set");
            let fix = match typo_of {
                Some(label) => format!("is {label} meant? Else add {key} to the pool's labels"),
                None => format!("add {key} to labels or requirements of the pool, or drop it"),
            };
            (what, Some(fix))
        }
        Incompatible::Conflicts(conflicts) => {
            let all = conflicts.iter().take(CONFLICTS).map(|conflict| {
                let (asked, has) = (values(&conflict.incoming), values(&conflict.existing));
                format!("{} {asked}; the pool has {has}", short(conflict.incoming.key()))
            });
            let all: Vec<_> = all.chain(others(conflicts.len())).collect();
            let what = format!("{who} asks for {}", all.join(", and for "));
            let fix = "change what it asks for, or the requirements of the pool";
            (what, Some(fix.to_owned()))
        }
    }
}

/// What to add to the input where a pod is not considered because something is not there.
pub(super) fn missing_object(reason: &str) -> Option<&'static str> {
    let is_storage = ["PersistentVolumeClaim", "PersistentVolume", "StorageClass"]
        .iter()
        .any(|kind| reason.contains(kind));
    let is_missing = reason.contains("not found") || reason.contains("must define a storage class");
    (is_storage && is_missing)
        .then_some("add what is missing: kubectl get pvc,pv,storageclasses -A -o yaml")
}

/// A requirement without its key: `a, b`, `at least 4`, `none`.
pub(super) fn values(requirement: &Requirement) -> String {
    let all = requirement.values();
    let list = list(all.iter().map(String::as_str), all.len());
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

fn topology(why: &TopologyRefusal) -> (String, Option<String>) {
    let TopologyRefusal { kind, counts, .. } = why;
    let domains = domains(why);
    let (what, fix) = match kind {
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
    (what, Some(fix.to_owned()))
}

/// `of <key>`, with what limits the choice and how many pods are where.
fn domains(why: &TopologyRefusal) -> String {
    const SHOWN: usize = 4;
    // Names of nodes that do not exist yet say nothing to anybody.
    if why.key == labels::HOSTNAME {
        return format!("of {}", why.key);
    }
    let limits = [("pod", &why.pod_domains), ("pool", &why.node_domains)].into_iter();
    let limits = limits
        .filter(|(_, allowed)| allowed.operator() != Operator::Exists)
        .map(|(who, allowed)| format!("{who}: {}", values(allowed)));
    let counted = why.counts.iter().take(SHOWN);
    let mut counted: Vec<_> = match why.kind {
        // A pod whose domain is still open counts in every domain that it may end up in.
        TopologyKind::AntiAffinity => {
            counted.filter(|(_, count)| *count > 0).map(|(name, _)| short(name)).collect()
        }
        _ => counted.map(|(name, count)| format!("{count} in {}", short(name))).collect(),
    };
    if why.counts.len() > SHOWN || why.more > 0 {
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

/// The nearest type, and what it lacks.
fn types_refusal(refusal: &TypesRefusal, types: &[&TypeMiss]) -> (String, Option<String>) {
    if let Some(unmet) = &refusal.min_values {
        let all: Vec<_> =
            unmet.achieved.iter().map(|(key, count)| format!("{key} (only {count})")).collect();
        let what = format!("too few distinct values for minValues of {}", all.join(", "));
        let fix = "lower minValues, loosen the pool, or use --min-values-policy BestEffort";
        return (what, Some(fix.to_owned()));
    }
    let Some(nearest) = types.iter().find(|found| !found.misses.is_empty()) else {
        let requests: Vec<_> = refusal
            .requests
            .iter()
            .filter(|(name, _)| *name != "pods")
            .map(|(name, quantity)| amount(name, quantity))
            .collect();
        let what = format!("no instance type has {}", requests.join(" and "));
        return (what, Some("request less, or let the pool use larger types".to_owned()));
    };
    // Without the zone that is asked for there is no offering either: one of the two will do.
    let hides_offering = nearest.misses.iter().any(|miss| matches!(miss, Miss::Requirement(_)));
    let misses: Vec<_> = nearest
        .misses
        .iter()
        .filter(|miss| !(hides_offering && **miss == Miss::Offering))
        .map(|found| miss(found, &refusal.requests))
        .collect();
    let name = short(&nearest.instance_type);
    let what = format!("nearest type {name}: {}", misses.join(" and "));
    let fix = match nearest.misses.first() {
        Some(Miss::Resource { name, .. }) if name == CPU || name == MEMORY => {
            format!("request less {name}, or let the pool use larger types")
        }
        Some(Miss::Resource { name, .. }) => format!("request less {name}, or allow types with it"),
        Some(Miss::Requirement(_)) => {
            "change what the pod asks for, or the requirements of the pool".to_owned()
        }
        Some(Miss::Offering) => "allow more zones or capacity types".to_owned(),
        Some(Miss::HostPort) => "use another host port".to_owned(),
        Some(Miss::Limits) => "raise spec.limits of the pool".to_owned(),
        None => return (what, None),
    };
    (what, Some(fix))
}

/// What a type lacks for a pod with these requests.
fn miss(miss: &Miss, requests: &Resources) -> String {
    match miss {
        Miss::Requirement(Incompatible::UnknownLabel { key, .. }) => {
            format!("has no label {}", short(key))
        }
        Miss::Requirement(Incompatible::Conflicts(conflicts)) => {
            let all = conflicts.iter().take(CONFLICTS).map(|conflict| {
                let (asked, has) = (values(&conflict.incoming), values(&conflict.existing));
                format!("{} is {has}, not {asked}", short(conflict.incoming.key()))
            });
            all.chain(others(conflicts.len())).collect::<Vec<_>>().join(", ")
        }
        Miss::Resource { name, needed, available } => {
            let daemons = needed.nanos().saturating_sub(requests.amount(name).nanos());
            let daemons = match Quantity::from_nanos(daemons) {
                share if share > Quantity::ZERO => {
                    format!(" (daemons take {} of it)", bare_amount(name, share))
                }
                _ => String::new(),
            };
            let (needed, available) = (amount(name, *needed), bare_amount(name, *available));
            format!("needs {needed}{daemons}, has {available}")
        }
        Miss::Offering => {
            "has no offering in the zones and capacity types that are left".to_owned()
        }
        Miss::HostPort => "a daemon of the node takes the host port".to_owned(),
        Miss::Limits => "is larger than what spec.limits leaves".to_owned(),
    }
}
