//! Tests of pods in the mirror: usage, binding, protection and scheduling times.

use super::*;

#[test]
fn bound_and_running_pods_use_node_resources() {
    #[rustfmt::skip]
    let cases = [
        // case              node  phase         then gone  cpu
        ("40/CS-01 unbound",  "",  "Pending",    false,     0),
        ("40/CS-01 bound",    "n", "Running",    false,     500),
        ("40/CS-01 terminal", "n", "Succeeded",  false,     0),
        ("40/CS-01 deleted",  "n", "Running",    true,      0),
    ];
    for (case, node, phase, is_gone, expected) in cases {
        let bench = Bench::new();
        bench.plain_node("n");
        bench.pod_on("p", node, 500, phase);
        if is_gone {
            bench.delete_pod("p");
        }
        assert_eq!(bench.cpu_on("n"), expected, "{case}");
    }
}

#[test]
fn a_finished_pod_frees_its_resources() {
    let bench = Bench::new();
    bench.plain_node("n");
    bench.pod_on("p", "n", 500, "Running");
    bench.pod_on("p", "n", 500, "Failed");
    assert_eq!(bench.cpu_on("n"), 0, "40/CS-01");
}

#[test]
fn a_pod_recreated_on_another_node_frees_the_old_node() {
    let bench = Bench::new();
    bench.plain_node("one");
    bench.plain_node("two");
    bench.pod_on("p", "one", 500, "Running");
    assert_eq!((bench.cpu_on("one"), bench.cpu_on("two")), (500, 0));
    bench.pod_on("p", "two", 500, "Running");
    assert_eq!((bench.cpu_on("one"), bench.cpu_on("two")), (0, 500), "40/CS-02");
}

#[test]
fn daemonset_pods_count_in_total_and_in_daemon_usage() {
    let bench = Bench::new();
    bench.plain_node("n");
    bench.pod_on("p", "n", 500, "Running");
    let owners = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}]);
    let resources = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}});
    let spec = json!({"nodeName": "n", "containers": [{"name": "c", "resources": resources}]});
    bench.pod("d", json!({"ownerReferences": owners}), spec, json!({"phase": "Running"}));
    let usage = bench.tracked_node("id/n").usage;
    let millis = |resources: &Resources| resources.amount("cpu").millis();
    assert_eq!(millis(&usage.requests), 600, "40/CS-03");
    assert_eq!(millis(&usage.daemon_requests), 100, "40/CS-03");
    assert_eq!((millis(&usage.limits), millis(&usage.daemon_limits)), (1000, 1000), "40/CS-03");
    assert_eq!(usage.requests.amount("pods").units(), 2);
}

#[test]
fn pod_overhead_is_added_to_existing_limits_only() {
    let bench = Bench::new();
    bench.plain_node("n");
    let resources = json!({"limits": {"cpu": "1"}});
    let init = json!([{"name": "i", "resources": {"limits": {"cpu": "3"}}}]);
    let containers = json!([{"name": "c", "resources": resources}]);
    let overhead = json!({"cpu": "250m", "memory": "1Mi"});
    let spec = json!({"nodeName": "n", "containers": containers, "initContainers": init,
        "overhead": overhead});
    bench.pod("p", json!({}), spec, json!({}));
    let limits = bench.tracked_node("id/n").usage.limits.clone();
    assert_eq!(limits.amount("cpu").millis(), 3250);
    assert_eq!(limits.get("memory"), None);
}

#[test]
fn node_usage_sums_stay_exact() {
    let bench = Bench::new();
    bench.plain_node("n");
    let mut random: u64 = 7;
    let mut there = std::collections::BTreeMap::new();
    for _ in 0..400 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let number = random >> 57;
        let name = format!("p{number}");
        if there.remove(&name).is_some() {
            bench.delete_pod(&name);
        } else {
            let millis = i64::from(u8::try_from(number).unwrap()) * 7 + 1;
            bench.pod_on(&name, "n", millis, "Running");
            there.insert(name, millis);
        }
        let sum: i64 = there.values().sum();
        assert_eq!(bench.cpu_on("n"), i128::from(sum), "40/CS-04");
    }
}

