//! Writes the scheduler's decisions: bindings, the condition PodScheduled, events.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod as WirePod, PodCondition};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use karpenter_operator::clock::Clock;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::pod_info::PodInfo;
use super::state::SCHEDULER_NAME;

const CONDITION: &str = "PodScheduled";
const UNSCHEDULABLE: &str = "Unschedulable";

/// The longest note that an event may have, and how a longer one ends.
const LONGEST_NOTE: usize = 1024;
const CUT: &str = " ...";

pub(super) struct Writer {
    client: Client,
    clock: Arc<dyn Clock>,
}

impl Writer {
    pub(super) fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self { client, clock }
    }

    /// Binds a pod. The API sets its condition.
    pub(super) async fn bind(&self, pod: &PodInfo, node: &str) -> Result<(), kube::Error> {
        let key = &pod.key;
        let binding = Binding {
            metadata: ObjectMeta {
                namespace: Some(key.namespace.clone()),
                name: Some(key.name.clone()),
                uid: Some(pod.uid.clone()),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
        };
        let params = PostParams::default();
        let pods: Api<WirePod> = Api::namespaced(self.client.clone(), &key.namespace);
        let _: Value = pods.create_subresource("binding", &key.name, &params, &binding).await?;
        let regarding = regarding(key.namespace.clone(), key.name.clone(), pod.uid.clone(), None);
        let text = format!("Successfully assigned {key} to {node}");
        self.event(regarding, "Normal", "Scheduled", "Binding", text).await;
        Ok(())
    }

    /// Sets the condition PodScheduled to false and emits an event, if it changed.
    /// kube-scheduler instead counts up one event per attempt.
    pub(super) async fn report_unschedulable(
        &self,
        pod: &WirePod,
        message: &str,
    ) -> Result<(), kube::Error> {
        let Some(condition) = changed(pod, message, self.clock.now()) else { return Ok(()) };
        let meta = &pod.metadata;
        let [namespace, name, uid] =
            [&meta.namespace, &meta.name, &meta.uid].map(|text| text.clone().unwrap_or_default());
        let regarding =
            regarding(namespace.clone(), name.clone(), uid, meta.resource_version.clone());
        self.event(regarding, "Warning", "FailedScheduling", "Scheduling", message.to_owned())
            .await;
        let patch = Patch::Strategic(json!({ "status": { "conditions": [condition] } }));
        let pods: Api<WirePod> = Api::namespaced(self.client.clone(), &namespace);
        pods.patch_status(&name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Events are best effort.
    async fn event(
        &self,
        regarding: ObjectReference,
        kind: &str,
        reason: &str,
        action: &str,
        note: String,
    ) {
        let now = self.clock.now();
        let namespace = regarding.namespace.clone().unwrap_or_default();
        let name = regarding.name.as_deref().unwrap_or_default();
        let event = Event {
            metadata: ObjectMeta {
                namespace: Some(namespace.clone()),
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(SCHEDULER_NAME.to_owned()),
            reporting_instance: Some(SCHEDULER_NAME.to_owned()),
            action: Some(action.to_owned()),
            reason: Some(reason.to_owned()),
            regarding: Some(regarding),
            note: Some(shortened(note)),
            type_: Some(kind.to_owned()),
            ..Event::default()
        };
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let _ = events.create(&PostParams::default(), &event).await;
    }
}

fn regarding(
    namespace: String,
    name: String,
    uid: String,
    resource_version: Option<String>,
) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(namespace),
        name: Some(name),
        uid: Some(uid),
        resource_version,
        ..ObjectReference::default()
    }
}

/// The condition that the pod should have; none if it has it.
fn changed(pod: &WirePod, message: &str, now: Timestamp) -> Option<PodCondition> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let known = conditions.into_iter().find(|condition| condition.type_ == CONDITION);
    let is_known_false = known.is_some_and(|known| known.status == "False");
    let is_same = known.is_some_and(|known| {
        is_known_false
            && known.reason.as_deref() == Some(UNSCHEDULABLE)
            && known.message.as_deref() == Some(message)
            && known.observed_generation == pod.metadata.generation
    });
    // The time is that of the last change of the status alone.
    let since =
        known.filter(|_| is_known_false).and_then(|known| known.last_transition_time.clone());
    (!is_same).then(|| PodCondition {
        type_: CONDITION.to_owned(),
        status: "False".to_owned(),
        reason: Some(UNSCHEDULABLE.to_owned()),
        message: Some(message.to_owned()),
        observed_generation: pod.metadata.generation,
        last_transition_time: Some(since.unwrap_or(Time(now))),
        last_probe_time: None,
    })
}

fn shortened(mut note: String) -> String {
    if note.len() > LONGEST_NOTE {
        let mut end = LONGEST_NOTE - CUT.len();
        while !note.is_char_boundary(end) {
            end -= 1;
        }
        note.truncate(end);
        note.push_str(CUT);
    }
    note
}
