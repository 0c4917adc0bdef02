//! DaemonSet: keeps one pod on each node that fits; the scheduler binds it.
//!
//! Pods name their node in an affinity. They count as new or old by the hash of their template;
//! ControllerRevisions, which serve `kubectl rollout undo`, are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration,
};
use karpenter_cluster::ingest::conversion;
use karpenter_core::taint::{TaintEffect, untolerated_taints};

use super::index::labels;
use super::int_or_percent::{int, nonzero_count, scaled_value};
use super::pods::{
    created, from_template, is_available, is_finished, is_ready, is_terminating, next_available,
    node_name, phase, template_hash,
};
use super::replica_set::BURST;
use crate::scheduler;

pub(super) const REVISION_HASH: &str = "controller-revision-hash";
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const NAME_FIELD: &str = "metadata.name";

#[derive(Debug)]
pub(super) struct Decision {
    pub(super) create: Vec<Pod>,
    pub(super) delete: Vec<Arc<Pod>>,
    pub(super) status: DaemonSetStatus,
    pub(super) requeue_at: Option<Timestamp>,
}

/// `pods` are all that the set has, finished and ending ones too.
pub(super) fn decide(
    set: &DaemonSet,
    nodes: &[Arc<Node>],
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> Option<Decision> {
    let spec = set.spec.as_ref()?;
    let hash = template_hash(&spec.template, None);
    let template = pod_of(set, spec, &hash);
    let requirements = scheduler::PodInfo::read(&template).requirements;
    let fits: Vec<Fit> =
        nodes.iter().map(|node| fit(&template, &requirements.node, node)).collect();
    let mut by_node: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in pods {
        if let Some(node) = target(pod) {
            by_node.entry(node).or_default().push(pod);
        }
    }
    for pods in by_node.values_mut() {
        // The oldest first, after those that have a node already.
        pods.sort_by_key(|pod| {
            (node_name(pod).is_none(), created(&pod.metadata), pod.metadata.name.clone())
        });
    }
    let sync = DaemonSetSync { spec, hash: &hash, nodes, fits: &fits, by_node: &by_node, now };
    let status = sync.status(set);
    let mut create = Vec::new();
    let mut delete = Vec::new();
    if set.metadata.deletion_timestamp.is_none() {
        (create, delete) = sync.place_pods();
        if create.is_empty() && delete.is_empty() {
            (create, delete) = sync.roll();
        }
        create.truncate(BURST);
        delete.truncate(BURST);
    }
    let create = create.into_iter().map(|node| for_node(&template, node)).collect();
    let alive = pods.iter().filter(|pod| !is_terminating(pod)).map(Arc::as_ref);
    let requeue_at = next_available(alive, spec.min_ready_seconds.unwrap_or_default(), now);
    Some(Decision { create, delete, status, requeue_at })
}

/// The pod for any node, before its node affinity is set.
fn pod_of(set: &DaemonSet, spec: &DaemonSetSpec, hash: &str) -> Pod {
    let mut pod = from_template(set, &spec.template);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(REVISION_HASH.to_owned(), hash.to_owned());
    let generation = set.metadata.annotations.as_ref().and_then(|all| all.get(TEMPLATE_GENERATION));
    if let Some(generation) = generation {
        labels.insert("pod-template-generation".to_owned(), generation.clone());
    }
    add_default_tolerations(pod.spec.get_or_insert_default());
    pod
}

/// Adds the tolerations that pods of DaemonSets get by default.
/// They stay on unhealthy nodes, and may start on nodes that reject other pods.
fn add_default_tolerations(spec: &mut PodSpec) {
    let mut tolerated = vec![
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ];
    if spec.host_network == Some(true) {
        tolerated.push(("network-unavailable", "NoSchedule"));
    }
    let tolerations = spec.tolerations.get_or_insert_default();
    for (key, effect) in tolerated {
        let toleration = Toleration {
            key: Some(format!("node.kubernetes.io/{key}")),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        let same = tolerations.iter_mut().find(|known| {
            known.key == toleration.key
                && known.effect == toleration.effect
                && known.operator == toleration.operator
                && known.value.as_deref().unwrap_or_default().is_empty()
        });
        match same {
            Some(known) => *known = toleration,
            None => tolerations.push(toleration),
        }
    }
}

fn for_node(template: &Pod, node: &str) -> Pod {
    let mut pod = template.clone();
    let affinity = pod.spec.get_or_insert_default().affinity.get_or_insert_default();
    let field = NodeSelectorRequirement {
        key: NAME_FIELD.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let term = NodeSelectorTerm { match_fields: Some(vec![field]), ..NodeSelectorTerm::default() };
    affinity
        .node_affinity
        .get_or_insert_default()
        .required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
    pod
}

/// The node that a pod is on, or made for.
fn target(pod: &Pod) -> Option<&str> {
    if let Some(node) = node_name(pod) {
        return Some(node);
    }
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields =
        required.node_selector_terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let mut named = fields.filter(|field| field.key == NAME_FIELD && field.operator == "In");
    named.find_map(|field| field.values.as_ref()?.first()).map(String::as_str)
}

/// Whether a node should have a pod, and whether one that is there may stay.
#[derive(Debug, Clone, Copy)]
struct Fit {
    should_run: bool,
    may_stay: bool,
}

fn fit(template: &Pod, requirements: &scheduler::NodeRequirements, node: &Node) -> Fit {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let is_named = node_name(template).is_none_or(|wanted| wanted == name);
    if !is_named || !requirements.allows(name, labels(node)) {
        return Fit { should_run: false, may_stay: false };
    }
    let taints = conversion::taints(node.spec.as_ref().and_then(|spec| spec.taints.as_ref()));
    let repels = |effects: &[TaintEffect]| {
        untolerated_taints(&taints, &requirements.tolerations)
            .iter()
            .any(|taint| effects.contains(&taint.effect))
    };
    let should_run = !repels(&[TaintEffect::NoSchedule, TaintEffect::NoExecute]);
    Fit { should_run, may_stay: should_run || !repels(&[TaintEffect::NoExecute]) }
}

struct DaemonSetSync<'a> {
    spec: &'a DaemonSetSpec,
    hash: &'a str,
    nodes: &'a [Arc<Node>],
    /// Of each node.
    fits: &'a [Fit],
    by_node: &'a BTreeMap<&'a str, Vec<&'a Arc<Pod>>>,
    now: Timestamp,
}

type Changes<'a> = (Vec<&'a str>, Vec<Arc<Pod>>);

impl<'a> DaemonSetSync<'a> {
    fn pods(&self, node: &str) -> &[&'a Arc<Pod>] {
        self.by_node.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    fn each_node(&self) -> impl Iterator<Item = (&'a str, Fit)> {
        let names = self.nodes.iter().map(|node| node.metadata.name.as_deref().unwrap_or_default());
        names.zip(self.fits.iter().copied())
    }

    fn is_new(&self, pod: &Pod) -> bool {
        labels(pod).get(REVISION_HASH).is_some_and(|hash| hash == self.hash)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        is_available(pod, self.spec.min_ready_seconds.unwrap_or_default(), self.now)
    }

    /// How many pods there may be too many, and how many nodes may be without one.
    fn limits(&self) -> (i32, i32) {
        let desired = int(self.fits.iter().filter(|fit| fit.should_run).count());
        let rolling = self.spec.update_strategy.as_ref().and_then(|s| s.rolling_update.as_ref());
        let resolved = |value| scaled_value(value, desired, true).unwrap_or_default().max(0);
        let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref()).map_or(0, resolved);
        let missing =
            rolling.and_then(|rolling| rolling.max_unavailable.as_ref()).map_or(1, resolved);
        if surge == 0 && missing == 0 { (0, 1) } else { (surge, missing) }
    }

    fn is_rolling(&self) -> bool {
        let kind = self.spec.update_strategy.as_ref().and_then(|s| s.type_.as_deref());
        kind != Some("OnDelete")
    }

    fn allows_surge(&self) -> bool {
        self.is_rolling() && self.limits().0 > 0
    }

    /// Returns pods to create and delete, so that each fitting node has one.
    /// Finished, surplus and misplaced pods are deleted.
    fn place_pods(&self) -> Changes<'a> {
        let (mut create, mut delete) = (Vec::new(), Vec::new());
        for (node, fit) in self.each_node() {
            let pods = self.pods(node);
            let staying = pods.iter().copied().filter(|pod| !is_terminating(pod));
            if !fit.may_stay {
                delete.extend(staying.cloned());
                continue;
            }
            if pods.is_empty() {
                if fit.should_run {
                    create.push(node);
                }
                continue;
            }
            let (finished, running): (Vec<_>, Vec<_>) = staying.partition(|pod| is_finished(pod));
            delete.extend(finished.into_iter().cloned());
            if !self.allows_surge() {
                delete.extend(running.into_iter().skip(1).cloned());
            } else if running.is_empty() {
                create.extend(fit.should_run.then_some(node));
            } else {
                delete.extend(self.surplus(&running));
            }
        }
        let known: BTreeSet<&str> = self.each_node().map(|(name, _)| name).collect();
        // Pods that wait for a node which is gone; those that were bound are collected by others.
        for (node, pods) in self.by_node {
            let waiting =
                pods.iter().filter(|pod| node_name(pod).is_none() && !is_terminating(pod));
            if !known.contains(node) {
                delete.extend(waiting.map(|pod| Arc::clone(*pod)));
            }
        }
        (create, delete)
    }

    /// With surge a node may have one old and one new pod, until the new one is available.
    fn surplus(&self, running: &[&Arc<Pod>]) -> Vec<Arc<Pod>> {
        let (mut new, mut old) = (None, None);
        let mut surplus = Vec::new();
        for pod in running.iter().copied() {
            let place = if self.is_new(pod) { &mut new } else { &mut old };
            if place.is_none() {
                *place = Some(pod);
            } else {
                surplus.push(Arc::clone(pod));
            }
        }
        if let (Some(new), Some(old)) = (new, old)
            && (!is_ready(old) || self.is_available(new))
        {
            surplus.push(Arc::clone(old));
        }
        surplus
    }

    /// Replaces pods of an earlier template, as many at a time as may be missing or too many.
    fn roll(&self) -> Changes<'a> {
        if !self.is_rolling() {
            return Changes::default();
        }
        let (surge, missing) = self.limits();
        let mut busy = 0;
        let (mut broken, mut candidates) = (Vec::new(), Vec::new());
        for (node, fit) in self.each_node() {
            let pods: Vec<_> =
                self.pods(node).iter().copied().filter(|pod| !is_terminating(pod)).collect();
            let new = pods.iter().find(|pod| self.is_new(pod));
            let old = pods.iter().find(|pod| !self.is_new(pod));
            match (new, old) {
                (None, None) if fit.should_run => busy += 1,
                (Some(new), None) if surge == 0 && !self.is_available(new) => busy += 1,
                (Some(_), Some(_)) => busy += 1,
                (None, Some(old)) if !self.is_available(old) => {
                    broken.push((node, *old));
                    busy += i32::from(surge == 0);
                }
                (None, Some(old)) if fit.should_run || surge == 0 => candidates.push((node, *old)),
                _ => {}
            }
        }
        let remaining = if surge == 0 { missing - busy } else { surge - busy };
        candidates.truncate(usize::try_from(remaining).unwrap_or_default());
        let chosen = broken.into_iter().chain(candidates);
        if surge == 0 {
            (Vec::new(), chosen.map(|(_, pod)| Arc::clone(pod)).collect())
        } else {
            (chosen.map(|(node, _)| node).collect(), Vec::new())
        }
    }

    fn status(&self, set: &DaemonSet) -> DaemonSetStatus {
        let (mut desired, mut current, mut wrong) = (0, 0, 0);
        let (mut ready, mut available, mut updated) = (0, 0, 0);
        for (node, fit) in self.each_node() {
            let mut alive = self.pods(node).iter().filter(|pod| {
                !is_terminating(pod) && !matches!(phase(pod), "Failed" | "Succeeded")
            });
            let pod = alive.next();
            if !fit.should_run {
                wrong += usize::from(pod.is_some());
                continue;
            }
            desired += 1;
            if let Some(pod) = pod {
                current += 1;
                ready += usize::from(is_ready(pod));
                available += usize::from(self.is_available(pod));
                updated += usize::from(self.is_new(pod));
            }
        }
        let old = set.status.clone().unwrap_or_default();
        DaemonSetStatus {
            desired_number_scheduled: int(desired),
            current_number_scheduled: int(current),
            number_misscheduled: int(wrong),
            number_ready: int(ready),
            number_available: nonzero_count(available),
            number_unavailable: nonzero_count(desired - available),
            updated_number_scheduled: nonzero_count(updated),
            observed_generation: set.metadata.generation,
            collision_count: old.collision_count,
            conditions: old.conditions,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "tables read better so")]
    fn set(spec: Value, more: Value) -> DaemonSet {
        let mut object = json!({
            "metadata": {"name": "d", "namespace": "n", "uid": "d", "generation": 1},
            "spec": {
                "selector": {"matchLabels": {"app": "x"}},
                "template": {"metadata": {"labels": {"app": "x"}}, "spec": spec},
            },
        });
        object["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(object).unwrap()
    }

    fn plain() -> DaemonSet {
        set(json!({"containers": []}), json!({}))
    }

    #[expect(clippy::needless_pass_by_value, reason = "tables read better so")]
    fn node(name: &str, taints: Value, labels: Value) -> Arc<Node> {
        let node =
            json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}});
        Arc::new(serde_json::from_value(node).unwrap())
    }

    fn pod(name: &str, node: &str, hash: &str, ready: &str) -> Arc<Pod> {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": "x", REVISION_HASH: hash}},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": ready, "lastTransitionTime": "1970-01-01T00:00:00Z"},
            ]},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn targets(decision: &Decision) -> Vec<&str> {
        decision.create.iter().map(|pod| target(pod).unwrap()).collect()
    }

    fn deleted(decision: &Decision) -> Vec<&str> {
        decision.delete.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect()
    }

    #[test]
    fn eligible_nodes_without_a_daemon_pod_get_one() {
        let taint = |key: &str, effect: &str| json!([{"key": key, "effect": effect}]);
        let nodes = [
            node("cordoned", taint("node.kubernetes.io/unschedulable", "NoSchedule"), json!({})),
            node("has-one", json!([]), json!({})),
            node("plain", json!([]), json!({})),
            node("preferred-not", taint("a", "PreferNoSchedule"), json!({})),
            node("tainted", taint("a", "NoSchedule"), json!({})),
            node("unreachable", taint("node.kubernetes.io/unreachable", "NoExecute"), json!({})),
        ];
        let decision =
            decide(&plain(), &nodes, &[pod("p", "has-one", "h", "True")], at(0)).unwrap();
        assert_eq!(targets(&decision), ["cordoned", "plain", "preferred-not", "unreachable"]);
        let selective = set(json!({"containers": [], "nodeSelector": {"gpu": "yes"}}), json!({}));
        let nodes = [node("a", json!([]), json!({})), node("b", json!([]), json!({"gpu": "yes"}))];
        assert_eq!(targets(&decide(&selective, &nodes, &[], at(0)).unwrap()), ["b"]);
    }

    #[test]
    fn finished_surplus_and_misplaced_daemon_pods_are_deleted() {
        let evicting = json!([{"key": "a", "effect": "NoExecute"}]);
        let late = json!([{"key": "a", "effect": "NoSchedule"}]);
        let nodes = [
            node("done", json!([]), json!({})),
            node("evicting", evicting, json!({})),
            node("late", late, json!({})),
            node("two", json!([]), json!({})),
        ];
        let hash = template_hash(&plain().spec.unwrap().template, None);
        let mut done = (*pod("done", "done", &hash, "False")).clone();
        done.status.as_mut().unwrap().phase = Some("Failed".to_owned());
        let waiting = for_node(&Pod::default(), "gone");
        let pods = [
            Arc::new(done),
            pod("evicted", "evicting", &hash, "True"),
            pod("stays", "late", &hash, "True"),
            pod("two-1", "two", &hash, "True"),
            pod("two-2", "two", &hash, "True"),
            Arc::new(Pod {
                metadata: pod("waiting", "", &hash, "True").metadata.clone(),
                ..waiting
            }),
        ];
        let decision = decide(&plain(), &nodes, &pods, at(0)).unwrap();
        assert_eq!(deleted(&decision), ["done", "evicted", "two-2", "waiting"]);
        assert_eq!(decision.status.number_misscheduled, 2);
    }

    #[test]
    fn daemon_pods_get_default_tolerations_and_a_node_affinity() {
        let decision = decide(&plain(), &[node("a", json!([]), json!({}))], &[], at(0)).unwrap();
        let spec = decision.create[0].spec.clone().unwrap();
        let keys: Vec<_> = spec.tolerations.unwrap().into_iter().map(|t| t.key.unwrap()).collect();
        assert_eq!(keys.len(), 6);
        assert!(keys.contains(&"node.kubernetes.io/not-ready".to_owned()));
        assert!(spec.node_name.is_none(), "the scheduler binds it");
        assert_eq!(
            decision.create[0].metadata.owner_references.as_ref().unwrap()[0].kind,
            "DaemonSet"
        );
    }

    #[test]
    fn a_rolling_update_replaces_one_daemon_pod_at_a_time() {
        let nodes = ["a", "b", "c"].map(|name| node(name, json!([]), json!({})));
        let hash = template_hash(&plain().spec.unwrap().template, None);
        let all_old = ["a", "b", "c"].map(|name| pod(name, name, "old", "True"));
        assert_eq!(deleted(&decide(&plain(), &nodes, &all_old, at(0)).unwrap()), ["a"]);
        let half = [pod("a", "a", &hash, "False"), all_old[1].clone(), all_old[2].clone()];
        assert_eq!(
            deleted(&decide(&plain(), &nodes, &half, at(0)).unwrap()),
            [""; 0],
            "a is not ready"
        );
        let ready = [pod("a", "a", &hash, "True"), all_old[1].clone(), all_old[2].clone()];
        assert_eq!(deleted(&decide(&plain(), &nodes, &ready, at(0)).unwrap()), ["b"]);
        let manual =
            set(json!({"containers": []}), json!({"updateStrategy": {"type": "OnDelete"}}));
        assert_eq!(deleted(&decide(&manual, &nodes, &all_old, at(0)).unwrap()), [""; 0]);
    }

    #[test]
    fn with_surge_the_new_pod_comes_before_the_old_one_goes() {
        let surge = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {
            "maxSurge": 1, "maxUnavailable": 0,
        }}});
        let set = set(json!({"containers": []}), surge);
        let nodes = ["a", "b"].map(|name| node(name, json!([]), json!({})));
        let hash = template_hash(&set.spec.clone().unwrap().template, None);
        let old = ["a", "b"].map(|name| pod(name, name, "old", "True"));
        let decision = decide(&set, &nodes, &old, at(0)).unwrap();
        assert_eq!((targets(&decision), deleted(&decision)), (vec!["a"], vec![]));
        let both = |ready| vec![old[0].clone(), old[1].clone(), pod("a2", "a", &hash, ready)];
        let decision = decide(&set, &nodes, &both("False"), at(0)).unwrap();
        assert_eq!((targets(&decision), deleted(&decision)), (vec![], vec![]));
        let decision = decide(&set, &nodes, &both("True"), at(0)).unwrap();
        assert_eq!((targets(&decision), deleted(&decision)), (vec![], vec!["a"]));
    }

    #[test]
    fn daemon_set_status_counts_nodes() {
        let nodes = ["a", "b", "c"].map(|name| node(name, json!([]), json!({})));
        let hash = template_hash(&plain().spec.unwrap().template, None);
        let pods = [pod("a", "a", &hash, "True"), pod("b", "b", "old", "False")];
        let status = decide(&plain(), &nodes, &pods, at(0)).unwrap().status;
        let counts = (
            status.desired_number_scheduled,
            status.current_number_scheduled,
            status.number_ready,
            status.number_available,
            status.number_unavailable,
            status.updated_number_scheduled,
        );
        assert_eq!(counts, (3, 2, 1, Some(1), Some(2), Some(1)));
    }
}
