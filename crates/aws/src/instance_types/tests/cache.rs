//! Discovery and the cache: cases R47 and R48 of spec 51, and bad input.

use super::*;
use crate::discovery::memory::MemoryEc2;
use crate::discovery::{Filter, Page};

fn zones(entries: &[Entry]) -> OfferedZones {
    let zones = |entry: &Entry| (entry.info.name.clone(), entry.zones.iter().cloned().collect());
    entries.iter().map(zones).collect()
}

fn infos(entries: &[Entry]) -> Vec<InstanceTypeInfo> {
    entries.iter().map(|entry| entry.info.clone()).collect()
}

#[test]
fn each_variant_of_a_class_is_resolved_once() {
    let bench = Bench::new();
    let variants = [
        json!({}),
        json!({"spec": {"instanceStorePolicy": "RAID0"}}),
        json!({"spec": {"amiFamily": "Bottlerocket"}}),
        json!({"spec": {"kubelet": {"maxPods": 10}}}),
        json!({"spec": {"blockDeviceMappings": [
            {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "50Gi"}},
        ]}}),
        json!({"status": {"amis": [{"id": "ami-2", "requirements": []}]}}),
        json!({"status": {"subnets": [{"id": "s", "zone": "us-west-2a", "zoneID": "usw2-az2"}]}}),
    ];
    let count = u64::try_from(bench.list(&class(&json!({}))).len()).unwrap();
    for _ in 0..2 {
        for variant in &variants {
            bench.list(&class(variant));
        }
    }
    let (resolved, _) = bench.types.statistics();
    assert_eq!(resolved, count * variants.len() as u64, "51/R47");

    let more = json!({"spec": {"tags": {"a": "b"}, "userData": "x"}});
    bench.list(&class(&more));
    assert_eq!(bench.types.statistics().0, resolved, "51 §2: tags resolve nothing");
}

#[test]
fn equal_parts_of_different_classes_share_memory() {
    let bench = Bench::new();
    let plain = bench.list(&class(&json!({})));
    let other =
        bench.list(&class(&json!({"status": {"amis": [{"id": "ami-2", "requirements": []}]}})));
    let small = bench.list(&kubelet("AL2023", &json!({"maxPods": 3})));
    for ((plain, other), small) in plain.iter().zip(other.iter()).zip(small.iter()) {
        assert!(plain.capacity.ptr_eq(&other.capacity), "{}", plain.name);
        assert!(plain.requirements.ptr_eq(&other.requirements), "{}", plain.name);
        assert!(plain.requirements.ptr_eq(&small.requirements), "{}", plain.name);
        assert!(!plain.capacity.ptr_eq(&small.capacity), "{}", plain.name);
    }
}

#[tokio::test]
async fn only_a_changed_discovery_flushes_the_cache() {
    let bench = Bench::new();
    let class = class(&json!({}));
    let mut data = entries();
    data.retain(|entry| entry.info.name != "mac2.metal");
    let ec2 = MemoryEc2::new(infos(&data), zones(&data));
    bench.types.refresh(&ec2).await.unwrap();
    let first = bench.list(&class);
    bench.types.refresh(&ec2).await.unwrap();
    assert!(Arc::ptr_eq(&first, &bench.list(&class)), "51/R48: unchanged");

    data.pop();
    ec2.replace(infos(&data), zones(&data));
    bench.types.refresh(&ec2).await.unwrap();
    assert_eq!(bench.list(&class).len(), first.len() - 1, "51/R48: one type removed");

    let requests = ec2.instance_types.inputs();
    let filters = [
        Filter::new("supported-virtualization-type", ["hvm"]),
        Filter::new("processor-info.supported-architecture", ["x86_64", "arm64"]),
    ];
    assert!(requests.iter().all(|request| request.filters == filters), "51 §1");
    assert!(requests.iter().all(|request| request.max_results == 100), "51 §1");
}

#[tokio::test]
async fn a_failed_refresh_keeps_the_old_data_of_its_part() {
    let data = entries();
    let bench = Bench::with(ResolutionOptions::new("us-west-2"), Vec::new());
    let class = class(&json!({}));
    let context = OfferingContext::default();
    let error = |bench: &Bench| bench.types.list(&class, &context).unwrap_err().to_string();
    assert_eq!(error(&bench), "no instance types found", "51 §2");

    let ec2 = MemoryEc2::new(infos(&data), zones(&data));
    let denied = CallError {
        operation: "DescribeInstanceTypeOfferings",
        code: "UnauthorizedOperation".to_owned(),
        message: "no".to_owned(),
    };
    ec2.offerings.fail(&denied, 1);
    let errors = bench.types.refresh(&ec2).await.unwrap_err();
    assert_eq!(errors, [denied], "51 §1");
    assert_eq!(error(&bench), "no instance types offerings found", "51 §2: types took effect");
    bench.types.refresh(&ec2).await.unwrap();
    assert!(bench.types.list(&class, &context).is_ok(), "51 §1");

    ec2.instance_types.set(Some(Page::default()));
    bench.types.refresh(&ec2).await.unwrap();
    assert_eq!(error(&bench), "no instance types found", "51 §1: an empty answer counts");
}

