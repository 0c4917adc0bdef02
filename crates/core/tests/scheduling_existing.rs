//! Pods on nodes that exist, and how new nodes are packed (spec 20 §3.4–§3.11, cases C1–C25,
//! C66–C69, C79, C80).

use karpenter_core::requirement::Operator::{DoesNotExist, In};
use karpenter_core::testing::{
    World, assert_plan_text, assorted_types, benchmark_types, default_types, instance_type, node,
    offering, pod, pool, resources, term,
};

#[test]
fn pods_are_placed_on_unmanaged_nodes_with_free_capacity() {
    for count in [1, 100] {
        let world = World::new()
            .node(node("theirs").unmanaged().resource("memory", "10Gi"))
            .pod(pod("web").replicas(count).cpu("100m").memory("10M"));
        let outcome = world.solve();
        assert_eq!(outcome.new_nodes(), 0, "20/C1: {count} pods");
        assert_eq!(outcome.pods_by_label("hostname", "web")["theirs"], count, "20/C1");
    }
}

#[test]
fn initialized_nodes_are_tried_before_uninitialized_nodes() {
    for ready in [0, 50, 99] {
        let named = |number| node(&format!("node-{number:02}"));
        let world = (0..100).fold(World::new(), |world, number| {
            let built = named(number);
            world.node(if number == ready { built } else { built.uninitialized() })
        });
        let outcome = world.pod(pod("web")).solve();
        let expected = format!("node-{ready:02}");
        assert_eq!(outcome.node_of("web").unwrap().name, expected, "20/C2");
    }
}

#[test]
fn a_node_must_have_the_label_that_a_pod_needs() {
    let with_node = World::empty().node(node("a")).pod(pod("web").select("zone", "test-zone-1"));
    assert_eq!(with_node.solve().rejected(), ["web"], "20/C3: without a NodePool");
    let outcome = with_node.pool(pool("default")).solve();
    assert_eq!(outcome.new_nodes(), 1, "20/C3");
    assert_eq!(outcome.label_of("web", "zone"), "test-zone-1", "20/C3");
}

/// Which taints go away by themselves is decided where nodes are read; here they are left out of
/// the effective ones already, and only the Node object has them.
#[test]
fn ephemeral_taints_do_not_exclude_an_uninitialized_node() {
    for taint in ["node.kubernetes.io/not-ready:NoSchedule", "example.com/startup:NoSchedule"] {
        let starting = node("a").uninitialized().raw_taints(&[taint]);
        let outcome = World::new().node(starting).pod(pod("web")).solve();
        assert_eq!(outcome.new_nodes(), 0, "20/C4: {taint}, starting");
        let outcome = World::new().node(node("a").taint(taint)).pod(pod("web")).solve();
        assert_eq!(outcome.new_nodes(), 1, "20/C4: {taint}, initialized");
    }
}

#[test]
fn other_taints_exclude_an_initialized_node() {
    let world = World::new().node(node("a").taint("foo.com/taint=tainted:NoSchedule"));
    let outcome = world.pod(pod("web")).solve();
    assert_eq!(outcome.new_nodes(), 1, "20/C5");
}

/// The Node shows no devices yet; what the NodeClaim promised is in the joined numbers.
#[test]
fn capacity_of_the_node_claim_counts_on_an_uninitialized_node() {
    let world = World::new()
        .node(node("gpu").uninitialized().resource("fake.com/vendor-a", "2"))
        .pod(pod("train").request("fake.com/vendor-a", "1"));
    assert_eq!(world.solve().node_of("train").unwrap().name, "gpu", "20/C6");
}

#[test]
fn pods_with_one_host_port_need_a_node_each() {
    let outcome = World::new().pod(pod("web").replicas(2).host_port(80)).solve();
    assert_eq!(outcome.pods_per_new_node(), [1, 1], "20/C18");
    let outcome = World::new().pods([pod("a").host_port(80), pod("b").host_port(81)]).solve();
    assert_eq!(outcome.pods_per_new_node(), [2], "20/C18: other ports");
    let world = World::new().node(node("busy")).pod(pod("old").host_port(80).on_node("busy"));
    let outcome = world.pods([pod("a").host_port(80), pod("b").host_port(81)]).solve();
    assert_eq!(outcome.node_of("b").unwrap().name, "busy", "20/C18: existing node, other port");
    assert_eq!(outcome.new_nodes(), 1, "20/C18: existing node, same port");
}

#[test]
fn nodes_are_filled_before_another_is_opened() {
    let large = pod("large").replicas(40).memory("1.8G").select("arch", "amd64");
    let outcome = World::new().pod(large.clone()).solve();
    assert_eq!(outcome.new_nodes(), 20, "20/C19");
    assert_eq!(outcome.label_of("large-0", "type"), "default-instance-type", "20/C19");
    let small = pod("small").replicas(20).memory("400M").select("arch", "amd64");
    let outcome = World::new().pods([small, large]).solve();
    assert_eq!(outcome.new_nodes(), 20, "20/C19: small pods fill the gaps");
    assert_eq!(outcome.rejected(), [""; 0], "20/C19");
}

