//! Helpers of several controllers: read objects of the cache, patch and delete them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use karpenter_api::condition_set::{HasConditions as _, find};
use karpenter_api::grammar::Quantity;
use karpenter_api::labels;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_cluster::ingest::conversion;
use karpenter_cluster::wire::Pod;
use karpenter_core::lifecycle::{ConditionStatus, TerminationMode};
use karpenter_core::pod::OwnerKind;
use karpenter_core::resources::Resources;
use karpenter_operator::clock::Clock;
use karpenter_operator::harness::ReconcileError;
use karpenter_operator::metrics::labels::Disrupted;
use karpenter_operator::watch::{Change, Informer, ObjectKey};
use karpenter_operator::write::{self, Precondition, WriteOutcome};
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Resource, ResourceExt as _};

use crate::{Cache, Context};

/// Returns the provider id of the claim, or nothing.
pub(crate) fn provider_id(claim: &NodeClaim) -> &str {
    let status = claim.status.as_ref();
    status.and_then(|status| status.provider_id.as_deref()).unwrap_or_default()
}

/// Returns the name of the claim's node, or nothing.
pub(crate) fn node_name(claim: &NodeClaim) -> &str {
    let status = claim.status.as_ref();
    status.and_then(|status| status.node_name.as_deref()).unwrap_or_default()
}

/// Returns all nodes of the claim's instance; there should be one.
pub(crate) fn nodes_of(cache: &Cache, claim: &NodeClaim) -> Vec<Arc<Node>> {
    cache.nodes_by_provider_id.get(provider_id(claim))
}

/// Returns the node of the claim, if there is exactly one.
pub(crate) fn node_of(cache: &Cache, claim: &NodeClaim) -> Option<Arc<Node>> {
    only(nodes_of(cache, claim))
}

/// Returns the node that has the claim as owner, if exactly one. For a claim that has lost its
/// provider id.
pub(crate) fn owned_node(cache: &Cache, claim: &NodeClaim) -> Option<Arc<Node>> {
    let uid = claim.metadata.uid.as_deref().filter(|uid| !uid.is_empty())?;
    let is_own = |node: &Arc<Node>| node.owner_references().iter().any(|owner| owner.uid == uid);
    only(cache.nodes.all().into_iter().filter(is_own).collect())
}

/// Returns the claim of the node, if there is exactly one.
pub(crate) fn claim_of(cache: &Cache, node: &Node) -> Option<Arc<NodeClaim>> {
    only(cache.node_claims_by_provider_id.get(node_provider_id(node)))
}

fn only<T>(found: Vec<T>) -> Option<T> {
    let mut found = found.into_iter();
    found.next().filter(|_| found.next().is_none())
}

pub(crate) fn node_provider_id(node: &Node) -> &str {
    node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default()
}

/// Returns the keys of the managed claims with the changed node's provider id.
pub(crate) fn claim_keys_of_node_change(
    context: &Context,
    change: &Change<Node>,
) -> Vec<ObjectKey> {
    let ids = [&change.before, &change.after].map(|node| {
        node.as_ref().map(|node| node_provider_id(node).to_owned()).unwrap_or_default()
    });
    let [before, after] = &ids;
    let mut claims = context.cache.node_claims_by_provider_id.get(after);
    if before != after {
        claims.extend(context.cache.node_claims_by_provider_id.get(before));
    }
    let managed = claims.iter().filter(|claim| context.manages_claim(claim));
    managed.map(|claim| ObjectKey::of(claim.as_ref())).collect()
}

/// Returns whether a claim of this installation has changed.
pub(crate) fn is_managed_claim_change(context: &Context, change: &Change<NodeClaim>) -> bool {
    let claim = change.after.as_ref().or(change.before.as_ref());
    claim.is_some_and(|claim| context.manages_claim(claim))
}

/// Whether the node's condition Ready is True.
pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

/// Returns the status of a condition of the claim; Unknown if it is missing.
pub(crate) fn condition_status(claim: &NodeClaim, condition: &str) -> ConditionStatus {
    match find(claim.conditions(), condition).map(|condition| condition.status.as_str()) {
        Some("True") => ConditionStatus::True,
        Some("False") => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    }
}

