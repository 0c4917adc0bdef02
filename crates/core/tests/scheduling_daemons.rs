//! What DaemonSets take of a node (spec 20 §3.3, cases C7–C17, C65, G7).

use karpenter_core::pod::Owner;
use karpenter_core::requirement::Operator::{Exists, In, NotIn};
use karpenter_core::testing::{PodBuilder, World, benchmark_types, instance_type, node, pod, pool};

/// A pod for which the small type would do if nothing else were on the node.
fn small() -> PodBuilder {
    pod("web").cpu("1").memory("1Gi")
}

/// The type that a world buys for it.
#[track_caller]
fn bought(world: World) -> String {
    world.pod(small()).solve().label_of("web", "type").to_owned()
}

/// A daemon that pushes the pod from the small type (2 cpu) to the next (4 cpu).
fn agent() -> PodBuilder {
    pod("agent").cpu("1").memory("1Gi")
}

const FREE: &str = "small-instance-type";
const PUSHED: &str = "default-instance-type";

#[test]
fn a_daemon_that_is_not_there_yet_keeps_its_place() {
    let ready = || node("a").has("cpu", "15.9").has("memory", "128Gi");
    let world = World::empty().daemon(&agent()).node(ready());
    let outcome = world.clone().pod(pod("web").cpu("15")).solve();
    assert_eq!(outcome.refused(), ["web"], "20/C7: 14.9 are free");
    let world = world.pod(agent().on("a").owner(Owner::DaemonSet));
    let outcome = world.pod(pod("web").cpu("14.9")).solve();
    assert_eq!(outcome.node_of("web").unwrap().name, "a", "20/C7: it is there");
}

#[test]
fn a_daemon_pod_that_was_not_expected_frees_nothing() {
    let picky = agent().select("example.com/agent", "yes");
    let world = World::empty()
        .daemon(&picky)
        .node(node("a").has("cpu", "4"))
        .pod(agent().on("a").owner(Owner::DaemonSet));
    assert_eq!(world.clone().pod(pod("web").cpu("3")).solve().refused(), [""; 0], "20/C8");
    assert_eq!(world.pod(pod("web").cpu("3.5")).solve().refused(), ["web"], "20/C8");
}

#[test]
fn a_daemon_that_cannot_run_on_a_node_takes_nothing_there() {
    let huge = pod("huge").cpu("100").memory("100Gi").require("zone", In, &["test-zone-1"]);
    let world = World::new().daemon(&huge).node(node("a").has("cpu", "1").has("memory", "1Gi"));
    let outcome = world.pods([small(), small().label("second", "").named("web-2")]).solve();
    assert_eq!(outcome.node_of("web").unwrap().name, "a", "20/C9");
    assert_eq!(outcome.refused(), ["web-2"], "20/C9: new nodes would have the daemon");
    assert!(outcome.refusal("web-2").starts_with("no instance type has enough resources"), "20/C9");
}

#[test]
fn daemons_that_wait_for_a_node_to_be_ready_count_on_new_ones() {
    for label in ["karpenter.sh/initialized", "karpenter.sh/registered"] {
        let world = World::new().daemon(&agent().require(label, In, &["true"]));
        assert_eq!(bought(world), PUSHED, "20/C10: {label}");
    }
}

#[test]
fn daemons_that_a_new_node_would_not_have_do_not_count() {
    let taint = "team=a:NoSchedule";
    let tainted = || World::empty().pool(pool("default").taint(taint));
    let tolerant = pod("web").cpu("1").memory("1Gi").tolerate(taint);
    let outcome = tainted().daemon(&agent()).pod(tolerant).solve();
    assert_eq!(outcome.label_of("web", "type"), FREE, "20/C11: taint");
    let rows = [
        ("unknown label", agent().select("node", "invalid")),
        ("unknown type", agent().require("type", In, &["no-such-type"])),
        ("label that must be there", agent().require("example.com/x", Exists, &[])),
    ];
    for (row, daemon) in rows {
        assert_eq!(bought(World::new().daemon(&daemon)), FREE, "20/C11: {row}");
    }
}

#[test]
fn daemons_that_a_new_node_may_have_count() {
    let terms = agent().require("zone", In, &["x"]).or_require("zone", In, &["test-zone-1"]);
    let rows = [
        ("20/C12: NotIn on an unknown label", agent().require("foo", NotIn, &["bar"])),
        ("20/C12: impossible preference", agent().prefer(1, "zone", In, &["no-such-zone"])),
        ("20/C13: second of two terms", terms),
    ];
    for (row, daemon) in rows {
        assert_eq!(bought(World::new().daemon(&daemon)), PUSHED, "{row}");
    }
    let mild = World::empty().pool(pool("default").taint("foo=bar:PreferNoSchedule"));
    assert_eq!(bought(mild.daemon(&agent())), PUSHED, "20/C12: PreferNoSchedule");
}

