//! Many pods on many nodes.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::*;

/// Schedules replicas of apps that spread over zones and keep away from their like on a host, and
/// says how many went where.
fn schedule(nodes: usize, apps: usize, replicas: usize) -> BTreeMap<(usize, String), usize> {
    let now = Timestamp::UNIX_EPOCH;
    let mut scheduler = SchedulerState::default();
    let zones: Vec<_> = (0..nodes).map(|n| format!("{}", n % 3)).collect();
    for (n, zone) in zones.iter().enumerate() {
        let large = json!({ "status": { "allocatable": {
            "cpu": "64", "memory": "256Gi", "pods": "110",
        } } });
        scheduler.cache_mut().set_node(&node(&format!("n{n:05}"), zone, large));
    }
    for app in 0..apps {
        let selector = json!({ "matchLabels": { "app": app.to_string() } });
        let spec = json!({
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
            }],
            "affinity": { "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    { "topologyKey": HOSTNAME, "labelSelector": selector },
                ],
            } },
        });
        for replica in 0..replicas {
            let pod = pod(&format!("p-{app}-{replica}"), &app.to_string(), spec.clone());
            scheduler.set_pod(&ObjectKey::of(&pod), Some(&pod), now);
        }
    }
    let mut counts = BTreeMap::new();
    while let Some(Decision { pod, outcome }) = scheduler.schedule_next(now) {
        let node = outcome.unwrap().node;
        let zone = &zones[node[1..].parse::<usize>().unwrap()];
        let app = pod.labels["app"].parse().unwrap();
        *counts.entry((app, zone.clone())).or_default() += 1;
    }
    counts
}

#[test]
fn replicas_of_every_app_are_spread_evenly() {
    let counts = schedule(150, 20, 60);
    assert_eq!(counts.len(), 60);
    assert!(counts.values().all(|count| *count == 20), "{counts:?}");
}
