//! A StateNode with its API objects, usage and marks, for controllers (spec 40 §5.2).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node as WireNode;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::{conditions, labels};
use karpenter_core::copy_on_write::CopyOnWrite;
use karpenter_core::disruption::do_not_disrupt::blocks_node;
use karpenter_core::resources::Resources;
use karpenter_core::snapshot::StateNode;

use super::state_nodes::with_node_count;
use super::{Mirror, MirrorState, Usage};
use crate::ingest::Reader;
use crate::ingest::node::NodeAndClaim;

/// A StateNode with its API objects and the assumptions about it.
#[derive(Clone, Debug)]
pub struct TrackedNode {
    /// The provider id, or the name of a Node without one.
    pub provider_id: String,
    /// The Node.
    pub node: Option<Arc<WireNode>>,
    /// The NodeClaim.
    pub node_claim: Option<Arc<NodeClaim>>,
    /// The Node and NodeClaim as decisions see them: effective name, labels, taints, capacity,
    /// allocatable.
    pub state_node: CopyOnWrite<StateNode>,
    /// What its pods take.
    pub usage: Arc<Usage>,
    /// Whether a command marked the node for deletion.
    pub is_marked_by_command: bool,
    /// Until when it is kept for pods that were promised to it.
    pub nominated_until: Option<Timestamp>,
}

impl TrackedNode {
    /// Whether there is a NodeClaim.
    pub fn is_managed(&self) -> bool {
        self.node_claim.is_some()
    }

    /// Whether the Node has joined; one that is not ours has.
    pub fn is_registered(&self) -> bool {
        let (node, claim) = (self.node.as_deref(), self.node_claim.as_deref());
        NodeAndClaim { node, claim }.is_registered()
    }

    /// Whether the node is deleting or marked for deletion.
    pub fn is_marked_for_deletion(&self) -> bool {
        self.state_node.is_deleting
    }

    /// Whether repair is restarting it.
    pub fn is_rebooting(&self) -> bool {
        let status = self.node_claim.as_ref().and_then(|claim| claim.status.as_ref());
        let conditions = status.and_then(|status| status.conditions.as_ref());
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == conditions::REBOOTING && condition.status == "True")
    }

    /// Whether pods are promised to it.
    pub fn is_nominated(&self, now: Timestamp) -> bool {
        self.nominated_until.is_some_and(|until| until > now)
    }

    /// The label for it, or its name.
    pub fn hostname(&self) -> &str {
        let label = self.state_node.labels.get(labels::HOSTNAME).filter(|name| !name.is_empty());
        label.unwrap_or(&self.state_node.name)
    }

    /// What it has, itself included as `nodes: 1`.
    pub fn capacity(&self) -> Resources {
        with_node_count(&self.state_node.capacity)
    }

    /// What its pods leave.
    pub fn available(&self) -> Resources {
        self.state_node.allocatable.subtract(&self.usage.requests)
    }

    /// Returns the first reason that blocks disruption, regardless of the node's pods.
    pub fn undisruptable_reason(&self, now: Timestamp) -> Option<String> {
        const BLOCKED: &str =
            "disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation";
        let reason = if self.node_claim.is_none() {
            "node isn't managed by karpenter"
        } else if self.node.is_none() {
            "nodeclaim does not have an associated node"
        } else if self.is_rebooting() {
            "node is rebooting"
        } else if self.is_marked_for_deletion() {
            "node is deleting or marked for deletion"
        } else if !self.is_registered() {
            "node isn't initialized nor registered"
        } else if !self.state_node.is_initialized {
            "node isn't initialized"
        } else if self.is_nominated(now) {
            "node is nominated for a pending pod"
        } else if blocks_node(self.state_node.disruption_state.do_not_disrupt.as_deref()) {
            BLOCKED
        } else if self.state_node.pool.is_none() {
            return Some(format!("node doesn't have required label (label={})", labels::NODEPOOL));
        } else {
            return None;
        };
        Some(reason.to_owned())
    }
}

