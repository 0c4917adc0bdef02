//! Capacity and overhead: cases R1 to R25, R32 to R34, R49 to R54 of spec 51.

use super::*;

/// Returns a resource of the capacity, or a part of the overhead such as `kube memory`.
fn amount(bench: &Bench, class: &Ec2NodeClass, name: &str, resource: &str) -> String {
    let found = bench.get(class, name);
    let overhead = bench.types.overhead(class, name).unwrap();
    let (part, resource) = resource.split_once(' ').unwrap_or(("capacity", resource));
    let resources = match part {
        "kube" => &overhead.kube_reserved,
        "system" => &overhead.system_reserved,
        "eviction" => &overhead.eviction_threshold,
        "allocatable" => return found.allocatable().amount(resource).canonical(),
        _ => &*found.capacity,
    };
    resources.get(resource).map_or_else(|| "-".to_owned(), Quantity::canonical)
}

fn interfaces(cards: &[(u32, &str)]) -> Value {
    let primary = json!({"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"});
    let more = cards.iter().map(
        |(card, kind)| json!({"networkCardIndex": card, "deviceIndex": 1, "interfaceType": kind}),
    );
    let all: Vec<_> = std::iter::once(primary).chain(more).collect();
    class_spec("AL2023", &json!({"networkInterfaces": all}))
}

fn class_spec(family: &str, spec: &Value) -> Value {
    let mut patch = json!({"amiFamily": family});
    merge(&mut patch, spec);
    patch
}

fn with_kubelet(family: &str, kubelet: &Value) -> Value {
    class_spec(family, &json!({"kubelet": kubelet}))
}

fn disks(family: &str, mappings: &Value) -> Value {
    class_spec(family, &json!({"blockDeviceMappings": mappings}))
}

#[test]
fn pods_follow_interfaces_and_settings() {
    struct Case(&'static str, &'static str, u32, Value, &'static str, &'static str);
    let family = |family: &str| class_spec(family, &json!({}));
    let max = |family: &str, pods: i32| with_kubelet(family, &json!({"maxPods": pods}));
    let per_core = |family: &str, pods: i32| with_kubelet(family, &json!({"podsPerCore": pods}));
    #[rustfmt::skip]
    let cases = [
        Case("51/R1",  "t3.large", 0, family("AL2023"), "pods", "35"),
        Case("51/R2",  "m6idn.32xlarge", 0, family("AL2023"), "pods", "394"),
        Case("51/R2: efa-only on card 0", "m6idn.32xlarge", 0, interfaces(&[(0, "efa-only")]), "pods", "345"),
        Case("51/R2: efa-only on card 1", "m6idn.32xlarge", 0, interfaces(&[(1, "efa-only")]), "pods", "394"),
        Case("51/R2: efa-only interfaces", "m6idn.32xlarge", 0, interfaces(&[(0, "efa-only")]), "vpc.amazonaws.com/efa", "1"),
        Case("51/R3",  "t3.large", 1, family("AL2023"), "pods", "24"),
        Case("51/R3",  "t3.large", 1, family("AL2023"), "kube memory", "640Mi"),
        Case("51/R4",  "t3.large", 1, family("Bottlerocket"), "pods", "24"),
        Case("51/R4",  "t3.large", 1, family("Bottlerocket"), "kube memory", "519Mi"),
        Case("51/R5",  "t3.large", 1, family("Windows2022"), "pods", "110"),
        Case("51/R5",  "t3.large", 1, family("Windows2022"), "kube memory", "1465Mi"),
        Case("51/R6",  "t3.large", 1_000_000, family("AL2023"), "pods", "0"),
        Case("51/R7",  "t3.large", 0, max("AL2", 10), "pods", "10"),
        Case("51/R7",  "t3.large", 0, max("AL2", 10), "kube memory", "640Mi"),
        Case("51/R7",  "t3.large", 0, max("AL2023", 10), "kube memory", "640Mi"),
        Case("51/R7",  "t3.large", 0, max("Custom", 10), "kube memory", "640Mi"),
        Case("51/R8",  "t3.large", 0, max("Bottlerocket", 10), "kube memory", "365Mi"),
        Case("51/R8",  "t3.large", 0, max("Windows2019", 10), "kube memory", "365Mi"),
        Case("51/R9",  "m5.large", 0, with_kubelet("AL2023", &json!({"podsPerCore": 4, "maxPods": 20})), "pods", "8"),
        Case("51/R9",  "m5.24xlarge", 0, with_kubelet("AL2023", &json!({"podsPerCore": 4, "maxPods": 20})), "pods", "20"),
        Case("51/R10", "t3.large", 0, per_core("Bottlerocket", 1), "pods", "35"),
        Case("51/R10", "t3.large", 0, per_core("Windows2022", 1), "pods", "2"),
        Case("51/R11", "t3.large", 0, per_core("AL2023", 0), "pods", "35"),
        Case("51 §4.2: prefixes", "t3.large", 0, class_spec("AL2023", &json!({"ipPrefixCount": 5})), "pods", "35"),
        Case("51/R54", "i7ie.48xlarge", 0, family("AL2023"), "pods", "394"),
    ];
    for Case(case, name, reserved_enis, spec, resource, expected) in cases {
        let bench = Bench::with_options(|options| options.reserved_enis = reserved_enis);
        let class = class(&json!({"spec": spec}));
        assert_eq!(
            amount(&bench, &class, name, resource),
            expected,
            "{case}: {resource} of {name}"
        );
    }
}

