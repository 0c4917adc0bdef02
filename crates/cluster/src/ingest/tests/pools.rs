//! Tests of reading NodePools: fields, readiness and diagnostics.

use jiff::SignedDuration;
use karpenter_core::disruption::Reason;
use karpenter_core::snapshot::Pool;

use super::*;

fn pool(name: &str, spec: Value, template: Value) -> Value {
    let mut json = json!({"metadata": {"name": name}, "spec": {"template": {"spec": {
        "requirements": [],
        "nodeClassRef": {"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default"},
    }}}});
    for (key, value) in spec.as_object().unwrap() {
        json["spec"][key] = value.clone();
    }
    for (key, value) in template.as_object().unwrap() {
        json["spec"]["template"]["spec"][key] = value.clone();
    }
    json
}

#[track_caller]
fn read(pools: Vec<Value>, settings: &Settings) -> IngestResult {
    let node_pools = pools.into_iter().map(object).collect();
    snapshot(&Objects { node_pools, ..Objects::default() }, settings)
}

#[test]
fn nodepools_are_read_completely() {
    let mut json = pool(
        "general",
        json!({"weight": 7, "limits": {"cpu": "10", "nodes": "3"}, "disruption": {"consolidateAfter": "30s"}}),
        json!({
            "requirements": [
                {"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"], "minValues": 2},
                {"key": "karpenter.test.sh/instance-cpu", "operator": "Lte", "values": ["16"]},
            ],
            "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "agent", "effect": "NoExecute"}],
        }),
    );
    json["spec"]["template"]["metadata"] = json!({"labels": {"team": "a"}});
    let found = read(vec![json], &settings()).snapshot.pools.remove(0);
    let Pool {
        name, weight, requirements, labels, taints, startup_taints, limits, node_class, ..
    } = &found;
    assert_eq!((name.as_str(), *weight), ("general", Some(7)));
    assert_eq!(
        requirements.to_string(),
        "karpenter.test.sh/instance-cpu Exists <=16, kubernetes.io/arch In [amd64 arm64] minValues 2"
    );
    assert_eq!(labels["team"], "a");
    assert_eq!(
        (taints[0].to_string(), startup_taints[0].to_string()),
        ("team=a:NoSchedule".to_owned(), "agent:NoExecute".to_owned())
    );
    assert_eq!(limits.json(), r#"{"cpu":"10","nodes":"3"}"#);
    assert_eq!(node_class.kind, "TestNodeClass");
    assert_eq!(found.consolidate_after, Some(SignedDuration::from_secs(30)));
}

#[test]
fn consolidate_after_defaults_to_zero() {
    #[rustfmt::skip]
    let cases = [
        (json!({}),                                          Some(SignedDuration::ZERO)),
        (json!({"disruption": {}}),                          Some(SignedDuration::ZERO)),
        (json!({"disruption": {"consolidateAfter": "Never"}}), None),
    ];
    for (spec, expected) in cases {
        let found = read(vec![pool("p", spec.clone(), json!({}))], &settings());
        assert_eq!(found.snapshot.pools[0].consolidate_after, expected, "{spec}");
    }
}

#[test]
fn unusable_nodepools_are_reported() {
    let mut deleting = pool("deleting", json!({}), json!({}));
    deleting["metadata"]["deletionTimestamp"] = json!("2025-06-01T00:00:00Z");
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"});
    let bad = json!([{"key": "a", "operator": "Gt", "values": ["x"]}]);
    let pools = vec![
        deleting,
        pool("static", json!({"replicas": 3}), json!({})),
        pool("theirs", json!({}), json!({"nodeClassRef": class})),
        pool("invalid", json!({}), json!({"requirements": bad})),
        pool("limits", json!({"limits": {"cpu": "x"}}), json!({})),
        pool("fine", json!({}), json!({})),
        pool("fine", json!({}), json!({})),
    ];
    let ingested = read(pools, &settings());
    let marks = diagnostics(&ingested);
    let expected = [
        "-NodePool /deleting: is being deleted",
        "-NodePool /static: static: its replicas are kept whatever pods ask for",
        "-NodePool /theirs: EC2NodeClass.karpenter.k8s.aws is not ours",
    ];
    assert_eq!(marks[..3], expected);
    assert!(marks[3].contains("key a with operator Gt must have a single positive integer value"));
    assert!(marks[4].starts_with("-!NodePool /limits: "), "{}", marks[4]);
    assert_eq!(marks[5], "-!NodePool /fine: another pool has the same name");
    assert_eq!(ingested.snapshot.pools.len(), 1);
}

