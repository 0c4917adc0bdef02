//! Laws that hold for every instance type and node class.

use karpenter_api::labels::{self, aws};
use proptest::prelude::*;

use super::*;

fn any_spec() -> impl Strategy<Value = Value> {
    let family = prop::sample::select(&karpenter_api::ec2_nodeclass::AMI_FAMILIES[..]);
    let pods = prop::option::of(0..500_i32);
    let per_core = prop::option::of(0..20_i32);
    let memory = prop::option::of(prop::sample::select(vec!["10%", "1Gi", "100%", "0.5%"]));
    let reserved = prop::option::of(prop::sample::select(vec!["1", "250m", "0"]));
    let (raid, tracking) = (any::<bool>(), any::<bool>());
    (family, pods, per_core, memory, reserved, raid, tracking).prop_map(
        |(family, pods, per_core, memory, reserved, raid, tracking)| {
            let mut kubelet = json!({});
            let mut set = |key: &str, value: Option<Value>| {
                if let Some(value) = value {
                    kubelet[key] = value;
                }
            };
            set("maxPods", pods.map(Value::from));
            set("podsPerCore", per_core.map(Value::from));
            set("evictionHard", memory.map(|memory| json!({"memory.available": memory})));
            set("kubeReserved", reserved.map(|cpu| json!({"cpu": cpu})));
            let mut spec = json!({"amiFamily": family, "kubelet": kubelet});
            if raid {
                spec["instanceStorePolicy"] = json!("RAID0");
            }
            if tracking {
                spec["connectionTracking"] = json!({"udpTimeout": 30});
            }
            spec
        },
    )
}

/// Returns the available offerings of all types as text.
fn available(list: &karpenter_core::catalog::InstanceTypes) -> Vec<String> {
    let all = list.iter().flat_map(|of| of.offerings.iter().map(move |offering| (of, offering)));
    all.filter(|(_, offering)| offering.available)
        .map(|(of, offering)| {
            let single = |key| label_value(offering, key);
            format!("{} {} {}", of.name, single(labels::ZONE), single(labels::CAPACITY_TYPE))
        })
        .collect()
}

fn label_value(offering: &Offering, key: &str) -> String {
    offering.requirements.get(key).unwrap().values().first().unwrap().clone()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn allocatable_is_at_most_the_capacity(spec in any_spec()) {
        let bench = Bench::new();
        for of in bench.list(&class(&json!({"spec": spec}))).iter() {
            for (name, amount) in of.allocatable().iter() {
                prop_assert!(amount <= of.capacity.amount(name), "{name} of {}: {spec}", of.name);
            }
        }
    }

    #[test]
    fn every_well_known_label_is_defined(spec in any_spec()) {
        let bench = Bench::new();
        let may_be_undefined =
            [aws::ZONE_ID, aws::PLACEMENT_GROUP_ID, aws::PLACEMENT_GROUP_PARTITION];
        for of in bench.list(&class(&json!({"spec": spec}))).iter() {
            for key in aws::WELL_KNOWN {
                let is_defined = of.requirements.get(key).is_some();
                prop_assert!(is_defined || may_be_undefined.contains(&key), "{key} of {}", of.name);
            }
            for key in [labels::ARCH, labels::OS, labels::ZONE, labels::REGION,
                labels::CAPACITY_TYPE, labels::INSTANCE_TYPE, labels::WINDOWS_BUILD] {
                prop_assert!(of.requirements.get(key).is_some(), "{key} of {}", of.name);
            }
        }
    }

    #[test]
    fn a_stricter_class_offers_no_more(
        spec in any_spec(),
        kept in prop::collection::vec(any::<bool>(), 4),
        feature in 0..4_usize,
    ) {
        let bench = Bench::new();
        let loose = class(&json!({"spec": spec}));
        let mut strict = loose.clone();
        let subnets = strict.status.as_mut().unwrap().subnets.as_mut().unwrap();
        let mut kept = kept.into_iter();
        let first = subnets[0].clone();
        subnets.retain(|_| kept.next().unwrap());
        if subnets.is_empty() {
            subnets.push(first);
        }
        match feature {
            0 => strict.spec.connection_tracking = Some(karpenter_api::ec2_nodeclass::ConnectionTracking::default()),
            1 => {
                let enabled = Some("enabled".to_owned());
                strict.spec.cpu_options =
                    Some(karpenter_api::ec2_nodeclass::CpuOptions { nested_virtualization: enabled });
            }
            2 => {
                strict.spec.enclave_options =
                    Some(karpenter_api::ec2_nodeclass::EnclaveOptions { enabled: true });
            }
            _ => {}
        }
        let more = available(&bench.list(&loose));
        for offering in available(&bench.list(&strict)) {
            prop_assert!(more.contains(&offering), "{offering}");
        }
    }
}
