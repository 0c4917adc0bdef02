//! minValues (spec 20 §3.12, §3.24, spec 45 §11.3, cases C31–C36, MV-1, G9).

use karpenter_core::requirement::Operator::{Gt, In, Lt, NotIn};
use karpenter_core::scheduling::{MinValuesPolicy, Options};
use karpenter_core::testing::{
    PodBuilder, TypeBuilder, World, ZONES, instance_type, offering, persistent_volume, pod, pool,
    volume_claim,
};

/// Types of 1 cpu and 4 cpu: two of the pods fit together on the larger one only.
fn small_and_large() -> [TypeBuilder; 2] {
    let sized = |name, size, price| {
        let memory = format!("{size}Gi");
        instance_type(name).cpu(size).memory(&memory).no_overhead().on_demand("test-zone-1", price)
    };
    [sized("type-1", "1", 0.52), sized("type-2", "4", 1.0)]
}

fn two_pods() -> PodBuilder {
    pod("web").replicas(2).cpu("0.9").memory("0.9Gi")
}

fn best_effort(options: &mut Options) {
    options.min_values = MinValuesPolicy::BestEffort;
}

#[test]
fn a_node_claim_keeps_enough_types_for_min_values() {
    let types = ["type-1", "type-2"];
    let free = World::empty().types(small_and_large()).pool(pool("default"));
    assert_eq!(free.pod(two_pods()).solve().pods_per_new_node(), [2], "20/C31: without minValues");
    let bound = pool("default").require_min("type", In, &types, 2);
    let outcome = World::empty().types(small_and_large()).pool(bound).pod(two_pods()).solve();
    assert_eq!(outcome.pods_per_new_node(), [1, 1], "20/C31");
    assert_eq!(outcome.types_of("web-0"), types, "20/C31");
    assert_eq!(outcome.types_of("web-1"), types, "20/C31");
}

#[test]
fn too_few_types_reject_in_strict_and_relax_in_best_effort_mode() {
    let types = ["type-1", "type-2", "type-3"];
    let world = World::empty()
        .types(small_and_large())
        .pool(pool("default").require_min("type", In, &types, 3))
        .pod(pod("web"));
    let strict = world.solve();
    assert_eq!(strict.new_nodes(), 0, "20/C32");
    assert_eq!(strict.plan.unusable_pools.len(), 1, "20/C32");
    assert!(strict.plan.unusable_pools[0].misses_min_values, "20/C32: the event names minValues");
    assert_eq!(
        strict.rejection("web"),
        "nodepool requirements filtered out all available instance types",
        "20/C32"
    );
    let relaxed = world.with_options(best_effort).solve();
    assert_eq!(relaxed.new_nodes(), 1, "20/C32");
    assert!(relaxed.claim_of("web").min_values_relaxed, "20/C32");
    assert_eq!(
        relaxed.requirement_of("web", "type"),
        "node.kubernetes.io/instance-type In [type-1 type-2 type-3] minValues 2",
        "20/C32"
    );
}

#[test]
fn a_heavy_pool_is_relaxed_before_a_light_one_is_tried() {
    let world = World::empty()
        .types(small_and_large())
        .pool(pool("heavy").weight(100).require_min("type", In, &["type-1", "type-2", "x"], 3))
        .pool(pool("light").weight(1))
        .pod(pod("web"));
    let outcome = world.clone().with_options(best_effort).solve();
    assert_eq!(outcome.pool_of("web"), "heavy", "20/C33");
    assert!(outcome.claim_of("web").min_values_relaxed, "20/C33");
    assert_eq!(world.solve().pool_of("web"), "light", "20/C33: Strict goes on");
}

#[test]
fn unmet_zones_lower_min_values_and_keep_the_zone_values() {
    let types = [("type-1", ZONES[0]), ("type-2", ZONES[1])]
        .map(|(name, zone)| instance_type(name).on_demand(zone, 0.5));
    let world = World::empty()
        .types(types)
        .pool(pool("default").require_min("zone", In, &ZONES, 3))
        .with_options(best_effort)
        .pod(pod("web"));
    assert_eq!(
        world.solve().requirement_of("web", "zone"),
        "topology.kubernetes.io/zone In [test-zone-1 test-zone-2 test-zone-3] minValues 2",
        "20/C34"
    );
}

