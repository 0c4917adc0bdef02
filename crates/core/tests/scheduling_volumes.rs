//! PersistentVolumeClaims: where pods can go for them, and how many a node takes (spec 20 §3.17,
//! spec 45 §11.2, cases C52–C63, D48, VL-1–VL-7).

use karpenter_core::requirement::Operator::In;
use karpenter_core::requirement::{Requirement, Requirements};
use karpenter_core::testing::{
    NodeBuilder, PodBuilder, TypeBuilder, World, ZONES, benchmark_types, instance_type, label_key,
    local_volume, node, persistent_volume, pod, pool, requirement, spread, storage_class, term,
    volume_claim, zonal_storage_class,
};
use karpenter_core::volume::{PersistentVolume, StorageClass, VolumeClaim};

const CSI: &str = "csi.test";

/// A pod with a claim that is bound to a volume.
fn with_volume(world: World, volume: PersistentVolume) -> World {
    world.persistent_volume("disk", volume).volume_claim("data", volume_claim("disk", ""))
}

/// Terms of a volume, each with zones or a hostname.
fn terms(terms: &[(&str, &[&str])]) -> Vec<Requirements> {
    let one = |&(short, values): &(&str, &[&str])| {
        Requirements::from_iter([Requirement::in_values(label_key(short), values.iter().copied())])
    };
    terms.iter().map(one).collect()
}

#[test]
fn a_pod_follows_its_volume_or_class_to_a_zone() {
    let bound = with_volume(World::new(), persistent_volume(CSI, &["test-zone-3"]))
        .pod(pod("web").mount("data"));
    assert_eq!(bound.solve().label_of("web", "zone"), "test-zone-3", "20/C52: volume");
    let class = zonal_storage_class(CSI, &["test-zone-2", "test-zone-3"]);
    let unbound =
        World::new().storage_class("fast", class).volume_claim("data", volume_claim("", "fast"));
    let web = pod("web").mount("data").require("zone", In, &["test-zone-1", "test-zone-3"]);
    let outcome = unbound.pod(web).solve();
    assert_eq!(outcome.label_of("web", "zone"), "test-zone-3", "20/C52: class");
}

#[test]
fn a_volume_in_a_zone_that_the_pod_excludes_rejects_the_pod() {
    let web = pod("web").mount("data").require("zone", In, &["test-zone-1"]);
    let world = with_volume(World::new(), persistent_volume(CSI, &["test-zone-3"])).pod(web);
    assert_eq!(
        world.solve().rejection("web"),
        "incompatible volume requirements, key topology.kubernetes.io/zone, \
         topology.kubernetes.io/zone In [test-zone-3] not in topology.kubernetes.io/zone In \
         [test-zone-1]",
        "20/C53"
    );
}

#[test]
fn any_node_affinity_term_of_a_volume_is_enough() {
    let disk = PersistentVolume {
        node_affinity: terms(&[("zone", &["test-zone-1"]), ("zone", &["test-zone-2"])]),
        ..persistent_volume(CSI, &[])
    };
    let web = pod("web").replicas(2).mount("data").pod_anti_affinity(term("zone"));
    let outcome = with_volume(World::new(), disk).pod(web).solve();
    assert_eq!(outcome.rejected(), [""; 0], "20/C54");
    let zones = outcome.pods_by_label("zone", "web");
    assert_eq!(zones, [("test-zone-1", 1), ("test-zone-2", 1)].into(), "20/C54");
}

#[test]
fn the_hostname_of_a_local_volume_does_not_bind_the_pod() {
    let world = |disk| with_volume(World::new(), disk).pod(pod("web").mount("data"));
    assert_eq!(world(local_volume("dead-host")).solve().rejected(), [""; 0], "20/C55");
    let remote = PersistentVolume { is_local: false, ..local_volume("dead-host") };
    assert_eq!(world(remote).solve().rejected(), ["web"], "20/C55: not local");
    let disk = PersistentVolume {
        node_affinity: terms(&[("hostname", &["dead-host"]), ("zone", &["no-such-zone"])]),
        ..local_volume("")
    };
    assert_eq!(world(disk).solve().rejected(), [""; 0], "20/C56");
}

