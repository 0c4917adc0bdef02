//! Manifests to typed objects: each kind that a decision looks at, with the place of the mistake
//! where an object does not have the shape of its own API.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::gather::Gathered;

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    Taken,
    /// There is one of that name already.
    Twice,
    /// A kind that has nothing to do with where pods go.
    Irrelevant,
    /// A kind that nobody here knows.
    Unknown,
}

/// Why an object could not be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mistake {
    /// The field, as a path; empty for the whole object.
    pub(super) field: String,
    pub(super) what: String,
    pub(super) fix: Cow<'static, str>,
}

/// Decodes an object and keeps it.
type Take = fn(&Value, &mut Gathered) -> Result<(), Mistake>;

/// A kind that counts.
struct Kind {
    api_version: &'static str,
    name: &'static str,
    namespaced: bool,
    take: Take,
}

macro_rules! kinds {
    ($($api_version:literal $kind:literal $namespaced:literal $($field:ident).+,)*) => {
        &[$(Kind {
            api_version: $api_version,
            name: $kind,
            namespaced: $namespaced,
            take: |value, gathered| {
                gathered.$($field).+.push(typed(value)?);
                Ok(())
            },
        }),*]
    };
}

#[rustfmt::skip]
const KINDS: &[Kind] = kinds![
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

/// Groups whose kinds do not matter here, and kinds of other groups that do not either. Nobody has
/// to be told that a ConfigMap is not planned.
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

/// Decodes an object and adds it to the others. `number` tells objects apart whose name is up to
/// the API server.
pub(super) fn add(
    mut object: Value,
    number: usize,
    gathered: &mut Gathered,
) -> Result<Decoded, Mistake> {
    let (api_version, kind) = {
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        (text("apiVersion"), text("kind"))
    };
    let is_known = |known: &&Kind| known.name == kind && known.api_version == api_version;
    let Some(known) = KINDS.iter().find(is_known) else {
        gathered.hints.see(&object);
        return other_kind(&api_version, &kind);
    };
    settle_metadata(&mut object, known, number)?;
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let key =
        (known.name, text("/metadata/namespace").to_owned(), text("/metadata/name").to_owned());
    if gathered.seen.contains_key(&key) {
        return Ok(Decoded::Twice);
    }
    if kind == "NodePool" {
        settle_node_class(&mut object);
    }
    if (known.take)(&object, gathered).is_err() {
        // Numbers are fine as quantities for the API server, and rare enough not to look for them
        // in every object.
        quote_quantities(&mut object);
        (known.take)(&object, gathered)?;
    }
    gathered.seen.insert(key, number);
    Ok(Decoded::Taken)
}

fn other_kind(api_version: &str, kind: &str) -> Result<Decoded, Mistake> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let old = matches!(
        (group, kind),
        ("karpenter.sh", "Provisioner" | "NodePool" | "NodeClaim" | "Machine")
            | ("karpenter.k8s.aws", "AWSNodeTemplate" | "EC2NodeClass")
    );
    if IRRELEVANT_KINDS.contains(&(api_version, kind)) || IRRELEVANT_GROUPS.contains(&group) {
        return Ok(Decoded::Irrelevant);
    }
    if old {
        return Err(Mistake {
            field: "apiVersion".to_owned(),
            what: format!("{api_version} is a former version of {kind}"),
            fix: "bring it to v1 first: karpenter convert".into(),
        });
    }
    // `extensions` is where Deployments and their like came from.
    let group_of =
        |version: &str| version.split_once('/').map_or("", |(group, _)| group).to_owned();
    let is_meant = |known: &&Kind| {
        known.name == kind && (group_of(known.api_version) == group || group == "extensions")
    };
    match KINDS.iter().find(is_meant) {
        None => Ok(Decoded::Unknown),
        Some(known) => Err(Mistake {
            field: "apiVersion".to_owned(),
            what: format!("unknown version {api_version:?} of {kind}"),
            fix: format!("use {}", known.api_version).into(),
        }),
    }
}

/// Gives an object the name and namespace that it would have in a cluster.
fn settle_metadata(object: &mut Value, kind: &Kind, number: usize) -> Result<(), Mistake> {
    let Some(fields) = object.as_object_mut() else { return Ok(()) };
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    let Value::Object(metadata) = metadata else {
        let what = "expected a mapping".to_owned();
        let fix = "name the object: metadata: {name: ...}".into();
        return Err(Mistake { field: "metadata".to_owned(), what, fix });
    };
    if is_empty(metadata, "name") {
        let Some(prefix) = metadata.get("generateName").and_then(Value::as_str) else {
            return Err(Mistake {
                field: "metadata.name".to_owned(),
                what: "an object needs a name".to_owned(),
                fix: "give it one".into(),
            });
        };
        let name = format!("{prefix}{number}");
        metadata.insert("name".to_owned(), name.into());
    }
    if !kind.namespaced {
        metadata.remove("namespace");
    } else if is_empty(metadata, "namespace") {
        metadata.insert("namespace".to_owned(), "default".into());
    }
    Ok(())
}

fn is_empty(metadata: &Map<String, Value>, key: &str) -> bool {
    match metadata.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false, // decoding says what is wrong with it
    }
}

/// A pool that names no class gets the one of the KWOK provider.
fn settle_node_class(pool: &mut Value) {
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

/// Decodes a value; a mistake knows its place. Done twice where there is one, since keeping track
/// of places costs time and mistakes are rare.
fn typed<K: DeserializeOwned>(value: &Value) -> Result<K, Mistake> {
    K::deserialize(value).or_else(|_| {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            let what = error.inner().to_string();
            Mistake {
                field: if path == "." { String::new() } else { path },
                fix: fix(&what).into(),
                what,
            }
        })
    })
}