#[test]
fn overhead_follows_the_kubelet_settings() {
    struct Case(&'static str, &'static str, Value, &'static str, &'static str);
    let own = json!({"cpu": "2", "memory": "10Gi", "ephemeral-storage": "2Gi"});
    let reserved = with_kubelet("AL2023", &json!({"kubeReserved": own}));
    let plain = || class_spec("AL2023", &json!({}));
    let evict = |memory: &str| {
        with_kubelet("AL2023", &json!({"evictionHard": {"memory.available": memory}}))
    };
    let soft = with_kubelet(
        "AL2023",
        &json!({
            "evictionSoft": {"memory.available": "1Gi"},
            "evictionSoftGracePeriod": {"memory.available": "1m"},
        }),
    );
    let windows = class_spec("Windows2022", &json!({}));
    #[rustfmt::skip]
    let cases = [
        Case("51/R12", "m5.xlarge", plain(), "kube cpu", "80m"),
        Case("51/R12", "m5.xlarge", plain(), "kube memory", "893Mi"),
        Case("51/R12", "m5.xlarge", plain(), "kube ephemeral-storage", "1Gi"),
        Case("51/R13", "m5.xlarge", reserved.clone(), "kube cpu", "2"),
        Case("51/R13", "m5.xlarge", reserved.clone(), "kube memory", "10Gi"),
        Case("51/R13", "m5.xlarge", reserved, "kube ephemeral-storage", "2Gi"),
        Case("51/R14", "m5.xlarge", plain(), "system memory", "-"),
        Case("51/R15", "m5.large", evict("500Mi"), "eviction memory", "500Mi"),
        // 10 % of 7577Mi, rounded up to a byte.
        Case("51/R15", "m5.large", evict("10%"), "eviction memory", "794506036"),
        Case("51/R15", "m5.large", evict("100%"), "eviction memory", "0"),
        Case("51/R16", "m5.large", soft, "eviction memory", "100Mi"),
        Case("51/R17", "t4g.small", plain(), "memory", "1835Mi"),
        Case("51/R51", "a1.medium", evict("25%"), "eviction memory", "481034241"),
        Case("51/R52", "t3.nano", windows, "allocatable memory", "-1092Mi"),
        Case("51/R49", "mac2.metal", plain(), "memory", "15155Mi"),
        Case("51/R34", "t3.large", plain(), "vpc.amazonaws.com/pod-eni", "0"),
        Case("51/R50", "g6f.large", plain(), "nvidia.com/gpu", "0"),
        Case("51/R28", "inf2.xlarge", plain(), "aws.amazon.com/neuron", "1"),
        Case("51/R28", "inf2.xlarge", plain(), "aws.amazon.com/neuroncore", "2"),
        Case("51 §3: AMD", "g4ad.16xlarge", plain(), "amd.com/gpu", "4"),
    ];
    let bench = Bench::new();
    for Case(case, name, spec, resource, expected) in cases {
        let class = class(&json!({"spec": spec}));
        assert_eq!(
            amount(&bench, &class, name, resource),
            expected,
            "{case}: {resource} of {name}"
        );
    }
    let raw = Bench::with_options(|options| options.vm_memory_overhead_percent = 0.0);
    let memory = amount(&raw, &class(&json!({})), "m5.large", "memory");
    assert_eq!(memory, "8Gi", "51/R18");
}

