//! Pods: what admission adds, their quality of service, their end.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::access::{at, carry, entries, fill, flag, has, items, list, number, part, text};
use super::built_in::{BASE, BuiltIn, Generation, Status};
use super::defaults::nanos;
use super::{Around, pod_spec};
use crate::admission::go_text;
use crate::environment::{Environment, suffix};
use crate::status::{About, Failure};

pub(super) static POD: BuiltIn = BuiltIn {
    model: "io.k8s.api.core.v1.Pod",
    status: Status::Own,
    generation: Generation::Spec,
    create: prepare_create,
    update_status: prepare_status,
    admit_create,
    admit_update: |pod, old, around| {
        admit_update(pod, old, around);
        Ok(())
    },
    validate: pod_spec::validate_pod,
    validate_update: pod_spec::validate_pod_update,
    validate_status: pod_spec::validate_pod_status,
    grace_period: |pod, asked| Some(grace_period(pod, asked)),
    fields,
    ..BASE
};

const SERVICE_ACCOUNT_MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The labels that a pod takes over from the node that it is bound to.
pub fn topology_labels(node: &Value) -> Map<String, Value> {
    let labels = entries(node, "/metadata/labels");
    ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), labels.get(name)?.clone())))
        .collect()
}

fn forbidden(pod: &Value, why: &str) -> Failure {
    Failure::forbidden(About { group: "", kind: "pods", name: text(pod, "/metadata/name") }, why)
}

/// The plugins in the order in which the API server runs them.
fn admit_create(pod: &mut Value, around: Around<'_>) -> Result<(), Failure> {
    if around.service_accounts {
        admit_service_account(pod, around)?;
    }
    admit_tolerations(pod);
    admit_priority(pod, around)?;
    admit_runtime_class(pod, around)?;
    admit_topology(pod, around);
    Ok(())
}

fn admit_update(pod: &mut Value, old: &Value, around: Around<'_>) {
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
    let Some(node) = around.objects.get("", "nodes", "", name) else { return };
    let labels = topology_labels(&node);
    if !labels.is_empty() {
        let metadata = part(pod, "metadata").entry("labels").or_insert_with(|| json!({}));
        super::access::fields_of(metadata).extend(labels);
    }
}

fn prepare_create(pod: &mut Value) {
    let status = part(pod, "status");
    status.insert("phase".to_owned(), "Pending".into());
    let class = quality_of_service(pod);
    let gated = !list(pod, "/spec/schedulingGates").is_empty();
    let status = part(pod, "status");
    status.insert("qosClass".to_owned(), class.into());
    if gated {
        status.insert(
            "conditions".to_owned(),
            json!([{
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": null,
                "lastTransitionTime": null,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }]),
        );
        let now = at(pod, "/metadata/creationTimestamp").clone();
        pod["status"]["conditions"][0]["lastTransitionTime"] = now;
    }
    merge_label_keys(pod);
}

/// Label keys of affinity terms and spread constraints become part of their selectors.
fn merge_label_keys(pod: &mut Value) {
    let labels = entries(pod, "/metadata/labels").clone();
    let spec = part(pod, "spec");
    if let Some(affinity) = spec.get_mut("affinity") {
        for side in ["podAffinity", "podAntiAffinity"] {
            let Some(side) = affinity.get_mut(side) else { continue };
            for (list, inner) in [
                ("preferredDuringSchedulingIgnoredDuringExecution", Some("podAffinityTerm")),
                ("requiredDuringSchedulingIgnoredDuringExecution", None),
            ] {
                let terms = side.get_mut(list).and_then(Value::as_array_mut);
                for term in terms.into_iter().flatten() {
                    let term = match inner {
                        Some(name) => term.get_mut(name),
                        None => Some(term),
                    };
                    if let Some(term) = term {
                        merge_keys(term, "matchLabelKeys", "In", &labels);
                        merge_keys(term, "mismatchLabelKeys", "NotIn", &labels);
                    }
                }
            }
        }
    }
    let constraints = spec.get_mut("topologySpreadConstraints").and_then(Value::as_array_mut);
    for constraint in constraints.into_iter().flatten() {
        merge_keys(constraint, "matchLabelKeys", "In", &labels);
    }
}

fn merge_keys(term: &mut Value, field: &str, operator: &str, labels: &Map<String, Value>) {
    let keys = list(term, &format!("/{field}")).to_vec();
    let Some(Value::Object(selector)) = term.get_mut("labelSelector") else { return };
    for key in keys.iter().filter_map(Value::as_str) {
        if let Some(value) = labels.get(key) {
            items(selector, "matchExpressions")
                .push(json!({"key": key, "operator": operator, "values": [value]}));
        }
    }
}

fn prepare_status(new: &mut Value, old: &Value) {
    for name in ["deletionTimestamp", "ownerReferences"] {
        if let Some(metadata) = new.get_mut("metadata") {
            carry(metadata, at(old, "/metadata"), name);
        }
    }
    let before = entries(old, "/status");
    let status = part(new, "status");
    for name in ["qosClass", "observedGeneration"] {
        if let Some(value) = before.get(name) {
            fill(status, name, value.clone());
        }
    }
    keep_condition_generations(items(status, "conditions"), list(old, "/status/conditions"));
}