#[test]
fn nodepools_without_conditions_count_as_ready_only_in_files() {
    let with_status = |name: &str, status: &str| {
        let mut json = pool(name, json!({}), json!({}));
        json["status"] = json!({"conditions": [{"type": "Ready", "status": status, "reason": "", "message": "",
            "lastTransitionTime": "2025-06-01T00:00:00Z"}]});
        json
    };
    let pools =
        vec![with_status("a", "True"), with_status("b", "False"), pool("c", json!({}), json!({}))];
    let strict = Settings { assume_pools_ready: false, ..settings() };
    let ingested = read(pools.clone(), &strict);
    assert_eq!(
        diagnostics(&ingested),
        ["-NodePool /b: is not ready", "-NodePool /c: is not ready"]
    );
    assert!(!ingested.snapshot.managed_pools["c"].is_ready);
    let ingested = read(pools, &settings());
    assert_eq!(diagnostics(&ingested), ["-NodePool /b: is not ready"]);
    let is_ready = |name: &str| ingested.snapshot.managed_pools[name].is_ready;
    assert_eq!(["a", "b", "c"].map(is_ready), [true, false, true]);
}

#[test]
fn a_not_ready_nodepool_is_reported_with_its_reason() {
    let why = |class: &str, message: &str| {
        let condition = |kind: &str, status: &str, message: &str| {
            json!({"type": kind, "status": status, "reason": "", "message": message,
                "lastTransitionTime": "2025-06-01T00:00:00Z"})
        };
        let mut json = pool("a", json!({}), json!({}));
        json["status"] = json!({"conditions": [
            condition("Ready", "False", "NodeClassReady=False"),
            condition("ValidationSucceeded", "True", ""),
            condition("NodeClassReady", class, message),
        ]});
        diagnostics(&read(vec![json], &Settings { assume_pools_ready: false, ..settings() }))
    };
    let expected = |why: &str| vec![format!("-NodePool /a: is not ready: {why}")];
    let missing = "NodeClass not found on cluster";
    assert_eq!(why("False", missing), expected(&format!("NodeClassReady: {missing}")));
    assert_eq!(why("Unknown", ""), expected("NodeClassReady is Unknown"));
    assert_eq!(why("True", ""), expected("Ready: NodeClassReady=False"));
}

#[test]
fn numbers_that_the_api_server_rejects_invalidate_a_nodepool_file() {
    #[rustfmt::skip]
    let cases = [
        (json!({"weight": 100}),          None),
        (json!({"weight": 0}),            Some("spec.weight must be 1 to 100, is 0")),
        (json!({"weight": -3}),           Some("spec.weight must be 1 to 100, is -3")),
        (json!({"weight": 101}),          Some("spec.weight must be 1 to 100, is 101")),
        (json!({"limits": {"cpu": "0"}}), None),
        (json!({"limits": {"cpu": "-1m"}}), Some("spec.limits[cpu] must not be negative")),
        (json!({"replicas": -1}),         Some("spec.replicas must not be negative, is -1")),
    ];
    for (spec, expected) in cases {
        let ingested = read(vec![pool("p", spec.clone(), json!({}))], &settings());
        let expected: Vec<_> =
            expected.map(|text| format!("-!NodePool /p: {text}")).into_iter().collect();
        assert_eq!(diagnostics(&ingested), expected, "{spec}");
    }
}

#[test]
fn an_invalid_disruption_block_is_reported_and_blocks_disruption() {
    let budget = |budget: Value| json!({"budgets": [{"nodes": "5"}, budget]});
    let at = "spec.disruption.budgets[1]: ";
    let window = "'schedule' must be set with 'duration'";
    let nodes = "nodes must be a number of nodes, or a percentage from 0% to 100%, is ";
    #[rustfmt::skip]
    let cases = [
        (json!({"consolidationPolicy": "WhenBored"}),
            r#"spec.disruption.consolidationPolicy: "WhenBored" is none of WhenEmpty, WhenEmptyOrUnderutilized, Balanced"#.to_owned()),
        (budget(json!({"nodes": "0", "schedule": "@daily"})), format!("{at}{window}")),
        (budget(json!({"nodes": "0", "duration": "1h"})), format!("{at}{window}")),
        (budget(json!({"nodes": "0", "reasons": ["Bored"]})),
            format!(r#"{at}reason "Bored" is none of Underutilized, Empty, Drifted, Unhealthy"#)),
        (budget(json!({"nodes": "150%"})), format!(r#"{at}{nodes}"150%""#)),
        (budget(json!({"nodes": "-1"})), format!(r#"{at}{nodes}"-1""#)),
    ];
    let settings = Settings { assume_pools_ready: true, ..settings() };
    for (disruption, expected) in cases {
        let json = pool("a", json!({"disruption": disruption}), json!({}));
        let found = read(vec![json], &settings);
        let reasons: Vec<_> =
            found.diagnostics.iter().map(|marked| marked.reason.clone()).collect();
        assert_eq!(reasons, [expected], "{disruption}");
        assert!(found.snapshot.pools.is_empty(), "{disruption}: nothing is launched from it");
        let managed = &found.snapshot.managed_pools["a"];
        if disruption.get("consolidationPolicy").is_some() {
            assert_eq!(managed.pool.consolidate_after, None, "{disruption}: never");
        }
        let strict = &managed.budgets;
        let strict = strict.iter().filter(|budget| budget.nodes == "0");
        let now = settings.now;
        for budget in strict {
            assert_eq!(budget.allowed(10, now), Ok(0), "{disruption}: at all times");
            assert!(Reason::ALL.into_iter().all(|reason| budget.covers(reason)), "{disruption}");
        }
    }
}
