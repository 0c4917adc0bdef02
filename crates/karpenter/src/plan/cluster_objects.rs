//! Collects the objects of a cluster, from manifests or from the cluster itself, with remarks about
//! those that could not be read.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::batch::v1::Job;
use karpenter_api::annotations::DO_NOT_DISRUPT;
use karpenter_api::labels::NODEPOOL;
use karpenter_cluster::ingest::Objects;
use serde_json::{Value, json};

use super::decode::{self, DecodeError, DecodeResult};
use super::file_objects::FileObjects;
use super::hints::Hints;
use super::input_warnings;
use super::report::Remark;
use crate::admission;
use crate::manifest::{FieldPath, Manifests, Origin};

/// The typed objects of the input. Jobs only matter to expansion.
#[derive(Debug, Default)]
pub(crate) struct ClusterObjects {
    pub(crate) objects: Objects,
    pub(crate) jobs: Vec<Job>,
    /// The number of each object, by kind, namespace and name.
    pub(super) object_numbers: HashMap<(&'static str, String, String), usize>,
    /// Where objects were written, by their number; empty for a live cluster.
    origins: Vec<Origin>,
    manifests: Manifests,
    /// Objects that were left out.
    pub(crate) remarks: Vec<Remark>,
    /// Completes objects of files; a live cluster has completed its own.
    pub(super) file_objects: FileObjects,
    /// What was seen of kinds that do not count.
    pub(crate) hints: Hints,
    /// The number of objects of each unknown kind.
    pub(crate) unknown_kinds: BTreeMap<String, usize>,
    /// The number of objects that were added.
    count: usize,
}

impl ClusterObjects {
    /// Everything in manifests.
    pub(crate) fn from_manifests(mut manifests: Manifests) -> Self {
        let mut gathered = Self::default();
        let values = manifests.objects.iter().map(|object| &object.value);
        gathered.file_objects = FileObjects::collect(values);
        for object in std::mem::take(&mut manifests.objects) {
            let name = object_name(&object.value);
            let unknown = admission::unknown_fields(&object.value);
            let unknown =
                input_warnings::unknown_fields_remark(string_at(&object.value, "/kind"), &unknown);
            for remark in gathered.add_manifest(object.value).into_iter().chain(unknown) {
                let field = remark.field.as_deref().unwrap_or_default();
                let place = manifests.quick_location(&object.origin, &FieldPath::parse(field));
                let (object, place) = (name.clone(), Some(place.to_string()));
                gathered.remarks.push(Remark { object, place, ..remark });
            }
            gathered.origins.push(object.origin);
        }
        gathered.manifests = manifests;
        gathered
    }

    /// Returns file and line of an object.
    pub(crate) fn location(
        &self,
        kind: &'static str,
        namespace: &str,
        name: &str,
    ) -> Option<String> {
        self.field_location(kind, namespace, name, "")
    }

    /// Returns file and line of a field.
    pub(super) fn field_location(
        &self,
        kind: &'static str,
        namespace: &str,
        name: &str,
        field: &str,
    ) -> Option<String> {
        let number = self.object_numbers.get(&(kind, namespace.to_owned(), name.to_owned()))?;
        let origin = self.origins.get(number.checked_sub(1)?)?;
        Some(self.manifests.quick_location(origin, &FieldPath::parse(field)).to_string())
    }

    /// Adds an object of a file, completed as an API server would; see [`Self::add`].
    pub(crate) fn add_manifest(&mut self, mut object: Value) -> Option<Remark> {
        let Some(spec) = self.file_objects.take_replica_spec(&mut object) else {
            decode::complete_object(&mut object, &mut self.file_objects);
            return self.add(object);
        };
        let count = self.objects.pods.len();
        let remark = self.add(object);
        if let Some(pod) = self.objects.pods.get_mut(count) {
            pod.spec = Some(spec);
        }
        remark
    }

    /// Adds an object. Returns a remark without name and place if it is wrong.
    pub(crate) fn add(&mut self, object: Value) -> Option<Remark> {
        let kind = format!("{} {}", string_at(&object, "/apiVersion"), string_at(&object, "/kind"));
        self.count += 1;
        let remark = |field: String, problem: String, fix: &str| Remark {
            object: String::new(),
            place: None,
            field: Some(field).filter(|field| !field.is_empty()),
            problem,
            fix: Some(fix.to_owned()),
            left_out: true,
            broken: true,
        };
        let stand_in = placeholder(&kind, &object);
        match decode::add_object(object, self.count, self) {
            Ok(DecodeResult::Added | DecodeResult::Irrelevant) => None,
            Ok(DecodeResult::Unknown) => {
                *self.unknown_kinds.entry(kind).or_default() += 1;
                None
            }
            Ok(DecodeResult::Duplicate) => {
                let problem = "is given twice; the first one counts".to_owned();
                let twice = remark(String::new(), problem, "remove one of the two");
                Some(Remark { broken: false, ..twice })
            }
            Err(DecodeError { field, problem, fix }) => {
                if let Some(stand_in) = stand_in {
                    // If not even this can be read, nothing of it is known.
                    let _ = decode::add_object(stand_in, self.count, self);
                }
                Some(remark(field, problem, &fix))
            }
        }
    }

