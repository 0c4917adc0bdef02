//! Tests of volume claims in scheduling: binding, provisioning, zones and CSI limits.

use super::*;

const DRIVER: &str = "ebs.csi.aws.com";

/// A pod that mounts claims.
fn mounting(name: &str, claims: &[&str]) -> WirePod {
    let volumes: Vec<_> = claims
        .iter()
        .map(|claim| json!({ "name": claim, "persistentVolumeClaim": { "claimName": claim } }))
        .collect();
    pod(name, "p", json!({ "volumes": volumes }))
}

fn set_claim(cache: &mut SchedulerCache, name: &str, more: Value) -> Blockers {
    let base = json!({
        "metadata": { "namespace": "default", "name": name, "uid": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "wait",
            "resources": { "requests": { "storage": "10Gi" } },
        },
    });
    cache.set_claim(&key(name), Some(&object(over(base, &more))))
}

/// A claim that is bound to a volume.
fn bound_to(volume: &str) -> Value {
    json!({
        "metadata": { "annotations": { BIND_COMPLETED: "yes" } },
        "spec": { "volumeName": volume },
    })
}

fn set_volume(cache: &mut SchedulerCache, name: &str, more: Value) -> Blockers {
    let base = json!({
        "metadata": { "name": name },
        "spec": {
            "capacity": { "storage": "10Gi" }, "accessModes": ["ReadWriteOnce"],
            "storageClassName": "wait", "csi": { "driver": DRIVER, "volumeHandle": name },
        },
    });
    cache.set_volume(&name.to_owned(), Some(&object(over(base, &more))))
}

fn in_zone(zone: &str) -> Value {
    json!({ "spec": { "nodeAffinity": { "required": { "nodeSelectorTerms": [
        { "matchExpressions": [{ "key": ZONE, "operator": "In", "values": [zone] }] },
    ] } } } })
}

