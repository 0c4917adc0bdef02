//! What admission plugins make of a pod.

use karpenter_cel::go_text;
use serde_json::{Map, Value, json};

use super::super::json_access::{
    at, ensure_list, ensure_object, entries, flag, has, list, number, set_default, text,
};
use super::super::{AdmissionContext, ObjectReader};
use crate::environment::{Environment, generated_name_suffix};
use crate::status::{StatusDetails, StatusError};

const SERVICE_ACCOUNT_MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const MIRROR_POD_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// The labels that a pod gets from the node to which it is bound.
const TOPOLOGY_LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

fn forbidden_pod(pod: &Value, why: &str) -> StatusError {
    StatusError::forbidden(
        StatusDetails { group: "", kind: "pods", name: text(pod, "/metadata/name") },
        why,
    )
}

/// The plugins in the order in which the API server runs them.
pub(super) fn admit_create(
    pod: &mut Value,
    context: AdmissionContext<'_>,
) -> Result<(), StatusError> {
    if context.service_accounts {
        admit_service_account(pod, context)?;
    }
    admit_tolerations(pod);
    admit_priority(pod, context.objects)?;
    admit_runtime_class(pod, context.objects)?;
    admit_topology(pod, context.objects);
    Ok(())
}

/// Adds what admission adds to a pod of a manifest, without a service account.
///
/// A plugin that would reject the pod adds nothing: mostly the manifests lack the class that the
/// pod names.
pub(super) fn admit_manifest(pod: &mut Value, objects: &dyn ObjectReader) {
    admit_tolerations(pod);
    let _ = admit_priority(pod, objects);
    let _ = admit_runtime_class(pod, objects);
    admit_topology(pod, objects);
}

pub(super) fn admit_update(pod: &mut Value, old: &Value, context: AdmissionContext<'_>) {
    admit_tolerations(pod);
    for name in ["priority", "preemptionPolicy"] {
        if !has(pod, &format!("/spec/{name}")) && has(old, &format!("/spec/{name}")) {
            let value = at(old, &format!("/spec/{name}")).clone();
            ensure_object(pod, "spec").insert(name.to_owned(), value);
        }
    }
    admit_topology(pod, context.objects);
}

fn admit_service_account(
    pod: &mut Value,
    context: AdmissionContext<'_>,
) -> Result<(), StatusError> {
    if entries(pod, "/metadata/annotations").contains_key(MIRROR_POD_ANNOTATION) {
        return match text(pod, "/spec/serviceAccountName") {
            "" => Ok(()),
            _ => Err(forbidden_pod(pod, "a mirror pod may not reference service accounts")),
        };
    }
    let spec = ensure_object(pod, "spec");
    set_default(spec, "serviceAccountName", "default");
    let name = spec.get("serviceAccountName").cloned().unwrap_or_default();
    spec.insert("serviceAccount".to_owned(), name.clone());
    let name = name.as_str().unwrap_or_default();
    let namespace = text(pod, "/metadata/namespace");
    let Some(account) = context.objects.get("", "serviceaccounts", namespace, name) else {
        let why = format!(
            "error looking up service account {namespace}/{name}: \
             serviceaccount \"{name}\" not found"
        );
        return Err(forbidden_pod(pod, &why));
    };
    let automount = at(pod, "/spec/automountServiceAccountToken").as_bool().or(at(
        &account,
        "/automountServiceAccountToken",
    )
    .as_bool());
    if automount.unwrap_or(true) {
        mount_service_account_token(pod, context.environment);
    }
    let secrets = list(&account, "/imagePullSecrets");
    if list(pod, "/spec/imagePullSecrets").is_empty() && !secrets.is_empty() {
        ensure_object(pod, "spec").insert("imagePullSecrets".to_owned(), secrets.into());
    }
    Ok(())
}

fn mount_service_account_token(pod: &mut Value, environment: &dyn Environment) {
    const PREFIX: &str = "kube-api-access-";
    let spec = ensure_object(pod, "spec");
    let volumes = ensure_list(spec, "volumes").iter();
    let existing =
        volumes.map(|volume| text(volume, "/name")).find(|name| name.starts_with(PREFIX));
    let (name, exists) = match existing {
        Some(name) => (name.to_owned(), true),
        None => (format!("{PREFIX}{}", generated_name_suffix(environment.random())), false),
    };
    let mut needed = false;
    for kind in ["initContainers", "containers"] {
        let containers = spec.get_mut(kind).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let mounts = ensure_list(container, "volumeMounts");
            if mounts.iter().all(|mount| text(mount, "/mountPath") != SERVICE_ACCOUNT_MOUNT) {
                mounts.push(
                    json!({"name": name, "readOnly": true, "mountPath": SERVICE_ACCOUNT_MOUNT}),
                );
                needed = true;
            }
        }
    }
    if needed && !exists {
        ensure_list(spec, "volumes").push(json!({
            "name": name,
            "projected": {
                "defaultMode": 0o644,
                "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }},
                    {"downwardAPI": {"items": [{
                        "path": "namespace",
                        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                    }]}},
                ],
            },
        }));
    }
}