#[test]
fn a_small_pod_that_fits_no_open_node_gets_a_small_node() {
    let world = World::with_types(benchmark_types(5))
        .pods([pod("large").cpu("4.5"), pod("small").cpu("1")]);
    let outcome = world.solve();
    assert_eq!(outcome.label_of("large", "type"), "fake-it-4", "20/C20");
    assert_eq!(outcome.label_of("small", "type"), "fake-it-1", "20/C20");
}

#[test]
fn the_pods_resource_limits_the_pods_of_a_node() {
    let world =
        World::new().pod(pod("web").replicas(25).cpu("1m").memory("1M").select("arch", "amd64"));
    let outcome = world.solve();
    assert_eq!(outcome.pods_per_new_node(), [5; 5], "20/C21");
    assert_eq!(outcome.label_of("web-24", "type"), "small-instance-type", "20/C21");
}

#[test]
fn pods_of_different_architectures_get_nodes_of_their_own() {
    let arch = |name, arch| pod(name).require("arch", In, &[arch]);
    let outcome =
        World::with_types(assorted_types()).pods([arch("x", "amd64"), arch("y", "arm64")]).solve();
    assert_eq!(outcome.pods_per_new_node(), [1, 1], "20/C22");
    assert_eq!(outcome.label_of("x", "arch"), "amd64", "20/C22");
    assert_eq!(outcome.label_of("y", "arch"), "arm64", "20/C22");
}

#[test]
fn no_type_has_the_devices_of_two_vendors() {
    let both = pod("both").request("fake.com/vendor-a", "1").request("fake.com/vendor-b", "1");
    let outcome = World::new().pod(both).solve();
    assert_eq!(
        outcome.rejection("both"),
        "no instance type has enough resources, \
         requirements=karpenter.sh/initialized In [true], karpenter.sh/nodepool In [default], \
         karpenter.sh/registered In [true], karpenter.test.sh/testnodeclass In [default], \
         resources={\"fake.com/vendor-a\":\"1\",\"fake.com/vendor-b\":\"1\",\"pods\":\"1\"}",
        "20/C23"
    );
    let alone =
        [pod("a").request("fake.com/vendor-a", "1"), pod("b").request("fake.com/vendor-b", "1")];
    assert_eq!(World::new().pods(alone).solve().pods_per_new_node(), [1, 1], "20/C23: one each");
}

#[test]
fn every_type_that_fits_is_offered_cheapest_first() {
    let types = [("medium", "2", 3.0), ("small", "1", 2.0), ("large", "4", 1.0)]
        .map(|(name, size, price)| instance_type(name).cpu(size).on_demand("test-zone-1a", price));
    let outcome = World::with_types(types).pod(pod("web").cpu("1m").memory("1Mi")).solve();
    assert_eq!(outcome.types_of("web"), ["large", "small", "medium"], "20/C24");
    assert_eq!(outcome.claim_of("web").lowest_price, Some(1.0), "20/C24");
}

#[test]
fn only_prices_of_allowed_offerings_order_types() {
    let sold = |name, on_demand, spot| {
        instance_type(name)
            .offering(offering("on-demand", "test-zone-1a", on_demand))
            .offering(offering("spot", "test-zone-1a", spot))
    };
    let world = World::empty()
        .types([sold("first", 1.0, 0.2), sold("second", 1.3, 0.1)])
        .pool(pool("default").require("capacity-type", In, &["on-demand"]))
        .pod(pod("web"));
    assert_eq!(world.solve().types_of("web"), ["first", "second"], "20/C25");
}

#[test]
fn a_capacity_override_counts_only_in_its_offering() {
    let devices = resources(&[("example.com/device", "4")]);
    let mut with_devices = offering("on-demand", "test-zone-2", 1.0);
    with_devices.capacity_override = devices;
    let plain = instance_type("plain").on_demand("test-zone-1", 1.0);
    let special = plain.clone().named("special").offering(with_devices.clone());
    let mut gone = with_devices;
    gone.available = false;
    let sold_out = plain.clone().named("sold-out").offering(gone);
    let requesting_pod = pod("asks").request("example.com/device", "1");
    let outcome = World::with_types([plain.clone(), special, sold_out.clone()])
        .pod(requesting_pod.clone())
        .solve();
    assert_eq!(outcome.types_of("asks"), ["special"], "20/C66");
    let outcome = World::with_types([plain, sold_out]).pod(requesting_pod).solve();
    assert_eq!(outcome.rejected(), ["asks"], "20/C66: not available");
}

