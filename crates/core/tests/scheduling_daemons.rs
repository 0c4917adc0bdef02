//! What DaemonSets take of a node (spec 20 §3.3, cases C7–C17, C65, G7).

use karpenter_core::pod::OwnerKind;
use karpenter_core::requirement::Operator::{Exists, In, NotIn};
use karpenter_core::testing::{PodBuilder, World, benchmark_types, instance_type, node, pod, pool};

/// A pod for which the small type would do if nothing else were on the node.
fn small() -> PodBuilder {
    pod("web").cpu("1").memory("1Gi")
}

/// Returns the instance type that the world launches for a [`small`] pod.
#[track_caller]
fn launched_type(world: World) -> String {
    world.pod(small()).solve().label_of("web", "type").to_owned()
}

/// A daemon that pushes the pod from the small type (2 cpu) to the next (4 cpu).
fn agent() -> PodBuilder {
    pod("agent").cpu("1").memory("1Gi")
}

const SMALL_TYPE: &str = "small-instance-type";
const NEXT_TYPE: &str = "default-instance-type";

#[test]
fn capacity_is_reserved_for_a_daemon_that_is_not_running_yet() {
    let ready = || node("a").resource("cpu", "15.9").resource("memory", "128Gi");
    let world = World::empty().daemon(&agent()).node(ready());
    let outcome = world.clone().pod(pod("web").cpu("15")).solve();
    assert_eq!(outcome.rejected(), ["web"], "20/C7: 14.9 are free");
    let world = world.pod(agent().on_node("a").owner(OwnerKind::DaemonSet));
    let outcome = world.pod(pod("web").cpu("14.9")).solve();
    assert_eq!(outcome.node_of("web").unwrap().name, "a", "20/C7: it is there");
}

#[test]
fn an_unexpected_daemon_pod_still_uses_capacity() {
    let picky = agent().select("example.com/agent", "yes");
    let world = World::empty()
        .daemon(&picky)
        .node(node("a").resource("cpu", "4"))
        .pod(agent().on_node("a").owner(OwnerKind::DaemonSet));
    assert_eq!(world.clone().pod(pod("web").cpu("3")).solve().rejected(), [""; 0], "20/C8");
    assert_eq!(world.pod(pod("web").cpu("3.5")).solve().rejected(), ["web"], "20/C8");
}

#[test]
fn an_incompatible_daemon_uses_no_capacity_of_a_node() {
    let huge = pod("huge").cpu("100").memory("100Gi").require("zone", In, &["test-zone-1"]);
    let world =
        World::new().daemon(&huge).node(node("a").resource("cpu", "1").resource("memory", "1Gi"));
    let outcome = world.pods([small(), small().label("second", "").named("web-2")]).solve();
    assert_eq!(outcome.node_of("web").unwrap().name, "a", "20/C9");
    assert_eq!(outcome.rejected(), ["web-2"], "20/C9: new nodes would have the daemon");
    assert!(
        outcome.rejection("web-2").starts_with("no instance type has enough resources"),
        "20/C9"
    );
}

#[test]
fn daemons_for_initialized_nodes_count_on_new_nodes() {
    for label in ["karpenter.sh/initialized", "karpenter.sh/registered"] {
        let world = World::new().daemon(&agent().require(label, In, &["true"]));
        assert_eq!(launched_type(world), NEXT_TYPE, "20/C10: {label}");
    }
}

#[test]
fn daemons_incompatible_with_a_new_node_do_not_count() {
    let taint = "team=a:NoSchedule";
    let tainted = || World::empty().pool(pool("default").taint(taint));
    let tolerant = pod("web").cpu("1").memory("1Gi").tolerate(taint);
    let outcome = tainted().daemon(&agent()).pod(tolerant).solve();
    assert_eq!(outcome.label_of("web", "type"), SMALL_TYPE, "20/C11: taint");
    let rows = [
        ("unknown label", agent().select("node", "invalid")),
        ("unknown type", agent().require("type", In, &["no-such-type"])),
        ("label that must be there", agent().require("example.com/x", Exists, &[])),
    ];
    for (row, daemon) in rows {
        assert_eq!(launched_type(World::new().daemon(&daemon)), SMALL_TYPE, "20/C11: {row}");
    }
}

#[test]
fn daemons_compatible_with_a_new_node_count() {
    let terms = agent().require("zone", In, &["x"]).or_require("zone", In, &["test-zone-1"]);
    let rows = [
        ("20/C12: NotIn on an unknown label", agent().require("foo", NotIn, &["bar"])),
        ("20/C12: impossible preference", agent().prefer(1, "zone", In, &["no-such-zone"])),
        ("20/C13: second of two terms", terms),
    ];
    for (row, daemon) in rows {
        assert_eq!(launched_type(World::new().daemon(&daemon)), NEXT_TYPE, "{row}");
    }
    let mild = World::empty().pool(pool("default").taint("foo=bar:PreferNoSchedule"));
    assert_eq!(launched_type(mild.daemon(&agent())), NEXT_TYPE, "20/C12: PreferNoSchedule");
}

