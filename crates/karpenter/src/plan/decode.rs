//! Decodes manifests into typed objects of each kind that a decision reads. An error has the field
//! where an object does not have the shape of its own API.

use std::borrow::Cow;

use karpenter_apiserver::kinds::ManifestKind;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::cluster_objects::ClusterObjects;
use super::file_objects::FileObjects;
use crate::admission;

/// The result of adding an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecodeResult {
    Added,
    /// An object of that name exists already.
    Duplicate,
    /// A kind that does not affect where pods go.
    Irrelevant,
    /// A kind that is not known.
    Unknown,
}

/// An error from decoding an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DecodeError {
    /// The field, as a path; empty for the whole object.
    pub(super) field: String,
    pub(super) problem: String,
    pub(super) fix: Cow<'static, str>,
}

/// Decodes an object and adds it to the others.
type AddFn = fn(&Value, &mut ClusterObjects) -> Result<(), DecodeError>;

/// A kind that a decision reads.
struct KnownKind {
    api_version: &'static str,
    name: &'static str,
    namespaced: bool,
    add: AddFn,
}

macro_rules! kinds {
    ($($api_version:literal $kind:literal $namespaced:literal $($field:ident).+,)*) => {
        &[$(KnownKind {
            api_version: $api_version,
            name: $kind,
            namespaced: $namespaced,
            add: |value, gathered| {
                gathered.$($field).+.push(decode_value(value)?);
                Ok(())
            },
        }),*]
    };
}

#[rustfmt::skip]
const KINDS: &[KnownKind] = kinds![
    // version                         kind                    namespaced  kept in
    "v1"                               "Pod"                   true        objects.pods,
    "v1"                               "Node"                  false       objects.nodes,
    "v1"                               "Namespace"             false       objects.namespaces,
    "v1"                               "PersistentVolume"      false       objects.persistent_volumes,
    "v1"                               "PersistentVolumeClaim" true        objects.persistent_volume_claims,
    "v1"                               "PodTemplate"           true        objects.pod_templates,
    "v1"                               "ReplicationController" true        objects.replication_controllers,
    "v1"                               "Service"               true        objects.services,
    "apps/v1"                          "DaemonSet"             true        objects.daemon_sets,
    "apps/v1"                          "Deployment"            true        objects.deployments,
    "apps/v1"                          "ReplicaSet"            true        objects.replica_sets,
    "apps/v1"                          "StatefulSet"           true        objects.stateful_sets,
    "batch/v1"                         "Job"                   true        jobs,
    "policy/v1"                        "PodDisruptionBudget"   true        objects.pod_disruption_budgets,
    "storage.k8s.io/v1"                "CSINode"               false       objects.csi_nodes,
    "storage.k8s.io/v1"                "StorageClass"          false       objects.storage_classes,
    "resource.k8s.io/v1"               "DeviceClass"           false       objects.device_classes,
    "resource.k8s.io/v1"               "ResourceClaim"         true        objects.resource_claims,
    "resource.k8s.io/v1"               "ResourceClaimTemplate" true        objects.resource_claim_templates,
    "resource.k8s.io/v1"               "ResourceSlice"         false       objects.resource_slices,
    "karpenter.sh/v1"                  "NodePool"              false       objects.node_pools,
    "karpenter.sh/v1"                  "NodeClaim"             false       objects.node_claims,
    "karpenter.sh/v1alpha1"            "NodeOverlay"           false       objects.node_overlays,
    "autoscaling.x-k8s.io/v1beta1"     "CapacityBuffer"        true        objects.capacity_buffers,
];

/// Groups whose kinds do not matter here, and kinds of other groups that do not either. A remark
/// that a ConfigMap is not planned would not help.
const IRRELEVANT_GROUPS: [&str; 14] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "autoscaling",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "metrics.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
];
const IRRELEVANT_KINDS: [(&str, &str); 16] = [
    ("v1", "Binding"),
    ("v1", "ComponentStatus"),
    ("v1", "ConfigMap"),
    ("v1", "Endpoints"),
    ("v1", "Event"),
    ("v1", "LimitRange"),
    ("v1", "ResourceQuota"),
    ("v1", "Secret"),
    ("v1", "ServiceAccount"),
    ("apps/v1", "ControllerRevision"),
    ("batch/v1", "CronJob"),
    ("karpenter.k8s.aws/v1", "EC2NodeClass"),
    ("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass"),
    ("storage.k8s.io/v1", "CSIDriver"),
    ("storage.k8s.io/v1", "CSIStorageCapacity"),
    ("storage.k8s.io/v1", "VolumeAttachment"),
];

