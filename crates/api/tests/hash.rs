//! Drift hashes against upstream's own numbers (spec 10 §12).

use karpenter_api::ec2_nodeclass::Ec2NodeClassSpec;
use karpenter_api::hash::{ec2_node_class_hash, nodepool_hash};
use karpenter_api::nodepool::NodePoolSpec;
use serde_json::{Value, json};

/// RFC 7386: what the rows below do to their base.
#[track_caller]
fn patched(mut base: Value, patch: &Value) -> Value {
    fn merge(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        let target = target.as_object_mut().expect("just made one");
        for (key, value) in patch {
            if value.is_null() {
                target.shift_remove(key);
            } else {
                merge(target.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
    }
    merge(&mut base, patch);
    base
}

#[track_caller]
fn template(value: &Value) -> String {
    pool(json!({"template": value}))
}

#[track_caller]
fn pool(spec: Value) -> String {
    nodepool_hash(&serde_json::from_value::<NodePoolSpec>(spec).expect("a spec"))
}

#[track_caller]
fn class(value: &Value, ca_bundle: &str) -> String {
    let lists = json!({"subnetSelectorTerms": [], "securityGroupSelectorTerms": [], "amiSelectorTerms": []});
    let spec: Ec2NodeClassSpec = serde_json::from_value(patched(lists, value)).expect("a spec");
    ec2_node_class_hash(&spec, ca_bundle)
}

/// Returns the node class of upstream's own hash test.
fn base_node_class() -> Value {
    json!({
        "role": "role-1",
        "tags": {"keyTag-1": "valueTag-1", "keyTag-2": "valueTag-2"},
        "context": "fake-context",
        "detailedMonitoring": false,
        "associatePublicIPAddress": false,
        "metadataOptions": {
            "httpEndpoint": "disabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": 1,
            "httpTokens": "optional",
        },
        "blockDeviceMappings": [block_device("2G"), {"deviceName": "map-device-2"}],
        "userData": "userdata-test-1",
    })
}

fn block_device(size: &str) -> Value {
    json!({"deviceName": "map-device-1", "ebs": {
        "deleteOnTermination": false,
        "encrypted": false,
        "iops": 0,
        "kmsKeyID": "fakeKMSKeyID",
        "snapshotID": "fakeSnapshot",
        "throughput": 0,
        "volumeSize": size,
        "volumeType": "standard",
    }})
}

#[test]
fn node_class_hashes_match_upstream() {
    #[rustfmt::skip]
    let cases = [
        ("10/H-2", json!({}), "11148166120438674859"),
        ("10/H-4", json!({"userData": "userdata-test-2"}), "11774429238106843388"),
        ("10/H-5", json!({"tags": {"keyTag-test-3": "valueTag-test-3"}}), "9327338697296909506"),
        ("10/H-6", json!({"detailedMonitoring": true}), "1936848126751988570"),
        ("10/H-7", json!({"instanceStorePolicy": "RAID0"}), "16697988646989909967"),
        ("10/H-8", json!({"blockDeviceMappings": [block_device("10G"), {"deviceName": "map-device-2"}]}), "10372902467896351912"),
        ("10/H-9", json!({"role": null, "instanceProfile": "test-instance-profile"}), "10323991363677716244"),
        ("10/H-10", json!({"connectionTracking": {"tcpEstablishedTimeout": 300}}), "1619669030802245540"),
        ("10/H-11", json!({"cpuOptions": {"nestedVirtualization": "enabled"}}), "6157846767212910604"),
        ("10/H-12", json!({"blockDeviceMappings": [{"deviceName": "map-device-2"}, block_device("2G")]}), "11148166120438674859"),
        ("10/H-12", json!({"subnetSelectorTerms": [{"id": "subnet-1"}]}), "11148166120438674859"),
        ("10/H-12", json!({"securityGroupSelectorTerms": [{"id": "sg-1"}]}), "11148166120438674859"),
        ("10/H-12", json!({"amiSelectorTerms": [{"id": "ami-1"}]}), "11148166120438674859"),
        ("10/H-12", json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}), "11148166120438674859"),
        ("10/HS-10", json!({"ipPrefixCount": 3}), "11148166120438674859"),
    ];
    for (id, patch, want) in cases {
        let got = class(&patched(base_node_class(), &patch), "test-ca-bundle");
        assert_eq!(got, want, "{id}: {patch}");
    }
}

#[test]
fn enclave_options_change_the_hash() {
    let hash = |patch: &Value| class(&patched(base_node_class(), patch), "test-ca-bundle");
    let absent = hash(&json!({}));
    let off = hash(&json!({"enclaveOptions": {"enabled": false}}));
    let on = hash(&json!({"enclaveOptions": {"enabled": true}}));
    assert_eq!(absent, "11148166120438674859", "55/UP-N4: absent");
    assert!(absent != off && off != on && absent != on, "55/UP-N4: added, changed, removed");
}

#[test]
fn hashes_of_plain_texts_are_fnv_1() {
    // The hash of an empty spec's parts shows through: everything but the CA bundle cancels.
    let number = |ca| class(&json!({}), ca).parse::<u64>().expect("a number");
    let (empty, null) = (14_695_981_039_346_656_037, 13_728_408_170_730_661_446);
    assert_eq!(number("") ^ number("null"), empty ^ null, "10/H-1");
}

#[test]
fn released_node_class_hashes_differ_by_a_constant() {
    let v6: u64 = class(&base_node_class(), "test-ca-bundle").parse().expect("a number");
    let null: u64 = 13_728_408_170_730_661_446;
    assert_eq!(v6 ^ null, 2_608_468_723_537_941_485, "10/H-3");
}

#[test]
fn the_hash_uses_the_resolved_ami_family() {
    let alias = json!({"amiSelectorTerms": [{"alias": "al2023@latest"}]});
    let hash = |family: Value| {
        class(&patched(patched(base_node_class(), &alias), &json!({"amiFamily": family})), "")
    };
    assert_eq!(hash(Value::Null), hash(json!("AL2023")), "10/HS-8");
    assert_ne!(hash(Value::Null), hash(json!("Custom")));
}

#[test]
fn the_hash_uses_the_kubelet_settings_as_json_text() {
    let demo = json!({
        "role": "KarpenterNodeRole-demo",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": 1,
            "httpTokens": "required",
        },
    });
    let with = |kubelet: Value| class(&patched(demo.clone(), &json!({"kubelet": kubelet})), "");
    assert_eq!(class(&demo, ""), "477699353285763520", "10/H-13");
    assert_eq!(with(json!({})), "477699353285763520", "10/H-13: an empty kubelet is none");
    assert_eq!(with(json!({"maxPods": 110})), "15797341907823663569", "10/H-13");
    assert_ne!(with(json!({"maxPods": 12})), with(json!({"maxPods": 21})), "10/HS-9");
    assert_eq!(
        with(json!({"maxPods": 1, "clusterDNS": ["a"]})),
        with(json!({"clusterDNS": ["a"], "maxPods": 1})),
        "keys of the first level are sorted"
    );
    assert_ne!(
        with(json!({"logging": {"format": "json", "verbosity": 1}})),
        with(json!({"logging": {"verbosity": 1, "format": "json"}})),
        "nested text counts as it is stored"
    );
}

