//! DaemonSets: what each puts on a node (spec 20 §3.3).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Pod as WirePod, PodSpec as WireSpec};
use karpenter_core::pod::PodSpec;
use karpenter_core::snapshot::Daemon;

use super::{Objects, Reader, dynamic_resources, pod, pod_spec, requests, text};

const KIND: &str = "DaemonSet";

/// One entry for each DaemonSet.
pub(super) fn read(objects: &Objects, reader: &mut Reader<'_>) -> Vec<Daemon> {
    let newest = newest_pods(objects);
    let mut daemons = Vec::with_capacity(objects.daemon_sets.len());
    for set in &objects.daemon_sets {
        let namespace = text(set.metadata.namespace.as_ref());
        let uid = text(set.metadata.uid.as_ref());
        let mut problems = Vec::new();
        let spec = spec(set, newest.get(&(namespace, uid)).copied(), reader, &mut problems);
        reader.remark(KIND, &set.metadata, &problems);
        daemons.push(Daemon {
            namespace: namespace.to_owned(),
            name: set.metadata.name.clone().unwrap_or_default(),
            spec: Arc::new(spec),
        });
    }
    daemons
}

/// The newest pod of every controller, by namespace and uid. Of those made in one second the first
/// by name is taken; upstream takes any.
fn newest_pods(objects: &Objects) -> HashMap<(&str, &str), &WirePod> {
    let mut newest: HashMap<(&str, &str), &WirePod> = HashMap::new();
    let age = |pod: &WirePod| {
        (Reverse(pod::created(pod).as_second()), text(pod.metadata.name.as_ref()).to_owned())
    };
    for pod in &objects.pods {
        let owners = pod.metadata.owner_references.iter().flatten();
        let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
        // An object without a uid controls nothing.
        let Some(owner) = controller.filter(|o| o.kind == KIND && !o.uid.is_empty()) else {
            continue;
        };
        let key = (text(pod.metadata.namespace.as_ref()), owner.uid.as_str());
        let newest = newest.entry(key).or_insert(pod);
        if age(pod) < age(newest) {
            *newest = pod;
        }
    }
    newest
}

/// What the newest pod asks for, or the template. Required node affinity is the template's if it
/// has some: real pods are pinned to their node by it.
fn spec(
    set: &DaemonSet,
    newest: Option<&WirePod>,
    reader: &Reader<'_>,
    problems: &mut Vec<String>,
) -> PodSpec {
    let none = WireSpec::default();
    let template = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let mut spec = if let Some(newest) = newest {
        pod::spec(newest, reader, problems)
    } else {
        let template = template.unwrap_or(&none);
        let requests = requests::of_template(template, problems);
        let claims = dynamic_resources::claims(template, None);
        pod_spec::read(template, requests, claims, &reader.aliases, problems)
    };
    let affinity = template.and_then(|template| template.affinity.as_ref());
    let affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    if let Some(terms) = pod_spec::required_node_affinity(affinity, &reader.aliases) {
        spec.node_affinity = terms;
    }
    spec
}
