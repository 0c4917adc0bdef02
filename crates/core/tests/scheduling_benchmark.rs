//! The pods of upstream's scheduler benchmark, in sizes that the slow solver likes too (spec 20 §6,
//! cases F1–F5).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_core::id::PodId;
use karpenter_core::plan::Plan;
use karpenter_core::scheduling::{Fuel, PreferencePolicy, Request, reference};
use karpenter_core::testing::{
    SeededRng, World, ZONES, benchmark_types, diverse_mix, label_key, pool, preference_mix,
};

fn bench_world(types: usize) -> World {
    let limited = pool("bench").limit("cpu", "10000000").limit("memory", "10000000Gi");
    World::empty()
        .types(benchmark_types(types))
        .pool(limited.label("testing/cluster", "unspecified"))
}

fn diverse(count: usize) -> World {
    bench_world(400).pods(diverse_mix(count, &mut SeededRng::new(42)))
}

#[test]
fn every_pod_of_the_diverse_mix_is_placed() {
    for count in [1, 7, 50, 100] {
        let outcome = diverse(count).solve();
        assert_eq!(outcome.rejected(), [""; 0], "20/F1: {count}");
        assert_eq!(outcome.pods_per_new_node().iter().sum::<usize>(), count, "20/F1: {count}");
        if count == 1 {
            assert_eq!(outcome.pods_per_new_node(), [1], "20/F2");
        }
    }
}

#[test]
fn pods_with_anti_affinity_get_a_node_each() {
    let outcome = diverse(100).solve();
    assert!(outcome.new_nodes() >= 20, "20/F3: {} nodes", outcome.new_nodes());
    for claim in &outcome.plan.claims {
        let pods = claim.pods.iter().map(|&id| outcome.initial_world.snapshot.pod(id));
        let alone = pods.filter(|pod| pod.labels.get("app").is_some_and(|app| app == "nginx"));
        assert!(alone.count() <= 1, "20/F3");
    }
}

/// The number of labelled pods per domain, as spread constraints count them.
#[derive(Default)]
struct DomainCounts {
    zones: BTreeMap<(String, String), i32>,
    hosts: BTreeMap<(String, usize), i32>,
}

/// The plan after so many attempts to place a pod.
fn plan_after(world: &World, steps: u64) -> Plan {
    let World { snapshot, catalog, options, .. } = world;
    let (pods, without) = (world.pending(), BTreeSet::new());
    let request = Request { snapshot, catalog, pods: &pods, excluded_nodes: &without, options };
    reference::solve(&request, &mut Fuel::after_steps(steps))
}

/// The pods in the order of placement, with the node and its zone at that moment.
fn placements(world: &World) -> Vec<(PodId, usize, Option<String>)> {
    let mut placed = BTreeSet::new();
    let mut order = Vec::new();
    for steps in 1.. {
        let plan = plan_after(world, steps);
        for (number, claim) in plan.claims.iter().enumerate() {
            let zone = claim.requirements.get(label_key("zone")).filter(|zone| zone.len() == 1);
            let zone = zone.and_then(|zone| zone.values().first()).cloned();
            let fresh: Vec<_> = claim.pods.iter().filter(|&&pod| placed.insert(pod)).collect();
            assert!(fresh.len() <= 1, "one attempt places one pod");
            order.extend(fresh.into_iter().map(|&pod| (pod, number, zone.clone())));
        }
        if !plan.was_cut_short {
            break;
        }
    }
    order
}

#[test]
fn no_placement_violates_the_topology_spread_of_its_pod() {
    let world = bench_world(20).pods(diverse_mix(60, &mut SeededRng::new(7)));
    let mut counts = DomainCounts::default();
    let order = placements(&world);
    assert_eq!(order.len(), 60, "20/F4");
    for (id, node, zone) in order {
        let pod = world.snapshot.pod(id);
        let label = pod.labels.get("my-label").cloned().unwrap_or_default();
        for constraint in &pod.spec.topology_spread {
            let other = LETTERS.iter().find(|letter| {
                constraint
                    .selector
                    .matches(&[("my-label".to_owned(), (**letter).to_owned())].into())
            });
            let other = (*other.unwrap()).to_owned();
            let own = i32::from(other == label);
            if constraint.topology_key == label_key("hostname") {
                let count = counts.hosts.get(&(other, node)).unwrap_or(&0) + own;
                assert!(count <= 1, "20/F4: {} on node {node}", pod.name);
            } else {
                let in_zone =
                    |zone: &str| *counts.zones.get(&(other.clone(), zone.to_owned())).unwrap_or(&0);
                let least = ZONES.iter().map(|zone| in_zone(zone)).min().unwrap();
                let zone = zone.as_deref().unwrap();
                assert!(in_zone(zone) + own - least <= 1, "20/F4: {} in {zone}", pod.name);
            }
        }
        *counts.hosts.entry((label.clone(), node)).or_default() += 1;
        if let Some(zone) = zone {
            *counts.zones.entry((label, zone)).or_default() += 1;
        }
    }
}

const LETTERS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

#[test]
fn preferred_anti_affinity_separates_pods_unless_ignored() {
    let world = bench_world(100).pods(preference_mix(30, &mut SeededRng::new(42)));
    let respected = world.solve();
    assert_eq!(respected.pods_per_new_node(), [1; 30], "20/F5: Respect");
    let ignored =
        world.with_options(|options| options.preferences = PreferencePolicy::Ignore).solve();
    assert_eq!(ignored.rejected(), [""; 0], "20/F5: Ignore");
    assert_eq!(ignored.new_nodes(), 1, "20/F5: Ignore");
}
