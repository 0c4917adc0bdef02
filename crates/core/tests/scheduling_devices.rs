//! Devices of dynamic resource allocation in a solve (spec 20 §3.8, §3.9, §3.19, cases C70–C74).
//! How devices are found is tested where the allocator is. Only the fast solver knows devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::requirement::Operator::In;
use karpenter_core::requirement::Requirements;
use karpenter_core::scheduling::dra::{
    AllocatedDevice, Claim, ClaimAllocation, Consumer, Device, DeviceCapacity, DeviceId,
    DeviceQuery, DeviceRequestKind, NodeAccess, Slice,
};
use karpenter_core::testing::{
    DEVICE_DRIVER, PodBuilder, World, ZONES, claim_key, devices, instance_type, node,
    one_device_claim, pod, published_devices, quantity, requirement,
};

/// The only slice of a pool, for nodes of one zone.
fn zonal(pool: &str, zone: &str) -> Slice {
    Slice {
        driver: DEVICE_DRIVER.into(),
        pool: pool.into(),
        generation: 1,
        slice_count: 1,
        owner_node: None,
        node_access: NodeAccess::Selector(vec![Requirements::from_iter([requirement(
            "zone",
            In,
            &[zone],
        )])]),
        devices: devices(&["d"]),
        counters: Vec::new(),
    }
}

/// With the DeviceClass `gpu`, these slices, and claims for one device each.
fn with_devices(mut world: World, slices: Vec<Slice>, claims: &[&str]) -> World {
    let dynamic = &mut world.snapshot.dynamic_resources;
    dynamic.classes.insert("gpu".to_owned(), Arc::default());
    dynamic.slices = slices.into_iter().map(Arc::new).collect();
    for name in claims {
        dynamic.claims.insert(claim_key(name), Arc::new(one_device_claim()));
    }
    world.with_options(|options| options.ignore_dynamic_resources = false)
}

/// A NodePool with the types `plain` and `gpu`; nodes of the latter will publish these devices.
fn world_of_templates(devices_of_gpu: &[&str]) -> World {
    let gpu = instance_type("gpu")
        .cpu("8")
        .on_demand(ZONES[0], 5.0)
        .publishes_devices(published_devices(devices_of_gpu));
    World::with_types([instance_type("plain").cpu("4"), gpu])
}

/// Returns a pod with these ResourceClaims.
fn pod_with_claims(name: &str, claims: &[&str]) -> PodBuilder {
    pod(name).cpu("1").resource_claims(claims)
}

#[test]
fn a_type_with_one_device_takes_one_of_two_pods() {
    let world = with_devices(world_of_templates(&["d"]), vec![], &["one", "two"]);
    let outcome =
        world.pods([pod_with_claims("a", &["one"]), pod_with_claims("b", &["two"])]).solve_fast();
    assert_eq!(outcome.pods_per_new_node(), [1, 1], "20/C70");
    for pod in ["a", "b"] {
        assert_eq!(outcome.types_of(pod), ["gpu"], "20/C70: {pod}");
        assert_eq!(outcome.claim_of(pod).dynamic_drivers, [DEVICE_DRIVER], "20/C70: {pod}");
    }
}

#[test]
fn a_type_with_two_devices_takes_both_pods() {
    let world = with_devices(world_of_templates(&["d", "e"]), vec![], &["one", "two"]);
    let outcome =
        world.pods([pod_with_claims("a", &["one"]), pod_with_claims("b", &["two"])]).solve_fast();
    assert_eq!(
        outcome.pods_per_new_node(),
        [2],
        "20/C70: the second NodeClaim is for want of a device"
    );
}

#[test]
fn pods_without_claims_take_types_without_devices() {
    let world = with_devices(world_of_templates(&["d"]), vec![], &["one"]);
    let outcome = world.pods([pod_with_claims("a", &["one"]), pod("web").cpu("7")]).solve_fast();
    assert_eq!(outcome.pods_per_new_node(), [1, 1]);
    assert_eq!(outcome.claim_of("web").dynamic_drivers, [""; 0]);
}

#[test]
fn a_published_zonal_device_narrows_the_node_claim_to_its_zone() {
    for zone in ZONES {
        let world = with_devices(World::new(), vec![zonal("p", zone)], &["one"]);
        let outcome = world.pod(pod_with_claims("web", &["one"])).solve_fast();
        assert_eq!(
            outcome.requirement_of("web", "zone"),
            format!("topology.kubernetes.io/zone In [{zone}]"),
            "20/C71"
        );
    }
}

#[test]
fn a_pod_excluded_from_the_zone_of_its_device_is_rejected() {
    let world = with_devices(World::new(), vec![zonal("p", ZONES[0])], &["one"]);
    let away = pod_with_claims("web", &["one"]).select("zone", ZONES[1]);
    let outcome = world.pod(away).solve_fast();
    assert_eq!(outcome.rejected(), ["web"], "20/C71: the other way round");
    assert!(outcome.rejection("web").contains("dynamic resource"), "{}", outcome.rejection("web"));
}

