//! Checks the limits of NodePools, and that a world at rest stays at rest.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use karpenter_api::condition_set::{HasConditions as _, is_true};
use karpenter_api::conditions::{DISRUPTION_REASON, READY};
use karpenter_api::grammar::Quantity;
use karpenter_api::labels;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_cluster::ingest::conversion;
use karpenter_core::resources::Resources;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};

use crate::check::{self, WorldSnapshot};
use crate::world::World;
use crate::writes::Write;

/// The most writes of a quiet hour that a violation lists.
const MAX_LISTED_WRITES: usize = 5;

/// Checks that NodePools stay within their limits.
/// A pool may exceed a limit that was lowered, but it may not grow then. Nodes that are being
/// replaced do not count, as upstream: a pool at its limit could never replace its nodes.
#[derive(Debug, Default)]
pub(super) struct LimitsChecker {
    /// The claims of each pool at the last check, and its limits.
    before: BTreeMap<String, (Vec<String>, Resources)>,
}

impl LimitsChecker {
    pub(super) fn check(&mut self, pools: &[NodePool], claims: &[NodeClaim]) -> Vec<String> {
        let mut found = Vec::new();
        for pool in pools {
            let name = pool.name_any();
            let own: Vec<&NodeClaim> = claims
                .iter()
                .filter(|claim| claim.labels().get(labels::NODEPOOL) == Some(&name))
                .filter(|claim| claim.metadata.deletion_timestamp.is_none())
                .collect();
            let names: Vec<String> = own.iter().map(|claim| claim.name_any()).collect();
            let limits = resources(pool.spec.limits.as_ref());
            let now = (names.clone(), limits.clone());
            let (before, old) = self.before.insert(name.clone(), now).unwrap_or_default();
            let is_new = names.iter().any(|name| !before.contains(name));
            let mut used = Resources::default();
            let stays = |claim: &&&NodeClaim| !is_true(claim.conditions(), DISRUPTION_REASON);
            for claim in own.iter().filter(stays) {
                used.add(&capacity(claim));
            }
            for (resource, limit) in limits.iter() {
                // It may have been lowered after the claim was made.
                let limit = limit.max(old.amount(resource));
                let used = used.amount(resource);
                if is_new && used > limit {
                    found.push(format!(
                        "NodePool {name} was given more than its limit: {} of {} {resource}",
                        used.canonical(),
                        limit.canonical(),
                    ));
                }
            }
        }
        found
    }
}

/// What the claim's instance has, or at least has to have.
fn capacity(claim: &NodeClaim) -> Resources {
    let launched = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
    let requested = claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    resources(launched.or(requested))
}

fn resources(list: Option<&BTreeMap<String, Quantity>>) -> Resources {
    let wire =
        |(name, q): (&String, &Quantity)| (name.clone(), WireQuantity(q.as_str().to_owned()));
    conversion::resources(Some(&list.into_iter().flatten().map(wire).collect()))
}

/// Returns the violations of a world in which nothing has happened for hours.
pub(super) fn rest_violations(snapshot: &WorldSnapshot) -> Vec<String> {
    let mut found: Vec<String> = check::violations_at_rest(snapshot)
        .iter()
        .map(|violation| format!("at rest: {violation}"))
        .collect();
    for claim in &snapshot.claims {
        if !is_true(claim.conditions(), READY) {
            found.push(format!("at rest: NodeClaim {} is not ready", claim.name_any()));
        }
        if claim.metadata.deletion_timestamp.is_some() {
            found.push(format!("at rest: NodeClaim {} is still going", claim.name_any()));
        }
    }
    found
}

/// Reasons of events that are emitted again in a world at rest, as upstream.
/// They explain why nothing is disrupted, and expire after a while.
const REPEATED_EVENT_REASONS: [&str; 4] = [
    "Unconsolidatable",
    "DisruptionBlocked",
    "DoNotDisruptUntil",
    "DoNotDisruptGracePeriodElapsed",
];

/// Returns the writes of the product since a time without reason to write.
pub(super) async fn unexpected_writes(
    world: &World,
    since: Timestamp,
    when: &str,
) -> Result<Vec<String>, kube::Error> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let is_event = |write: &Write| write.path.contains("/events");
    for write in world.writes.since(since).iter().filter(|write| !is_event(write)) {
        *counts.entry(write.to_string()).or_default() += 1;
    }
    let events: Api<Event> = Api::all(world.client());
    for event in events.list(&ListParams::default()).await?.items {
        let reason = event.reason.clone().unwrap_or_default();
        let component = event.source.as_ref().and_then(|source| source.component.as_deref());
        let last = event.last_timestamp.as_ref().map(|time| time.0);
        let is_ours =
            component == Some("karpenter") && !REPEATED_EVENT_REASONS.contains(&reason.as_str());
        // Times of events are whole seconds.
        if is_ours && last.is_some_and(|last| last > since) {
            let about = event.involved_object.name.unwrap_or_default();
            *counts.entry(format!("Event {reason} of {about}")).or_default() += 1;
        }
    }
    if counts.is_empty() {
        return Ok(Vec::new());
    }
    let mut shown: Vec<String> = counts
        .iter()
        .take(MAX_LISTED_WRITES)
        .map(|(write, count)| format!("{count} × {write}"))
        .collect();
    if counts.len() > MAX_LISTED_WRITES {
        shown.push(format!("and {} more", counts.len() - MAX_LISTED_WRITES));
    }
    let all: usize = counts.values().sum();
    Ok(vec![format!("{all} writes {when}: {}", shown.join(", "))])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(name: &str, cpu: &str, is_replaced: bool) -> NodeClaim {
        let replaced = json!([{
            "type": "DisruptionReason", "status": "True", "reason": "Drifted", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "limited"}},
            "spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "a"},
            },
            "status": {
                "capacity": {"cpu": cpu},
                "conditions": if is_replaced { replaced } else { json!([]) },
            },
        });
        serde_json::from_value(claim).expect("a NodeClaim")
    }

    #[test]
    fn new_claims_beyond_nodepool_limits_are_reported() {
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "limited"},
            "spec": {"limits": {"cpu": "4"}, "template": {"spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "a"},
            }}},
        });
        let pools = [serde_json::from_value(pool).expect("a NodePool")];
        let (old, going) = (claim("old", "4", false), claim("old", "4", true));
        let new = claim("new", "2", false);
        let wrong = "NodePool limited was given more than its limit: 6 of 4 cpu";
        for (case, claims, expected) in [
            ("beside one that stays", vec![old.clone(), new.clone()], &[wrong][..]),
            ("for one that goes", vec![going, new.clone()], &[]),
        ] {
            let mut limits = LimitsChecker::default();
            assert!(limits.check(&pools, std::slice::from_ref(&old)).is_empty(), "{case}");
            assert_eq!(limits.check(&pools, &claims), expected, "{case}");
            let back = [old.clone(), new.clone()];
            assert!(limits.check(&pools, &back).is_empty(), "{case}: nothing is new");
        }
    }
}
