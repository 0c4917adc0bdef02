//! Compares with what upstream computes for 59 instance types under 7 node classes.

use karpenter_core::resources::Resources;
use serde_json::Map;

use super::*;

#[derive(Deserialize)]
struct RecordedClass {
    #[serde(rename = "nodeClass")]
    node_class: String,
    types: BTreeMap<String, RecordedType>,
}

#[derive(Deserialize)]
struct RecordedType {
    capacity: BTreeMap<String, String>,
    allocatable: BTreeMap<String, String>,
    overhead: RecordedOverhead,
    requirements: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedOverhead {
    eviction_threshold: BTreeMap<String, String>,
    kube_reserved: BTreeMap<String, String>,
    system_reserved: BTreeMap<String, String>,
}

fn recorded() -> Vec<RecordedClass> {
    let text = include_str!("../../../../../scenarios/aws-instance-types/recorded.json");
    serde_json::from_str(text).unwrap()
}

/// Returns the node class and the reserved interfaces that a recorded name describes.
fn setting(name: &str) -> (Ec2NodeClass, u32) {
    let patch = match name {
        "al2023" | "al2023 RESERVED_ENIS=1" => json!({}),
        "al2023 instanceStorePolicy=RAID0" => json!({"instanceStorePolicy": "RAID0"}),
        "al2023 blockDeviceMappings /dev/xvda 100Gi" => json!({
            "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi"}}],
        }),
        "bottlerocket" => json!({"amiFamily": "Bottlerocket"}),
        "windows2022" => json!({"amiFamily": "Windows2022"}),
        name if name.starts_with("al2023 kubelet maxPods=42") => json!({"kubelet": {
            "maxPods": 42,
            "podsPerCore": 8,
            "kubeReserved": {"cpu": "200m", "memory": "250Mi"},
            "systemReserved": {"memory": "100Mi"},
            "evictionHard": {"memory.available": "5%", "nodefs.available": "10%"},
            "evictionSoft": {"memory.available": "1Gi"},
        }}),
        name => panic!("unknown node class {name}"),
    };
    (class(&json!({"spec": patch})), u32::from(name.contains("RESERVED_ENIS=1")))
}

/// Compares amounts by value; a recorded map has no zeros.
fn assert_amounts(found: &Resources, recorded: &BTreeMap<String, String>, context: &str) {
    let found: BTreeMap<_, _> = found
        .iter()
        .filter(|(_, amount)| !amount.is_zero())
        .map(|(name, amount)| (name.to_owned(), amount))
        .collect();
    let recorded: BTreeMap<_, _> = recorded
        .iter()
        .map(|(name, text)| (name.clone(), quantity(text).unwrap()))
        .filter(|(_, amount)| !amount.is_zero())
        .collect();
    assert_eq!(found, recorded, "{context}");
}

#[test]
fn resources_equal_the_recorded_ones() {
    let mut count = 0;
    for of in recorded() {
        let (class, reserved_enis) = setting(&of.node_class);
        let bench = Bench::with_options(|options| options.reserved_enis = reserved_enis);
        for (name, recorded) in &of.types {
            let found = bench.get(&class, name);
            let overhead = bench.types.overhead(&class, name).unwrap();
            let context = |part: &str| format!("{part} of {name} under {}", of.node_class);
            assert_amounts(&found.capacity, &recorded.capacity, &context("capacity"));
            assert_amounts(&found.allocatable(), &recorded.allocatable, &context("allocatable"));
            let expected = &recorded.overhead;
            let parts = [
                (&overhead.kube_reserved, &expected.kube_reserved, "kubeReserved"),
                (&overhead.system_reserved, &expected.system_reserved, "systemReserved"),
                (&overhead.eviction_threshold, &expected.eviction_threshold, "evictionThreshold"),
            ];
            for (found, recorded, part) in parts {
                assert_amounts(found, recorded, &context(part));
            }
            assert_eq!(overhead.total(), *found.overhead, "{name}");
            count += 1;
        }
    }
    assert_eq!(count, 59 * 7);
}

#[test]
fn labels_equal_the_recorded_ones() {
    let classes = recorded();
    let base = &classes.iter().find(|of| of.node_class == "al2023").unwrap().types;
    let bench = Bench::new();
    for of in &classes {
        let (class, _) = setting(&of.node_class);
        for (name, recorded) in &of.types {
            let mut expected = base[name].requirements.clone().unwrap();
            expected.extend(recorded.requirements.clone().unwrap_or_default());
            let found = bench.get(&class, name);
            for requirement in found.requirements.iter() {
                let key = requirement.key();
                let value = match expected.remove(key) {
                    None | Some(Value::Null) => "DoesNotExist".to_owned(),
                    Some(Value::String(value)) => value,
                    Some(values) => {
                        let values: Vec<String> = serde_json::from_value(values).unwrap();
                        values.join(" ")
                    }
                };
                if key != "karpenter.k8s.aws/nitro-sandbox" {
                    assert_eq!(label(&found, key), value, "{key} of {name}, {}", of.node_class);
                }
            }
            expected.retain(|_, value| !value.is_null());
            assert!(expected.is_empty(), "{name} under {} lacks {expected:?}", of.node_class);
        }
    }
}