#[test]
fn existing_nodes_take_pods_without_a_usable_node_pool() {
    let world = World::empty()
        .pool(pool("default").require("type", In, &["no-such-type"]))
        .node(node("a").resource("cpu", "2"))
        .pods([pod("fits").cpu("1"), pod("too-big").cpu("4")]);
    let outcome = world.solve();
    assert_eq!(outcome.node_of("fits").unwrap().name, "a", "20/C67");
    assert_eq!(
        outcome.rejection("too-big"),
        "nodepool requirements filtered out all available instance types",
        "20/C67"
    );
    assert_eq!(outcome.plan.unusable_pools.len(), 1, "20/C67");
}

#[test]
fn a_chain_of_affinities_ends_on_one_node_in_any_order() {
    let near = |name: &str, other: &str| {
        pod(name).pod_affinity(term("hostname").selecting(&[("app", other)]))
    };
    let chain = [pod("db"), near("web", "db"), near("cache", "web"), near("ui", "cache")];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
        let pods = order.iter().enumerate().map(|(at, &one)| {
            let later = i64::try_from(at).unwrap();
            chain[one].clone().created_later(later)
        });
        let outcome = World::new().pods(pods).solve();
        assert_eq!(outcome.pods_per_new_node(), [4], "20/C68: {order:?}");
    }
}

#[test]
fn affinity_to_a_pod_that_does_not_exist_rejects_the_pod() {
    let waits = pod("waits").pod_affinity(term("zone").selecting(&[("app", "never")]));
    let outcome = World::new().pods([waits, pod("other")]).solve();
    assert_eq!(outcome.rejected(), ["waits"], "20/C69");
    assert_eq!(
        outcome.rejection("waits"),
        "unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.io/zone \
         (counts = test-zone-1: 0, test-zone-2: 0, test-zone-3: 0, \
         podDomains = topology.kubernetes.io/zone Exists, \
         nodeDomains = topology.kubernetes.io/zone Exists",
        "20/C69"
    );
}

/// A static NodePool is not in the snapshot's pools; its nodes are nodes as any other.
#[test]
fn a_static_node_pool_launches_no_nodes_for_pods() {
    let waiting = World::empty().pod(pod("web"));
    let outcome = waiting.solve();
    assert_eq!((outcome.new_nodes(), outcome.rejected()), (0, vec!["web"]), "20/C79");
    let outcome = waiting.node(node("replica").pool("static")).solve();
    assert_eq!(outcome.node_of("web").unwrap().name, "replica", "20/C79: its nodes take pods");
}

#[test]
fn huge_pages_reduce_memory_to_zero_at_most() {
    let paged = |pages| instance_type("paged").memory("4Gi").resource("hugepages-2Mi", pages);
    let memory = |pages| paged(pages).build().allocatable().amount("memory").canonical();
    assert_eq!(memory("1Gi"), "3062Mi", "20/C80");
    assert_eq!(memory("4Gi"), "0", "20/C80");
    assert_eq!(memory("8Gi"), "0", "20/C80");
    let requesting_pod = pod("web").memory("1Mi");
    assert_eq!(
        World::with_types([paged("4Gi")]).pod(requesting_pod).solve().rejected(),
        ["web"],
        "20/C80"
    );
}

#[test]
fn a_world_in_text_solves_to_the_expected_plan_text() {
    assert_plan_text(
        "type small cpu=2 memory=4Gi pods=10 zones=a,b price=0.1
         type large cpu=8 memory=16Gi pods=20 zones=a price=0.4
         pool general weight=10
         pool spare types=large
         node old general small zone=a
         pod run x2 cpu=1 on=old
         pod web x3 cpu=1 spread=zone
         pod big cpu=7
         pod huge cpu=70",
        "new general: big web-0 | topology.kubernetes.io/zone In [a] | large
         new general: web-1 web-2 | topology.kubernetes.io/zone In [b] | small
         refused huge: no instance type has enough resources",
    );
}

#[test]
fn pods_are_placed_by_size_then_age_then_uid() {
    let world = World::new().pods([
        pod("b").uid("2"),
        pod("a").uid("1"),
        pod("old").uid("3").created_later(-1),
        pod("memory").memory("1Gi"),
        pod("cpu").cpu("1"),
    ]);
    let outcome = world.solve();
    let placed: Vec<_> = outcome.plan.claims[0]
        .pods
        .iter()
        .map(|&id| outcome.initial_world.snapshot.pod(id).name.as_str())
        .collect();
    assert_eq!(placed, ["cpu", "memory", "old", "a", "b"]);
}

#[test]
fn an_excluded_type_is_not_offered() {
    let names: Vec<_> = default_types().into_iter().map(|one| one.build().name).collect();
    let outcome = World::new().pod(pod("web").require("special", DoesNotExist, &[])).solve();
    let offered = outcome.types_of("web");
    assert_eq!(offered.len(), names.len() - 1);
    assert!(!offered.contains(&"arm-instance-type"));
}