#[test]
fn a_pod_with_two_volumes_goes_to_their_common_zone() {
    let places =
        |list: Vec<Requirements>| StorageClass { allowed_topologies: list, ..storage_class(CSI) };
    let special = |value| requirement("special", In, &[value]);
    let zoned =
        |zone, value| Requirements::from_iter([requirement("zone", In, &[zone]), special(value)]);
    let first = ["required", "optional"].map(|value| Requirements::from_iter([special(value)]));
    let second = [zoned("test-zone-1", "optional"), zoned("test-zone-2", "forbidden")];
    let world = World::with_types(benchmark_types(5))
        .storage_class("a", places(first.to_vec()))
        .storage_class("b", places(second.to_vec()))
        .volume_claim("data-a", volume_claim("", "a"))
        .volume_claim("data-b", volume_claim("", "b"))
        .pod(pod("web").mount("data-a").mount("data-b"));
    let outcome = world.solve();
    assert_eq!(outcome.label_of("web", "zone"), "test-zone-1", "20/C57");
    assert_eq!(outcome.label_of("web", "special"), "optional", "20/C57");
}

#[test]
fn volumes_without_a_common_zone_reject_the_pod() {
    let world = World::new()
        .persistent_volume("disk-1", persistent_volume(CSI, &["test-zone-1"]))
        .persistent_volume("disk-2", persistent_volume(CSI, &["test-zone-2"]))
        .volume_claim("data-1", volume_claim("disk-1", ""))
        .volume_claim("data-2", volume_claim("disk-2", ""))
        .pod(pod("web").mount("data-1").mount("data-2"));
    let refusal = world.solve().rejection("web");
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
    let outcome =
        with_volume(World::new(), persistent_volume(CSI, &["test-zone-3"])).pod(web).solve();
    assert_eq!(outcome.label_of("web", "zone"), "test-zone-3", "20/C58");
}

/// Adds pods, each with so many claims of its own, and the class `fast`.
fn with_claiming_pods(mut world: World, pods: usize, claims: usize) -> World {
    world = world.storage_class("fast", storage_class(CSI));
    for number in 0..pods {
        let mut web = pod(&format!("web-{number}")).label("app", "web");
        for part in 0..claims {
            let name = format!("data-{number}-{part}");
            world = world.volume_claim(&name, volume_claim("", "fast"));
            web = web.mount(&name);
        }
        world = world.pod(web);
    }
    world
}

fn csi_node(limit: Option<u32>) -> NodeBuilder {
    node("a").csi_driver(CSI, limit)
}

#[test]
fn a_node_attaches_as_many_volumes_as_it_published() {
    let world = with_claiming_pods(World::new().node(csi_node(Some(10))), 6, 2);
    let outcome = world.solve();
    assert_eq!(outcome.pods_by_label("hostname", "web")["a"], 5, "20/C59");
    assert_eq!(outcome.new_nodes(), 1, "20/C59");
}

#[test]
fn a_shared_claim_counts_once() {
    let world = with_volume(World::new().node(csi_node(Some(10))), persistent_volume(CSI, &[]));
    let outcome = world.pod(pod("web").replicas(100).mount("data")).solve();
    assert_eq!(outcome.new_nodes(), 0, "20/C60");
}

#[test]
fn volumes_without_a_driver_are_not_counted() {
    let nfs = PersistentVolume { driver: None, ..persistent_volume(CSI, &[]) };
    let world = (0..5).fold(World::new().node(csi_node(Some(1))), |world, number| {
        let name = format!("nfs-{number}");
        world
            .persistent_volume(&name, nfs.clone())
            .volume_claim(&name, volume_claim(&name, ""))
            .pod(pod(&name).mount(&name))
    });
    let outcome = world.solve();
    assert_eq!((outcome.new_nodes(), outcome.rejected()), (0, vec![]), "20/C61");
}