fn set_class(cache: &mut SchedulerCache, name: &str, more: Value) -> Blockers {
    let base = json!({
        "metadata": { "name": name }, "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    cache.set_storage_class(&name.to_owned(), Some(&object(over(base, &more))))
}

fn two_zones() -> SchedulerCache {
    let mut cache = cache_with(&[node("a", "1", json!({})), node("b", "2", json!({}))], &[]);
    set_class(&mut cache, "wait", json!({}));
    set_class(&mut cache, "now", json!({ "volumeBindingMode": "Immediate" }));
    cache
}

#[test]
fn unready_volume_claims_reject_a_pod_before_the_node_filters() {
    let ephemeral = |name: &str| {
        pod(
            name,
            "p",
            json!({ "volumes": [
        { "name": "v", "ephemeral": { "volumeClaimTemplate": { "spec": {} } } },
    ] }),
        )
    };
    let later = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let mut cache = two_zones();
    set_claim(&mut cache, "now", json!({ "spec": { "storageClassName": "now" } }));
    set_claim(&mut cache, "classless", json!({ "spec": { "storageClassName": "" } }));
    set_claim(&mut cache, "half", json!({ "spec": { "volumeName": "v" } }));
    set_claim(&mut cache, "lost", over(bound_to("v"), &json!({ "status": { "phase": "Lost" } })));
    set_claim(&mut cache, "leaving", later);
    set_claim(&mut cache, "missing", bound_to("v"));
    set_claim(&mut cache, "e-v", json!({}));
    #[rustfmt::skip]
    let cases = vec![
        ("none",        mounting("p", &["no"]),        r#"persistentvolumeclaim "no" not found"#),
        ("immediate",   mounting("p", &["now"]),       "pod has unbound immediate PersistentVolumeClaims"),
        ("no class",    mounting("p", &["classless"]), "pod has unbound immediate PersistentVolumeClaims"),
        ("half bound",  mounting("p", &["half"]),      "pod has unbound immediate PersistentVolumeClaims"),
        ("lost",        mounting("p", &["lost"]),      r#"persistentvolumeclaim "lost" bound to non-existent persistentvolume "v""#),
        ("leaving",     mounting("p", &["leaving"]),   r#"persistentvolumeclaim "leaving" is being deleted"#),
        ("volume gone", mounting("p", &["missing"]),   r#"persistentvolume "v" not found"#),
        ("ephemeral",   ephemeral("p"),  r#"waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v""#),
        ("not its own", ephemeral("e"),  "PVC default/e-v was not created for pod default/e (pod is not owner)"),
    ];
    for (case, pod, expected) in cases {
        assert_eq!(
            placed(&mut cache, &pod),
            format!("0/2 nodes are available: {expected}. not found"),
            "{case}"
        );
    }
}

#[test]
fn a_bound_volume_restricts_its_pod_to_reachable_nodes() {
    let mut cache = two_zones();
    set_claim(&mut cache, "data", bound_to("v"));
    let next = mounting("next", &["data"]);
    #[rustfmt::skip]
    let cases = [
        ("affinity",        in_zone("2"),                                        "b"),
        ("labels",          json!({ "metadata": { "labels": { ZONE: "2" } } }),  "b"),
        ("several zones",   json!({ "metadata": { "labels": { ZONE: "2__3" } } }), "b"),
        ("old labels",      json!({ "metadata": { "labels": { "failure-domain.beta.kubernetes.io/zone": "2" } } }), "b"),
        ("nowhere",         in_zone("3"),                                        "2 node(s) didn't match PersistentVolume's node affinity"),
        ("no such zone",    json!({ "metadata": { "labels": { ZONE: "3" } } }),  "2 node(s) had no available volume zone"),
        ("anywhere",        json!({}),                                           "a"),
    ];
    for (case, more, expected) in cases {
        set_volume(&mut cache, "v", more);
        assert_eq!(reasons(&mut cache, &next), expected, "{case}");
    }
}

#[test]
fn waiting_claims_are_bound_to_the_smallest_free_volume_or_provisioned() {
    let steps = |cache: &mut SchedulerCache, pod: &WirePod| {
        let pending = cache.prepare(PodInfo::read(pod));
        let placement = schedule_pod(&pending, cache).map_err(|unfit| unfit.to_string());
        cache.release(&pending);
        placement.map(|placement| (placement.node, placement.claims))
    };
    let mut cache = two_zones();
    set_claim(&mut cache, "data", json!({}));
    let next = mounting("next", &["data"]);
    let provision = VolumeClaimStep::Provision { claim: key("data") };
    assert_eq!(steps(&mut cache, &next), Ok(("a".to_owned(), vec![provision.clone()])));

    let only_two = json!({ "allowedTopologies": [
        { "matchLabelExpressions": [{ "key": ZONE, "values": ["2"] }] },
    ] });
    set_class(&mut cache, "wait", only_two);
    assert_eq!(steps(&mut cache, &next), Ok(("b".to_owned(), vec![provision])));

    set_class(&mut cache, "wait", json!({ "provisioner": "kubernetes.io/no-provisioner" }));
    assert_eq!(
        reasons(&mut cache, &next),
        "2 node(s) didn't find available persistent volumes to bind"
    );
    let larger = json!({ "spec": { "capacity": { "storage": "20Gi" } } });
    let small = json!({ "spec": { "capacity": { "storage": "5Gi" } } });
    let taken = json!({ "spec": { "claimRef": { "name": "x" } } });
    set_volume(&mut cache, "small", over(in_zone("2"), &small));
    set_volume(&mut cache, "taken", over(in_zone("2"), &taken));
    set_volume(&mut cache, "a-larger", over(in_zone("2"), &larger));
    set_volume(&mut cache, "fitting", in_zone("2"));
    let bind = VolumeClaimStep::Bind { claim: key("data"), volume: "fitting".to_owned() };
    assert_eq!(steps(&mut cache, &next), Ok(("b".to_owned(), vec![bind])));
}

#[test]
fn a_claim_with_a_selected_node_is_provisioned_only_there() {
    let mut cache = two_zones();
    set_claim(&mut cache, "data", json!({ "metadata": { "annotations": { SELECTED_NODE: "b" } } }));
    assert_eq!(placed(&mut cache, &mounting("next", &["data"])), "b");
}

#[test]
fn a_read_write_once_pod_claim_is_used_by_one_pod() {
    let mut cache = two_zones();
    set_volume(&mut cache, "v", json!({}));
    let once = json!({ "spec": { "accessModes": ["ReadWriteOncePod"] } });
    set_claim(&mut cache, "data", over(bound_to("v"), &once));
    cache.set_pod(PodInfo::read(&on("a", mounting("first", &["data"]))));
    let next = mounting("next", &["data"]);
    assert_eq!(
        reasons(&mut cache, &next),
        "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode \
         already in-use by another pod"
    );
    assert!(cache.remove_pod(&key("first")).intersects(Blockers::VOLUMES));
    assert_eq!(placed(&mut cache, &next), "a");
}

#[test]
fn a_node_attaches_no_more_volumes_than_its_csi_driver_allows() {
    let limit = |count: i32| {
        object(json!({
            "metadata": { "name": "a" },
            "spec": { "drivers": [{ "name": DRIVER, "nodeID": "a", "allocatable": { "count": count } }] },
        }))
    };
    let mut cache = cache_with(&[node("a", "1", json!({}))], &[]);
    set_class(&mut cache, "wait", json!({}));
    for name in ["one", "two"] {
        set_volume(&mut cache, name, json!({}));
        set_claim(&mut cache, name, bound_to(name));
    }
    set_claim(&mut cache, "three", json!({}));
    cache.set_pod(PodInfo::read(&on("a", mounting("first", &["one", "two"]))));
    let refused = "1 node(s) exceed max volume count";
    #[rustfmt::skip]
    let cases = [
        ("full",              2, "three", refused),
        ("shared",            2, "one",   "a"),
        ("to be provisioned", 3, "three", "a"),
    ];
    for (case, count, claim, expected) in cases {
        cache.set_csi_node(&"a".to_owned(), Some(&limit(count)));
        assert_eq!(reasons(&mut cache, &mounting("next", &[claim])), expected, "{case}");
    }
    assert_eq!(cache.set_csi_node(&"a".to_owned(), Some(&limit(3))), Blockers::NONE);
    assert_eq!(cache.set_csi_node(&"a".to_owned(), None), Blockers::VOLUMES);
}
