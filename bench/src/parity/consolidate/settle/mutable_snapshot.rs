//! Changes the objects of a snapshot as nodes are removed and launched.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use karpenter_api::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE};
use karpenter_core::catalog::{InstanceType, Offering};
use karpenter_core::requirement::Requirements;
use karpenter_core::resources::Resources;
use karpenter_kwok::catalog;
use serde_json::{Map, Value, json};

use super::{requirement_allows, text};
use crate::consolidation::Replacement;
use crate::generate::objects::{conditions, node_class_ref, requirement};

/// The objects of a snapshot, with the instance types and their prices.
pub(super) struct MutableSnapshot {
    objects: Vec<Value>,
    types: Vec<Arc<InstanceType>>,
    launched: usize,
}

impl MutableSnapshot {
    pub(super) fn new(objects: Vec<Value>) -> Self {
        Self { objects, types: catalog::built_in(), launched: 0 }
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &Value> {
        self.objects.iter()
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(|object| object["kind"] == "Node")
    }

    /// Returns the pods without a node.
    pub(super) fn pending_pods(&self) -> BTreeSet<String> {
        crate::parity::pending_pods(&self.objects)
    }

    pub(super) fn has_pending_pods(&self) -> bool {
        let mut pods = self.objects.iter().filter(|object| object["kind"] == "Pod");
        pods.any(|pod| pod["spec"]["nodeName"].is_null())
    }

    /// Returns the price of all nodes, in dollars per hour.
    pub(super) fn hourly_price(&self) -> f64 {
        let price = |node: &Value| {
            let label = |key: &str| text(&node["metadata"]["labels"][key]);
            let kind = self.types.iter().find(|kind| kind.name == label(INSTANCE_TYPE))?;
            let sold = kind.offerings.iter().filter(|offering| {
                allows_value(&offering.requirements, ZONE, &label(ZONE))
                    && allows_value(&offering.requirements, CAPACITY_TYPE, &label(CAPACITY_TYPE))
            });
            sold.map(|offering| offering.price).min_by(f64::total_cmp)
        };
        self.nodes().filter_map(price).fold(0.0, |sum, price| sum + price)
    }

    /// Removes a node with its DaemonSet pods; returns the pods that now wait.
    pub(super) fn remove_node(&mut self, node: &str) -> Vec<String> {
        let is_gone = |object: &Value| match object["kind"].as_str() {
            Some("Node" | "CSINode") => object["metadata"]["name"] == node,
            Some("NodeClaim") => object["status"]["nodeName"] == node,
            Some("Pod") => {
                object["spec"]["nodeName"] == node
                    && object["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet"
            }
            _ => false,
        };
        self.objects.retain(|object| !is_gone(object));
        let mut waiting = Vec::new();
        for object in &mut self.objects {
            if object["kind"] == "Pod" && object["spec"]["nodeName"] == node {
                let metadata = &object["metadata"];
                waiting.push(format!(
                    "{}/{}",
                    text(&metadata["namespace"]),
                    text(&metadata["name"])
                ));
                if let Some(spec) = object["spec"].as_object_mut() {
                    spec.shift_remove("nodeName");
                }
                if let Some(pod) = object.as_object_mut() {
                    pod.shift_remove("status");
                }
            }
        }
        waiting
    }

    /// Binds a pod to a node.
    pub(super) fn bind_pod(&mut self, pod: &str, node: &str) {
        let (namespace, name) = pod.split_once('/').unwrap_or(("", pod));
        let found = self.objects.iter_mut().find(|object| {
            object["kind"] == "Pod"
                && object["metadata"]["name"] == name
                && object["metadata"]["namespace"] == namespace
        });
        if let Some(pod) = found {
            pod["spec"]["nodeName"] = node.into();
            pod["status"] = json!({"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]});
        }
    }

    /// Adds the cheapest node that a claim allows, ready, and returns its name.
    pub(super) fn launch_node(&mut self, claim: &Replacement) -> Result<String> {
        let (kind, labels, taints) = {
            let (kind, offering) = self.cheapest_offering(claim)?;
            let pool = self.node_pool(&claim.node_pool)?;
            let labels = node_labels(kind, offering, &claim.node_pool, pool);
            (Arc::clone(kind), labels, pool["spec"]["template"]["spec"]["taints"].clone())
        };
        self.launched += 1;
        let name = format!("new-{:04}", self.launched);
        let mut node_labels = labels.clone();
        node_labels.insert(HOSTNAME.to_owned(), name.clone().into());
        let status = json!({"capacity": quantities(&kind.capacity), "allocatable": quantities(&kind.allocatable())});
        let provider_id = format!("kwok://{name}");
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": node_labels},
            "spec": {"providerID": provider_id}, "status": status,
        });
        node["status"]["conditions"] = conditions(&["Ready"]);
        if taints.is_array() {
            node["spec"]["taints"] = taints;
        }
        let mut node_claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": format!("{}-{name}", claim.node_pool), "labels": labels},
            "spec": {
                "nodeClassRef": node_class_ref(), "expireAfter": "Never",
                "requirements": [requirement(INSTANCE_TYPE, "In", &[&kind.name])],
            },
            "status": status,
        });
        node_claim["status"]["providerID"] = provider_id.into();
        node_claim["status"]["nodeName"] = name.clone().into();
        node_claim["status"]["conditions"] =
            conditions(&["Launched", "Registered", "Initialized", "Ready", "Consolidatable"]);
        self.objects.extend([node_claim, node]);
        Ok(name)
    }

