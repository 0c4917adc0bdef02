//! Generates worlds with more objects than fit into one word, block or run.
//!
//! The parts repeat, so that the worlds are large without being slow to generate.

use karpenter_core::pod::Phase;
use karpenter_core::requirement::Operator::In;
use karpenter_core::testing::{PodBuilder, TypeBuilder, World, pod, spread, term};
use proptest::prelude::*;
use proptest::{collection, sample};

use super::nodes::any_node;
use super::pods::{any_daemon, any_pod};
use super::pools::{any_pool, any_type};
use super::{APPS, RandomWorld, named};

const TYPES: usize = 70;
const RACKS: usize = 70;
const NODES: usize = 40;
/// The number of pods that each need a NodeClaim of their own.
const ISOLATED_PODS: usize = 66;

fn rack(number: usize) -> String {
    format!("wide-{}", number % RACKS)
}

/// Pods that fill many hosts or domains.
fn crowd() -> impl Strategy<Value = PodBuilder> {
    let sizes = sample::select(&["100m", "1", "3"][..]);
    let kinds = sample::select(&["apart", "racks", "zones", "hosts"][..]);
    (kinds, sizes, sample::select(&APPS[..]), 1..3_i32).prop_map(|(kind, cpu, app, skew)| {
        let built = pod("").label("app", app).cpu(cpu).replicas(ISOLATED_PODS / 2);
        match kind {
            "apart" => built.pod_anti_affinity(term("hostname")).replicas(ISOLATED_PODS),
            "racks" => built.spread(spread("rack", skew)).replicas(ISOLATED_PODS),
            "zones" => built.spread(spread("zone", skew)),
            _ => built.spread(spread("hostname", skew)),
        }
    })
}

/// Generates worlds with more than 64 types and domains and 32 nodes.
///
/// Most of them also need more than 64 NodeClaims.
pub(crate) fn any_large_world() -> impl Strategy<Value = RandomWorld> {
    let parts = (
        collection::vec(any_type(), 3..6),
        collection::vec(any_pool(), 1..3),
        collection::vec(any_node(), 2..6),
        collection::vec(any_pod(), 1..4),
        collection::vec(crowd(), 1..3),
        collection::vec(any_daemon(), 0..2),
    );
    parts.prop_map(|(types, pools, nodes, pods, crowds, daemons)| {
        let types: Vec<_> = types.into_iter().cycle().take(TYPES).collect();
        let mut world = World::empty().types(named(types, "type", TypeBuilder::named));
        let racks: Vec<String> = (0..RACKS).map(rack).collect();
        let racks: Vec<&str> = racks.iter().map(String::as_str).collect();
        for (number, pool) in pools.into_iter().enumerate() {
            let pool = pool.require("rack", In, &racks);
            world = world.pool(pool.named(&format!("pool-{number}")));
        }
        for (number, (node, odd)) in nodes.into_iter().cycle().take(NODES).enumerate() {
            let node = node.label("rack", &rack(number));
            world = world.node(node.named(&format!("node-{number}")));
            odd.apply(&mut world.snapshot.nodes[number]);
        }
        for (number, daemon) in daemons.into_iter().enumerate() {
            world = world.daemon(&daemon.named(&format!("daemon-{number}")));
        }
        for (number, (pod, home)) in pods.into_iter().enumerate() {
            let pod = pod.named(&format!("pod-{number}"));
            world = world.pod(match home {
                Some(home) => home.bind(pod, &format!("node-{}", home.node % NODES)),
                None => pod,
            });
        }
        for (number, crowd) in crowds.into_iter().enumerate() {
            world = world.pod(crowd.named(&format!("crowd-{number}")).phase(Phase::Pending));
        }
        RandomWorld(world)
    })
}