fn known_kind(object: &Value) -> Option<&'static KnownKind> {
    let (api_version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
    KINDS.iter().find(|known| known.name == kind && known.api_version == api_version)
}

/// Completes an object of a file as an API server would: canonical form, defaults, admission.
pub(super) fn complete_object(object: &mut Value, file_objects: &mut FileObjects) {
    let Some(known) = known_kind(object) else { return };
    // Only an API server sets this field, and it has completed what it has stored.
    if object["metadata"]["resourceVersion"].is_string() {
        return;
    }
    let Some(kind) = ManifestKind::find(object) else { return admission::apply_defaults(object) };
    // Defaults replace what has a wrong type. If that matters to a decision, it stays for
    // [`add_object`] to report.
    if kind.check(object).is_ok() || known.can_decode(object) {
        file_objects.complete(kind, object);
    }
}

impl KnownKind {
    /// Returns whether the fields that decisions read have the right types.
    fn can_decode(&self, object: &Value) -> bool {
        let mut object = object.clone();
        quote_quantities(&mut object);
        (self.add)(&object, &mut ClusterObjects::default()).is_ok()
    }
}

/// Decodes an object and adds it to the others. `number` distinguishes objects whose names the API
/// server generates.
pub(super) fn add_object(
    mut object: Value,
    number: usize,
    gathered: &mut ClusterObjects,
) -> Result<DecodeResult, DecodeError> {
    let (api_version, kind) = {
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        (text("apiVersion"), text("kind"))
    };
    let Some(known) = known_kind(&object) else {
        gathered.hints.observe(&object);
        return classify_other_kind(&api_version, &kind);
    };
    default_metadata(&mut object, known, number)?;
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let key =
        (known.name, text("/metadata/namespace").to_owned(), text("/metadata/name").to_owned());
    if gathered.object_numbers.contains_key(&key) {
        return Ok(DecodeResult::Duplicate);
    }
    if kind == "NodePool" {
        default_node_class(&mut object);
    }
    if (known.add)(&object, gathered).is_err() {
        // Numbers are fine as quantities for the API server, and rare enough not to check every
        // object for them.
        quote_quantities(&mut object);
        (known.add)(&object, gathered)?;
    }
    gathered.object_numbers.insert(key, number);
    Ok(DecodeResult::Added)
}

fn classify_other_kind(api_version: &str, kind: &str) -> Result<DecodeResult, DecodeError> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let old = matches!(
        (group, kind),
        ("karpenter.sh", "Provisioner" | "NodePool" | "NodeClaim" | "Machine")
            | ("karpenter.k8s.aws", "AWSNodeTemplate" | "EC2NodeClass")
    );
    if IRRELEVANT_KINDS.contains(&(api_version, kind)) || IRRELEVANT_GROUPS.contains(&group) {
        return Ok(DecodeResult::Irrelevant);
    }
    if old {
        return Err(DecodeError {
            field: "apiVersion".to_owned(),
            problem: format!("{api_version} is a former version of {kind}"),
            fix: "bring it to v1 first: karpenter convert".into(),
        });
    }
    // `extensions` is where Deployments and their like came from.
    let group_of =
        |version: &str| version.split_once('/').map_or("", |(group, _)| group).to_owned();
    let is_meant = |known: &&KnownKind| {
        known.name == kind && (group_of(known.api_version) == group || group == "extensions")
    };
    match KINDS.iter().find(is_meant) {
        None => Ok(DecodeResult::Unknown),
        Some(known) => Err(DecodeError {
            field: "apiVersion".to_owned(),
            problem: format!("unknown version {api_version:?} of {kind}"),
            fix: format!("use {}", known.api_version).into(),
        }),
    }
}