    fn node_pool(&self, name: &str) -> Result<&Value> {
        let is_it =
            |object: &&Value| object["kind"] == "NodePool" && object["metadata"]["name"] == name;
        self.objects.iter().find(is_it).with_context(|| format!("no NodePool {name}"))
    }

    fn cheapest_offering(&self, claim: &Replacement) -> Result<(&Arc<InstanceType>, &Offering)> {
        let mut best: Option<(&Arc<InstanceType>, &Offering)> = None;
        for kind in self.types.iter().filter(|kind| claim.instance_types.contains(&kind.name)) {
            for offering in kind.offerings.iter().filter(|offering| offering.available) {
                let suits = |key: &str| {
                    let known = offering.requirements.get(key);
                    let mut values = known
                        .into_iter()
                        .flat_map(karpenter_core::requirement::Requirement::values);
                    values.try_fold(false, |any, value| {
                        Ok::<_, anyhow::Error>(
                            any || requirement_allows(&claim.requirements, key, value)?,
                        )
                    })
                };
                if suits(ZONE)?
                    && suits(CAPACITY_TYPE)?
                    && best.is_none_or(|(_, known)| offering.price < known.price)
                {
                    best = Some((kind, offering));
                }
            }
        }
        best.with_context(|| format!("nothing can be launched for {claim:?}"))
    }
}

fn allows_value(requirements: &Requirements, key: &str, value: &str) -> bool {
    requirements.get(key).is_none_or(|known| known.has(value))
}

fn node_labels(
    kind: &InstanceType,
    offering: &Offering,
    pool: &str,
    object: &Value,
) -> Map<String, Value> {
    let mut labels = Map::new();
    for requirement in kind.requirements.iter().chain(offering.requirements.iter()) {
        let mut values = requirement.values().iter();
        if let (Some(value), None, false) =
            (values.next(), values.next(), requirement.is_complement())
        {
            labels.insert(requirement.key().to_owned(), value.clone().into());
        }
    }
    if let Some(own) = object["spec"]["template"]["metadata"]["labels"].as_object() {
        labels.extend(own.clone());
    }
    let fixed = [
        ("karpenter.sh/nodepool", pool),
        ("karpenter.sh/registered", "true"),
        ("karpenter.sh/initialized", "true"),
        ("karpenter.kwok.sh/kwoknodeclass", "default"),
    ];
    labels.extend(fixed.map(|(key, value)| (key.to_owned(), Value::from(value))));
    labels
}

fn quantities(resources: &Resources) -> Map<String, Value> {
    resources.iter().map(|(name, amount)| (name.to_owned(), amount.canonical().into())).collect()
}
