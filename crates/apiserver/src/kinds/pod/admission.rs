//! What admission plugins make of a pod.

use serde_json::{Map, Value, json};

use super::super::Around;
use super::super::access::{at, entries, fill, flag, has, items, list, number, part, text};
use crate::admission::go_text;
use crate::environment::{Environment, suffix};
use crate::status::{About, Failure};

const SERVICE_ACCOUNT_MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The labels that a pod takes over from the node that it is bound to.
const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

fn forbidden(pod: &Value, why: &str) -> Failure {
    Failure::forbidden(About { group: "", kind: "pods", name: text(pod, "/metadata/name") }, why)
}

/// The plugins in the order in which the API server runs them.
pub(super) fn admit_create(pod: &mut Value, around: Around<'_>) -> Result<(), Failure> {
    if around.service_accounts {
        admit_service_account(pod, around)?;
    }
    admit_tolerations(pod);
    admit_priority(pod, around)?;
    admit_runtime_class(pod, around)?;
    admit_topology(pod, around);
    Ok(())
}

pub(super) fn admit_update(pod: &mut Value, old: &Value, around: Around<'_>) {
    admit_tolerations(pod);
    for name in ["priority", "preemptionPolicy"] {
        if !has(pod, &format!("/spec/{name}")) && has(old, &format!("/spec/{name}")) {
            let value = at(old, &format!("/spec/{name}")).clone();
            part(pod, "spec").insert(name.to_owned(), value);
        }
    }
    admit_topology(pod, around);
}

fn admit_service_account(pod: &mut Value, around: Around<'_>) -> Result<(), Failure> {
    if entries(pod, "/metadata/annotations").contains_key(MIRROR) {
        return match text(pod, "/spec/serviceAccountName") {
            "" => Ok(()),
            _ => Err(forbidden(pod, "a mirror pod may not reference service accounts")),
        };
    }
    let spec = part(pod, "spec");
    fill(spec, "serviceAccountName", "default");
    let name = spec.get("serviceAccountName").cloned().unwrap_or_default();
    spec.insert("serviceAccount".to_owned(), name.clone());
    let name = name.as_str().unwrap_or_default();
    let namespace = text(pod, "/metadata/namespace");
    let Some(account) = around.objects.get("", "serviceaccounts", namespace, name) else {
        let why = format!(
            "error looking up service account {namespace}/{name}: \
             serviceaccount \"{name}\" not found"
        );
        return Err(forbidden(pod, &why));
    };
    let automount = at(pod, "/spec/automountServiceAccountToken").as_bool().or(at(
        &account,
        "/automountServiceAccountToken",
    )
    .as_bool());
    if automount.unwrap_or(true) {
        mount_token(pod, around.environment);
    }
    let secrets = list(&account, "/imagePullSecrets");
    if list(pod, "/spec/imagePullSecrets").is_empty() && !secrets.is_empty() {
        part(pod, "spec").insert("imagePullSecrets".to_owned(), secrets.into());
    }
    Ok(())
}

fn mount_token(pod: &mut Value, environment: &dyn Environment) {
    const PREFIX: &str = "kube-api-access-";
    let spec = part(pod, "spec");
    let volumes = items(spec, "volumes").iter();
    let existing =
        volumes.map(|volume| text(volume, "/name")).find(|name| name.starts_with(PREFIX));
    let (name, exists) = match existing {
        Some(name) => (name.to_owned(), true),
        None => (format!("{PREFIX}{}", suffix(environment.random())), false),
    };
    let mut needed = false;
    for kind in ["initContainers", "containers"] {
        let containers = spec.get_mut(kind).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let mounts = items(container, "volumeMounts");
            if mounts.iter().all(|mount| text(mount, "/mountPath") != SERVICE_ACCOUNT_MOUNT) {
                mounts.push(
                    json!({"name": name, "readOnly": true, "mountPath": SERVICE_ACCOUNT_MOUNT}),
                );
                needed = true;
            }
        }
    }
    if needed && !exists {
        items(spec, "volumes").push(json!({
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
    let tolerations = items(part(pod, "spec"), "tolerations");
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

fn admit_priority(pod: &mut Value, around: Around<'_>) -> Result<(), Failure> {
    const GROUP: &str = "scheduling.k8s.io";
    let name = text(pod, "/spec/priorityClassName").to_owned();
    let class = if name.is_empty() {
        let classes = around.objects.list(GROUP, "priorityclasses", "");
        classes
            .into_iter()
            .filter(|class| flag(class, "/globalDefault"))
            .min_by_key(|class| number(class, "/value"))
    } else {
        let class = around.objects.get(GROUP, "priorityclasses", "", &name);
        let why = || format!("no PriorityClass with name {name} was found");
        Some(class.ok_or_else(|| forbidden(pod, &why()))?)
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
        return Err(forbidden(pod, &why));
    }
    let given = at(pod, "/spec/preemptionPolicy");
    if let (Some(given), Some(policy)) = (given.as_str(), policy.as_str())
        && given != policy
    {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; \
             priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(forbidden(pod, &why));
    }
    let spec = part(pod, "spec");
    if !name.is_empty() {
        spec.insert("priorityClassName".to_owned(), name.into());
    }
    spec.insert("priority".to_owned(), priority.into());
    if !policy.is_null() {
        spec.insert("preemptionPolicy".to_owned(), policy);
    }
    Ok(())
}

fn admit_runtime_class(pod: &mut Value, around: Around<'_>) -> Result<(), Failure> {
    let class = match at(pod, "/spec/runtimeClassName").as_str() {
        None => None,
        Some(name) => {
            let class = around.objects.get("node.k8s.io", "runtimeclasses", "", name);
            let why = || format!("pod rejected: RuntimeClass {} not found", go_text::quote(name));
            Some(class.ok_or_else(|| forbidden(pod, &why()))?)
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
                return Err(forbidden(pod, why));
            }
            part(pod, "spec").insert("overhead".to_owned(), fixed.into());
        }
        None if !given.is_empty() => {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined \
                       Overhead";
            return Err(forbidden(pod, why));
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
            return Err(forbidden(pod, &why));
        }
    }
    let spec = part(pod, "spec");
    if !selector.is_empty() {
        let merged: Map<String, Value> =
            own.into_iter().chain(selector.iter().map(|(k, v)| (k.clone(), v.clone()))).collect();
        spec.insert("nodeSelector".to_owned(), merged.into());
    }
    let tolerations = items(spec, "tolerations");
    for toleration in list(&class, "/scheduling/tolerations") {
        if !tolerations.contains(toleration) {
            tolerations.push(toleration.clone());
        }
    }
    Ok(())
}

fn admit_topology(pod: &mut Value, around: Around<'_>) {
    let name = text(pod, "/spec/nodeName");
    if name.is_empty() {
        return;
    }
    let Some(mut labels) = around.objects.labels("", "nodes", "", name) else { return };
    labels.retain(|(name, _)| TOPOLOGY.contains(&name.as_str()));
    labels.sort_by_key(|(name, _)| TOPOLOGY.iter().position(|known| known == name));
    if !labels.is_empty() {
        let metadata = part(pod, "metadata").entry("labels").or_insert_with(|| json!({}));
        let labels = labels.into_iter().map(|(name, value)| (name, value.into()));
        super::super::access::fields_of(metadata).extend(labels);
    }
}
