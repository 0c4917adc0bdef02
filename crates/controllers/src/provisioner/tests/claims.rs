//! Tests of the NodeClaims that the provisioner creates (spec 20 §5).

use std::collections::BTreeSet;

use karpenter_api::requirement::Requirement;

use super::*;

/// The one claim for a pod.
async fn claim_of(bench: &Bench, pool_changes: &Value, pod_changes: &Value) -> NodeClaim {
    bench.create(pool(POOL, pool_changes)).await;
    bench.create(pending("web", pod_changes)).await;
    bench.pass(BATCH).await;
    let claims = claims(bench);
    assert_eq!(claims.len(), 1, "{:?}", bench.events());
    claims.into_iter().next().unwrap()
}

fn with_requirement(key: &str, operator: &str, values: &[&str]) -> Value {
    let requirement = json!({"key": key, "operator": operator, "values": values});
    json!({"spec": {"template": {"spec": {"requirements": [requirement]}}}})
}

fn values<'a>(claim: &'a NodeClaim, key: &str) -> BTreeSet<&'a str> {
    let of_key =
        |requirement: &&Requirement| requirement.key == key && requirement.operator == "In";
    let found = claim.spec.requirements.iter().find(of_key);
    found.into_iter().flat_map(|found| found.values.iter().flatten()).map(String::as_str).collect()
}

const TYPE: &str = "node.kubernetes.io/instance-type";

#[tokio::test(start_paused = true)]
async fn a_claim_names_its_pool_and_all_types_that_fit() {
    let bench = bench().await;
    let claim = claim_of(&bench, &json!({}), &requesting(&json!({"cpu": "3"}))).await;
    // One has two CPUs; the other three have devices, or another architecture, and fit as well.
    let types = values(&claim, TYPE);
    assert!(types.contains("default-instance-type"), "20/E1 {types:?}");
    assert!(!types.contains("small-instance-type"), "20/E1 {types:?}");
    assert_eq!(values(&claim, "karpenter.sh/nodepool"), BTreeSet::from([POOL]), "20/E1");
    let owner = &claim.metadata.owner_references.as_ref().unwrap()[0];
    let pool: NodePool = bench.get("", POOL).await.unwrap();
    assert_eq!(
        (owner.api_version.as_str(), owner.kind.as_str(), owner.name.as_str(), &owner.uid),
        ("karpenter.sh/v1", "NodePool", POOL, &pool.uid().unwrap()),
        "20/E1"
    );
    assert_eq!((owner.block_owner_deletion, owner.controller), (Some(true), None), "20/E1");
    assert!(claim.name_any().starts_with(&format!("{POOL}-")), "20/E1");
}

type Holds<'a> = &'a dyn Fn(Option<&str>) -> bool;

