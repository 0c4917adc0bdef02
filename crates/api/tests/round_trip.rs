//! Reading an object and writing it back loses nothing (spec 10 §15.1).

use karpenter_api::capacity_buffer::CapacityBuffer;
use karpenter_api::ec2_nodeclass::Ec2NodeClass;
use karpenter_api::kwok_nodeclass::KwokNodeClass;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodeoverlay::NodeOverlay;
use karpenter_api::nodepool::NodePool;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[track_caller]
fn read<K: DeserializeOwned>(object: &Value) -> K {
    serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"))
}

#[track_caller]
fn written_back<K: DeserializeOwned + Serialize>(object: &Value) -> Value {
    serde_json::to_value(read::<K>(object)).expect("a kind can be written")
}

#[track_caller]
fn check<K: DeserializeOwned + Serialize>(object: &Value) {
    assert_eq!(&written_back::<K>(object), object);
}

fn requirement() -> Value {
    json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"], "minValues": 1})
}

fn taints() -> Value {
    json!([{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "2024-01-02T03:04:05Z"}])
}

fn conditions() -> Value {
    json!([{
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": "2024-01-02T03:04:05Z",
        "observedGeneration": 2,
    }])
}

fn node_class_ref() -> Value {
    json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"})
}

#[test]
fn nodepool() {
    check::<NodePool>(&json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"},
        "spec": {
            "template": {
                "metadata": {"labels": {}, "annotations": {"a": "b"}},
                "spec": {
                    "taints": taints(), "startupTaints": [], "requirements": [requirement()],
                    "nodeClassRef": node_class_ref(), "terminationGracePeriod": "48h0m0s", "expireAfter": "720h",
                },
            },
            "disruption": {
                "consolidateAfter": "Never", "consolidationPolicy": "Balanced",
                "budgets": [
                    {"nodes": "10%", "reasons": ["Empty"], "schedule": "@daily", "duration": "8h0m0s"},
                    {"nodes": "0", "reasons": []},
                ],
            },
            "limits": {"cpu": "1000m", "memory": 5, "nodes": "1e3"}, "weight": 10, "replicas": 0,
        },
        "status": {
            "resources": {"cpu": "0", "memory": "1Gi"}, "nodes": 0, "nodeClassObservedGeneration": 1,
            "conditions": conditions(),
        },
    }));
}

#[test]
fn nodeclaim() {
    check::<NodeClaim>(&json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "general-x7"},
        "spec": {
            "taints": taints(), "startupTaints": taints(), "requirements": [requirement()],
            "resources": {"requests": {"cpu": "250m"}}, "nodeClassRef": node_class_ref(),
            "terminationGracePeriod": "0s", "expireAfter": "90m",
        },
        "status": {
            "nodeName": "n", "providerID": "aws:///us-west-2a/i-1", "imageID": "ami-1",
            "capacity": {"cpu": "2"}, "allocatable": {"cpu": "1930m"},
            "lastPodEventTime": "2024-01-02T03:04:05Z", "conditions": conditions(),
        },
    }));
}

#[test]
fn conditions_of_old_releases_can_be_read() {
    let claim: NodeClaim = read(&json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "old"},
        "spec": {"requirements": [], "nodeClassRef": node_class_ref()},
        "status": {"conditions": [{"type": "Launched", "status": "True", "lastTransitionTime": "2023-01-01T00:00:00Z"}]},
    }));
    let conditions = claim.status.and_then(|status| status.conditions).expect("conditions");
    assert_eq!(
        (conditions[0].reason.as_str(), conditions[0].message.as_str()),
        ("", ""),
        "10/NC-11"
    );
}

#[test]
fn nodeoverlay() {
    check::<NodeOverlay>(&json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "o"},
        "spec": {
            "requirements": [{"key": "a", "operator": "Gt", "values": ["1"]}],
            "priceAdjustment": "-10%", "price": "1.5", "capacity": {"smarter-devices/fuse": 1}, "weight": 3,
        },
        "status": {"conditions": conditions()},
    }));
}

#[test]
fn capacity_buffer() {
    check::<CapacityBuffer>(&json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {
            "provisioningStrategy": "buffer.x-k8s.io/active-capacity", "podTemplateRef": {"name": "t"},
            "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"},
            "replicas": 0, "percentage": 20, "limits": {"cpu": "4"},
        },
        "status": {
            "podTemplateRef": {"name": "t"}, "replicas": 0, "podTemplateGeneration": 1,
            "conditions": conditions(), "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
        },
    }));
}