#[test]
fn a_pod_is_published_once_its_node_is_known() {
    let bench = Bench::new();
    bench.pod_on("p", "n", 500, "Running");
    assert_eq!(bench.snapshot().pods.len(), 0, "40/CS-05");
    bench.plain_node("n");
    assert_eq!(bench.cpu_on("n"), 500, "40/CS-05");
    assert_eq!(bench.snapshot().pods.len(), 1, "40/CS-05");
}

#[test]
fn anti_affinity_is_tracked_for_pods_on_known_nodes() {
    let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}});
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    let preferred = json!({"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 1, "podAffinityTerm": term}]});
    let bench = Bench::new();
    bench.plain_node("n");
    for (name, node, affinity) in [
        ("required", "n", &required),
        ("preferred", "n", &preferred),
        ("lost", "unknown", &required),
    ] {
        let spec = json!({"nodeName": node, "affinity": {"podAntiAffinity": affinity}});
        bench.pod(name, json!({}), spec, json!({"phase": "Running"}));
    }
    let tracked = || -> Vec<String> {
        let snapshot = bench.snapshot();
        let pods = snapshot.pods.iter().filter(|pod| !pod.spec.pod_anti_affinity.is_empty());
        pods.map(|pod| pod.name.clone()).collect()
    };
    assert_eq!(tracked(), ["required"], "40/CS-15");
    bench.delete_pod("required");
    assert_eq!(tracked(), [""; 0], "40/CS-15: deleted");
}

#[test]
fn a_daemonset_uses_its_newest_pod() {
    let bench = Bench::new();
    let resources = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let containers = |cpu: &str| json!([{"name": "c", "resources": resources(cpu)}]);
    let set = json!({"metadata": {"name": "d", "namespace": "default", "uid": "u"}, "spec": {
        "selector": {}, "template": {"spec": {"containers": containers("9")}}}});
    let pod = |name: &str, second: i64, cpu: &str| {
        let created = Timestamp::from_second(START + second).unwrap().to_string();
        let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u",
            "controller": true});
        let meta = json!({"creationTimestamp": created, "ownerReferences": [owner]});
        bench.pod(name, meta, json!({"containers": containers(cpu)}), json!({}));
    };
    let cpu = || -> Vec<i128> {
        let snapshot = bench.snapshot();
        let daemons = snapshot.daemons.iter();
        daemons.map(|daemon| daemon.spec.requests.amount("cpu").units()).collect()
    };
    bench.mirror.set_daemon_set("default", "d", Some(object(set)));
    assert_eq!(cpu(), [9], "40/CS-31: no pod, the template");
    pod("first", 1, "1");
    assert_eq!(cpu(), [1], "40/CS-31: one pod");
    pod("second", 2, "2");
    assert_eq!(cpu(), [2], "40/CS-31: two pods");
    pod("older", 0, "3");
    assert_eq!(cpu(), [2], "40/CS-31: an older one changes nothing");
    bench.delete_pod("second");
    assert_eq!(cpu(), [1], "the newest that is left");
    bench.mirror.set_daemon_set("default", "d", None);
    assert_eq!(cpu(), [0; 0], "40/CS-31: deleted");
}

#[test]
fn do_not_disrupt_protection_expires() {
    let bench = Bench::new();
    let meta = json!({"annotations": {"karpenter.sh/do-not-disrupt": "1m"}});
    let started = bench.now().to_string();
    bench.pod("p", meta, json!({}), json!({"startTime": started}));
    let is_protected = || bench.snapshot().pods[0].do_not_disrupt;
    assert!(is_protected());
    bench.advance(59);
    assert!(is_protected());
    let held = bench.snapshot();
    bench.advance(1);
    assert!(!is_protected());
    assert!(held.pods[0].do_not_disrupt, "who holds a snapshot sees no change");
}

/// Sets a NodePool whose nodes register, or do not.
fn pool(bench: &Bench, name: &str, is_healthy: bool) {
    let status = if is_healthy { "True" } else { "False" };
    let pool: Arc<karpenter_api::nodepool::NodePool> = object(json!({
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef":
            {"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default"}}}},
        "status": {"conditions": [{"type": "NodeRegistrationHealthy", "status": status,
            "reason": "x", "message": "", "lastTransitionTime": "2025-06-15T00:00:00Z"}]},
    }));
    bench.mirror.set_node_pool(name, Some(&pool));
}

