//! Completes the objects of files as an API server would when it stores them.
//!
//! The rules are those of the embedded API. Admission also reads other objects: it copies values of
//! PriorityClasses, RuntimeClasses and nodes into pods, and the default StorageClass into claims.
//! Here they are those of the files.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PodTemplateSpec};
use karpenter_apiserver::kinds::{ManifestKind, ObjectReader, system_priority_classes};
use karpenter_cluster::wire::{Pod, PodSpec};
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The kinds that admission reads besides nodes: apiVersion, kind, group and plural.
const CLASSES: [(&str, &str, &str, &str); 3] = [
    ("scheduling.k8s.io/v1", "PriorityClass", "scheduling.k8s.io", "priorityclasses"),
    ("node.k8s.io/v1", "RuntimeClass", "node.k8s.io", "runtimeclasses"),
    ("storage.k8s.io/v1", "StorageClass", "storage.k8s.io", "storageclasses"),
];

/// The classes and node labels of files, for admission.
#[derive(Debug, Default)]
pub(crate) struct FileObjects {
    /// By group and plural; of equal names the first counts.
    classes: BTreeMap<(&'static str, &'static str), Vec<Value>>,
    node_labels: BTreeMap<String, Vec<(String, String)>>,
    /// The last pending pod of each owner.
    replicas: BTreeMap<String, Replica>,
}

/// A pod with which other pods of its owner are compared.
#[derive(Debug)]
struct Replica {
    labels: Value,
    spec: Value,
    completed_spec: PodSpec,
}

impl FileObjects {
    /// Collects the objects that admission reads, and the classes that every cluster has.
    pub(super) fn collect<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut collected = Self::default();
        for object in objects {
            collected.add(object);
        }
        for class in system_priority_classes() {
            collected.add(&class);
        }
        collected
    }

    fn add(&mut self, object: &Value) {
        let (api_version, kind) = (&object["apiVersion"], &object["kind"]);
        if api_version == "v1" && kind == "Node" {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
            let labels =
                labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.into())));
            self.node_labels.entry(name.to_owned()).or_insert_with(|| labels.collect());
        }
        let is_kind = |class: &&(&str, &str, _, _)| api_version == class.0 && kind == class.1;
        let Some((_, _, group, plural)) = CLASSES.iter().find(is_kind) else { return };
        let Some(kind) = ManifestKind::find(object) else { return };
        // A class of a wrong type is reported where it is decoded.
        if kind.check(object).is_ok() {
            let mut class = object.clone();
            kind.complete(&mut class, self);
            self.classes.entry((*group, *plural)).or_default().push(class);
        }
    }

    /// Completes an object that the API's decoder accepts.
    pub(super) fn complete(&mut self, kind: ManifestKind, object: &mut Value) {
        let Some(owner) = pending_pod_owner(object).map(str::to_owned) else {
            return kind.complete(object, self);
        };
        let (labels, spec) = (object["metadata"]["labels"].clone(), object["spec"].clone());
        kind.complete(object, self);
        if let Ok(completed_spec) = PodSpec::deserialize(&object["spec"]) {
            self.replicas.insert(owner, Replica { labels, spec, completed_spec });
        }
    }

    /// Takes the spec of a pod and returns it completed, if the last pod of its owner equals it.
    ///
    /// Clusters have many pods and few templates: without this, a plan of 10,000 pods takes 1.6
    /// times as long.
    pub(super) fn take_replica_spec(&self, pod: &mut Value) -> Option<PodSpec> {
        let replica = self.replicas.get(pending_pod_owner(pod)?)?;
        if pod["spec"] != replica.spec || pod["metadata"]["labels"] != replica.labels {
            return None;
        }
        pod["spec"].take();
        Some(replica.completed_spec.clone())
    }

    /// Returns the pod that a controller would create from a template, without its name.
    pub(super) fn pod_from_template(
        &self,
        template: Option<&PodTemplateSpec>,
        namespace: &str,
    ) -> Pod {
        let template = json!(template);
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": namespace,
                "labels": template["metadata"]["labels"],
                "annotations": template["metadata"]["annotations"],
            },
        });
        pod["spec"] = template["spec"].clone();
        self.completed(pod)
    }

    /// Returns the claim that a StatefulSet would create from a template, without its name.
    pub(super) fn claim_from_template(
        &self,
        template: &PersistentVolumeClaim,
    ) -> PersistentVolumeClaim {
        self.completed(json!(template))
    }

    /// Completes an object that was decoded before.
    fn completed<K: DeserializeOwned>(&self, mut object: Value) -> K {
        if let Some(kind) = ManifestKind::find(&object) {
            kind.complete(&mut object, self);
        }
        serde_json::from_value(object).expect("defaults keep the types of fields")
    }
}

impl ObjectReader for FileObjects {
    fn get(&self, group: &str, plural: &str, _: &str, name: &str) -> Option<Value> {
        let mut classes = self.classes.get(&(group, plural))?.iter();
        classes.find(|class| class["metadata"]["name"] == name).cloned()
    }

    fn labels(&self, _: &str, plural: &str, _: &str, name: &str) -> Option<Vec<(String, String)>> {
        if plural == "nodes" { self.node_labels.get(name).cloned() } else { None }
    }

    fn list(&self, group: &str, plural: &str, _: &str) -> Vec<Value> {
        self.classes.get(&(group, plural)).cloned().unwrap_or_default()
    }
}

/// Returns the name of the owner of a pod without a node, empty if it has none.
fn pending_pod_owner(object: &Value) -> Option<&str> {
    let is_pending = object["kind"] == "Pod" && object["spec"]["nodeName"].is_null();
    let owner = &object["metadata"]["ownerReferences"][0]["name"];
    is_pending.then(|| owner.as_str().unwrap_or_default())
}