#[test]
fn ec2_node_class() {
    check::<Ec2NodeClass>(&json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {
            "subnetSelectorTerms": [{"tags": {"a": "b"}}, {"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"name": "nodes"}],
            "capacityReservationSelectorTerms": [{"ownerID": "123456789012", "instanceMatchCriteria": "open", "tags": {}}],
            "placementGroupSelector": {"id": "pg-1"}, "associatePublicIPAddress": false, "ipPrefixCount": 1,
            "amiSelectorTerms": [{"alias": "al2023@latest"}], "amiFamily": "Custom", "userData": "",
            "role": "r", "instanceProfile": "p", "tags": {},
            "kubelet": {"maxPods": 110, "logging": {"verbosity": 3, "format": "json"}, "evictionHard": {"memory.available": "5%"}, "unheardOf": [1.5, null]},
            "blockDeviceMappings": [{"deviceName": "/dev/xvda", "rootVolume": false, "ebs": {
                "deleteOnTermination": true, "encrypted": true, "iops": 3000, "kmsKeyID": "k", "snapshotID": "s",
                "throughput": 125, "volumeInitializationRate": 100, "volumeSize": "1024Gi", "volumeType": "gp3",
            }}],
            "instanceStorePolicy": "RAID0",
            "networkInterfaces": [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}],
            "detailedMonitoring": true,
            "metadataOptions": {"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1, "httpTokens": "required"},
            "connectionTracking": {"tcpEstablishedTimeout": 60, "udpStreamTimeout": 60, "udpTimeout": 30},
            "context": "c", "cpuOptions": {"nestedVirtualization": "enabled"}, "enclaveOptions": {"enabled": false},
        },
        "status": {
            "subnets": [{"id": "subnet-1", "zone": "a", "zoneID": "use1-az1"}],
            "securityGroups": [{"id": "sg-1", "name": "nodes"}],
            "capacityReservations": [{
                "availabilityZone": "a", "endTime": "2030-01-01T00:00:00Z", "id": "cr-1", "instanceMatchCriteria": "open",
                "instanceType": "m5.large", "interruptible": false, "ownerID": "123456789012", "reservationType": "default", "state": "active",
            }],
            "amis": [{"id": "ami-1", "deprecated": false, "name": "n", "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}],
            "instanceProfile": "p", "conditions": conditions(),
        },
    }));
}

#[test]
fn kubelet_subtrees_keep_their_order() {
    let text = r#"{"logging":{"verbosity":3,"format":"json"},"a":1}"#;
    let class: Ec2NodeClass = read(&json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {},
        "spec": {
            "subnetSelectorTerms": [], "securityGroupSelectorTerms": [], "amiSelectorTerms": [],
            "kubelet": serde_json::from_str::<Value>(text).expect("JSON"),
        },
    }));
    assert_eq!(serde_json::to_string(&class.spec.kubelet).expect("JSON"), text, "10/EC-22");
}

#[test]
fn node_classes_without_a_spec_can_be_read() {
    let kwok: KwokNodeClass = read(&json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
    }));
    assert_eq!(kwok.spec.node_registration_delay, None);
    let aws: Ec2NodeClass = read(&json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
    }));
    assert!(aws.spec.ami_selector_terms.is_empty());
    check::<KwokNodeClass>(&json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
        "spec": {"nodeRegistrationDelay": "1m30s"}, "status": {"conditions": conditions()},
    }));
}

#[test]
fn expire_after_keeps_its_text_and_other_durations_are_rewritten() {
    let pool = |expire: &str, grace: &str| {
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"},
            "spec": {"template": {"spec": {
                "requirements": [], "nodeClassRef": node_class_ref(), "expireAfter": expire, "terminationGracePeriod": grace,
            }}},
        })
    };
    for text in ["90m", "1h30m", "5400s", "Never"] {
        let written = written_back::<NodePool>(&pool(text, "90m"));
        let spec = &written["spec"]["template"]["spec"];
        assert_eq!(spec["expireAfter"], text, "10/DU-1 10/DU-2");
        assert_eq!(spec["terminationGracePeriod"], "1h30m0s", "10/DU-3");
    }
}

#[test]
fn one_invalid_duration_fails_one_object_not_the_list() {
    let pool = |expire: &str| {
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": expire.to_lowercase()},
            "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": node_class_ref(), "expireAfter": expire}}},
        })
    };
    let list: Vec<NodePool> = read(&json!([pool("9999999h"), pool("720h")]));
    let valid = |pool: &NodePool| {
        pool.spec.template.spec.expire_after.as_ref().map(|text| text.value().is_ok())
    };
    assert_eq!(list.iter().map(valid).collect::<Vec<_>>(), [Some(false), Some(true)], "10/DU-5");
}