#[tokio::test(start_paused = true)]
async fn requirements_of_custom_keys_become_labels() {
    let number = |text: &str| text.parse::<i64>().unwrap();
    let cases: [(&str, &[&str], Holds<'_>); 6] = [
        ("In", &["a"], &|label| label == Some("a")),
        ("NotIn", &["a"], &|label| label.is_some_and(|label| label != "a")),
        ("Lt", &["4"], &|label| label.is_some_and(|label| number(label) < 4)),
        ("Gt", &["5"], &|label| label.is_some_and(|label| number(label) > 5)),
        ("Exists", &[], &|label| label.is_some()),
        ("DoesNotExist", &[], &|label| label.is_none()),
    ];
    for (operator, of, holds) in cases {
        let bench = bench().await;
        let changes = with_requirement("example.com/key", operator, of);
        let claim = claim_of(&bench, &changes, &json!({})).await;
        let label = claim.labels().get("example.com/key").map(String::as_str);
        assert!(holds(label), "20/E2 {operator}: {label:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn well_known_keys_are_left_to_the_provider() {
    let bench = bench().await;
    let changes = with_requirement("node.kubernetes.io/windows-build", "NotIn", &["10.0"]);
    let claim = claim_of(&bench, &changes, &json!({})).await;
    assert_eq!(claim.labels().get("node.kubernetes.io/windows-build"), None, "20/E3");
}

#[tokio::test(start_paused = true)]
async fn labels_of_the_template_are_on_the_claim() {
    let bench = bench().await;
    let labels = json!({"node-restriction.kubernetes.io/a": "1", "kops.k8s.io/b": "2"});
    let changes = json!({"spec": {"template": {"metadata": {"labels": labels}}}});
    let claim = claim_of(&bench, &changes, &json!({})).await;
    for (key, value) in labels.as_object().unwrap() {
        assert_eq!(claim.labels().get(key).map(String::as_str), value.as_str(), "20/E4");
    }
}

#[tokio::test(start_paused = true)]
async fn extended_resources_narrow_the_instance_types() {
    let bench = bench().await;
    let requests = json!({"cpu": "1", "memory": "1Gi", "fake.com/vendor-a": "1"});
    let container = json!({"name": "main", "image": "none",
        "resources": {"requests": requests, "limits": {"fake.com/vendor-a": "1"}}});
    let claim = claim_of(&bench, &json!({}), &json!({"spec": {"containers": [container]}})).await;
    assert_eq!(values(&claim, TYPE), BTreeSet::from(["gpu-vendor-instance-type"]), "20/E5");
    let requests = claim.spec.resources.unwrap().requests.unwrap();
    let names: Vec<&str> = requests.keys().map(String::as_str).collect();
    assert_eq!(names, ["cpu", "fake.com/vendor-a", "memory", "pods"], "20/E5");
}

#[tokio::test(start_paused = true)]
async fn the_provider_sets_the_default_termination_grace_period() {
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    let of_pool = json!({"spec": {"template": {"spec": {"terminationGracePeriod": "223h"}}}});
    for (changes, expected) in [(json!({}), "98h0m0s"), (of_pool, "223h0m0s")] {
        let bench = bench().await;
        bench.cloud.set_default_termination_grace_period(hours(98));
        let claim = claim_of(&bench, &changes, &json!({})).await;
        let period = claim.spec.termination_grace_period.map(|period| period.to_string());
        assert_eq!(period.as_deref(), Some(expected), "20/E7");
    }
}

#[tokio::test(start_paused = true)]
async fn architecture_and_os_narrow_the_instance_types() {
    for (key, value) in [("kubernetes.io/arch", "arm64"), ("kubernetes.io/os", "ios")] {
        let bench = bench().await;
        let claim = claim_of(&bench, &with_requirement(key, "In", &[value]), &json!({})).await;
        assert_eq!(values(&claim, TYPE), BTreeSet::from(["arm-instance-type"]), "20/E8 {key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_over_its_limit_does_not_block_other_pools() {
    let bench = Bench::new().await;
    for (name, limit) in [("full", "10"), ("free", "1000")] {
        let changes = json!({"spec": {
            "limits": {"cpu": limit},
            "template": {"metadata": {"labels": {"example.com/team": name}}},
        }});
        bench.create(pool(name, &changes)).await;
        let select = json!({"spec": {"nodeSelector": {"example.com/team": name}}});
        bench.create(pending(&format!("web-{name}"), &select)).await;
    }
    let decided = super::super::decision::decide(&bench.context).await.unwrap().expect("pods wait");
    // It is used up between the decision and the creation.
    let grown = node_claim(
        "grown",
        &json!({
            "metadata": {"labels": {"karpenter.sh/nodepool": "full"}},
            "status": {"providerID": "fake:///grown", "capacity": {"cpu": "11"}},
        }),
    );
    bench.create(grown).await;
    let error = super::super::claim_creation::create_claims(&bench.context, &decided)
        .await
        .expect_err("one is over");
    let error = error.to_string();
    assert!(error.contains("resource usage exceeds limit"), "20/E11 {error}");
    let made: Vec<String> = claims(&bench)
        .iter()
        .filter_map(|claim| claim.labels().get("karpenter.sh/nodepool").cloned())
        .collect();
    assert_eq!(made, ["free", "full"], "20/E11 the one that was there, and the other pool's");
}
