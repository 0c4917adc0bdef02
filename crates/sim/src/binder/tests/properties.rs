//! Indexes that are kept up to date say the same as those that are made anew.

use std::collections::BTreeMap;

use karpenter_operator::chance::Chance;

use super::*;

const APPS: [&str; 3] = ["x", "y", "z"];

fn pick<'a, T>(chance: &mut Chance, list: &'a [T]) -> &'a T {
    let at = chance.u64() % list.len() as u64;
    &list[usize::try_from(at).unwrap()]
}

fn any_node(chance: &mut Chance, name: &str) -> Node {
    let mut more = json!({ "status": { "allocatable": {
        "cpu": pick(chance, &["2", "4"]), "pods": pick(chance, &["3", "10"]),
    } } });
    if chance.u64().is_multiple_of(4) {
        more = over(
            more,
            &json!({ "spec": { "taints": [
            { "key": "k", "effect": pick(chance, &["NoSchedule", "PreferNoSchedule"]) },
        ] } }),
        );
    }
    if chance.u64().is_multiple_of(8) {
        more = over(more, &json!({ "spec": { "unschedulable": true } }));
    }
    let zone = *pick(chance, &["1", "2", "3"]);
    node(name, zone, more)
}

fn any_pod(chance: &mut Chance, name: &str) -> WirePod {
    let key = *pick(chance, &[ZONE, HOSTNAME]);
    let selector = json!({ "matchLabels": { "app": pick(chance, &APPS) } });
    let term = json!({ "topologyKey": key, "labelSelector": selector });
    let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
    let preferred = json!({ "preferredDuringSchedulingIgnoredDuringExecution": [
        { "weight": 7, "podAffinityTerm": term },
    ] });
    let spread = |when: &str| {
        json!({ "topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector,
    }] })
    };
    let specs = [
        json!({}),
        json!({ "affinity": { "podAffinity": required } }),
        json!({ "affinity": { "podAntiAffinity": required } }),
        json!({ "affinity": { "podAffinity": preferred } }),
        json!({ "affinity": { "podAntiAffinity": preferred } }),
        spread("DoNotSchedule"),
        spread("ScheduleAnyway"),
        json!({ "nodeSelector": { ZONE: "1" } }),
        json!({ "tolerations": [{ "operator": "Exists" }] }),
        json!({ "containers": [{ "name": "c", "ports": [{ "containerPort": 1, "hostPort": 1 }] }] }),
    ];
    let spec = pick(chance, &specs).clone();
    let app = *pick(chance, &APPS);
    pod(name, app, spec)
}

/// What the same pods are told by two worlds.
#[track_caller]
fn assert_same(seed: u64, step: usize, kept: &mut World, anew: &mut World, pods: &[WirePod]) {
    // The order of the nodes in the lists is that of their arrival, and does not matter.
    for pod in pods {
        let (kept, anew) = (placed(kept, pod), placed(anew, pod));
        assert_eq!(kept, anew, "seed {seed}, step {step}: {:?}", pod.spec);
    }
}

#[test]
fn a_world_that_lived_through_changes_is_like_one_made_of_what_is_left() {
    for seed in 0..40 {
        let mut chance = Chance::new(seed);
        let mut kept = World::default();
        let (mut nodes, mut bound) = (BTreeMap::new(), BTreeMap::new());
        let waiting: Vec<_> = (0..6).map(|n| any_pod(&mut chance, &format!("w{n}"))).collect();
        // They hold on to their indexes all the time.
        let held: Vec<_> = waiting.iter().map(|pod| kept.prepare(Pod::read(pod))).collect();
        for step in 0..60 {
            let node_name = format!("n{}", chance.u64() % 6);
            let pod_name = format!("p{}", chance.u64() % 12);
            match chance.u64() % 8 {
                0 | 1 => {
                    let node = any_node(&mut chance, &node_name);
                    kept.set_node(&node);
                    nodes.insert(node_name, node);
                }
                2 => {
                    kept.remove_node(&node_name);
                    nodes.remove(&node_name);
                }
                3 | 4 => {
                    kept.remove_pod(&key(&pod_name));
                    bound.remove(&pod_name);
                }
                _ => {
                    let pod = on(&node_name, any_pod(&mut chance, &pod_name));
                    kept.set_pod(Pod::read(&pod));
                    bound.insert(pod_name, pod);
                }
            }
            if step % 10 == 9 {
                let nodes: Vec<_> = nodes.values().cloned().collect();
                let bound: Vec<_> = bound.values().cloned().collect();
                assert_same(seed, step, &mut kept, &mut world(&nodes, &bound), &waiting);
            }
        }
        for pending in &held {
            kept.release(pending);
        }
    }
}