#[test]
fn the_largest_of_several_min_values_on_one_key_holds() {
    let numbered = |name: &str, number: &str, size: &str| {
        let built = instance_type(name).cpu(size).memory(&format!("{size}Gi")).no_overhead();
        built.on_demand("test-zone-1", 1.0).require("example.com/number", In, &[number])
    };
    let types = || [numbered("a", "2", "1"), numbered("b", "3", "1"), numbered("c", "4", "4")];
    let key = "example.com/number";
    #[rustfmt::skip]
    let rows = [
        ("20/C35: Gt", pool("default").require_min(key, Gt, &["2"], 2),            Some(2)),
        ("20/C35: Gt", pool("default").require_min(key, Gt, &["3"], 2),            None),
        ("20/C35: Lt", pool("default").require_min(key, Lt, &["4"], 2),            Some(2)),
        ("20/C35: Lt", pool("default").require_min(key, Lt, &["3"], 2),            None),
        ("20/C35: In + NotIn", pool("default").require_min("type", In, &["a", "b", "c"], 1)
                                              .require_min("type", NotIn, &["d"], 3), Some(3)),
        ("20/C35: In + NotIn", pool("default").require_min("type", In, &["a", "b", "c"], 1)
                                              .require_min("type", NotIn, &["a"], 3), None),
        ("20/C35: Gt + Lt", pool("default").require_min(key, Gt, &["1"], 3)
                                           .require_min(key, Lt, &["5"], 1),       Some(3)),
    ];
    for (row, pool, expected) in rows {
        let outcome = World::empty().types(types()).pool(pool).pod(two_pods()).solve();
        match expected {
            Some(count) => assert_eq!(outcome.types_of("web-0").len(), count, "{row}"),
            None => assert_eq!(outcome.rejected().len(), 2, "{row}"),
        }
    }
}

/// The most types that a NodeClaim carries is 600: the one that would bring the second family is
/// too dear to be among them.
#[test]
fn truncated_types_cannot_meet_min_values() {
    let of_family = |number: u32, family: &str| {
        let built = instance_type(&format!("type-{number:03}"));
        let price = if family == "b" { 9.0 } else { 1.0 };
        built.on_demand("test-zone-1", price).require("example.com/family", In, &[family])
    };
    let types = (0..600).map(|number| of_family(number, "a")).chain([of_family(600, "b")]);
    let world = World::empty()
        .types(types)
        .pool(pool("default").require_min("example.com/family", In, &["a", "b"], 2))
        .pod(pod("web").replicas(2));
    let outcome = world.solve();
    assert_eq!(outcome.new_nodes(), 0, "20/C36");
    for name in ["web-0", "web-1"] {
        assert_eq!(
            outcome.rejection(name),
            "pod didn’t schedule because NodePool couldn’t meet minValues requirements, \
             validating minValues, minValues requirement is not met for label(s) \
             (label(s)=[example.com/family]) (NodePool=default)",
            "20/C36"
        );
    }
    let outcome = world.with_options(best_effort).solve();
    assert_eq!(outcome.types_of("web-0").len(), 600, "20/C36 40/CP-07: BestEffort");
}

#[test]
fn min_values_count_only_the_zone_of_a_volume() {
    let zones = ZONES.iter().map(|zone| offering("on-demand", zone, 1.0));
    let world = World::empty()
        .types([zones.fold(instance_type("everywhere"), TypeBuilder::offering)])
        .pool(pool("default").require_min("zone", In, &ZONES, 3))
        .persistent_volume("disk", persistent_volume("csi.test", &["test-zone-1"]))
        .volume_claim("data", volume_claim("disk", ""))
        .pods([pod("pinned").mount("data"), pod("free")]);
    assert_eq!(world.solve().rejected(), ["pinned"], "45/MV-1: Strict");
    assert_eq!(
        world.solve().rejection("pinned").split(", requirements=").next(),
        Some(
            "minValues requirement is not met for label(s) (label(s)=[topology.kubernetes.io/zone])"
        ),
        "45/MV-1"
    );
    let outcome = world.with_options(best_effort).solve();
    assert_eq!(
        outcome.requirement_of("pinned", "zone"),
        "topology.kubernetes.io/zone In [test-zone-1] minValues 1",
        "45/MV-1: BestEffort"
    );
    assert!(outcome.claim_of("pinned").min_values_relaxed, "45/MV-1");
}

#[test]
fn each_node_claim_records_its_own_min_values_relaxation() {
    let world = World::empty()
        .types(small_and_large())
        .pool(pool("default").require_min("type", In, &["type-1", "type-2"], 2))
        .with_options(best_effort)
        .pods([pod("large").cpu("3").host_port(80), pod("small").cpu("0.1").host_port(80)]);
    let outcome = world.solve();
    assert!(outcome.claim_of("large").min_values_relaxed, "20/G9 20/Q6 20/E12: one type is left");
    assert!(!outcome.claim_of("small").min_values_relaxed, "20/G9 20/Q6 20/E12: both are left");
}

#[test]
fn an_open_node_claim_is_not_relaxed_further() {
    let world = World::empty()
        .types(small_and_large())
        .pool(pool("default").require_min("type", In, &["type-1", "type-2"], 2))
        .with_options(best_effort)
        .pod(two_pods());
    assert_eq!(world.solve().pods_per_new_node(), [1, 1]);
}
