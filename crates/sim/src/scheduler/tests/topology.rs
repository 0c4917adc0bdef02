//! Tests of topology spread constraints and pod (anti-)affinity.

use super::*;

fn spread(key: &str, more: Value) -> Value {
    let base = json!({
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "p" } },
    });
    json!({ "topologySpreadConstraints": [over(base, &more)] })
}

fn affinity(kind: &str, key: &str, more: Value) -> Value {
    let base =
        json!({ "topologyKey": key, "labelSelector": { "matchLabels": { "app": "other" } } });
    json!({ "affinity": {
        kind: { "requiredDuringSchedulingIgnoredDuringExecution": [over(base, &more)] },
    } })
}

/// Nodes a and b in zone 1, c in zone 2; so many pods of app p on a, b and c.
fn spread_world(on_a: usize, on_b: usize, on_c: usize) -> SchedulerCache {
    let nodes = [node("a", "1", json!({})), node("b", "1", json!({})), node("c", "2", json!({}))];
    let mut bound = Vec::new();
    for (name, count) in [("a", on_a), ("b", on_b), ("c", on_c)] {
        for n in 0..count {
            bound.push(on(name, pod(&format!("{name}{n}"), "p", json!({}))));
        }
    }
    cache_with(&nodes, &bound)
}

const SKEWED: &str = "node(s) didn't match pod topology spread constraints";

#[test]
fn spread_constraints_limit_the_skew_between_counted_domains() {
    let only = |zone: &str| json!({ "nodeSelector": { ZONE: zone } });
    let with = |more: Value, spec: Value| over(spread(ZONE, more), &spec);
    #[rustfmt::skip]
    let cases = [
        ("even",               (1, 0, 1), spread(HOSTNAME, json!({})),                  "b"),
        ("the emptier zone",   (1, 0, 0), spread(ZONE, json!({})),                      "c"),
        ("skew of two",        (1, 0, 0), with(json!({ "maxSkew": 2 }), only("1")),     "b"),
        ("honors affinity",    (1, 0, 0), with(json!({}), only("1")),                   "b"),
        ("ignores affinity",   (1, 0, 0), with(json!({ "nodeAffinityPolicy": "Ignore" }), only("1")),
         &*format!("1 node(s) didn't match Pod's node affinity/selector, 2 {SKEWED}")),
        ("too few domains",    (1, 0, 1), spread(ZONE, json!({ "minDomains": 3 })),     &*format!("3 {SKEWED}")),
        ("enough domains",     (1, 0, 1), spread(ZONE, json!({ "minDomains": 2 })),     "b"),
        ("others are not counted", (1, 0, 0),
         with(json!({ "labelSelector": { "matchLabels": { "app": "q" } } }), only("1")), "b"),
        ("no label",           (0, 0, 0), spread("rack", json!({})),                    &*format!("3 {SKEWED} (missing required label)")),
    ];
    for (case, (a, b, c), spec, expected) in cases {
        let mut cache = spread_world(a, b, c);
        assert_eq!(reasons(&mut cache, &pod("next", "p", spec)), expected, "{case}");
    }
}