#[test]
fn claims_in_different_zones_have_no_common_node() {
    let slices = |other| vec![zonal("p", ZONES[0]), zonal("q", other)];
    let both = pod_with_claims("web", &["one", "two"]);
    let world = with_devices(World::new(), slices(ZONES[1]), &["one", "two"]);
    let outcome = world.pod(both.clone()).solve_fast();
    assert_eq!(outcome.rejected(), ["web"], "20/C72");
    let world = with_devices(World::new(), slices(ZONES[0]), &["one", "two"]);
    assert_eq!(world.pod(both).solve_fast().rejected(), [""; 0], "20/C72: one zone");
}

#[test]
fn pods_that_share_a_template_device_share_the_node_claim() {
    let world = || with_devices(world_of_templates(&["d", "e"]), vec![], &["shared"]);
    let small = [pod_with_claims("a", &["shared"]), pod_with_claims("b", &["shared"])];
    let outcome = world().pods(small).solve_fast();
    assert_eq!(outcome.pods_per_new_node(), [2], "20/C73");
    // Eight cores less overhead hold one of them; a second NodeClaim would be tried otherwise.
    let large =
        [pod_with_claims("a", &["shared"]).cpu("6"), pod_with_claims("b", &["shared"]).cpu("6")];
    let outcome = world().pods(large).solve_fast();
    assert_eq!(outcome.rejected(), ["b"], "20/C73: only on the same NodeClaim");
    assert_eq!(outcome.pods_per_new_node(), [1], "20/C73");
}

#[test]
fn a_device_is_free_again_if_its_node_is_deleting() {
    for (is_leaving, refused) in [(true, "holder"), (false, "web")] {
        let host = node("old").zone(ZONES[0]).resource("cpu", "1");
        let host = if is_leaving { host.deleting() } else { host };
        let world = with_devices(World::new(), vec![zonal("p", ZONES[0])], &["held", "mine"]);
        let mut world = world
            .node(host)
            .pod(pod_with_claims("holder", &["held"]).uid("holder").on_node("old"))
            .pod(pod_with_claims("web", &["mine"]).cpu("2"));
        let id = DeviceId { driver: DEVICE_DRIVER.into(), pool: "p".into(), device: "d".into() };
        let devices = vec![AllocatedDevice { id, consumed: BTreeMap::new() }];
        let held = Claim {
            allocation: Some(ClaimAllocation { devices, ..ClaimAllocation::default() }),
            reserved_for: vec![Consumer::Pod("holder".to_owned())],
            ..one_device_claim()
        };
        world.snapshot.dynamic_resources.claims.insert(claim_key("held"), Arc::new(held));
        // The larger pod chooses first; where the device is free, its old holder is left without.
        assert_eq!(world.solve_fast().rejected(), [refused], "20/C74: leaving {is_leaving}");
    }
}

/// Makes a device one that is shared, with so much memory.
fn shared(device: &mut Device, memory: &str) {
    let shape = Arc::make_mut(&mut device.shape);
    let memory = DeviceCapacity { value: quantity(memory), policy: None };
    shape.capacity.insert("memory".to_owned(), memory);
    shape.allows_multiple = true;
}

/// A share of so much memory; the first that can be had.
fn memory(shares: &[&str]) -> Claim {
    let mut claim = one_device_claim();
    for request in &mut claim.requests {
        let DeviceRequestKind::Exactly(any) = &request.kind else { continue };
        let share = |share: &&str| DeviceQuery {
            name: format!("of-{share}"),
            capacity: BTreeMap::from([("memory".to_owned(), quantity(share))]),
            ..any.clone()
        };
        request.kind = DeviceRequestKind::FirstAvailable(shares.iter().map(share).collect());
    }
    claim
}

/// While its NodeClaim may become `plain` or `gpu`, the first pod holds the published device for
/// the former; the latter has a better one of its own.
#[test]
fn a_device_is_free_again_if_another_pod_narrows_the_node_claim() {
    for (wants, refused) in [("gpu", &[][..]), ("plain", &["late"][..])] {
        let mut world = world_of_templates(&["d"]);
        let mut types = world.types_of("default").to_vec();
        for own in types.iter_mut().map(Arc::make_mut) {
            let templates = &mut own.dynamic_resources.templates;
            templates.iter_mut().flat_map(|one| &mut one.devices).for_each(|d| shared(d, "8"));
        }
        world.catalog.pools.insert("default".to_owned(), types.into());
        let mut everywhere = Slice { node_access: NodeAccess::AllNodes, ..zonal("p", ZONES[0]) };
        everywhere.devices.iter_mut().for_each(|device| shared(device, "4"));
        let mut world = with_devices(world, vec![everywhere], &[]);
        for (name, shares) in [("first", &["8", "4"][..]), ("second", &["4"])] {
            world
                .snapshot
                .dynamic_resources
                .claims
                .insert(claim_key(name), Arc::new(memory(shares)));
        }
        let outcome = world
            .pod(pod_with_claims("early", &["first"]).cpu("2"))
            .pod(pod("narrows").cpu("1").select("type", wants))
            .pod(pod_with_claims("late", &["second"]).cpu("500m").select("type", "plain"))
            .solve_fast();
        assert_eq!(outcome.types_of("early"), [wants], "they share a NodeClaim");
        assert_eq!(outcome.rejected(), refused, "narrowed to {wants}");
    }
}
