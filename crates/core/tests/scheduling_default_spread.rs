//! Default spread constraints of the scheduler configuration (spec 20 §3.18, cases D49–D52).

use karpenter_core::requirement::Operator::In;
use karpenter_core::selector::LabelSelector;
use karpenter_core::snapshot::{Service, WorkloadKey};
use karpenter_core::testing::{
    PodBuilder, SpreadBuilder, World, ZONES, label_selector, node, pod, pool, spread,
};

fn with_default(world: World, constraint: SpreadBuilder) -> World {
    let constraint = constraint.selecting_nothing().build(&[].into());
    world.with_options(|options| options.default_spread = vec![constraint])
}

fn with_replica_set(mut world: World, name: &str, selector: LabelSelector) -> World {
    let key = WorkloadKey {
        group: "apps".to_owned(),
        kind: "ReplicaSet".to_owned(),
        namespace: "default".to_owned(),
        name: name.to_owned(),
    };
    world.snapshot.workloads.insert(key, selector);
    world
}

fn with_service(mut world: World, name: &str, selector: Option<&[(&str, &str)]>) -> World {
    world.snapshot.services.push(Service {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        selector: selector.map(|labels| label_selector(labels).labels),
    });
    world
}

fn owned(name: &str) -> PodBuilder {
    pod(name).controller("apps", "ReplicaSet", name)
}

fn zonal(world: World) -> World {
    with_default(world, spread("zone", 1))
}

#[test]
fn workload_pods_without_constraints_get_the_default_spread() {
    let world = zonal(with_replica_set(World::new(), "web", label_selector(&[("app", "web")])));
    let outcome = world.pod(owned("web").replicas(4)).solve();
    assert_eq!(outcome.skew("zone", "web"), [2, 1, 1], "20/D49");
    let world = with_default(World::new(), spread("hostname", 1));
    let world = with_replica_set(world, "web", label_selector(&[("app", "web")]));
    let default = world.clone().pod(owned("web").replicas(3)).solve();
    assert_eq!(default.pods_per_new_node(), [1; 3], "20/D49: hostname");
    let own = world.pod(owned("web").replicas(3).spread(spread("hostname", 3))).solve();
    assert_eq!(own.pods_per_new_node(), [3], "20/D49: own constraints");
}

#[test]
fn only_pods_of_a_workload_or_service_get_the_default_spread() {
    let lonely = with_default(World::new(), spread("hostname", 1)).pod(pod("web").replicas(3));
    assert_eq!(lonely.solve().pods_per_new_node(), [3], "20/D50");
    let job = pod("web").replicas(4).controller("batch", "Job", "web");
    let world = zonal(with_service(World::new(), "web", Some(&[("app", "web")])));
    assert_eq!(world.pod(job.clone()).solve().skew("zone", "web"), [2, 1, 1], "20/D50: Service");
    let other = with_default(World::new(), spread("hostname", 1));
    let other = with_service(with_service(other, "other", Some(&[("app", "x")])), "none", None);
    assert_eq!(other.pod(job).solve().pods_per_new_node(), [4], "20/D50: of others");
}

#[test]
fn each_workload_and_each_revision_is_spread_separately() {
    let sets = |first: (&str, &str), second: (&str, &str)| {
        let selectors = [first, second].map(|label| label_selector(&[("app", "web"), label]));
        let [one, two] = selectors;
        let world = zonal(with_replica_set(with_replica_set(World::new(), "one", one), "two", two));
        let set = |name: &str, label: (&str, &str)| {
            owned(name).label("app", "web").label(label.0, label.1).replicas(3)
        };
        world.pods([set("one", first), set("two", second)]).solve()
    };
    for (row, first, second) in [
        ("workloads", ("part", "a"), ("part", "b")),
        ("revisions", ("pod-template-hash", "old"), ("pod-template-hash", "new")),
    ] {
        let outcome = sets(first, second);
        for name in ["one", "two"] {
            let zones: std::collections::BTreeSet<_> = (0..3)
                .map(|n| outcome.label_of(&format!("{name}-{n}"), "zone").to_owned())
                .collect();
            assert_eq!(zones.len(), 3, "20/D51: {row}, {name}");
        }
    }
}

#[test]
fn the_default_spread_counts_running_pods() {
    let world = World::empty()
        .pool(pool("default").require("zone", In, &ZONES[..2]))
        .node(node("old").zone(ZONES[0]))
        .pod(owned("old").label("app", "web").replicas(2).on_node("old"));
    let world = zonal(with_replica_set(world, "web", label_selector(&[("app", "web")])));
    let outcome = world.pod(owned("web").replicas(2)).solve();
    assert_eq!(outcome.label_of("web-0", "zone"), ZONES[1], "20/D52");
    assert_eq!(outcome.label_of("web-1", "zone"), ZONES[1], "20/D52");
}

#[test]
fn a_schedule_anyway_default_spread_is_relaxed() {
    let one_zone = || World::empty().pool(pool("default").require("zone", In, &ZONES[..1]));
    let hard = spread("zone", 1).min_domains(3);
    let world = |constraint| {
        let world = with_replica_set(one_zone(), "web", label_selector(&[("app", "web")]));
        with_default(world, constraint).pod(owned("web").replicas(3)).solve()
    };
    assert_eq!(world(hard.clone()).rejected().len(), 2);
    assert_eq!(world(hard.schedule_anyway()).rejected(), [""; 0]);
}