/// A pod stays for five minutes on a node that is not ready or cannot be reached.
fn admit_tolerations(pod: &mut Value) {
    let tolerations = ensure_list(ensure_object(pod, "spec"), "tolerations");
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = tolerations.iter().any(|toleration| {
            let found = text(toleration, "/key");
            (found == key || found.is_empty())
                && matches!(text(toleration, "/effect"), "" | "NoExecute")
        });
        if !tolerated {
            tolerations.push(json!({
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }));
        }
    }
}

fn admit_priority(pod: &mut Value, objects: &dyn ObjectReader) -> Result<(), StatusError> {
    const GROUP: &str = "scheduling.k8s.io";
    let name = text(pod, "/spec/priorityClassName").to_owned();
    let class = if name.is_empty() {
        let classes = objects.list(GROUP, "priorityclasses", "");
        classes
            .into_iter()
            .filter(|class| flag(class, "/globalDefault"))
            .min_by_key(|class| number(class, "/value"))
    } else {
        let class = objects.get(GROUP, "priorityclasses", "", &name);
        let why = || format!("no PriorityClass with name {name} was found");
        Some(class.ok_or_else(|| forbidden_pod(pod, &why()))?)
    };
    let (name, priority, policy) = match &class {
        Some(class) => (
            text(class, "/metadata/name").to_owned(),
            number(class, "/value"),
            at(class, "/preemptionPolicy").clone(),
        ),
        None => (String::new(), 0, "PreemptLowerPriority".into()),
    };
    if let Some(given) = at(pod, "/spec/priority").as_i64().filter(|given| *given != priority) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority \
             admission controller computed {priority} from the given PriorityClass name"
        );
        return Err(forbidden_pod(pod, &why));
    }
    let given = at(pod, "/spec/preemptionPolicy");
    if let (Some(given), Some(policy)) = (given.as_str(), policy.as_str())
        && given != policy
    {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; \
             priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(forbidden_pod(pod, &why));
    }
    let spec = ensure_object(pod, "spec");
    if !name.is_empty() {
        spec.insert("priorityClassName".to_owned(), name.into());
    }
    spec.insert("priority".to_owned(), priority.into());
    if !policy.is_null() {
        spec.insert("preemptionPolicy".to_owned(), policy);
    }
    Ok(())
}

fn admit_runtime_class(pod: &mut Value, objects: &dyn ObjectReader) -> Result<(), StatusError> {
    let class = match at(pod, "/spec/runtimeClassName").as_str() {
        None => None,
        Some(name) => {
            let class = objects.get("node.k8s.io", "runtimeclasses", "", name);
            let why = || format!("pod rejected: RuntimeClass {} not found", go_text::quote(name));
            Some(class.ok_or_else(|| forbidden_pod(pod, &why()))?)
        }
    };
    let given = entries(pod, "/spec/overhead").clone();
    let overhead = class.as_ref().map(|class| at(class, "/overhead"));
    match overhead.filter(|overhead| !overhead.is_null()) {
        Some(overhead) => {
            let fixed = entries(overhead, "/podFixed").clone();
            if !given.is_empty() && given != fixed {
                let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined \
                           Overhead";
                return Err(forbidden_pod(pod, why));
            }
            ensure_object(pod, "spec").insert("overhead".to_owned(), fixed.into());
        }
        None if !given.is_empty() => {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined \
                       Overhead";
            return Err(forbidden_pod(pod, why));
        }
        None => {}
    }
    let Some(class) = class.filter(|class| has(class, "/scheduling")) else { return Ok(()) };
    let selector = entries(&class, "/scheduling/nodeSelector");
    let own = entries(pod, "/spec/nodeSelector").clone();
    for (key, value) in selector {
        if let Some(found) = own.get(key).filter(|found| *found != value) {
            let (value, found) =
                (value.as_str().unwrap_or_default(), found.as_str().unwrap_or_default());
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; \
                 pod.spec.nodeSelector[{key}] = {found}"
            );
            return Err(forbidden_pod(pod, &why));
        }
    }
    let spec = ensure_object(pod, "spec");
    if !selector.is_empty() {
        let merged: Map<String, Value> =
            own.into_iter().chain(selector.iter().map(|(k, v)| (k.clone(), v.clone()))).collect();
        spec.insert("nodeSelector".to_owned(), merged.into());
    }
    let tolerations = ensure_list(spec, "tolerations");
    for toleration in list(&class, "/scheduling/tolerations") {
        if !tolerations.contains(toleration) {
            tolerations.push(toleration.clone());
        }
    }
    Ok(())
}

fn admit_topology(pod: &mut Value, objects: &dyn ObjectReader) {
    let name = text(pod, "/spec/nodeName");
    if name.is_empty() {
        return;
    }
    let Some(mut labels) = objects.labels("", "nodes", "", name) else { return };
    labels.retain(|(name, _)| TOPOLOGY_LABELS.contains(&name.as_str()));
    labels.sort_by_key(|(name, _)| TOPOLOGY_LABELS.iter().position(|known| known == name));
    if !labels.is_empty() {
        let metadata = ensure_object(pod, "metadata").entry("labels").or_insert_with(|| json!({}));
        let labels = labels.into_iter().map(|(name, value)| (name, value.into()));
        super::super::json_access::coerce_to_object(metadata).extend(labels);
    }
}
