//! PersistentVolumeClaims: where pods can go for them, and how many a node takes (spec 20 §3.17,
//! spec 45 §11.2, cases C52–C63, D48, VL-1–VL-7).

use karpenter_core::requirement::Operator::In;
use karpenter_core::requirement::{Requirement, Requirements};
use karpenter_core::testing::{
    NodeBuilder, PodBuilder, TypeBuilder, World, ZONES, allowed_zones, benchmark_types, claim,
    instance_type, key, local_volume, node, pod, pool, requirement, spread, storage_class, term,
    volume,
};
use karpenter_core::volume::{PersistentVolume, StorageClass, VolumeClaim};

const CSI: &str = "csi.test";

/// A pod with a claim that is bound to a volume.
fn with_volume(world: World, volume: PersistentVolume) -> World {
    world.volume("disk", volume).claim("data", claim("disk", ""))
}

/// Terms of a volume, each with zones or a hostname.
fn terms(terms: &[(&str, &[&str])]) -> Vec<Requirements> {
    let one = |&(short, values): &(&str, &[&str])| {
        Requirements::from_iter([Requirement::in_values(key(short), values.iter().copied())])
    };
    terms.iter().map(one).collect()
}

#[test]
fn a_pod_follows_its_volume_or_class_to_a_zone() {
    let bound =
        with_volume(World::new(), volume(CSI, &["test-zone-3"])).pod(pod("web").mount("data"));
    assert_eq!(bound.solve().label_of("web", "zone"), "test-zone-3", "20/C52: volume");
    let class = allowed_zones(CSI, &["test-zone-2", "test-zone-3"]);
    let unbound = World::new().class("fast", class).claim("data", claim("", "fast"));
    let web = pod("web").mount("data").require("zone", In, &["test-zone-1", "test-zone-3"]);
    let outcome = unbound.pod(web).solve();
    assert_eq!(outcome.label_of("web", "zone"), "test-zone-3", "20/C52: class");
}

#[test]
fn a_volume_in_another_zone_than_the_pod_may_be_in_cannot_be_reached() {
    let web = pod("web").mount("data").require("zone", In, &["test-zone-1"]);
    let world = with_volume(World::new(), volume(CSI, &["test-zone-3"])).pod(web);
    assert_eq!(
        world.solve().refusal("web"),
        "incompatible volume requirements, key topology.kubernetes.io/zone, \
         topology.kubernetes.io/zone In [test-zone-3] not in topology.kubernetes.io/zone In \
         [test-zone-1]",
        "20/C53"
    );
}

#[test]
fn any_of_the_places_of_a_volume_will_do() {
    let disk = PersistentVolume {
        node_affinity: terms(&[("zone", &["test-zone-1"]), ("zone", &["test-zone-2"])]),
        ..volume(CSI, &[])
    };
    let web = pod("web").times(2).mount("data").away_from(term("zone"));
    let outcome = with_volume(World::new(), disk).pod(web).solve();
    assert_eq!(outcome.refused(), [""; 0], "20/C54");
    let zones = outcome.by("zone", "web");
    assert_eq!(zones, [("test-zone-1", 1), ("test-zone-2", 1)].into(), "20/C54");
}

#[test]
fn the_host_of_a_local_volume_does_not_bind_a_pod() {
    let world = |disk| with_volume(World::new(), disk).pod(pod("web").mount("data"));
    assert_eq!(world(local_volume("dead-host")).solve().refused(), [""; 0], "20/C55");
    let remote = PersistentVolume { is_local: false, ..local_volume("dead-host") };
    assert_eq!(world(remote).solve().refused(), ["web"], "20/C55: not local");
    let disk = PersistentVolume {
        node_affinity: terms(&[("hostname", &["dead-host"]), ("zone", &["no-such-zone"])]),
        ..local_volume("")
    };
    assert_eq!(world(disk).solve().refused(), [""; 0], "20/C56");
}