#[test]
fn pod_times_are_set_once_and_cleared_with_their_cause() {
    let bench = Bench::new();
    let mirror = &bench.mirror;
    pool(&bench, "healthy", true);
    pool(&bench, "ill", false);
    bench.pod_on("p", "", 100, "Pending");
    let seen = bench.now();
    mirror.acknowledge_pod("default", "p", seen);
    mirror.acknowledge_pod("default", "unknown", seen);
    bench.advance(5);
    mirror.acknowledge_pod("default", "p", bench.now());
    let place = |pool| mirror.record_placement("default", "p", pool, bench.now());
    assert_eq!(place("healthy"), Some(Duration::from_secs(5)));
    mirror.map_pod_to_claim("default", "p", "claim");
    let first = bench.now();
    bench.advance(5);
    assert_eq!(place("healthy"), None, "decided before");
    let expected = PodTimes {
        acknowledged_at: Some(seen),
        decided_at: Some(first),
        schedulable_at: Some(first),
        healthy_at: Some(first),
        node_claim: Some("claim".to_owned()),
    };
    assert_eq!(mirror.pod_times("default", "p"), expected);
    assert_eq!(mirror.pods_mapped_to("claim"), [("default".to_owned(), "p".to_owned())]);

    place("ill");
    let expected = PodTimes { healthy_at: None, ..expected };
    assert_eq!(mirror.pod_times("default", "p"), expected, "40/CS-34");

    assert_eq!(mirror.record_unschedulable("default", "p", bench.now()), None, "decided before");
    let expected = PodTimes { schedulable_at: None, node_claim: None, ..expected };
    assert_eq!(mirror.pod_times("default", "p"), expected, "40/CS-35");
    assert_eq!(mirror.pods_mapped_to("claim"), [], "40/CS-35");

    assert_eq!(mirror.pod_times("default", "unknown"), PodTimes::default(), "nobody would forget");
    bench.delete_pod("p");
    assert_eq!(mirror.pod_times("default", "p"), PodTimes::default(), "gone with the pod");
}

#[test]
fn a_recreated_pod_has_its_own_times() {
    let bench = Bench::new();
    let mirror = &bench.mirror;
    let pod = |uid: &str| bench.pod("db-0", json!({"uid": uid}), json!({}), json!({}));
    pod("one");
    mirror.acknowledge_pod("default", "db-0", bench.now());
    mirror.record_placement("default", "db-0", "pool", bench.now());
    mirror.map_pod_to_claim("default", "db-0", "claim");
    let known = mirror.pod_times("default", "db-0");
    bench.advance(60);
    pod("one");
    assert_eq!(mirror.pod_times("default", "db-0"), known, "the same one has changed");

    pod("two");
    assert_eq!(mirror.pod_times("default", "db-0"), PodTimes::default());
    assert_eq!(mirror.pods_mapped_to("claim"), []);
    mirror.acknowledge_pod("default", "db-0", bench.now());
    bench.advance(5);
    let waited = mirror.record_placement("default", "db-0", "pool", bench.now());
    assert_eq!(waited, Some(Duration::from_secs(5)), "as long as this one has waited");
}

#[test]
fn bound_pods_get_no_times() {
    let bench = Bench::new();
    bench.pod_on("p", "n", 100, "Running");
    bench.mirror.acknowledge_pod("default", "p", bench.now());
    assert_eq!(
        bench.mirror.record_placement("default", "p", "pool", bench.now()),
        None,
        "40/CS-36"
    );
    let times = bench.mirror.pod_times("default", "p");
    assert_eq!((times.decided_at, times.schedulable_at), (None, None), "40/CS-36");
}

#[test]
fn buffer_pod_counts_are_replaced_together() {
    let bench = Bench::new();
    bench.mirror.set_buffer_pods([("m".to_owned(), 2)].into());
    assert_eq!(bench.mirror.buffer_pods("m"), 2);
    bench.mirror.set_buffer_pods([].into());
    assert_eq!(bench.mirror.buffer_pods("m"), 0, "40/CS-37");
}

#[test]
fn a_thousand_replicas_share_one_pod_spec() {
    let bench = Bench::new();
    for number in 0..1000 {
        bench.pod_on(&format!("p{number}"), "", 100, "Pending");
    }
    let snapshot = bench.snapshot();
    let first = &snapshot.pods[0].spec;
    assert!(snapshot.pods.iter().all(|pod| Arc::ptr_eq(&pod.spec, first)));
}