/// Sets the name and namespace that an object would have in a cluster.
fn default_metadata(
    object: &mut Value,
    kind: &KnownKind,
    number: usize,
) -> Result<(), DecodeError> {
    let Some(fields) = object.as_object_mut() else { return Ok(()) };
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    let Value::Object(metadata) = metadata else {
        let problem = "expected a mapping".to_owned();
        let fix = "name the object: metadata: {name: ...}".into();
        return Err(DecodeError { field: "metadata".to_owned(), problem, fix });
    };
    if is_unset(metadata, "name") {
        let Some(prefix) = metadata.get("generateName").and_then(Value::as_str) else {
            return Err(DecodeError {
                field: "metadata.name".to_owned(),
                problem: "an object needs a name".to_owned(),
                fix: "give it one".into(),
            });
        };
        let name = format!("{prefix}{number}");
        metadata.insert("name".to_owned(), name.into());
    }
    if !kind.namespaced {
        metadata.remove("namespace");
    } else if is_unset(metadata, "namespace") {
        metadata.insert("namespace".to_owned(), "default".into());
    }
    Ok(())
}

fn is_unset(metadata: &Map<String, Value>, key: &str) -> bool {
    match metadata.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false, // the decoder reports the error
    }
}

/// Sets the KWOK provider's class for a pool that names none.
fn default_node_class(pool: &mut Value) {
    let template = pool.pointer_mut("/spec/template/spec").and_then(Value::as_object_mut);
    let Some(template) = template else { return };
    if template.get("nodeClassRef").is_none_or(Value::is_null) {
        let class =
            json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
        template.insert("nodeClassRef".to_owned(), class);
    }
}