#[test]
fn two_volumes_meet_where_both_can_be() {
    let places =
        |list: Vec<Requirements>| StorageClass { allowed_topologies: list, ..storage_class(CSI) };
    let special = |value| requirement("special", In, &[value]);
    let zoned =
        |zone, value| Requirements::from_iter([requirement("zone", In, &[zone]), special(value)]);
    let first = ["required", "optional"].map(|value| Requirements::from_iter([special(value)]));
    let second = [zoned("test-zone-1", "optional"), zoned("test-zone-2", "forbidden")];
    let world = World::of(benchmark_types(5))
        .class("a", places(first.to_vec()))
        .class("b", places(second.to_vec()))
        .claim("data-a", claim("", "a"))
        .claim("data-b", claim("", "b"))
        .pod(pod("web").mount("data-a").mount("data-b"));
    let outcome = world.solve();
    assert_eq!(outcome.label_of("web", "zone"), "test-zone-1", "20/C57");
    assert_eq!(outcome.label_of("web", "special"), "optional", "20/C57");
}

#[test]
fn volumes_that_never_meet_leave_no_place() {
    let world = World::new()
        .volume("disk-1", volume(CSI, &["test-zone-1"]))
        .volume("disk-2", volume(CSI, &["test-zone-2"]))
        .claim("data-1", claim("disk-1", ""))
        .claim("data-2", claim("disk-2", ""))
        .pod(pod("web").mount("data-1").mount("data-2"));
    let refusal = world.solve().refusal("web");
    assert!(
        refusal.starts_with(
            "no instance type met the scheduling requirements or had enough resources \
             or had a required offering, requirements="
        ) && refusal.contains("topology.kubernetes.io/zone DoesNotExist"),
        "20/C57: {refusal}"
    );
}

#[test]
fn the_zone_of_a_volume_survives_relaxation() {
    let web = pod("web")
        .mount("data")
        .require("example.com/label", In, &["unsupported"])
        .or_require("capacity-type", In, &["on-demand"]);
    let outcome = with_volume(World::new(), volume(CSI, &["test-zone-3"])).pod(web).solve();
    assert_eq!(outcome.label_of("web", "zone"), "test-zone-3", "20/C58");
}

/// Adds pods, each with so many claims of its own, to a world with class `fast`.
fn claimants(mut world: World, pods: usize, claims: usize) -> World {
    world = world.class("fast", storage_class(CSI));
    for number in 0..pods {
        let mut web = pod(&format!("web-{number}")).label("app", "web");
        for part in 0..claims {
            let name = format!("data-{number}-{part}");
            world = world.claim(&name, claim("", "fast"));
            web = web.mount(&name);
        }
        world = world.pod(web);
    }
    world
}

fn csi_node(limit: Option<u32>) -> NodeBuilder {
    node("a").driver(CSI, limit)
}

#[test]
fn a_node_takes_as_many_volumes_as_it_published() {
    let world = claimants(World::new().node(csi_node(Some(10))), 6, 2);
    let outcome = world.solve();
    assert_eq!(outcome.by("hostname", "web")["a"], 5, "20/C59");
    assert_eq!(outcome.new_nodes(), 1, "20/C59");
}

#[test]
fn a_shared_claim_counts_once() {
    let world = with_volume(World::new().node(csi_node(Some(10))), volume(CSI, &[]));
    let outcome = world.pod(pod("web").times(100).mount("data")).solve();
    assert_eq!(outcome.new_nodes(), 0, "20/C60");
}

#[test]
fn volumes_without_a_driver_are_not_counted() {
    let nfs = PersistentVolume { driver: None, ..volume(CSI, &[]) };
    let world = (0..5).fold(World::new().node(csi_node(Some(1))), |world, number| {
        let name = format!("nfs-{number}");
        world.volume(&name, nfs.clone()).claim(&name, claim(&name, "")).pod(pod(&name).mount(&name))
    });
    let outcome = world.solve();
    assert_eq!((outcome.new_nodes(), outcome.refused()), (0, vec![]), "20/C61");
}

