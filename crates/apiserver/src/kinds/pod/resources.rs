//! What a pod asks for, and how good a service that makes.

use std::collections::BTreeMap;

use karpenter_grammar::Amount;
use serde_json::{Map, Value};

use super::super::defaults::nanos;
use super::super::json_access::{entries, has, list, text};

/// Returns the QoS class: Guaranteed, Burstable or BestEffort.
pub(super) fn qos_class(pod: &Value) -> &'static str {
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
pub(in super::super) fn default_pod_resources(spec: &mut Map<String, Value>) {
    let Some(limits) = spec.get("resources").map(|own| entries(own, "/limits").clone()) else {
        return;
    };
    if limits.is_empty() {
        return;
    }
    let sums = container_requests(spec);
    let Some(Value::Object(resources)) = spec.get_mut("resources") else { return };
    let requests = super::super::json_access::coerce_to_object(
        resources.entry("requests").or_insert(Value::Null),
    );
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
pub(in super::super) fn container_requests(spec: &Map<String, Value>) -> BTreeMap<String, String> {
    let mut sums: BTreeMap<String, Amount> = BTreeMap::new();
    let mut add = |container: &Value| {
        for (name, quantity) in entries(container, "/resources/requests") {
            let Some(Ok(amount)) = quantity.as_str().map(Amount::parse) else { continue };
            sums.entry(name.clone())
                .and_modify(|sum| *sum = sum.saturating_add(amount))
                .or_insert(amount);
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
            if sum.as_nanos() < amount.as_nanos() {
                *sum = amount;
            }
        }
    }
    sums.into_iter().map(|(name, amount)| (name, amount.to_string())).collect()
}
