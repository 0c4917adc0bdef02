//! Nodes and volumes of random worlds.

use karpenter_core::requirement::Operator::In;
use karpenter_core::snapshot::StateNode;
use karpenter_core::testing::{
    NodeBuilder, World, label_key, local_volume, node, persistent_volume, requirement,
    storage_class, volume_claim, zonal_storage_class,
};
use karpenter_core::volume::PersistentVolume;
use proptest::prelude::*;
use proptest::{option, sample};

use super::pools::TAINTS;
use super::{BETA_ZONE, CSI, RACKS, RARE, ZONES};

/// A node with its inconsistencies.
pub(super) type AnyNode = (NodeBuilder, NodeInconsistency);

/// The ways in which the parts of a node may disagree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeInconsistency {
    /// Whether the node shares its hostname with others.
    shares_hostname: bool,
    /// A label that the Node object lacks.
    missing_label: Option<&'static str>,
    /// Whether the node has a NodePool, but no NodeClaim.
    has_no_node_claim: bool,
}

impl NodeInconsistency {
    pub(super) fn apply(self, node: &mut StateNode) {
        let hostname = label_key("hostname");
        if self.shares_hostname && node.labels.contains_key(hostname) {
            node.labels.insert(hostname.to_owned(), "twin".to_owned());
        }
        node.is_managed &= !self.has_no_node_claim;
        if let Some(object) = &mut node.object {
            object.labels.clone_from(&node.labels);
            if let Some(short) = self.missing_label {
                object.labels.remove(label_key(short));
            }
        }
    }
}

fn any_inconsistency() -> impl Strategy<Value = NodeInconsistency> {
    let parts = (
        prop::bool::weighted(RARE),
        option::weighted(0.1, sample::select(&["hostname", "zone", "rack"][..])),
        prop::bool::weighted(0.1),
    );
    parts.prop_map(|(shares_hostname, unlabelled, unclaimed)| NodeInconsistency {
        shares_hostname,
        missing_label: unlabelled,
        has_no_node_claim: unclaimed,
    })
}

pub(super) fn any_node() -> impl Strategy<Value = AnyNode> {
    let parts = (
        sample::select(&["pool-0", "pool-0", "pool-1", ""][..]),
        option::weighted(0.8, sample::select(&ZONES[..])),
        option::weighted(0.4, sample::select(&RACKS[..])),
        sample::select(&["1", "4", "16"][..]),
        option::weighted(RARE, sample::select(&TAINTS[..])),
        sample::select(&["ready", "ready", "ready", "starting", "in-flight", "deleting"][..]),
        option::weighted(RARE, option::of(0..3_u32)),
        prop::bool::weighted(0.1),
        option::weighted(RARE, sample::select(&["type-0", "type-1"][..])),
        option::weighted(RARE, 0..120_i64),
        prop::bool::weighted(0.1),
    );
    let built = parts.prop_map(|parts| {
        let (of, zone, rack, cpu, taint, state, driver, nameless, of_type, event, is_old) = parts;
        let mut built = node("");
        built = if of.is_empty() { built.unmanaged() } else { built.pool(of) };
        built = built.resource("cpu", cpu).label("capacity-type", "spot").label("arch", "amd64");
        let zone_label = if is_old { BETA_ZONE } else { "zone" };
        for (key, value) in [(zone_label, zone), ("rack", rack), ("type", of_type)] {
            if let Some(value) = value {
                built = built.label(key, value);
            }
        }
        if let Some(taint) = taint {
            built = built.taint(taint);
        }
        if let Some(count) = driver {
            built = built.csi_driver(CSI, count);
        }
        if nameless {
            built = built.without_label("hostname");
        }
        built = built.initialized_and_last_pod_event_at(event.map(|_| 0), event);
        match state {
            "starting" => built.uninitialized(),
            "in-flight" => built.in_flight(),
            "deleting" => built.deleting(),
            _ => built,
        }
    });
    (built, any_inconsistency())
}

/// What a claim leads to: zones of its volume or class, whether it is bound, and a host that its
/// volume is tied to.
type AnyVolume = (Vec<&'static str>, bool, Option<(&'static str, bool)>);

pub(super) fn any_volume() -> impl Strategy<Value = AnyVolume> {
    let host = (sample::select(&["node-0", "node-1", "twin"][..]), any::<bool>());
    (sample::subsequence(&ZONES[..], 0..3), any::<bool>(), option::weighted(RARE, host))
}

pub(super) fn with_volume_claim(
    world: World,
    number: usize,
    (zones, bound, host): AnyVolume,
) -> World {
    let name = format!("claim-{number}");
    if bound {
        let mut volume = persistent_volume(CSI, &zones);
        match host {
            Some((host, true)) => volume = local_volume(host),
            Some((host, false)) => add_hostname_term(&mut volume, host),
            None => {}
        }
        return world.persistent_volume(&name, volume).volume_claim(&name, volume_claim(&name, ""));
    }
    let class =
        if zones.is_empty() { storage_class(CSI) } else { zonal_storage_class(CSI, &zones) };
    world.storage_class(&name, class).volume_claim(&name, volume_claim("", &name))
}

/// Adds a node affinity term for a host to a volume.
fn add_hostname_term(volume: &mut PersistentVolume, host: &str) {
    volume.node_affinity.push([requirement("hostname", In, &[host])].into_iter().collect());
}