/// Writes numbers as texts where a quantity is expected, as the API server reads them.
fn quote_quantities(value: &mut Value) {
    const MAPS: [&str; 6] = ["requests", "limits", "capacity", "allocatable", "overhead", "hard"];
    match value {
        Value::Array(items) => items.iter_mut().for_each(quote_quantities),
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::Object(amounts) if MAPS.contains(&key.as_str()) => {
                        for amount in amounts.values_mut().filter(|amount| amount.is_number()) {
                            *amount = amount.to_string().into();
                        }
                    }
                    Value::Object(_) | Value::Array(_) => quote_quantities(value),
                    Value::Number(number) if key == "sizeLimit" => {
                        *value = number.to_string().into();
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// Decodes a value; an error has its path. After an error it decodes again, since tracking paths
/// costs time and errors are rare.
fn decode_value<K: DeserializeOwned>(value: &Value) -> Result<K, DecodeError> {
    K::deserialize(value).or_else(|_| {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            let problem = error.inner().to_string();
            DecodeError {
                field: if path == "." { String::new() } else { path },
                fix: type_error_fix(&problem).into(),
                problem,
            }
        })
    })
}

/// Returns the fix of a value with a wrong type.
fn type_error_fix(problem: &str) -> &'static str {
    let is_text = problem.contains("expected a string");
    if is_text && problem.contains("invalid type: boolean") {
        "quote it: YAML takes y, n, yes, no, on, off, true and false for booleans"
    } else if is_text
        && (problem.contains("type: integer") || problem.contains("type: floating point"))
    {
        "quote it: YAML takes it for a number"
    } else {
        "write it as its API has it: kubectl explain"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn add_to_empty(object: Value) -> (Result<DecodeResult, DecodeError>, ClusterObjects) {
        let mut gathered = ClusterObjects::default();
        let decoded = add_object(object, 7, &mut gathered);
        (decoded, gathered)
    }

    fn pod(spec: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec})
    }

    #[test]
    fn every_kind_is_decoded() {
        for KnownKind { api_version, name: kind, .. } in KINDS {
            let spec = json!({"template": {"spec": {"requirements": []}}, "nodeClassRef": {},
                "requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}});
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
            let bare = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
            let taken =
                [object, bare].into_iter().any(|o| add_to_empty(o).0 == Ok(DecodeResult::Added));
            assert!(taken, "{api_version} {kind}");
        }
    }

    #[test]
    fn irrelevant_kinds_are_distinguished_from_unknown_kinds() {
        for (api_version, kind, wanted) in [
            ("v1", "ConfigMap", DecodeResult::Irrelevant),
            ("rbac.authorization.k8s.io/v1", "Role", DecodeResult::Irrelevant),
            ("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", DecodeResult::Irrelevant),
            ("example.com/v1", "Rocket", DecodeResult::Unknown),
        ] {
            let object = json!({"apiVersion": api_version, "kind": kind});
            assert_eq!(add_to_empty(object).0, Ok(wanted), "{api_version} {kind}");
        }
        let old = json!({"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool"});
        assert_eq!(add_to_empty(old).0.unwrap_err().fix, "bring it to v1 first: karpenter convert");
    }

    #[test]
    fn other_api_versions_get_the_supported_version_as_fix() {
        for (api_version, kind, fix) in [
            ("apps/v1beta1", "Deployment", "use apps/v1"),
            ("extensions/v1beta1", "DaemonSet", "use apps/v1"),
            ("batch/v1beta1", "Job", "use batch/v1"),
            ("v2", "Pod", "use v1"),
            ("karpenter.sh/v1", "NodeOverlay", "use karpenter.sh/v1alpha1"),
        ] {
            let mistake =
                add_to_empty(json!({"apiVersion": api_version, "kind": kind})).0.unwrap_err();
            assert_eq!((mistake.field.as_str(), &*mistake.fix), ("apiVersion", fix));
        }
    }

    #[test]
    fn unquoted_strings_get_the_fix_to_quote_them() {
        for (value, fix) in [
            (
                json!(true),
                "quote it: YAML takes y, n, yes, no, on, off, true and false for booleans",
            ),
            (json!(8080), "quote it: YAML takes it for a number"),
            (json!(1.5), "quote it: YAML takes it for a number"),
            (json!([]), "write it as its API has it: kubectl explain"),
        ] {
            let mistake = add_to_empty(pod(&json!({"nodeSelector": {"a": value}}))).0.unwrap_err();
            assert_eq!((mistake.field.as_str(), &*mistake.fix), ("spec.nodeSelector.a", fix));
        }
    }

    #[test]
    fn decode_errors_name_the_field() {
        let spec = json!({"containers": [{"name": "a"}, {"name": "b", "ports": "many"}]});
        let mistake = add_to_empty(pod(&spec)).0.unwrap_err();
        assert_eq!(mistake.field, "spec.containers[1].ports");
        assert!(
            mistake.problem.starts_with("invalid type: string \"many\""),
            "{}",
            mistake.problem
        );
    }

    #[test]
    fn numbers_are_accepted_as_quantities() {
        let requests = json!({"cpu": 2, "memory": 1.5, "example.com/x": "3"});
        let (decoded, gathered) = add_to_empty(pod(&json!({"containers": [
            {"name": "a", "resources": {"requests": requests}},
        ]})));
        assert_eq!(decoded, Ok(DecodeResult::Added));
        let containers = &gathered.objects.pods[0].spec.as_ref().unwrap().containers;
        let requests = containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap();
        let texts: Vec<_> = requests.values().map(|quantity| quantity.0.as_str()).collect();
        assert_eq!(texts, ["2", "3", "1.5"]);
    }

    #[test]
    fn names_and_namespaces_are_defaulted_as_in_a_cluster() {
        let named = |metadata: Value, kind: &str| {
            let object = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
            let (decoded, gathered) = add_to_empty(object);
            let metadata = match kind {
                "Pod" => gathered.objects.pods.into_iter().map(|o| o.metadata).next(),
                _ => gathered.objects.nodes.into_iter().map(|o| o.metadata).next(),
            };
            (decoded, metadata.map(|m| (m.namespace, m.name)))
        };
        let ok = Ok(DecodeResult::Added);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            named(json!({"name": "a"}), "Pod"),
            (ok.clone(), Some((some("default"), some("a"))))
        );
        let generated = json!({"generateName": "a-", "namespace": "x"});
        assert_eq!(named(generated, "Pod"), (ok.clone(), Some((some("x"), some("a-7")))));
        assert_eq!(
            named(json!({"name": "n", "namespace": "x"}), "Node"),
            (ok, Some((None, some("n"))))
        );
        for metadata in [json!({}), json!(null), json!([]), json!({"name": ""})] {
            assert!(named(metadata.clone(), "Pod").0.is_err(), "{metadata}");
        }
    }

    #[test]
    fn a_node_pool_without_a_node_class_gets_the_kwok_class() {
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "a"}, "spec": {"template": {"spec": {"requirements": []}}}});
        let (decoded, gathered) = add_to_empty(pool);
        assert_eq!(decoded, Ok(DecodeResult::Added));
        assert_eq!(
            gathered.objects.node_pools[0].spec.template.spec.node_class_ref.kind,
            "KWOKNodeClass"
        );
    }
}