#[test]
fn nodepool_hashes_match_upstream() {
    let base = json!({"spec": {
        "requirements": [],
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "expireAfter": "720h",
    }});
    #[rustfmt::skip]
    let cases = [
        ("10/H-14", json!({}), "6821555240594823858"),
        ("10/H-15", json!({"spec": {"expireAfter": "Never"}}), "17369979337536258260"),
        ("10/H-15", json!({"spec": {"expireAfter": "0s"}}), "15640125381500602090"),
        ("10/H-16", json!({"metadata": {"labels": {"team": "a"}}}), "1617844334411263980"),
        ("10/H-16", json!({"spec": {"terminationGracePeriod": "5m"}}), "10273107103804485302"),
        ("10/H-16", json!({"spec": {"taints": [{"key": "key", "effect": "NoExecute"}]}}), "15281566306854132110"),
        ("10/DU-1", json!({"spec": {"expireAfter": "43200m"}}), "6821555240594823858"),
    ];
    for (id, patch, want) in cases {
        assert_eq!(template(&patched(base.clone(), &patch)), want, "{id}: {patch}");
    }
    let hash = |patch: Value| template(&patched(base.clone(), &patch));
    assert_ne!(
        hash(json!({"metadata": {"labels": {}}})),
        hash(json!({"metadata": {}})),
        "10/HS-11"
    );
    let labelled = |value: &str| hash(json!({"metadata": {"labels": {"a": value}}}));
    assert_ne!(labelled("b"), labelled("c"), "10/HS-1");
    assert_eq!(
        hash(json!({"metadata": {"annotations": {"a": "1", "b": "2"}}})),
        hash(json!({"metadata": {"annotations": {"b": "2", "a": "1"}}})),
        "10/HS-1"
    );
}

#[test]
fn the_nodepool_hash_covers_the_template_without_requirements() {
    let hash = |patch: Value| {
        let base = json!({"template": {"spec": {
            "requirements": [],
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"},
        }}});
        pool(patched(base, &patch))
    };
    for patch in [
        json!({"limits": {"cpu": "10"}}),
        json!({"disruption": {"consolidateAfter": "1m", "consolidationPolicy": "WhenEmpty"}}),
        json!({"disruption": {"budgets": [{"nodes": "0"}]}}),
        json!({"weight": 7}),
        json!({"replicas": 3}),
        json!({"template": {"spec": {"requirements": [{"key": "a", "operator": "Exists"}]}}}),
    ] {
        assert_eq!(hash(patch.clone()), hash(json!({})), "10/HS-2: {patch}");
    }
}

/// Random templates and specs with the numbers that upstream's code gave for them.
#[test]
fn a_hundred_more_hashes_match_upstream() {
    let goldens: Value = serde_json::from_str(include_str!("data/hashes.json")).expect("JSON");
    for row in goldens["nodePools"].as_array().expect("a list") {
        assert_eq!(template(&row["template"]), row["hash"], "{}", row["template"]);
    }
    for row in goldens["nodeClasses"].as_array().expect("a list") {
        let text = |key: &str| row[key].as_str().expect("a text").to_owned();
        let got = class(&row["spec"], &text("caBundle"));
        assert_eq!(got, text("hash"), "{}", row["spec"]);
    }
}