#[test]
fn pods_with_claims_that_are_not_ready_are_left_out() {
    let bound = || volume_claim("disk", "");
    let immediate = StorageClass { binds_immediately: true, ..storage_class(CSI) };
    let world = World::new()
        .persistent_volume("disk", persistent_volume(CSI, &[]))
        .persistent_volume(
            "going",
            PersistentVolume { is_deleting: true, ..persistent_volume(CSI, &[]) },
        )
        .persistent_volume("odd", persistent_volume("odd.csi", &[]))
        .storage_class("immediate", immediate);
    let rows = [
        ("20/C62: Immediate and unbound", volume_claim("", "immediate")),
        ("20/C62: claim is deleting", VolumeClaim { is_deleting: true, ..bound() }),
        ("20/C62: volume is deleting", volume_claim("going", "")),
        ("20/C62: Lost", VolumeClaim { is_lost: true, ..bound() }),
        ("20/C62: driver is not supported", volume_claim("odd", "")),
        ("20/C62: no bind annotation", VolumeClaim { is_bind_completed: false, ..bound() }),
    ];
    for (row, claim) in rows {
        let mut world = world.clone().volume_claim("data", claim);
        world.snapshot.volumes.unsupported_drivers.insert("odd.csi".to_owned());
        let outcome = world.pods([pod("bad").mount("data"), pod("good")]).solve();
        assert_eq!(outcome.pods_per_new_node(), [1], "{row}: only the good one");
        assert_eq!(outcome.pool_of("good"), "default", "{row}");
        assert_eq!(outcome.rejected(), [""; 0], "{row}: the solve does not know the bad one");
    }
}

#[test]
fn the_class_of_a_bound_claim_does_not_matter() {
    let odd = [Some("non-existent".to_owned()), Some(String::new()), None];
    for storage_class in odd {
        let bound = VolumeClaim { storage_class, ..volume_claim("disk", "") };
        let world = World::new()
            .persistent_volume("disk", persistent_volume(CSI, &["test-zone-3"]))
            .volume_claim("data", bound);
        let outcome = world.pod(pod("web").mount("data")).solve();
        assert_eq!(outcome.label_of("web", "zone"), "test-zone-3", "20/C63");
    }
}

#[test]
fn the_zone_of_a_volume_does_not_change_the_domains_of_a_spread() {
    let even = || pod("web").spread(spread("zone", 1).min_domains(3));
    let world = ["1", "2", "3"].iter().fold(World::new(), |world, number| {
        let name = format!("node-{number}");
        let zone = format!("test-zone-{number}");
        world.node(node(&name).zone(&zone)).pod(even().named(&name).on_node(&name))
    });
    let world = with_volume(world, persistent_volume(CSI, &["test-zone-1"]));
    let outcome = world.pod(even().mount("data")).solve();
    assert_eq!(outcome.label_of("web", "zone"), "test-zone-1", "20/D48");
    assert_eq!(
        outcome.pods_by_label("zone", "web").into_values().collect::<Vec<_>>(),
        [2, 1, 1],
        "20/D48"
    );
}

/// Returns an instance type for hundreds of pods.
fn type_for_many_pods(name: &str) -> TypeBuilder {
    instance_type(name).cpu("64").memory("128Gi").pods("500")
}

#[test]
fn new_nodes_attach_as_many_volumes_as_their_type_allows() {
    let limited = || World::with_types([type_for_many_pods("limited").volume_limit(CSI, 10)]);
    assert_eq!(
        with_claiming_pods(limited(), 100, 1).solve().pods_per_new_node(),
        [10; 10],
        "45/VL-1"
    );
    assert_eq!(with_claiming_pods(limited(), 6, 2).solve().new_nodes(), 2, "45/VL-2");
    let shared = with_volume(limited(), persistent_volume(CSI, &[]));
    assert_eq!(
        shared.pod(pod("web").replicas(100).mount("data")).solve().pods_per_new_node(),
        [100],
        "45/VL-2"
    );
    let other = World::with_types([type_for_many_pods("limited").volume_limit("other.csi", 10)]);
    assert_eq!(with_claiming_pods(other, 20, 1).solve().pods_per_new_node(), [20], "45/VL-3");
}

#[test]
fn a_pod_with_more_volumes_than_any_type_allows_is_rejected() {
    let types = [
        type_for_many_pods("ten").volume_limit(CSI, 10),
        type_for_many_pods("five").volume_limit(CSI, 5),
    ];
    let outcome = with_claiming_pods(World::with_types(types), 1, 11).solve();
    assert_eq!(
        outcome.rejection("web-0"),
        "would exceed volume limit for all instance type options \
         (provisioner=csi.test, volume-count=11, volume-limit=10)",
        "45/VL-4"
    );
}