#[test]
fn pods_whose_claims_are_not_ready_are_left_out() {
    let bound = || claim("disk", "");
    let immediate = StorageClass { binds_immediately: true, ..storage_class(CSI) };
    let world = World::new()
        .volume("disk", volume(CSI, &[]))
        .volume("going", PersistentVolume { is_deleting: true, ..volume(CSI, &[]) })
        .volume("odd", volume("odd.csi", &[]))
        .class("immediate", immediate);
    let rows = [
        ("20/C62: Immediate and unbound", claim("", "immediate")),
        ("20/C62: claim is deleting", VolumeClaim { is_deleting: true, ..bound() }),
        ("20/C62: volume is deleting", claim("going", "")),
        ("20/C62: Lost", VolumeClaim { is_lost: true, ..bound() }),
        ("20/C62: driver is not supported", claim("odd", "")),
        ("20/C62: no bind annotation", VolumeClaim { is_bind_completed: false, ..bound() }),
    ];
    for (row, claim) in rows {
        let mut world = world.clone().claim("data", claim);
        world.snapshot.volumes.unsupported_drivers.insert("odd.csi".to_owned());
        let outcome = world.pods([pod("bad").mount("data"), pod("good")]).solve();
        assert_eq!(outcome.sizes(), [1], "{row}: only the good one");
        assert_eq!(outcome.pool_of("good"), "default", "{row}");
        assert_eq!(outcome.refused(), [""; 0], "{row}: the solve does not know the bad one");
    }
}

#[test]
fn the_class_of_a_bound_claim_does_not_matter() {
    let odd = [Some("non-existent".to_owned()), Some(String::new()), None];
    for storage_class in odd {
        let bound = VolumeClaim { storage_class, ..claim("disk", "") };
        let world = World::new().volume("disk", volume(CSI, &["test-zone-3"])).claim("data", bound);
        let outcome = world.pod(pod("web").mount("data")).solve();
        assert_eq!(outcome.label_of("web", "zone"), "test-zone-3", "20/C63");
    }
}

#[test]
fn the_zone_of_a_volume_does_not_change_what_a_spread_counts() {
    let even = || pod("web").spread(spread("zone", 1).min_domains(3));
    let world = ["1", "2", "3"].iter().fold(World::new(), |world, number| {
        let name = format!("node-{number}");
        let zone = format!("test-zone-{number}");
        world.node(node(&name).zone(&zone)).pod(even().named(&name).on(&name))
    });
    let world = with_volume(world, volume(CSI, &["test-zone-1"]));
    let outcome = world.pod(even().mount("data")).solve();
    assert_eq!(outcome.label_of("web", "zone"), "test-zone-1", "20/D48");
    assert_eq!(outcome.by("zone", "web").into_values().collect::<Vec<_>>(), [2, 1, 1], "20/D48");
}

/// One type with room for hundreds of pods.
fn roomy(name: &str) -> TypeBuilder {
    instance_type(name).cpu("64").memory("128Gi").pods("500")
}

#[test]
fn new_nodes_take_as_many_volumes_as_their_type_can() {
    let limited = || World::of([roomy("limited").volume_limit(CSI, 10)]);
    assert_eq!(claimants(limited(), 100, 1).solve().sizes(), [10; 10], "45/VL-1");
    assert_eq!(claimants(limited(), 6, 2).solve().new_nodes(), 2, "45/VL-2");
    let shared = with_volume(limited(), volume(CSI, &[]));
    assert_eq!(shared.pod(pod("web").times(100).mount("data")).solve().sizes(), [100], "45/VL-2");
    let other = World::of([roomy("limited").volume_limit("other.csi", 10)]);
    assert_eq!(claimants(other, 20, 1).solve().sizes(), [20], "45/VL-3");
}

#[test]
fn a_pod_with_more_volumes_than_any_type_takes_has_no_place() {
    let types = [roomy("ten").volume_limit(CSI, 10), roomy("five").volume_limit(CSI, 5)];
    let outcome = claimants(World::of(types), 1, 11).solve();
    assert_eq!(
        outcome.refusal("web-0"),
        "would exceed volume limit for all instance type options \
         (provisioner=csi.test, volume-count=11, volume-limit=10)",
        "45/VL-4"
    );
}

