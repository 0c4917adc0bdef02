//! Devices of dynamic resource allocation in simulations (spec 30 §5 rule 5).

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::scheduling::dra::{
    AllocatedDevice, Claim, ClaimAllocation, Consumer, DeviceId, NodeAccess, Slice,
};
use karpenter_core::testing::{
    DEVICE_DRIVER, claim_key, devices, one_device_claim, published_devices,
};

use super::*;

/// `t<cpu>` whose nodes will publish these devices.
fn with_devices(cpu: u32, names: &[&str]) -> TypeBuilder {
    sized(cpu).publishes_devices(published_devices(names))
}

/// A world of these types in which devices count.
fn device_world(types: impl IntoIterator<Item = TypeBuilder>) -> World {
    let mut world = World::empty().types(types).pool(on_demand("default"));
    world.snapshot.dynamic_resources.classes.insert("gpu".to_owned(), Arc::default());
    world.with_options(|options| options.ignore_dynamic_resources = false)
}

/// Adds a node that has published one device of its own.
fn add_node_with_device(mut world: World, name: &str, cpu: u32) -> World {
    world.snapshot.dynamic_resources.slices.push(Arc::new(Slice {
        driver: DEVICE_DRIVER.into(),
        pool: name.into(),
        generation: 1,
        slice_count: 1,
        owner_node: Some(name.to_owned()),
        node_access: NodeAccess::Node(name.to_owned()),
        devices: devices(&["d0"]),
        counters: Vec::new(),
    }));
    world.node(node_of_size(name, cpu))
}

/// Adds a pod on a node that has the node's device.
fn add_device_user(mut world: World, name: &str, on: &str) -> World {
    let id = DeviceId { driver: DEVICE_DRIVER.into(), pool: on.into(), device: "d0".into() };
    let held = ClaimAllocation {
        node: Some(on.to_owned()),
        devices: vec![AllocatedDevice { id, consumed: BTreeMap::new() }],
        ..ClaimAllocation::default()
    };
    let claim = Claim {
        allocation: Some(held),
        reserved_for: vec![Consumer::Pod(name.to_owned())],
        ..one_device_claim()
    };
    world.snapshot.dynamic_resources.claims.insert(claim_key(name), Arc::new(claim));
    world.pod(pod(name).uid(name).cpu("1").resource_claims(&[name]).on_node(on))
}

fn both() -> [Settings; 2] {
    [upstream(), Settings::default()]
}

#[test]
fn a_node_with_the_only_device_is_not_consolidated() {
    for settings in both() {
        let only = add_device_user(add_node_with_device(device_world(sizes()), "n", 16), "p", "n");
        assert_eq!(command_summaries(&run(&only, &settings)), [], "30/SIM-16");
        let mut types = sizes();
        types[1] = with_devices(2, &["d0"]);
        let world = add_device_user(add_node_with_device(device_world(types), "n", 16), "p", "n");
        let pass = run(&world, &settings);
        assert_eq!(
            command_summaries(&pass),
            [(Method::SingleNode, Decision::Replace, vec!["n"])],
            "30/SIM-16"
        );
        assert_eq!(
            replacement_types(&world, &pass),
            ["t2"],
            "30/SIM-16: another type has one, too"
        );
    }
}

#[test]
fn one_node_replaces_several_only_with_as_many_devices() {
    for (names, expected) in [(&["d0", "d1"][..], Some(vec!["a", "b"])), (&["d0"], None)] {
        let start = device_world([with_devices(4, names), sized(16)]);
        let world = add_node_with_device(add_node_with_device(start, "a", 16), "b", 16);
        let world = add_device_user(add_device_user(world, "p", "a"), "q", "b");
        let pass = run(&world, &upstream());
        let several = command_summaries(&pass).into_iter().find(|(_, _, nodes)| nodes.len() == 2);
        let expected = expected.map(|nodes| (Method::MultiNode, Decision::Replace, nodes));
        assert_eq!(several, expected, "30/SIM-17: devices {names:?}");
        if several.is_some() {
            assert_eq!(pass.commands[0].replacements.len(), 1, "30/SIM-17");
            assert_eq!(replacement_types(&world, &pass), ["t4"], "30/SIM-17");
        }
        // The best search may take any way there, but every pod keeps a device.
        let best = run(&world, &Settings::default());
        let made: usize = best.commands.iter().map(|one| one.replacements.len()).sum();
        assert_eq!(made, 3 - names.len(), "30/SIM-17: {:?}", command_summaries(&best));
    }
}

#[test]
fn a_device_allocated_to_a_pod_of_another_node_is_not_free() {
    let start =
        || add_node_with_device(add_node_with_device(device_world([sized(4)]), "a", 4), "n", 4);
    // The other node is to stay, whatever happens: it has more pods.
    let busy = |world: World| {
        add_device_user(world, "p", "n").pod(pod("web").cpu("100m").on_node("a").replicas(3))
    };
    for settings in both() {
        let world = add_device_user(busy(start()), "q", "a");
        assert_eq!(command_summaries(&run(&world, &settings)), [], "30/SIM-18");
        let pass = run(&busy(start()), &settings);
        let expected = [(Method::SingleNode, Decision::Delete, vec!["n"])];
        assert_eq!(command_summaries(&pass), expected, "30/SIM-18: unless nobody uses it");
    }
}