/// What to do about a value of a wrong type.
fn fix(what: &str) -> &'static str {
    let is_text = what.contains("expected a string");
    if is_text && what.contains("invalid type: boolean") {
        "quote it: YAML takes y, n, yes, no, on, off, true and false for booleans"
    } else if is_text && (what.contains("type: integer") || what.contains("type: floating point")) {
        "quote it: YAML takes it for a number"
    } else {
        "write it as its API has it: kubectl explain"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn added(object: Value) -> (Result<Decoded, Mistake>, Gathered) {
        let mut gathered = Gathered::default();
        let decoded = add(object, 7, &mut gathered);
        (decoded, gathered)
    }

    fn pod(spec: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec})
    }

    #[test]
    fn every_kind_is_decoded() {
        for Kind { api_version, name: kind, .. } in KINDS {
            let spec = json!({"template": {"spec": {"requirements": []}}, "nodeClassRef": {},
                "requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}});
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
            let bare = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
            let taken = [object, bare].into_iter().any(|o| added(o).0 == Ok(Decoded::Taken));
            assert!(taken, "{api_version} {kind}");
        }
    }

    #[test]
    fn kinds_that_do_not_matter_are_told_from_unknown_ones() {
        for (api_version, kind, wanted) in [
            ("v1", "ConfigMap", Decoded::Irrelevant),
            ("rbac.authorization.k8s.io/v1", "Role", Decoded::Irrelevant),
            ("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", Decoded::Irrelevant),
            ("example.com/v1", "Rocket", Decoded::Unknown),
        ] {
            let object = json!({"apiVersion": api_version, "kind": kind});
            assert_eq!(added(object).0, Ok(wanted), "{api_version} {kind}");
        }
        let old = json!({"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool"});
        assert_eq!(added(old).0.unwrap_err().fix, "bring it to v1 first: karpenter convert");
    }

    #[test]
    fn other_versions_are_sent_to_the_one_that_is_read() {
        for (api_version, kind, fix) in [
            ("apps/v1beta1", "Deployment", "use apps/v1"),
            ("extensions/v1beta1", "DaemonSet", "use apps/v1"),
            ("batch/v1beta1", "Job", "use batch/v1"),
            ("v2", "Pod", "use v1"),
            ("karpenter.sh/v1", "NodeOverlay", "use karpenter.sh/v1alpha1"),
        ] {
            let mistake = added(json!({"apiVersion": api_version, "kind": kind})).0.unwrap_err();
            assert_eq!((mistake.field.as_str(), &*mistake.fix), ("apiVersion", fix));
        }
    }

    #[test]
    fn texts_that_yaml_reads_otherwise_are_to_be_quoted() {
        for (value, fix) in [
            (
                json!(true),
                "quote it: YAML takes y, n, yes, no, on, off, true and false for booleans",
            ),
            (json!(8080), "quote it: YAML takes it for a number"),
            (json!(1.5), "quote it: YAML takes it for a number"),
            (json!([]), "write it as its API has it: kubectl explain"),
        ] {
            let mistake = added(pod(&json!({"nodeSelector": {"a": value}}))).0.unwrap_err();
            assert_eq!((mistake.field.as_str(), &*mistake.fix), ("spec.nodeSelector.a", fix));
        }
    }

    #[test]
    fn mistakes_know_their_field() {
        let spec = json!({"containers": [{"name": "a"}, {"name": "b", "ports": "many"}]});
        let mistake = added(pod(&spec)).0.unwrap_err();
        assert_eq!(mistake.field, "spec.containers[1].ports");
        assert!(mistake.what.starts_with("invalid type: string \"many\""), "{}", mistake.what);
    }

    #[test]
    fn numbers_are_quantities() {
        let requests = json!({"cpu": 2, "memory": 1.5, "example.com/x": "3"});
        let (decoded, gathered) = added(pod(&json!({"containers": [
            {"name": "a", "resources": {"requests": requests}},
        ]})));
        assert_eq!(decoded, Ok(Decoded::Taken));
        let containers = &gathered.objects.pods[0].spec.as_ref().unwrap().containers;
        let requests = containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap();
        let texts: Vec<_> = requests.values().map(|quantity| quantity.0.as_str()).collect();
        assert_eq!(texts, ["2", "3", "1.5"]);
    }

    #[test]
    fn names_and_namespaces_are_those_of_a_cluster() {
        let named = |metadata: Value, kind: &str| {
            let object = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
            let (decoded, gathered) = added(object);
            let metadata = match kind {
                "Pod" => gathered.objects.pods.into_iter().map(|o| o.metadata).next(),
                _ => gathered.objects.nodes.into_iter().map(|o| o.metadata).next(),
            };
            (decoded, metadata.map(|m| (m.namespace, m.name)))
        };
        let ok = Ok(Decoded::Taken);
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
    fn a_pool_without_a_class_gets_the_kwok_one() {
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "a"}, "spec": {"template": {"spec": {"requirements": []}}}});
        let (decoded, gathered) = added(pool);
        assert_eq!(decoded, Ok(Decoded::Taken));
        assert_eq!(
            gathered.objects.node_pools[0].spec.template.spec.node_class_ref.kind,
            "KWOKNodeClass"
        );
    }
}