#[test]
fn types_that_cannot_take_the_volumes_are_left_out() {
    let cheap = roomy("cheap").volume_limit(CSI, 2).on_demand("test-zone-1", 0.1);
    let dear = roomy("dear").volume_limit(CSI, 10).on_demand("test-zone-1", 9.0);
    let outcome = claimants(World::of([cheap, dear]), 1, 5).solve();
    assert_eq!(outcome.types_of("web-0"), ["dear"], "45/VL-5");
    let limits =
        |name, first, second| roomy(name).volume_limit(CSI, first).volume_limit("b.csi", second);
    let both = |types: Vec<TypeBuilder>| {
        let world = claimants(World::of(types), 0, 0).class("b", storage_class("b.csi"));
        let names = ["a-1", "a-2", "b-1", "b-2"];
        let world = names.iter().fold(world, |world, name| {
            world.claim(name, claim("", if name.starts_with('a') { "fast" } else { "b" }))
        });
        world.pod(names.iter().fold(pod("web"), |web: PodBuilder, name| web.mount(name))).solve()
    };
    let outcome = both(vec![limits("first", 2, 1), limits("second", 1, 2), limits("both", 2, 2)]);
    assert_eq!(outcome.types_of("web"), ["both"], "45/VL-5: two drivers");
    let outcome = both(vec![limits("first", 2, 1), limits("second", 1, 2)]);
    assert_eq!(
        outcome.refusal("web"),
        "would exceed volume limit for all instance type options",
        "45/VL-5: no driver is to blame alone"
    );
}

#[test]
fn the_limit_of_its_type_holds_for_a_node_that_published_nothing() {
    let limited = || roomy("limited").volume_limit(CSI, 10);
    let a = || node("a").of_type(&limited().build());
    for (row, existing) in [("before", a().in_flight()), ("after", a())] {
        let outcome = claimants(World::of([limited()]).node(existing), 11, 1).solve();
        assert_eq!(outcome.by("hostname", "web")["a"], 10, "45/VL-6: {row} registration");
        assert_eq!(outcome.new_nodes(), 1, "45/VL-6: {row} registration");
    }
}

#[test]
fn a_published_driver_without_a_count_is_unlimited() {
    let limited = roomy("limited").volume_limit(CSI, 1);
    let existing = node("a").of_type(&limited.clone().build()).driver(CSI, None);
    let outcome = claimants(World::of([limited]).node(existing), 20, 1).solve();
    assert_eq!(outcome.new_nodes(), 0, "45/VL-7");
}

#[test]
fn a_volume_that_is_gone_since_validation_is_the_error_of_its_pod() {
    let mut world =
        with_volume(World::new(), volume(CSI, &[])).pods([pod("web").mount("data"), pod("other")]);
    let pending = world.pending();
    world.snapshot.volumes.volumes.clear();
    let outcome = world.solve_for(&pending, &[].into());
    assert_eq!(outcome.refused(), ["web"], "20/Q17");
    assert_ne!(outcome.refusal("web"), "", "20/Q17");
    assert_eq!(outcome.pool_of("other"), "default", "20/Q17");
}

#[test]
fn zones_of_a_volume_narrow_the_node_and_nothing_else() {
    let world = with_volume(World::new(), volume(CSI, &ZONES[..2])).pod(pod("web").mount("data"));
    let outcome = world.solve();
    assert_eq!(
        outcome.requirement_of("web", "zone"),
        "topology.kubernetes.io/zone In [test-zone-1 test-zone-2]"
    );
    let none = World::empty().pool(pool("third").require("zone", In, &ZONES[2..]));
    let none = with_volume(none, volume(CSI, &ZONES[..2])).pod(pod("web").mount("data"));
    assert_eq!(none.solve().refused(), ["web"]);
}