    /// Pools that name a NodeClass that is not among those of its kind.
    pub(crate) fn missing_node_classes(&self) -> Vec<Remark> {
        let pools = self.objects.node_pools.iter();
        let remarks = pools.filter_map(|pool| {
            let class = &pool.spec.template.spec.node_class_ref;
            let fix = self.hints.missing_class_fix(&class.group, &class.kind, &class.name)?;
            let name = pool.metadata.name.as_deref().unwrap_or_default();
            Some(Remark {
                object: format!("NodePool {name}"),
                place: self.location("NodePool", "", name),
                field: Some("spec.template.spec.nodeClassRef".to_owned()),
                problem: format!("{} {} is not in the input", class.kind, class.name),
                fix: Some(fix),
                left_out: false,
                broken: false,
            })
        });
        remarks.collect()
    }

    /// Returns remarks about absent NodePools of nodes, and about nodes without a NodeClaim: such
    /// nodes always stay.
    pub(crate) fn missing_node_owners(&self) -> Vec<Remark> {
        let objects = &self.objects;
        let pools: BTreeSet<_> =
            objects.node_pools.iter().map(|pool| &pool.metadata.name).collect();
        let claims = objects.node_claims.iter().filter_map(|claim| claim.status.as_ref());
        let ids: BTreeSet<_> = claims.map(|status| &status.provider_id).collect();
        let (mut of_pools, mut of_nodes) = (BTreeMap::<&String, usize>::new(), Vec::new());
        for node in &objects.nodes {
            let label = node.metadata.labels.as_ref().and_then(|labels| labels.get(NODEPOOL));
            let Some(pool) = label else { continue };
            if !pools.contains(&Some(pool.clone())) {
                *of_pools.entry(pool).or_default() += 1;
            } else if !ids.contains(&node.spec.as_ref().and_then(|spec| spec.provider_id.clone())) {
                of_nodes.push(node.metadata.name.as_deref().unwrap_or_default());
            }
        }
        let remark = |object: String, problem: String| Remark {
            object,
            place: None,
            field: None,
            problem,
            fix: Some(
                "kubectl get nodepools,nodeclaims,nodes,pods,pdb -A -o yaml has all".to_owned(),
            ),
            left_out: false,
            broken: false,
        };
        let pools = of_pools.into_iter().map(|(pool, nodes)| {
            let stay = if nodes == 1 {
                "its node stays".to_owned()
            } else {
                format!("its {nodes} nodes stay")
            };
            remark(
                format!("NodePool {pool}"),
                format!("is not in the input, or could not be read, so {stay}"),
            )
        });
        let nodes = of_nodes.into_iter().map(|node| {
            remark(
                format!("Node {node}"),
                "no NodeClaim that could be read has its providerID, so it stays".to_owned(),
            )
        });
        pools.chain(nodes).collect()
    }

    /// Whether there was nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Returns `Kind namespace/name`.
pub(crate) fn object_name(object: &Value) -> String {
    let (kind, name) = (string_at(object, "/kind"), string_at(object, "/metadata/name"));
    let name = if name.is_empty() { "?" } else { name };
    match string_at(object, "/metadata/namespace") {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// Returns a replacement for an unreadable object that would keep nodes: a pod stays where it is,
/// and so do all pods that a PodDisruptionBudget may select.
fn placeholder(kind: &str, object: &Value) -> Option<Value> {
    let rest = match kind {
        "v1 Pod" => {
            let node = string_at(object, "/spec/nodeName");
            let spec = json!({"nodeName": node, "containers": []});
            (!node.is_empty()).then(|| json!({"spec": spec, "status": {"phase": "Running"}}))
        }
        // Also of former versions, which are not decoded any more.
        "policy/v1 PodDisruptionBudget" | "policy/v1beta1 PodDisruptionBudget" => {
            let status = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0,
                "expectedPods": 0});
            Some(json!({"spec": {"selector": {}}, "status": status}))
        }
        _ => None,
    };
    let mut stand_in = rest?;
    let meta = json!({
        "name": string_at(object, "/metadata/name"),
        "namespace": string_at(object, "/metadata/namespace"),
        "annotations": {DO_NOT_DISRUPT: "true"},
    });
    let version = if kind == "v1 Pod" { "v1" } else { "policy/v1" };
    stand_in["apiVersion"] = json!(version);
    stand_in["kind"] = json!(string_at(object, "/kind"));
    stand_in["metadata"] = meta;
    Some(stand_in)
}

fn string_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