#[test]
fn allocatable_is_never_more_than_real_nodes_have() {
    let cases = [
        ("t4g.small", "1408312Ki", "1930m"),
        ("t4g.medium", "3377496Ki", "1930m"),
        ("t4g.xlarge", "15136012Ki", "3920m"),
        ("m5.large", "7220184Ki", "1930m"),
    ];
    let bench = Bench::new();
    for (name, memory, cpu) in cases {
        let allocatable = bench.get(&class(&json!({})), name).allocatable();
        assert!(allocatable.amount("memory") <= quantity(memory).unwrap(), "51/R19: {name}");
        assert!(allocatable.amount("cpu") <= quantity(cpu).unwrap(), "51/R19: {name}");
    }
}

#[test]
fn storage_follows_policy_and_block_devices() {
    struct Case(&'static str, &'static str, Value, &'static str);
    let raid = class_spec("AL2023", &json!({"instanceStorePolicy": "RAID0"}));
    let mut raid_with_disk = raid.clone();
    let xvda = json!([{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi"}}]);
    merge(&mut raid_with_disk, &json!({"blockDeviceMappings": xvda}));
    let two = json!([
        {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi"}},
        {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "40Gi"}},
    ]);
    let mut root = two.clone();
    root[0]["rootVolume"] = json!(true);
    let snapshot = json!([{"deviceName": "/dev/xvda", "ebs": {"snapshotID": "snap-1"}}]);
    let empty = json!([{"rootVolume": true}, {"deviceName": "/dev/xvda"}]);
    #[rustfmt::skip]
    let cases = [
        Case("51/R20", "g4dn.8xlarge", raid, "900G"),
        Case("51/R21", "m5.large", raid_with_disk, "100Gi"),
        Case("51/R22", "m5.large", disks("AL2023", &xvda), "100Gi"),
        Case("51/R23", "m5.large", disks("Bottlerocket", &xvda), "20Gi"),
        Case("51/R24", "m5.large", disks("Custom", &two), "40Gi"),
        Case("51/R24: root volume", "m5.large", disks("Custom", &root), "20Gi"),
        Case("51/R25", "m5.large", disks("AL2023", &snapshot), "20Gi"),
        Case("51/R25: Custom", "m5.large", disks("Custom", &snapshot), "20Gi"),
        Case("51 §4.4: no size, no device", "m5.large", disks("AL2023", &empty), "20Gi"),
        Case("51 §4.4: Windows", "m5.large", class_spec("Windows2025", &json!({})), "50Gi"),
        Case("55/UP-N6: Bottlerocket", "m5.large", class_spec("Bottlerocket", &json!({})), "20Gi"),
    ];
    let bench = Bench::new();
    for Case(case, name, spec, expected) in cases {
        let class = class(&json!({"spec": spec}));
        assert_eq!(amount(&bench, &class, name, "ephemeral-storage"), expected, "{case}");
    }
}

#[test]
fn windows_nodes_have_addresses_of_their_own() {
    let bench = Bench::new();
    let windows = kubelet("Windows2022", &json!({}));
    let addresses = |bench: &Bench, name: &str| {
        amount(bench, &windows, name, "vpc.amazonaws.com/PrivateIPv4Address")
    };
    assert_eq!(addresses(&bench, "m5.large"), "9");
    assert_eq!(addresses(&bench, "m6g.large"), "-", "51/R32");
    let unknown =
        entries().into_iter().map(|entry| Entry { figures: TypeFigures::default(), ..entry });
    let bench = Bench::with(ResolutionOptions::new("us-west-2"), unknown.collect());
    assert_eq!(addresses(&bench, "m5.large"), "0", "51/R33");
    assert_eq!(amount(&bench, &windows, "m5.large", "vpc.amazonaws.com/pod-eni"), "0");
}