#[test]
fn missing_subnets_and_unknown_types_are_errors() {
    let bench = Bench::new();
    let context = OfferingContext::default();
    for status in [Value::Null, json!({"subnets": null}), json!({"subnets": []})] {
        let class = class(&json!({"status": status}));
        let error = bench.types.list(&class, &context).unwrap_err();
        assert_eq!(error, ListError::NoSubnets, "51 §2");
        assert_eq!(error.to_string(), "no subnets found");
    }
    let error = bench.types.get(&class(&json!({})), &context, "m99.large").unwrap_err();
    assert_eq!(error.to_string(), "instance type m99.large not found in cache", "51 §2");
}

#[test]
fn odd_instance_types_do_not_stop_the_others() {
    let mut data = entries();
    let change = |data: &mut Vec<Entry>, name: &str, change: &dyn Fn(&mut Entry)| {
        change(data.iter_mut().find(|entry| entry.info.name == name).unwrap());
    };
    change(&mut data, "m5.large", &|entry| entry.info.network = None);
    change(&mut data, "m5.xlarge", &|entry| entry.info.network.as_mut().unwrap().cards = None);
    change(&mut data, "c5.large", &|entry| {
        entry.info.processor.as_mut().unwrap().architectures = vec!["riscv64".to_owned()];
    });
    change(&mut data, "m6i.large", &|entry| entry.info.processor = None);
    change(&mut data, "t3.large", &|entry| entry.price = Some(0.0));
    change(&mut data, "t3.small", &|entry| entry.price = Some(f64::NAN));
    change(&mut data, "m7a.large", &|entry| {
        entry.info.memory_mib = u64::MAX;
        entry.info.vcpus = u32::MAX;
        entry.info.network.as_mut().unwrap().ipv4_per_interface = 0;
    });
    let bench = Bench::with(ResolutionOptions::new("us-west-2"), data.clone());
    let class = class(&json!({}));
    let list = bench.list(&class);
    assert_eq!(list.len(), data.len() - 2, "types without network cards are left out");
    let found = |name: &str| list.iter().find(|of| of.name == name).unwrap();
    assert_eq!(label(found("c5.large"), "kubernetes.io/arch"), "[riscv64]");
    assert_eq!(label(found("m6i.large"), "kubernetes.io/arch"), "[]");
    let maker = "karpenter.k8s.aws/instance-cpu-manufacturer";
    assert_eq!(label(found("m6i.large"), maker), "DoesNotExist", "51 §3");
    for name in ["t3.large", "t3.small"] {
        assert!(found(name).offerings.iter().all(|o| !o.available && o.price == 0.0), "{name}");
    }
}

#[test]
fn a_hundred_zones_are_a_hundred_zones() {
    let mut data = entries();
    data.truncate(3);
    for entry in &mut data {
        entry.zones = (0..100).map(|number| format!("zone-{number:03}")).collect();
    }
    let bench = Bench::with(ResolutionOptions::new("us-west-2"), data);
    let subnets: Vec<_> = (0..50)
        .map(|n| json!({"id": format!("s-{n}"), "zone": format!("zone-{n:03}"), "zoneID": format!("z{n}")}))
        .collect();
    let list = bench.list(&class(&json!({"status": {"subnets": subnets}})));
    for of in list.iter() {
        assert_eq!(of.offerings.len(), 200);
        // a1.* types are incompatible with AL2023.
        let available = of.offerings.iter().filter(|offering| offering.available).count();
        assert_eq!(available, if of.name.starts_with("a1.") { 0 } else { 100 }, "{}", of.name);
    }
}

#[tokio::test(start_paused = true)]
async fn reported_memory_replaces_the_estimate() {
    let bench = Bench::new();
    let class = class(&json!({}));
    let smaller = quantity("7Gi").unwrap();
    bench.types.memory().record("m5.large", &class, smaller);
    bench.types.memory().record("m5.large", &class, quantity("8Gi").unwrap());
    assert_eq!(text(&bench.get(&class, "m5.large"), "memory"), "7Gi", "51 §4.5");
    let overhead = bench.types.overhead(&class, "m5.large").unwrap();
    assert_eq!(overhead.eviction_threshold.amount("memory").canonical(), "100Mi");
    bench.clock.sleep(Duration::from_hours(60 * 24 + 1)).await;
    assert_eq!(text(&bench.get(&class, "m5.large"), "memory"), "7577Mi", "51 §4.5");
}

#[test]
fn every_instance_type_of_a_region_is_resolved() {
    let all = all_entries();
    let count = all.len();
    let bench = Bench::with(ResolutionOptions::new("us-west-2"), all);
    let classes = [
        class(&json!({})),
        kubelet("Bottlerocket", &json!({})),
        kubelet("Windows2022", &json!({})),
    ];
    for class in &classes {
        let list = bench.list(class);
        assert_eq!(list.len(), count);
        let is_available = |of: &&Arc<InstanceType>| of.offerings.iter().any(|o| o.available);
        let available = list.iter().filter(is_available).count();
        assert!(available > 1000, "{available} types are available");
        assert!(Arc::ptr_eq(&list, &bench.list(class)));
    }
}
