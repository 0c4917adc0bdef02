//! Nodes and volumes of random worlds.

use karpenter_core::requirement::Operator::In;
use karpenter_core::snapshot::Node;
use karpenter_core::testing::{
    NodeBuilder, World, allowed_zones, claim, key, local_volume, node, requirement, storage_class,
    volume,
};
use karpenter_core::volume::PersistentVolume;
use proptest::prelude::*;
use proptest::{option, sample};

use super::offers::TAINTS;
use super::{BETA_ZONE, CSI, RACKS, RARE, ZONES};

/// A node, and what is odd about it.
pub(super) type AnyNode = (NodeBuilder, Odd);

/// How the parts of a node may disagree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Odd {
    /// It shares its hostname with others.
    is_twin: bool,
    /// The Node object lacks this label.
    unlabelled: Option<&'static str>,
    /// It has a NodePool, but no NodeClaim.
    unclaimed: bool,
}

impl Odd {
    pub(super) fn apply(self, node: &mut Node) {
        let hostname = key("hostname");
        if self.is_twin && node.labels.contains_key(hostname) {
            node.labels.insert(hostname.to_owned(), "twin".to_owned());
        }
        node.is_managed &= !self.unclaimed;
        if let Some(object) = &mut node.object {
            object.labels.clone_from(&node.labels);
            if let Some(short) = self.unlabelled {
                object.labels.remove(key(short));
            }
        }
    }
}

fn any_odd() -> impl Strategy<Value = Odd> {
    let parts = (
        prop::bool::weighted(RARE),
        option::weighted(0.1, sample::select(&["hostname", "zone", "rack"][..])),
        prop::bool::weighted(0.1),
    );
    parts.prop_map(|(is_twin, unlabelled, unclaimed)| Odd { is_twin, unlabelled, unclaimed })
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
        built = built.has("cpu", cpu).label("capacity-type", "spot").label("arch", "amd64");
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
            built = built.driver(CSI, count);
        }
        if nameless {
            built = built.no_label("hostname");
        }
        built = built.times(event.map(|_| 0), event);
        match state {
            "starting" => built.starting(),
            "in-flight" => built.in_flight(),
            "deleting" => built.deleting(),
            _ => built,
        }
    });
    (built, any_odd())
}

/// What a claim leads to: zones of its volume or class, whether it is bound, and a host that its
/// volume is tied to.
type AnyVolume = (Vec<&'static str>, bool, Option<(&'static str, bool)>);

pub(super) fn any_volume() -> impl Strategy<Value = AnyVolume> {
    let host = (sample::select(&["node-0", "node-1", "twin"][..]), any::<bool>());
    (sample::subsequence(&ZONES[..], 0..3), any::<bool>(), option::weighted(RARE, host))
}

pub(super) fn with_claim(world: World, number: usize, (zones, bound, host): AnyVolume) -> World {
    let name = format!("claim-{number}");
    if bound {
        let mut volume = volume(CSI, &zones);
        match host {
            Some((host, true)) => volume = local_volume(host),
            Some((host, false)) => tie(&mut volume, host),
            None => {}
        }
        return world.volume(&name, volume).claim(&name, claim(&name, ""));
    }
    let class = if zones.is_empty() { storage_class(CSI) } else { allowed_zones(CSI, &zones) };
    world.class(&name, class).claim(&name, claim("", &name))
}

/// One more place for a volume: a host.
fn tie(volume: &mut PersistentVolume, host: &str) {
    volume.node_affinity.push([requirement("hostname", In, &[host])].into_iter().collect());
}