/// Converts quantities of our API. Invalid ones are left out: admission rejects them.
pub(crate) fn resources(list: Option<&BTreeMap<String, Quantity>>) -> Resources {
    let list = list.into_iter().flatten();
    let wire =
        |(name, q): (&String, &Quantity)| (name.clone(), WireQuantity(q.as_str().to_owned()));
    conversion::resources(Some(&list.map(wire).collect()))
}

/// Returns the label's value, or nothing.
pub(crate) fn label<'a>(object: &'a impl Resource, key: &str) -> &'a str {
    let labels = object.meta().labels.as_ref();
    labels.and_then(|labels| labels.get(key)).map(String::as_str).unwrap_or_default()
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeleteResult {
    /// The object is being deleted, or gone.
    Done,
    /// The object was gone before; one of that name may be another.
    Missing,
}

/// Deletes exactly this object, by its uid, and updates the informer.
pub(crate) async fn delete<K>(
    api: &Api<K>,
    informer: &Informer<K>,
    object: &K,
) -> Result<DeleteResult, ReconcileError>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let uid = object.uid();
    let preconditions = Preconditions { uid: uid.clone(), resource_version: None };
    let params = DeleteParams::default().preconditions(preconditions);
    let key = ObjectKey::of(object);
    match api.delete(&key.name, &params).await {
        Ok(answer) => {
            let is_known = || {
                let known = informer.get(&key.namespace, &key.name);
                known.is_some_and(|known| known.uid() == uid)
            };
            match answer.left() {
                // It waits for its finalizers.
                Some(left) if left.meta().deletion_timestamp.is_some() => {
                    informer.apply_write_result(left);
                }
                _ if is_known() => informer.apply_deletion(&key),
                _ => {}
            }
            Ok(DeleteResult::Done)
        }
        // A conflict is about the uid, the only precondition.
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {
            Ok(DeleteResult::Missing)
        }
        Err(error) => Err(error.into()),
    }
}

/// How long to wait between the attempts of one call.
pub(crate) const BACKOFF: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(250)];

/// Deletes the object, with a few retries.
pub(crate) async fn delete_with_retries<K>(
    clock: &Arc<dyn Clock>,
    api: &Api<K>,
    informer: &Informer<K>,
    object: &K,
) -> Result<DeleteResult, ReconcileError>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let mut waits = BACKOFF.iter();
    loop {
        match (delete(api, informer, object).await, waits.next()) {
            (Err(_), Some(wait)) => clock.sleep(*wait).await,
            (result, _) => return result,
        }
    }
}

/// The part of an object that a patch writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectPart {
    /// Everything but the status.
    Main,
    /// The status.
    Status,
}

/// Patches the cluster-scoped object with a few retries, and updates the informer. After a conflict
/// the next attempt starts from the current object. None if the object does not exist.
///
/// A no-op is confirmed with a live GET; the cache may be stale.
pub(crate) async fn patch_with_retries<K>(
    clock: &Arc<dyn Clock>,
    api: &Api<K>,
    informer: &Informer<K>,
    name: &str,
    part: ObjectPart,
    change: impl Fn(&mut K),
) -> Result<Option<K>, ReconcileError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + PartialEq + Serialize + DeserializeOwned,
    K: Send + Sync,
{
    let mut waits = BACKOFF.iter();
    let mut known = informer.get("", name).map(Arc::unwrap_or_clone);
    let mut is_read = false;
    loop {
        let Some(before) = &known else { return Ok(None) };
        let mut after = before.clone();
        change(&mut after);
        let written = match part {
            ObjectPart::Main => {
                write::patch(api, before, &after, Precondition::ResourceVersion).await
            }
            ObjectPart::Status => {
                write::patch_status(api, before, &after, Precondition::ResourceVersion).await
            }
        };
        let error = match written {
            Ok(WriteOutcome::Unchanged) if is_read => return Ok(known),
            Ok(WriteOutcome::Unchanged) => match api.get_opt(name).await {
                Ok(found) => {
                    (known, is_read) = (found, true);
                    continue;
                }
                Err(error) => error.into(),
            },
            Ok(WriteOutcome::Applied(object)) => {
                informer.apply_write_result(object.as_ref().clone());
                return Ok(Some(*object));
            }
            Ok(WriteOutcome::NotFound) => return Ok(None),
            Ok(WriteOutcome::Conflict) => ReconcileError::new("the object has been modified"),
            Err(error) => error,
        };
        let Some(wait) = waits.next() else { return Err(error) };
        clock.sleep(*wait).await;
        // The watch may not have delivered the conflicting write yet.
        if let Ok(found) = api.get_opt(name).await {
            (known, is_read) = (found, true);
        }
    }
}

