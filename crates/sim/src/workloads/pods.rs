//! Reads the state of pods for the controllers, and creates pods from templates.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt as _};

use super::queue::later;

/// The label of the template that a pod was made of.
pub(super) const TEMPLATE_HASH: &str = "pod-template-hash";

pub(super) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

pub(super) fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

pub(super) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub(super) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Neither finished nor terminating.
pub(super) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_terminating(pod)
}

/// Since when the pod is ready; none if it is not.
pub(super) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    let since = ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    (ready.status == "True").then_some(since)
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    ready_since(pod).is_some()
}

/// When the pod is or will be available, if it stays ready.
pub(super) fn available_at(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    let wait = Duration::from_secs(u64::try_from(min_ready_seconds).unwrap_or_default());
    ready_since(pod).map(|since| later(since, wait))
}

pub(super) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    available_at(pod, min_ready_seconds).is_some_and(|time| time <= now)
}

/// When the next of the pods becomes available by the passing of time.
pub(super) fn next_available<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Timestamp> {
    let times = pods.into_iter().filter_map(|pod| available_at(pod, min_ready_seconds));
    times.filter(|time| *time > now).min()
}

pub(super) fn created(meta: &ObjectMeta) -> Timestamp {
    meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

/// The owner that decides over the object.
pub(super) fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Returns an owner reference that names `owner` as the controller.
pub(super) fn owner_reference<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A pod of a template. The API completes its name unless the caller sets one.
pub(super) fn from_template<K>(owner: &K, template: &PodTemplateSpec) -> Pod
where
    K: Resource<DynamicType = ()>,
{
    let meta = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", owner.name_any())),
            namespace: owner.namespace(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![owner_reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Without vowels and the digits that look like them, so that no words come out.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A short name for a template: equal templates have equal ones. It is not the one that
/// kube-controller-manager computes, which depends on how Go prints its structs.
pub(super) fn template_hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let mut hash = 0x811c_9dc5_u32;
    let text = serde_json::to_vec(template).unwrap_or_default();
    let collisions = collisions.map(i32::to_le_bytes).unwrap_or_default();
    for byte in text.into_iter().chain(collisions) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    let digits = hash.to_string();
    digits.bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

/// Returns whether two templates are equal except for the template hash label.
pub(super) fn is_same_template(one: &PodTemplateSpec, other: &PodTemplateSpec) -> bool {
    let without_hash = |template: &PodTemplateSpec| {
        let mut template = template.clone();
        if let Some(meta) = &mut template.metadata {
            if let Some(labels) = &mut meta.labels {
                labels.remove(TEMPLATE_HASH);
            }
            meta.labels = meta.labels.take().filter(|labels| !labels.is_empty());
            meta.creation_timestamp = None;
        }
        template.metadata = template.metadata.filter(|meta| *meta != ObjectMeta::default());
        template
    };
    without_hash(one) == without_hash(other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tables read better so")]
    fn template(image: &str, labels: serde_json::Value) -> PodTemplateSpec {
        serde_json::from_value(json!({
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": image}]},
        }))
        .unwrap()
    }

    #[test]
    fn templates_are_compared_without_their_hash() {
        let one = template("a", json!({"app": "x"}));
        let labelled = template("a", json!({"app": "x", TEMPLATE_HASH: "123"}));
        assert!(is_same_template(&one, &labelled));
        assert!(!is_same_template(&one, &template("b", json!({"app": "x"}))));
    }

    #[test]
    fn hashes_of_templates_differ_by_content_and_collisions() {
        let (a, b) = (template("a", json!({})), template("b", json!({})));
        let hash = template_hash(&a, None);
        assert_eq!(hash, template_hash(&a.clone(), None));
        assert_ne!(hash, template_hash(&b, None));
        assert_ne!(hash, template_hash(&a, Some(1)));
        assert!(hash.bytes().all(|byte| LETTERS.contains(&byte)), "{hash}");
    }

    #[test]
    fn a_pod_is_available_when_it_has_been_ready_for_long_enough() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {}, "status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:10Z"},
        ]}}))
        .unwrap();
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert!(is_available(&pod, 0, at(10)));
        assert!(!is_available(&pod, 5, at(14)));
        assert!(is_available(&pod, 5, at(15)));
        assert_eq!(next_available([&pod], 5, at(12)), Some(at(15)));
        assert_eq!(next_available([&pod], 5, at(15)), None);
    }
}
