//! DaemonSets: what each puts on a node (spec 20 §3.3).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use karpenter_core::pod::PodSpec;
use karpenter_core::snapshot::Daemon;

use super::{
    Objects, Reader, constraint_limits, dynamic_resources, over_bound, pod, pod_spec, requests,
    text,
};
use crate::wire::{Pod as WirePod, PodSpec as WireSpec};

const KIND: &str = "DaemonSet";

/// One entry for each DaemonSet.
pub(super) fn read(objects: &Objects, reader: &mut Reader<'_>) -> Vec<Daemon> {
    let newest = newest_pods(objects);
    let mut daemons = Vec::with_capacity(objects.daemon_sets.len());
    for set in &objects.daemon_sets {
        let namespace = text(set.metadata.namespace.as_ref());
        let uid = text(set.metadata.uid.as_ref());
        daemons.push(daemon(set, newest.get(&(namespace, uid)).copied(), reader));
    }
    daemons
}

/// One DaemonSet, with its newest pod if it has one.
pub(crate) fn daemon(set: &DaemonSet, newest: Option<&WirePod>, reader: &mut Reader<'_>) -> Daemon {
    let mut problems = Vec::new();
    let spec = spec(set, newest, reader, &mut problems);
    if problems.iter().any(|problem| problem == over_bound::NODE_SELECTION_UNREAD) {
        problems.push("it counts on every node".to_owned());
    }
    reader.report_problems(KIND, &set.metadata, &problems);
    Daemon {
        namespace: set.metadata.namespace.clone().unwrap_or_default(),
        name: set.metadata.name.clone().unwrap_or_default(),
        spec: Arc::new(spec),
    }
}

/// Returns the uid of the DaemonSet that controls a pod, if any. A DaemonSet without a uid controls
/// no pod.
pub(crate) fn controlling_daemon_set_uid(pod: &WirePod) -> Option<&str> {
    let owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.into_iter().find(|owner| owner.controller == Some(true))?;
    (owner.kind == KIND && !owner.uid.is_empty()).then_some(owner.uid.as_str())
}

/// Returns a sort key that orders newer pods first. Pods created in the same second are ordered by
/// name; upstream takes any.
pub(crate) fn newest_first_key(pod: &WirePod) -> (Reverse<i64>, &str) {
    (Reverse(pod::creation_time(pod).as_second()), text(pod.metadata.name.as_ref()))
}

/// The newest pod of every controller, by namespace and uid.
fn newest_pods(objects: &Objects) -> HashMap<(&str, &str), &WirePod> {
    let mut newest: HashMap<(&str, &str), &WirePod> = HashMap::new();
    for pod in &objects.pods {
        let Some(uid) = controlling_daemon_set_uid(pod) else { continue };
        let key = (text(pod.metadata.namespace.as_ref()), uid);
        let newest = newest.entry(key).or_insert(pod);
        if newest_first_key(pod) < newest_first_key(newest) {
            *newest = pod;
        }
    }
    newest
}

/// Returns the spec of the newest pod, or of the template. Required node affinity is the template's
/// if it has some: that of a real pod pins it to its node.
fn spec(
    set: &DaemonSet,
    newest: Option<&WirePod>,
    reader: &Reader<'_>,
    problems: &mut Vec<String>,
) -> PodSpec {
    let template = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let mut spec = if let Some(newest) = newest {
        pod::spec(newest, reader, problems)
    } else {
        let template: WireSpec = template.map(Into::into).unwrap_or_default();
        let requests = requests::template_requests(&template, problems);
        let claims = dynamic_resources::claims(&template, None);
        pod_spec::read(&template, requests, claims, reader.aliases, problems)
    };
    let Some(template) = template.map(WireSpec::from) else { return spec };
    let template = if constraint_limits::excess(&template).is_none() {
        template
    } else if let Some(kept) = over_bound::node_selection(&template) {
        kept
    } else {
        // Without the template's affinity, that of the newest pod would pin the DaemonSet.
        spec.node_affinity.clear();
        return spec;
    };
    let affinity = template.affinity.as_ref();
    let affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    if let Some(terms) = pod_spec::required_node_affinity(affinity, reader.aliases, &mut Vec::new())
    {
        spec.node_affinity = terms;
    }
    spec
}