#[test]
fn startup_taints_do_not_exclude_daemons() {
    let world = World::empty().pool(pool("default").startup_taint("foo=bar:NoSchedule"));
    assert_eq!(launched_type(world.daemon(&agent())), NEXT_TYPE);
}

#[test]
fn a_daemon_for_large_types_does_not_count_on_small_types() {
    let large = pod("large").cpu("4").memory("4Gi").host_port(8080).require("size", In, &["large"]);
    let world = World::new().daemon(&large);
    let outcome = world.pod(small().host_port(8080)).solve();
    assert_eq!(outcome.label_of("web", "type"), SMALL_TYPE, "20/C14");
    assert!(!outcome.types_of("web").contains(&"arm-instance-type"), "20/C14: its port is taken");
    let both = World::new()
        .daemon(&pod("small").cpu("1").require("size", In, &["small"]))
        .daemon(&pod("large").cpu("10").require("size", In, &["large"]));
    assert_eq!(launched_type(both), NEXT_TYPE, "20/C14: each type has its own daemons");
}

#[test]
fn a_host_port_of_a_daemon_is_used_on_every_new_node() {
    let world = World::new().daemon(&pod("agent").host_port(8080));
    let outcome = world.pods([pod("same").host_port(8080), pod("other").host_port(8081)]).solve();
    assert_eq!(outcome.rejected(), ["same"], "20/C15");
    assert_eq!(outcome.new_nodes(), 1, "20/C15");
}

/// The newest live pod, with the template's node affinity, is what a snapshot has for a DaemonSet.
#[test]
fn a_daemon_counts_with_the_requests_of_its_spec() {
    let template = pod("agent").cpu("100m").require("zone", In, &["test-zone-1"]);
    let live = pod("agent").cpu("1").memory("1Gi").require("zone", In, &["test-zone-1"]);
    assert_eq!(
        launched_type(World::new().daemon(&template)),
        SMALL_TYPE,
        "20/C16: the template's numbers"
    );
    assert_eq!(
        launched_type(World::new().daemon(&live)),
        NEXT_TYPE,
        "20/C16: the live pod's numbers"
    );
}

/// Limits become requests where a DaemonSet is read; then they count as any other.
#[test]
fn a_daemon_too_large_for_every_type_rejects_all_pods() {
    let limits_only = pod("agent").cpu("10000").memory("10000Gi");
    let outcome = World::new().daemon(&limits_only).pod(pod("web")).solve();
    assert_eq!(outcome.rejected(), ["web"], "20/C17");
}

#[test]
fn daemons_with_dynamic_resources_count_only_if_dra_is_enabled() {
    let world =
        World::with_types([instance_type("four").cpu("4.1"), instance_type("eight").cpu("8.1")])
            .daemon(&pod("agent").cpu("3").dynamic_resources())
            .pod(pod("web").cpu("2"));
    assert_eq!(world.solve().label_of("web", "type"), "four", "20/C65: ignored");
    let world = world.with_options(|options| options.ignore_dynamic_resources = false);
    assert_eq!(world.solve().label_of("web", "type"), "eight", "20/C65: on");
}

#[test]
fn a_daemon_counts_on_types_that_match_any_of_its_terms() {
    let types = ["fake-it-1", "fake-it-2"];
    let daemon = agent().require("type", In, &[types[1]]).or_require("type", In, &[types[0]]);
    let turned = agent().require("type", In, &[types[0]]).or_require("type", In, &[types[1]]);
    for daemon in [daemon, turned] {
        for mut list in [benchmark_types(3), benchmark_types(3).into_iter().rev().collect()] {
            list.truncate(3);
            let world =
                World::with_types(list).daemon(&daemon).pod(pod("web").cpu("1.5").memory("1Gi"));
            let outcome = world.solve();
            assert_eq!(outcome.types_of("web"), ["fake-it-2"], "20/G7 20/Q7");
        }
    }
}

#[test]
fn a_daemon_counts_on_a_node_that_matches_any_of_its_terms() {
    let daemon = agent().require("zone", In, &["x"]).or_require("zone", In, &["a"]);
    let world = World::empty().daemon(&daemon).node(node("n").zone("a").resource("cpu", "2"));
    assert_eq!(world.pod(pod("web").cpu("1.5")).solve().rejected(), ["web"], "20/Q7");
}

#[test]
fn requests_of_a_node_claim_include_its_daemons_once() {
    let world = World::new().daemon(&pod("agent").cpu("1").memory("1Mi"));
    let outcome = world.pod(pod("web").replicas(2).cpu("1").memory("1Mi")).solve();
    assert_eq!(outcome.pods_per_new_node(), [2], "20/E6");
    let requests = &outcome.claim_of("web-0").requests;
    assert_eq!(requests.json(), r#"{"cpu":"3","memory":"3Mi","pods":"3"}"#, "20/E6");
}