#[test]
fn nodes_with_taints_count_unless_the_constraint_honors_taints() {
    let tainted = json!({ "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }] } });
    for (policy, expected) in [
        ("Ignore", format!("1 {SKEWED}, 1 node(s) had untolerated taint(s)")),
        ("Honor", "a".to_owned()),
    ] {
        let nodes = [node("a", "1", json!({})), node("c", "2", tainted.clone())];
        let mut cache = cache_with(&nodes, &[on("a", pod("p0", "p", json!({})))]);
        let next = pod("next", "p", spread(ZONE, json!({ "nodeTaintsPolicy": policy })));
        assert_eq!(reasons(&mut cache, &next), expected, "{policy}");
    }
}

#[test]
fn match_label_keys_count_only_pods_of_the_same_template() {
    let generation = |name: &str, hash: &str, spec: Value| {
        let mut pod = pod(name, "p", spec);
        let labels = pod.metadata.labels.as_mut().unwrap();
        labels.insert("pod-template-hash".to_owned(), hash.to_owned());
        pod
    };
    let old = [on("a", generation("p0", "old", json!({})))];
    let nodes = [
        node("a", "1", json!({})),
        node(
            "c",
            "2",
            json!({ "status": { "allocatable": {
        "cpu": "0",
    } } }),
        ),
    ];
    let spec = spread(ZONE, json!({ "matchLabelKeys": ["pod-template-hash", "absent"] }));
    let mut cache = cache_with(&nodes, &old);
    assert_eq!(placed(&mut cache, &generation("next", "new", spec.clone())), "a");
    assert_eq!(
        reasons(&mut cache, &generation("next", "old", spec)),
        format!("1 Insufficient cpu, 1 {SKEWED}")
    );
}

#[test]
fn terminating_pods_do_not_count_for_spread_constraints() {
    let mut leaving = on("a", pod("p0", "p", json!({})));
    let mut cache = cache_with(
        &[
            node("a", "1", json!({})),
            node(
                "c",
                "2",
                json!({ "status": { "allocatable": {
            "cpu": "0",
        } } }),
            ),
        ],
        std::slice::from_ref(&leaving),
    );
    let next = pod("next", "p", spread(ZONE, json!({})));
    assert_eq!(reasons(&mut cache, &next), format!("1 Insufficient cpu, 1 {SKEWED}"));
    leaving.metadata.deletion_timestamp = Some(object(json!("2026-01-01T00:00:00Z")));
    cache.set_pod(PodInfo::read(&leaving));
    assert_eq!(placed(&mut cache, &next), "a");
}

#[test]
fn affinity_terms_match_by_namespace_and_topology_key() {
    let nodes = [node("a", "1", json!({})), node("b", "1", json!({})), node("c", "2", json!({}))];
    let bound = [on("a", pod("o", "other", json!({})))];
    let none = "3 node(s) didn't match pod affinity rules";
    let elsewhere = json!({ "namespaces": ["elsewhere"] });
    let by_label = json!({ "namespaceSelector": { "matchLabels": { "team": "x" } } });
    let everywhere = json!({ "namespaceSelector": {} });
    #[rustfmt::skip]
    let cases = [
        ("with, by zone",        affinity("podAffinity", ZONE, json!({})),               "b"),
        ("with, by host",        affinity("podAffinity", HOSTNAME, json!({})),           "a"),
        ("with, no label",       affinity("podAffinity", "rack", json!({})),             none),
        ("with, elsewhere",      affinity("podAffinity", ZONE, elsewhere.clone()),       none),
        ("with, by team",        affinity("podAffinity", HOSTNAME, by_label.clone()),    "a"),
        ("with, everywhere",     affinity("podAffinity", HOSTNAME, everywhere),          "a"),
        ("without, by zone",     affinity("podAntiAffinity", ZONE, json!({})),           "c"),
        ("without, no label",    affinity("podAntiAffinity", "rack", json!({})),         "b"),
        ("without, elsewhere",   affinity("podAntiAffinity", ZONE, elsewhere),           "b"),
        ("without, by team",     affinity("podAntiAffinity", ZONE, by_label),            "c"),
    ];
    for (case, spec, expected) in cases {
        let mut cache = cache_with(&nodes, &bound);
        let namespace = json!({ "metadata": { "name": "default", "labels": { "team": "x" } } });
        cache.set_namespace("default", Some(&object(namespace)));
        assert_eq!(reasons(&mut cache, &pod("next", "p", spec)), expected, "{case}");
    }
}

#[test]
fn namespace_label_changes_update_affinity_matches() {
    let team = |name: &str| {
        object(json!({ "metadata": { "name": "default", "labels": { "team": name } } }))
    };
    let spec = affinity(
        "podAffinity",
        HOSTNAME,
        json!({
            "namespaceSelector": { "matchLabels": { "team": "x" } },
        }),
    );
    let mut cache =
        cache_with(&[node("a", "1", json!({}))], &[on("a", pod("o", "other", json!({})))]);
    let pending = cache.prepare(PodInfo::read(&pod("next", "p", spec)));
    assert!(schedule_pod(&pending, &cache).is_err());
    assert_eq!(cache.set_namespace("default", Some(&team("x"))), Blockers::PODS);
    assert!(schedule_pod(&pending, &cache).is_ok());
    assert_eq!(cache.set_namespace("default", Some(&team("x"))), Blockers::NONE);
    cache.set_namespace("default", Some(&team("y")));
    assert!(schedule_pod(&pending, &cache).is_err());
}

#[test]
fn the_first_pod_that_matches_its_own_affinity_fits_any_labelled_node() {
    let own = json!({ "labelSelector": { "matchLabels": { "app": "p" } } });
    let spec = affinity("podAffinity", ZONE, own);
    let nodes = [node("a", "1", json!({})), node("b", "2", json!({}))];
    let mut empty = cache_with(&nodes, &[]);
    assert_eq!(placed(&mut empty, &pod("next", "p", spec.clone())), "a");
    assert_eq!(
        reasons(&mut empty, &pod("next", "q", spec.clone())),
        "2 node(s) didn't match pod affinity rules"
    );
    let mut second = cache_with(&nodes, &[on("b", pod("p0", "p", json!({})))]);
    assert_eq!(placed(&mut second, &pod("next", "p", spec)), "b");
}

#[test]
fn all_required_affinity_terms_must_match_the_same_pod() {
    let term = |app: &str, key: &str| {
        json!({
            "topologyKey": key, "labelSelector": { "matchLabels": { "app": app } },
        })
    };
    let spec = json!({ "affinity": { "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [term("x", ZONE), term("y", HOSTNAME)],
    } } });
    let bound = [on("a", pod("x", "x", json!({}))), on("a", pod("y", "y", json!({})))];
    let mut cache = cache_with(&[node("a", "1", json!({}))], &bound);
    assert_eq!(
        reasons(&mut cache, &pod("next", "p", spec)),
        "1 node(s) didn't match pod affinity rules",
        "no pod is both x and y"
    );
}

#[test]
fn anti_affinity_of_bound_pods_rejects_new_pods() {
    let shy = affinity(
        "podAntiAffinity",
        ZONE,
        json!({
            "labelSelector": { "matchLabels": { "app": "p" } },
        }),
    );
    let nodes = [node("a", "1", json!({})), node("b", "1", json!({}))];
    let mut cache = cache_with(&nodes, &[on("a", pod("shy", "shy", shy))]);
    let next = pod("next", "p", json!({}));
    let refused = "2 node(s) didn't satisfy existing pods anti-affinity rules";
    assert_eq!(reasons(&mut cache, &next), refused);
    assert_eq!(placed(&mut cache, &pod("next", "q", json!({}))), "b", "others may come");
    cache.remove_pod(&key("shy"));
    assert_ne!(reasons(&mut cache, &next), refused);
}
