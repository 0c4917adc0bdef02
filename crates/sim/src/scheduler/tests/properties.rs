//! Tests that an incrementally updated scheduler cache places pods as a new one does.

use std::collections::BTreeMap;

use karpenter_operator::rng::SeededRng;

use super::*;

const APPS: [&str; 3] = ["x", "y", "z"];

fn pick<'a, T>(rng: &mut SeededRng, list: &'a [T]) -> &'a T {
    let at = rng.u64() % list.len() as u64;
    &list[usize::try_from(at).unwrap()]
}

fn random_node(rng: &mut SeededRng, name: &str) -> Node {
    let mut more = json!({ "status": { "allocatable": {
        "cpu": pick(rng, &["2", "4"]), "pods": pick(rng, &["3", "10"]),
    } } });
    if rng.u64().is_multiple_of(4) {
        more = over(
            more,
            &json!({ "spec": { "taints": [
            { "key": "k", "effect": pick(rng, &["NoSchedule", "PreferNoSchedule"]) },
        ] } }),
        );
    }
    if rng.u64().is_multiple_of(8) {
        more = over(more, &json!({ "spec": { "unschedulable": true } }));
    }
    let zone = *pick(rng, &["1", "2", "3"]);
    node(name, zone, more)
}

fn random_pod(rng: &mut SeededRng, name: &str) -> WirePod {
    let key = *pick(rng, &[ZONE, HOSTNAME]);
    let selector = json!({ "matchLabels": { "app": pick(rng, &APPS) } });
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
    let spec = pick(rng, &specs).clone();
    let app = *pick(rng, &APPS);
    pod(name, app, spec)
}

/// Asserts that the kept and the new cache place the same pods alike.
#[track_caller]
fn assert_same_placements(
    seed: u64,
    step: usize,
    kept: &mut SchedulerCache,
    anew: &mut SchedulerCache,
    pods: &[WirePod],
) {
    // The order of the nodes in the lists is that of their arrival, and does not matter.
    for pod in pods {
        let (kept, anew) = (placed(kept, pod), placed(anew, pod));
        assert_eq!(kept, anew, "seed {seed}, step {step}: {:?}", pod.spec);
    }
}

#[test]
fn an_incrementally_updated_cache_equals_a_rebuilt_one() {
    for seed in 0..40 {
        let mut rng = SeededRng::new(seed);
        let mut kept = SchedulerCache::default();
        let (mut nodes, mut bound) = (BTreeMap::new(), BTreeMap::new());
        let waiting: Vec<_> = (0..6).map(|n| random_pod(&mut rng, &format!("w{n}"))).collect();
        // They hold on to their indexes all the time.
        let held: Vec<_> = waiting.iter().map(|pod| kept.prepare(PodInfo::read(pod))).collect();
        for step in 0..60 {
            let node_name = format!("n{}", rng.u64() % 6);
            let pod_name = format!("p{}", rng.u64() % 12);
            match rng.u64() % 8 {
                0 | 1 => {
                    let node = random_node(&mut rng, &node_name);
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
                    let pod = on(&node_name, random_pod(&mut rng, &pod_name));
                    kept.set_pod(PodInfo::read(&pod));
                    bound.insert(pod_name, pod);
                }
            }
            if step % 10 == 9 {
                let nodes: Vec<_> = nodes.values().cloned().collect();
                let bound: Vec<_> = bound.values().cloned().collect();
                assert_same_placements(
                    seed,
                    step,
                    &mut kept,
                    &mut cache_with(&nodes, &bound),
                    &waiting,
                );
            }
        }
        for pending in &held {
            kept.release(pending);
        }
    }
}