impl MirrorState {
    fn tracked_node(&mut self, id: &str, r: &Reader<'_>) -> Option<TrackedNode> {
        let usage = self.usage(id);
        let state_node = self.state_nodes.get(id)?;
        let node = state_node.node_name.as_ref().and_then(|name| self.state_nodes.node(name));
        let claim = state_node.claim_name.as_ref().and_then(|name| self.state_nodes.claim(name));
        Some(TrackedNode {
            provider_id: id.to_owned(),
            node: node.cloned(),
            node_claim: claim.cloned(),
            state_node: self.view.node(state_node.slot?).clone(),
            usage,
            is_marked_by_command: state_node.assumptions.is_marked_for_deletion(r.now()),
            nominated_until: state_node.assumptions.nominated_until(),
        })
    }
}

impl Mirror {
    /// Returns all tracked nodes, by provider id.
    pub fn tracked_nodes(&self, now: Timestamp) -> Vec<TrackedNode> {
        self.update_at(now, |state, reader| {
            state.expire(now);
            let ids: Vec<_> = state.state_nodes.ids().map(str::to_owned).collect();
            ids.iter().filter_map(|id| state.tracked_node(id, reader)).collect()
        })
    }

    /// Returns the tracked node with this provider id.
    pub fn tracked_node(&self, provider_id: &str, now: Timestamp) -> Option<TrackedNode> {
        self.update_at(now, |state, reader| {
            state.expire(now);
            state.tracked_node(provider_id, reader)
        })
    }

    /// Returns the number of tracked nodes.
    pub fn node_count(&self) -> usize {
        self.state().state_nodes.len()
    }

    /// Returns the provider id of a Node, if it is known.
    pub fn provider_id_of(&self, node: &str) -> Option<String> {
        self.state().state_nodes.id_of_node(node).map(str::to_owned)
    }

    /// Whether a NodeClaim is known, launched or not.
    pub fn has_node_claim(&self, name: &str) -> bool {
        self.state().state_nodes.has_claim(name)
    }

    /// Returns the NodeClaim with this provider id.
    pub fn node_claim_of(&self, provider_id: &str) -> Option<String> {
        self.state().state_nodes.get(provider_id)?.claim_name.clone()
    }

    /// Nominates a node for this time; [`crate::assumptions::nomination_window`] calculates it.
    pub fn nominate(&self, provider_id: &str, now: Timestamp, window: Duration) {
        let until = now.saturating_add(window).unwrap_or(Timestamp::MAX);
        if let Some(state_node) = self.state().state_nodes.get_mut(provider_id) {
            state_node.assumptions.nominate(until);
        }
    }

    /// Whether a node is nominated.
    pub fn is_nominated(&self, provider_id: &str, now: Timestamp) -> bool {
        let state = self.state();
        let state_node = state.state_nodes.get(provider_id);
        state_node
            .and_then(|state_node| state_node.assumptions.nominated_until())
            .is_some_and(|t| t > now)
    }

    /// Returns the nominated nodes by provider id, each with the end of its nomination.
    pub fn nominations(&self, now: Timestamp) -> BTreeMap<String, Timestamp> {
        let state = self.state();
        let until = |id: &str| {
            let until = state.state_nodes.get(id)?.assumptions.nominated_until()?;
            (until > now).then(|| (id.to_owned(), until))
        };
        state.state_nodes.ids().filter_map(until).collect()
    }

    /// Marks nodes for deletion until this time or until they are unmarked. Unknown nodes are
    /// ignored.
    pub fn mark_for_deletion<'a>(
        &self,
        provider_ids: impl IntoIterator<Item = &'a str>,
        now: Timestamp,
        until: Timestamp,
    ) {
        let mut state = self.state();
        for id in provider_ids {
            state.mark_for_deletion(id, Some(until), now);
        }
    }

    /// Takes marks back.
    pub fn unmark_for_deletion<'a>(
        &self,
        provider_ids: impl IntoIterator<Item = &'a str>,
        now: Timestamp,
    ) {
        let mut state = self.state();
        for id in provider_ids {
            state.mark_for_deletion(id, None, now);
        }
    }
}