/// A condition without observed generation keeps that of its predecessor.
fn keep_condition_generations(conditions: &mut [Value], old: &[Value]) {
    let mut known: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for condition in old.iter().rev() {
        let generation = number(condition, "/observedGeneration");
        known.entry(text(condition, "/type")).or_default().push(generation);
    }
    for condition in conditions {
        let before = known.get_mut(text(condition, "/type")).and_then(Vec::pop);
        let before = before.unwrap_or_default();
        if number(condition, "/observedGeneration") == 0
            && before != 0
            && let Some(fields) = condition.as_object_mut()
        {
            fields.insert("observedGeneration".to_owned(), before.into());
        }
    }
}

fn grace_period(pod: &Value, asked: Option<i64>) -> i64 {
    let own = at(pod, "/spec/terminationGracePeriodSeconds").as_i64();
    let period = asked.or(own).unwrap_or_default();
    let is_over = matches!(text(pod, "/status/phase"), "Failed" | "Succeeded");
    match period {
        _ if is_over || text(pod, "/spec/nodeName").is_empty() => 0,
        period if period < 0 => 1,
        period => period,
    }
}

fn fields(pod: &Value) -> Vec<(&'static str, String)> {
    let own = |pointer| text(pod, pointer).to_owned();
    vec![
        ("spec.nodeName", own("/spec/nodeName")),
        ("spec.restartPolicy", own("/spec/restartPolicy")),
        ("spec.schedulerName", own("/spec/schedulerName")),
        ("spec.serviceAccountName", own("/spec/serviceAccountName")),
        ("spec.hostNetwork", flag(pod, "/spec/hostNetwork").to_string()),
        ("status.phase", own("/status/phase")),
        ("status.podIP", own("/status/podIPs/0/ip")),
        ("status.nominatedNodeName", own("/status/nominatedNodeName")),
    ]
}

/// Guaranteed, Burstable or BestEffort.
fn quality_of_service(pod: &Value) -> &'static str {
    let mut requests = BTreeMap::new();
    let mut limits = BTreeMap::new();
    let mut guaranteed = true;
    let add = |sums: &mut BTreeMap<String, i128>, resources: &Map<String, Value>| {
        for (name, quantity) in resources {
            let amount = nanos(quantity);
            if matches!(name.as_str(), "cpu" | "memory") && amount > 0 {
                *sums.entry(name.clone()).or_default() += amount;
            }
        }
    };
    let has_both = |resources: &Map<String, Value>| {
        ["cpu", "memory"].iter().all(|name| resources.get(*name).is_some_and(|q| nanos(q) > 0))
    };
    if has(pod, "/spec/resources") {
        add(&mut requests, entries(pod, "/spec/resources/requests"));
        let own = entries(pod, "/spec/resources/limits");
        if !own.is_empty() {
            add(&mut limits, own);
            guaranteed &= has_both(own);
        }
    } else {
        let containers = list(pod, "/spec/containers").iter();
        for container in containers.chain(list(pod, "/spec/initContainers")) {
            add(&mut requests, entries(container, "/resources/requests"));
            let own = entries(container, "/resources/limits");
            add(&mut limits, own);
            guaranteed &= has_both(own);
        }
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Requests of the whole pod default to those of its containers, else to its limits.
pub(super) fn default_pod_resources(spec: &mut Map<String, Value>) {
    let Some(limits) = spec.get("resources").map(|own| entries(own, "/limits").clone()) else {
        return;
    };
    if limits.is_empty() {
        return;
    }
    let sums = container_requests(spec);
    let Some(Value::Object(resources)) = spec.get_mut("resources") else { return };
    let requests = super::access::fields_of(resources.entry("requests").or_insert(Value::Null));
    for (name, quantity) in sums {
        if matches!(name.as_str(), "cpu" | "memory") {
            requests.entry(name).or_insert_with(|| quantity.into());
        }
    }
    for (name, limit) in limits {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            requests.entry(name).or_insert(limit);
        }
    }
}

/// What the containers of a pod ask for together, as canonical texts.
pub(super) fn container_requests(spec: &Map<String, Value>) -> BTreeMap<String, String> {
    use crate::shape::Amount;
    let mut sums: BTreeMap<String, Amount> = BTreeMap::new();
    let mut add = |container: &Value| {
        for (name, quantity) in entries(container, "/resources/requests") {
            let Some(Ok(amount)) = quantity.as_str().map(Amount::parse) else { continue };
            sums.entry(name.clone()).and_modify(|sum| *sum = sum.plus(amount)).or_insert(amount);
        }
    };
    for container in spec.get("containers").and_then(Value::as_array).into_iter().flatten() {
        add(container);
    }
    let init = spec.get("initContainers").and_then(Value::as_array);
    let init: Vec<&Value> = init.into_iter().flatten().collect();
    for container in &init {
        if text(container, "/restartPolicy") == "Always" {
            add(container);
        }
    }
    for container in init {
        for (name, quantity) in entries(container, "/resources/requests") {
            let Some(Ok(amount)) = quantity.as_str().map(Amount::parse) else { continue };
            let sum = sums.entry(name.clone()).or_insert(amount);
            if sum.nanos() < amount.nanos() {
                *sum = amount;
            }
        }
    }
    sums.into_iter().map(|(name, amount)| (name, amount.to_string())).collect()
}