/// Counts a claim that was deleted for the reason, with its pods if given. The pods are those that
/// have to be rescheduled.
pub(crate) fn count_disrupted(
    context: &Context,
    claim: &NodeClaim,
    reason: &str,
    pods: Option<usize>,
) {
    count_consolidated(context, claim, reason, "", pods);
}

/// Counts a claim that was consolidated under a policy, like [`count_disrupted`].
pub(crate) fn count_consolidated(
    context: &Context,
    claim: &NodeClaim,
    reason: &str,
    consolidation_policy: &str,
    pods: Option<usize>,
) {
    let grace_period = claim.spec.termination_grace_period.as_ref();
    let grace_period = grace_period.and_then(|period| period.value().ok());
    let labels = Disrupted {
        reason,
        nodepool: label(claim, labels::NODEPOOL),
        capacity_type: label(claim, labels::CAPACITY_TYPE),
        consolidation_policy,
        termination_mode: TerminationMode::of(grace_period).label(),
    };
    context.metrics.nodeclaims_disrupted.inc(&labels);
    if let Some(pods) = pods {
        let pods = u32::try_from(pods).unwrap_or(u32::MAX);
        context.metrics.pods_disruption_initiated.add(&labels, f64::from(pods));
    }
}

/// Counts the pods on the claim's node that have to be rescheduled.
pub(crate) fn count_reschedulable_pods(cache: &Cache, claim: &NodeClaim) -> usize {
    let pods = cache.pods_by_node.get(node_name(claim));
    pods.iter().filter(|pod| conversion::pod_drain_state(pod).is_reschedulable()).count()
}

/// Whether the pod has ended.
pub(crate) fn is_terminal(pod: &Pod) -> bool {
    conversion::is_terminal(pod)
}

/// Whether the pod is being deleted.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether the pod is of a DaemonSet.
pub(crate) fn is_daemon(pod: &Pod) -> bool {
    conversion::pod_owner(pod) == OwnerKind::DaemonSet
}

/// Returns the object with that label; none if it has it already.
pub(crate) fn with_label<K: Resource + Clone>(object: &K, key: String, value: &str) -> Option<K> {
    let labels = object.meta().labels.as_ref();
    if labels.and_then(|labels| labels.get(&key)).is_some_and(|known| known == value) {
        return None;
    }
    let mut labelled = object.clone();
    labelled.meta_mut().labels.get_or_insert_default().insert(key, value.to_owned());
    Some(labelled)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::fixtures::pod;

    #[test]
    fn pods_that_need_another_node_are_reschedulable() {
        let owned = |api_version: &str, kind: &str| {
            let owner = json!({"apiVersion": api_version, "kind": kind, "name": "o", "uid": "o"});
            json!({"metadata": {"ownerReferences": [owner]}})
        };
        let ending = |mut changes: Value| {
            changes["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            changes
        };
        #[rustfmt::skip]
        let cases = [
            ("plain",                    json!({}),                                  true),
            ("over",                     json!({"status": {"phase": "Failed"}}),     false),
            ("ending",                   ending(json!({})),                          false),
            ("40/LC-42: daemon",         owned("apps/v1", "DaemonSet"),              false),
            ("static",                   owned("v1", "Node"),                        false),
            ("stateful",                 owned("apps/v1", "StatefulSet"),            true),
            ("stateful, ending",         ending(owned("apps/v1", "StatefulSet")),    true),
            ("other group, ending",      ending(owned("x/v1", "StatefulSet")),       false),
        ];
        for (case, changes, expected) in cases {
            let pod: Pod = serde_json::from_value(pod("p", Some("n"), &changes)).unwrap();
            assert_eq!(conversion::pod_drain_state(&pod).is_reschedulable(), expected, "{case}");
        }
    }
}