#[test]
fn types_that_cannot_attach_the_volumes_are_left_out() {
    let cheap = type_for_many_pods("cheap").volume_limit(CSI, 2).on_demand("test-zone-1", 0.1);
    let dear = type_for_many_pods("dear").volume_limit(CSI, 10).on_demand("test-zone-1", 9.0);
    let outcome = with_claiming_pods(World::with_types([cheap, dear]), 1, 5).solve();
    assert_eq!(outcome.types_of("web-0"), ["dear"], "45/VL-5");
    let limits = |name, first, second| {
        type_for_many_pods(name).volume_limit(CSI, first).volume_limit("b.csi", second)
    };
    let both = |types: Vec<TypeBuilder>| {
        let world = with_claiming_pods(World::with_types(types), 0, 0)
            .storage_class("b", storage_class("b.csi"));
        let names = ["a-1", "a-2", "b-1", "b-2"];
        let world = names.iter().fold(world, |world, name| {
            world.volume_claim(
                name,
                volume_claim("", if name.starts_with('a') { "fast" } else { "b" }),
            )
        });
        world.pod(names.iter().fold(pod("web"), |web: PodBuilder, name| web.mount(name))).solve()
    };
    let outcome = both(vec![limits("first", 2, 1), limits("second", 1, 2), limits("both", 2, 2)]);
    assert_eq!(outcome.types_of("web"), ["both"], "45/VL-5: two drivers");
    let outcome = both(vec![limits("first", 2, 1), limits("second", 1, 2)]);
    assert_eq!(
        outcome.rejection("web"),
        "would exceed volume limit for all instance type options",
        "45/VL-5: no driver is to blame alone"
    );
}

#[test]
fn a_node_without_a_published_limit_has_that_of_its_type() {
    let limited = || type_for_many_pods("limited").volume_limit(CSI, 10);
    let a = || node("a").of_type(&limited().build());
    for (row, existing) in [("before", a().in_flight()), ("after", a())] {
        let outcome =
            with_claiming_pods(World::with_types([limited()]).node(existing), 11, 1).solve();
        assert_eq!(
            outcome.pods_by_label("hostname", "web")["a"],
            10,
            "45/VL-6: {row} registration"
        );
        assert_eq!(outcome.new_nodes(), 1, "45/VL-6: {row} registration");
    }
}

#[test]
fn a_published_driver_without_a_count_is_unlimited() {
    let limited = type_for_many_pods("limited").volume_limit(CSI, 1);
    let existing = node("a").of_type(&limited.clone().build()).csi_driver(CSI, None);
    let outcome = with_claiming_pods(World::with_types([limited]).node(existing), 20, 1).solve();
    assert_eq!(outcome.new_nodes(), 0, "45/VL-7");
}

#[test]
fn a_volume_deleted_after_validation_rejects_its_pod() {
    let mut world = with_volume(World::new(), persistent_volume(CSI, &[]))
        .pods([pod("web").mount("data"), pod("other")]);
    let pending = world.pending();
    world.snapshot.volumes.volumes.clear();
    let outcome = world.solve_for(&pending, &[].into());
    assert_eq!(outcome.rejected(), ["web"], "20/Q17");
    assert_ne!(outcome.rejection("web"), "", "20/Q17");
    assert_eq!(outcome.pool_of("other"), "default", "20/Q17");
}

#[test]
fn zones_of_a_volume_narrow_the_node_and_nothing_else() {
    let world = with_volume(World::new(), persistent_volume(CSI, &ZONES[..2]))
        .pod(pod("web").mount("data"));
    let outcome = world.solve();
    assert_eq!(
        outcome.requirement_of("web", "zone"),
        "topology.kubernetes.io/zone In [test-zone-1 test-zone-2]"
    );
    let none = World::empty().pool(pool("third").require("zone", In, &ZONES[2..]));
    let none = with_volume(none, persistent_volume(CSI, &ZONES[..2])).pod(pod("web").mount("data"));
    assert_eq!(none.solve().rejected(), ["web"]);
}
