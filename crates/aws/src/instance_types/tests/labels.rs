//! Labels: cases R26 to R32, R49, R50, R53 and R56 of spec 51.

use super::*;

#[test]
fn labels_describe_the_instance_type() {
    const AWS: &str = "karpenter.k8s.aws/instance-";
    #[rustfmt::skip]
    let cases = [
        ("51/R26", "g4dn.8xlarge", "category", "g"),
        ("51/R26", "g4dn.8xlarge", "generation", "4"),
        ("51/R26", "g4dn.8xlarge", "family", "g4dn"),
        ("51/R26", "g4dn.8xlarge", "size", "8xlarge"),
        ("51/R26", "g4dn.8xlarge", "cpu", "32"),
        ("51/R26", "g4dn.8xlarge", "memory", "131072"),
        ("51/R26", "g4dn.8xlarge", "gpu-name", "t4"),
        ("51/R26", "g4dn.8xlarge", "gpu-manufacturer", "nvidia"),
        ("51/R26", "g4dn.8xlarge", "gpu-count", "1"),
        ("51/R26", "g4dn.8xlarge", "gpu-memory", "16384"),
        ("51/R26", "g4dn.8xlarge", "local-nvme", "900"),
        ("51/R26", "g4dn.8xlarge", "ebs-bandwidth", "9500"),
        ("51/R26", "g4dn.8xlarge", "network-bandwidth", "50000"),
        ("51/R26", "g4dn.8xlarge", "cpu-sustained-clock-speed-mhz", "2500"),
        ("51/R26", "g4dn.8xlarge", "hypervisor", "nitro"),
        ("51/R27", "m7i-flex.large", "capability-flex", "true"),
        ("51/R27", "m5.large", "capability-flex", "false"),
        ("51/R28", "inf2.xlarge", "accelerator-name", "inferentia2"),
        ("51/R28", "inf2.xlarge", "accelerator-manufacturer", "aws"),
        ("51/R28", "inf2.xlarge", "accelerator-count", "1"),
        ("51/R29", "trn1.2xlarge", "accelerator-name", "trainium"),
        ("51/R29", "trn1.2xlarge", "accelerator-manufacturer", "aws"),
        ("51/R29", "trn1.2xlarge", "gpu-name", "DoesNotExist"),
        ("51/R50", "g6f.large", "gpu-name", "l4"),
        ("51/R50", "g6f.large", "gpu-count", "0"),
        ("51/R53", "m5.metal", "hypervisor", ""),
        ("51 §3: terabytes", "u-6tb1.56xlarge", "category", "u"),
        ("51 §3: terabytes", "u-6tb1.56xlarge", "generation", "1"),
    ];
    let bench = Bench::new();
    for (case, name, key, expected) in cases {
        let found = bench.get(&class(&json!({})), name);
        assert_eq!(label(&found, &format!("{AWS}{key}")), expected, "{case}: {key} of {name}");
    }
    let mac = bench.get(&class(&json!({})), "mac2.metal");
    assert_eq!(label(&mac, "kubernetes.io/arch"), "[arm64_mac]", "51/R49");
    let sandbox =
        |name| label(&bench.get(&class(&json!({})), name), "karpenter.k8s.aws/nitro-sandbox");
    assert_eq!([sandbox("m5.metal"), sandbox("m5.xlarge")], ["false", "true"], "51/R31");
}

#[test]
fn two_gpu_models_have_resources_and_no_labels() {
    let mut types = entries();
    let changed = types.iter_mut().find(|entry| entry.info.name == "g5.12xlarge").unwrap();
    changed.info.gpus.push(changed.info.gpus[0].clone());
    let bench = Bench::with(ResolutionOptions::new("us-west-2"), types);
    let found = bench.get(&class(&json!({})), "g5.12xlarge");
    assert_eq!(label(&found, "karpenter.k8s.aws/instance-gpu-name"), "DoesNotExist", "51/R30");
    assert_eq!(text(&found, "nvidia.com/gpu"), "8", "51/R30");
}

#[test]
fn windows_families_run_on_amd64_alone() {
    let bench = Bench::new();
    let class = kubelet("Windows2019", &json!({}));
    let (arm, intel) = (bench.get(&class, "m6g.large"), bench.get(&class, "m5.large"));
    assert_eq!(label(&arm, "kubernetes.io/os"), "DoesNotExist", "51/R32");
    assert_eq!(label(&intel, "kubernetes.io/os"), "windows");
    assert_eq!(label(&intel, "node.kubernetes.io/windows-build"), "10.0.17763");
}

#[test]
fn a_type_that_no_zone_sells_has_no_zone() {
    let mut types = entries();
    types.retain(|entry| ["m5.large", "m5.xlarge"].contains(&entry.info.name.as_str()));
    types[0].zones = vec!["us-west-2-lax-1a".to_owned()];
    let bench = Bench::with(ResolutionOptions::new("us-west-2"), types);
    let found = bench.get(&class(&json!({})), "m5.large");
    assert_eq!(label(&found, "topology.kubernetes.io/zone"), "DoesNotExist", "51/R56");
    for key in [
        "topology.k8s.aws/zone-id",
        "karpenter.k8s.aws/placement-group-id",
        "karpenter.k8s.aws/placement-group-partition",
    ] {
        assert_eq!(label(&found, key), "undefined", "51/R56: {key}");
    }
    assert!(found.offerings.iter().all(|offering| !offering.available), "51/R56");
}

#[test]
fn subnets_without_a_zone_id_are_one_zone() {
    let bench = Bench::new();
    let class = class(&json!({"status": {"subnets": [
        {"id": "subnet-1", "zone": "us-west-2a"},
        {"id": "subnet-2", "zone": "us-west-2b"},
    ]}}));
    let found = bench.get(&class, "m5.large");
    assert_eq!(label(&found, "topology.kubernetes.io/zone"), "us-west-2a", "51 §2");
    assert_eq!(label(&found, "topology.k8s.aws/zone-id"), "undefined");
}
