//! Nodes with harmless defaults.

use jiff::Timestamp;

use super::labels::{label_key, quantity, resources, taint};
use crate::catalog::InstanceType;
use crate::resources::Resources;
use crate::selector::Labels;
use crate::snapshot::{NodeDisruptionState, NodeObject, StateNode};
use crate::taint::Taint;

/// A node in the making.
#[derive(Clone, Debug)]
pub struct NodeBuilder {
    node: StateNode,
    has_object: bool,
    raw_taints: Option<Vec<Taint>>,
}

/// Returns a ready, empty node of NodePool `default` with 16 cpu, 64Gi and 110 pods.
pub fn node(name: &str) -> NodeBuilder {
    let resources = resources(&[("cpu", "16"), ("memory", "64Gi"), ("pods", "110")]);
    let labels = [("hostname", name), ("karpenter.sh/registered", "true")]
        .map(|(k, value)| (label_key(k).to_owned(), value.to_owned()));
    let node = StateNode {
        name: name.to_owned(),
        labels: labels.into(),
        taints: Vec::new(),
        object: None,
        pool: None,
        is_managed: true,
        is_initialized: true,
        is_deleting: false,
        capacity: resources.clone(),
        allocatable: resources,
        published_volume_limits: [].into(),
        initialized_at: None,
        last_pod_event: None,
        provider_id: format!("test:///{name}"),
        disruption_state: NodeDisruptionState {
            node_claim: format!("claim-{name}"),
            node_claim_uid: format!("uid-{name}"),
            node_claim_created_at: Some(Timestamp::UNIX_EPOCH),
            is_registered: true,
            is_ready: true,
            is_consolidatable: true,
            node_created_at: Some(Timestamp::UNIX_EPOCH),
            ..NodeDisruptionState::default()
        },
    };
    NodeBuilder { node, has_object: true, raw_taints: None }.pool("default")
}

impl NodeBuilder {
    /// The same under another name, which is its hostname if it has one.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.node.name);
        self.node.disruption_state.node_claim = format!("claim-{name}");
        self.node.disruption_state.node_claim_uid = format!("uid-{name}");
        self.node.provider_id = format!("test:///{name}");
        if self.node.labels.contains_key(label_key("hostname")) {
            return self.label("hostname", name);
        }
        self
    }

    /// Of another NodePool.
    #[must_use]
    pub fn pool(mut self, pool: &str) -> Self {
        self.node.pool = Some(pool.to_owned());
        self.label("nodepool", pool)
    }

    /// Not ours.
    #[must_use]
    pub fn unmanaged(mut self) -> Self {
        self.node.pool = None;
        self.node.is_managed = false;
        self.node.disruption_state.node_claim.clear();
        self.without_label("nodepool").without_label("karpenter.sh/registered")
    }

    /// Of an instance type: what it has, and its labels with one value.
    #[must_use]
    pub fn of_type(mut self, instance_type: &InstanceType) -> Self {
        self.node.capacity = Resources::clone(&instance_type.capacity);
        self.node.allocatable = instance_type.allocatable();
        for requirement in instance_type.requirements.iter().filter(|r| !r.is_complement()) {
            if let Some(value) = requirement.values().first() {
                self.node.labels.insert(requirement.key().to_owned(), value.clone());
            }
        }
        self
    }

    /// Has a label.
    #[must_use]
    pub fn label(mut self, short_key: &str, value: &str) -> Self {
        self.node.labels.insert(label_key(short_key).to_owned(), value.to_owned());
        self
    }

    /// Has these labels too.
    #[must_use]
    pub fn labels(mut self, labels: Labels) -> Self {
        self.node.labels.extend(labels);
        self
    }

    /// Removes a label that the node has by default.
    #[must_use]
    pub fn without_label(mut self, short_key: &str) -> Self {
        self.node.labels.remove(label_key(short_key));
        self
    }

    /// In a zone.
    #[must_use]
    pub fn zone(self, zone: &str) -> Self {
        self.label("zone", zone)
    }

    /// Has an effective taint, as `key=value:Effect`.
    #[must_use]
    pub fn taint(mut self, text: &str) -> Self {
        self.node.taints.push(taint(text));
        self
    }

    /// The Node object has these taints, whatever the effective ones are.
    #[must_use]
    pub fn raw_taints(mut self, taints: &[&str]) -> Self {
        self.raw_taints = Some(taints.iter().map(|text| taint(text)).collect());
        self
    }

    /// Sets the capacity and the allocatable amount of a resource.
    #[must_use]
    pub fn resource(mut self, name: &str, amount: &str) -> Self {
        self.node.capacity.set(name, quantity(amount));
        self.node.allocatable.set(name, quantity(amount));
        self
    }

    /// Has exactly this capacity; what pods may use stays.
    #[must_use]
    pub fn capacity(mut self, capacity: Resources) -> Self {
        self.node.capacity = capacity;
        self
    }

    /// Marks the node as not initialized yet.
    #[must_use]
    pub fn uninitialized(mut self) -> Self {
        self.node.is_initialized = false;
        self
    }

    /// Is a launched NodeClaim without a Node.
    #[must_use]
    pub fn in_flight(mut self) -> Self {
        self.has_object = false;
        self.uninitialized()
    }

    /// Is on its way out.
    #[must_use]
    pub fn deleting(mut self) -> Self {
        self.node.is_deleting = true;
        self
    }

    /// Adds a CSI driver that the node published; `None` is unlimited.
    #[must_use]
    pub fn csi_driver(mut self, name: &str, count: Option<u32>) -> Self {
        self.node.published_volume_limits.insert(name.to_owned(), count);
        self
    }

    /// Sets when the node became initialized and had its last pod event, in seconds.
    #[must_use]
    pub fn initialized_and_last_pod_event_at(
        mut self,
        initialized: Option<i64>,
        last_pod_event: Option<i64>,
    ) -> Self {
        let time = |second: i64| Timestamp::from_second(second).expect("in range");
        self.node.initialized_at = initialized.map(time);
        self.node.last_pod_event = last_pod_event.map(time);
        self
    }

    /// Changes the disruption state of the node.
    #[must_use]
    pub fn disruption_state(mut self, change: impl FnOnce(&mut NodeDisruptionState)) -> Self {
        change(&mut self.node.disruption_state);
        self
    }

    /// The node.
    pub fn build(mut self) -> StateNode {
        let node = &mut self.node;
        if node.is_initialized && node.is_managed {
            node.labels.insert("karpenter.sh/initialized".to_owned(), "true".to_owned());
        }
        let taints = self.raw_taints.unwrap_or_else(|| node.taints.clone());
        let object = NodeObject { labels: node.labels.clone(), taints };
        node.object = self.has_object.then_some(object);
        self.node
    }
}