#[test]
fn startup_taints_keep_no_daemon_away() {
    let world = World::empty().pool(pool("default").startup_taint("foo=bar:NoSchedule"));
    assert_eq!(bought(world.daemon(&agent())), PUSHED);
}

#[test]
fn a_daemon_for_large_types_leaves_small_ones_alone() {
    let large = pod("large").cpu("4").memory("4Gi").host_port(8080).require("size", In, &["large"]);
    let world = World::new().daemon(&large);
    let outcome = world.pod(small().host_port(8080)).solve();
    assert_eq!(outcome.label_of("web", "type"), FREE, "20/C14");
    assert!(!outcome.types_of("web").contains(&"arm-instance-type"), "20/C14: its port is taken");
    let both = World::new()
        .daemon(&pod("small").cpu("1").require("size", In, &["small"]))
        .daemon(&pod("large").cpu("10").require("size", In, &["large"]));
    assert_eq!(bought(both), PUSHED, "20/C14: each type has its own daemons");
}

#[test]
fn a_host_port_of_a_daemon_is_taken_on_every_new_node() {
    let world = World::new().daemon(&pod("agent").host_port(8080));
    let outcome = world.pods([pod("same").host_port(8080), pod("other").host_port(8081)]).solve();
    assert_eq!(outcome.refused(), ["same"], "20/C15");
    assert_eq!(outcome.new_nodes(), 1, "20/C15");
}

/// The newest live pod, with the template's node affinity, is what a snapshot has for a DaemonSet.
#[test]
fn a_daemon_takes_what_its_spec_says() {
    let template = pod("agent").cpu("100m").require("zone", In, &["test-zone-1"]);
    let live = pod("agent").cpu("1").memory("1Gi").require("zone", In, &["test-zone-1"]);
    assert_eq!(bought(World::new().daemon(&template)), FREE, "20/C16: the template's numbers");
    assert_eq!(bought(World::new().daemon(&live)), PUSHED, "20/C16: the live pod's numbers");
}

/// Limits become requests where a DaemonSet is read; then they count as any other.
#[test]
fn a_daemon_too_large_for_every_node_stops_all_pods() {
    let limits_only = pod("agent").cpu("10000").memory("10000Gi");
    let outcome = World::new().daemon(&limits_only).pod(pod("web")).solve();
    assert_eq!(outcome.refused(), ["web"], "20/C17");
}

#[test]
fn daemons_with_dynamic_resources_count_only_if_these_are_on() {
    let world = World::of([instance_type("four").cpu("4.1"), instance_type("eight").cpu("8.1")])
        .daemon(&pod("agent").cpu("3").dynamic_resources())
        .pod(pod("web").cpu("2"));
    assert_eq!(world.solve().label_of("web", "type"), "four", "20/C65: ignored");
    let world = world.with(|options| options.ignore_dynamic_resources = false);
    assert_eq!(world.solve().label_of("web", "type"), "eight", "20/C65: on");
}

#[test]
fn any_of_the_terms_of_a_daemon_makes_it_count_on_any_type_in_any_order() {
    let types = ["fake-it-1", "fake-it-2"];
    let daemon = agent().require("type", In, &[types[1]]).or_require("type", In, &[types[0]]);
    let turned = agent().require("type", In, &[types[0]]).or_require("type", In, &[types[1]]);
    for daemon in [daemon, turned] {
        for mut list in [benchmark_types(3), benchmark_types(3).into_iter().rev().collect()] {
            list.truncate(3);
            let world = World::of(list).daemon(&daemon).pod(pod("web").cpu("1.5").memory("1Gi"));
            let outcome = world.solve();
            assert_eq!(outcome.types_of("web"), ["fake-it-2"], "20/G7 20/Q7");
        }
    }
}

#[test]
fn any_of_the_terms_of_a_daemon_makes_it_count_on_an_existing_node() {
    let daemon = agent().require("zone", In, &["x"]).or_require("zone", In, &["a"]);
    let world = World::empty().daemon(&daemon).node(node("n").zone("a").has("cpu", "2"));
    assert_eq!(world.pod(pod("web").cpu("1.5")).solve().refused(), ["web"], "20/Q7");
}

#[test]
fn requests_of_a_new_node_have_its_daemons_once() {
    let world = World::new().daemon(&pod("agent").cpu("1").memory("1Mi"));
    let outcome = world.pod(pod("web").times(2).cpu("1").memory("1Mi")).solve();
    assert_eq!(outcome.sizes(), [2], "20/E6");
    let requests = &outcome.claim_of("web-0").requests;
    assert_eq!(requests.json(), r#"{"cpu":"3","memory":"3Mi","pods":"3"}"#, "20/E6");
}
