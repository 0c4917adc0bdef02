//! Offerings: cases O1 to O21 and K11 of spec 51, UP-C1 and UP-N2 of spec 55.

use std::collections::BTreeSet;

use super::*;
use crate::offerings::{PlacementGroup, overlay_prices};
use crate::prices::tests::{now, spot_page};
use crate::unavailable::{MarkContext, OfferingKey, PlacementScope};

fn key(instance_type: &str, capacity_type: &str, zone: &str) -> OfferingKey {
    OfferingKey {
        instance_type: instance_type.to_owned(),
        capacity_type: capacity_type.to_owned(),
        zone: zone.to_owned(),
        scope: None,
    }
}

/// Returns whether any offering of a type in a zone is available.
fn is_available(bench: &Bench, class: &Ec2NodeClass, name: &str) -> bool {
    bench.get(class, name).offerings.iter().any(|offering| offering.available)
}

fn context_of(group: &PlacementGroup) -> OfferingContext {
    OfferingContext { placement_group: Some(group.clone()), ..OfferingContext::default() }
}

fn group(strategy: &str, partition_count: Option<u32>) -> PlacementGroup {
    PlacementGroup { id: "pg-1".to_owned(), strategy: strategy.to_owned(), partition_count }
}

fn reservation(instance_type: &str, state: &str) -> Ec2NodeClass {
    class(&json!({"status": {"capacityReservations": [{
        "id": "cr-1", "instanceType": instance_type, "availabilityZone": "us-west-2a",
        "instanceMatchCriteria": "open", "ownerID": "123456789012", "state": state,
    }]}}))
}

#[test]
fn every_zone_of_the_region_has_offerings() {
    let bench = Bench::new();
    let mut three = class(&json!({}));
    three.status.as_mut().unwrap().subnets.as_mut().unwrap().pop();
    let offered = offered(&bench.get(&three, "m5.large"));
    assert_eq!(offered.len(), 8, "51/O1");
    for zone in ["2a", "2b", "2c", "2d"] {
        for capacity_type in ["on-demand", "spot"] {
            let available = offered[&format!("{capacity_type} {zone}")];
            assert_eq!(available, zone != "2d", "51/O1: {capacity_type} in {zone}");
        }
    }
}

#[test]
fn an_unchanged_list_is_the_same_object() {
    let bench = Bench::new();
    let class = class(&json!({}));
    let first = bench.list(&class);
    let count = u64::try_from(first.len()).unwrap();
    assert!(Arc::ptr_eq(&first, &bench.list(&class)), "51/O2");
    assert_eq!(bench.types.statistics(), (count, count), "51/O2");
    let mut seen = BTreeSet::new();
    for of in first.iter() {
        for offering in of.offerings.iter() {
            assert!(seen.insert((of.name.clone(), offering.requirements.to_string())), "51/O2");
        }
    }
}

#[test]
fn a_marked_offering_recomputes_its_type_alone() {
    let bench = Bench::new();
    let class = class(&json!({}));
    let before = bench.list(&class);
    let (_, computed) = bench.types.statistics();
    bench.unavailable.mark(key("m5.xlarge", "spot", "us-west-2a"), MarkContext::default());
    let after = bench.list(&class);
    assert_eq!(bench.types.statistics().1, computed + 1, "51/O3: one type is recomputed");
    for (before, after) in before.iter().zip(after.iter()) {
        assert_eq!(
            Arc::ptr_eq(before, after),
            before.name != "m5.xlarge",
            "51/O3: {}",
            before.name
        );
        assert!(before.requirements.ptr_eq(&after.requirements), "labels are shared");
    }
    let offered = offered(after.iter().find(|of| of.name == "m5.xlarge").unwrap());
    let gone: Vec<_> = offered.iter().filter(|(_, available)| !**available).collect();
    assert_eq!(gone, [(&"spot 2a".to_owned(), &false)], "51/O3");

    bench.unavailable.mark_capacity_type("spot");
    let (_, computed) = bench.types.statistics();
    let list = bench.list(&class);
    assert_eq!(bench.types.statistics().1, computed + list.len() as u64, "51/O4");
    for of in list.iter() {
        let spot = of.offerings.iter().filter(|offering| {
            offering.requirements.get("karpenter.sh/capacity-type").unwrap().has("spot")
        });
        assert!(spot.clone().all(|offering| !offering.available), "51/O4: {}", of.name);
    }
}

#[test]
fn full_subnets_close_a_zone_when_all_are_full() {
    let bench = Bench::new();
    let class = class(&json!({"status": {"subnets": [
        {"id": "subnet-1", "zone": "us-west-2a", "zoneID": "usw2-az2"},
        {"id": "subnet-2", "zone": "us-west-2a", "zoneID": "usw2-az2"},
    ]}}));
    bench.unavailable.mark_subnet("subnet-1");
    assert!(is_available(&bench, &class, "m5.large"), "51/O5: one of two");
    bench.unavailable.mark_subnet("subnet-2");
    assert!(!is_available(&bench, &class, "m5.large"), "51/O5: all");
}

#[tokio::test(start_paused = true)]
async fn a_mark_ends_after_three_minutes() {
    let bench = Bench::new();
    let class = class(&json!({}));
    let spot = || offered(bench.list(&class).iter().find(|of| of.name == "m5.large").unwrap());
    bench.unavailable.mark(key("m5.large", "spot", "us-west-2a"), MarkContext::default());
    assert!(!spot()["spot 2a"], "51/O6");
    bench.clock.sleep(Duration::from_secs(181)).await;
    bench.unavailable.sweep();
    assert!(spot()["spot 2a"], "51/O6");
}

#[tokio::test(start_paused = true)]
async fn spot_offerings_follow_the_spot_prices() {
    let bench = Bench::new();
    let class = class(&json!({}));
    let found = bench.get(&class, "m5.large");
    let prices: BTreeSet<_> = found.offerings.iter().map(|o| o.price.to_string()).collect();
    assert_eq!(prices, BTreeSet::from(["0.096".to_owned()]), "51/O8");
    assert!(offered(&found).values().all(|available| *available), "51/O8");

    let before = bench.list(&class);
    let prices = spot_page(&[("m5.large", "us-west-2a", "0.04")]);
    bench.prices.refresh_spot(&prices, now()).await.unwrap();
    let after = bench.list(&class);
    assert!(!Arc::ptr_eq(&before, &after), "new prices are visible at once");
    let offered = offered(after.iter().find(|of| of.name == "m5.large").unwrap());
    assert!(offered["spot 2a"] && !offered["spot 2b"] && offered["on-demand 2b"], "51/O7");
}

#[test]
fn overlays_give_prices_to_types_without_one() {
    let mut types = entries();
    let unpriced = types.iter_mut().find(|entry| entry.info.name == "m5.large").unwrap();
    unpriced.price = None;
    let bench = Bench::with(ResolutionOptions::new("us-west-2"), types);
    let class = class(&json!({}));
    assert!(!is_available(&bench, &class, "m5.large"), "51/O9: gate off");
    assert!(bench.get(&class, "m5.large").offerings.iter().all(|o| o.price == 0.0), "51 §7.1");

    let overlay = |price: &str, key: &str, operator: &str, status: &str| {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "o"},
            "spec": {
                "price": price,
                "requirements": [{"key": key, "operator": operator, "values": ["m5.large"]}],
            },
            "status": {"conditions": [{
                "type": "ValidationSucceeded", "status": status, "reason": "r", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        }))
        .unwrap()
    };
    let key = "node.kubernetes.io/instance-type";
    let overlays = [
        overlay("1.0", key, "In", "True"),
        overlay("2.5", key, "In", "True"),
        overlay("3.0", key, "NotIn", "True"),
        overlay("4.0", "kubernetes.io/arch", "In", "True"),
        overlay("5.0", key, "In", "False"),
        overlay("NaN", key, "In", "True"),
        overlay("-1", key, "In", "True"),
    ];
    let context =
        OfferingContext { overlay_prices: overlay_prices(&overlays), ..OfferingContext::default() };
    let found = bench.types.get(&class, &context, "m5.large").unwrap();
    assert!(
        found.offerings.iter().all(|o| o.available && (o.price - 2.5).abs() < 1e-9),
        "51/O9: gate on"
    );
}

#[test]
fn a_full_reservation_is_available_without_capacity() {
    let bench = Bench::new();
    let active = reservation("m5.large", "active");
    let reserved = |class: &Ec2NodeClass| {
        let found = bench.list(class).iter().find(|of| of.name == "m5.large").cloned().unwrap();
        let reserved = found.offerings.iter().find(|offering| offering.is_reserved()).cloned();
        reserved.unwrap()
    };
    bench.reservations.sync("cr-1", 3);
    let offering = reserved(&active);
    assert_eq!((offering.available, offering.reservation_capacity), (true, 3), "51/O10");
    assert!((offering.price - 0.096 / 1e7).abs() < 1e-15, "51 §7.2");
    assert!(offering.is_launchable(), "51/O10");

    let (_, computed) = bench.types.statistics();
    bench.reservations.mark_unavailable(["cr-1"]);
    let offering = reserved(&active);
    assert_eq!((offering.available, offering.reservation_capacity), (true, 0), "51/O10 55/UP-C1");
    assert!(!offering.is_launchable(), "55/UP-C1");
    assert_eq!(bench.types.statistics().1, computed + 1, "only the reserved type is recomputed");

    assert!(!reserved(&reservation("m5.large", "expiring")).available, "51/O10 51/K11");
    let found = bench.get(&active, "m5.large");
    assert_eq!(label(&found, "karpenter.sh/capacity-type"), "on-demand reserved spot");
    assert_eq!(label(&found, "karpenter.k8s.aws/capacity-reservation-id"), "cr-1", "51 §3");

    let off = Bench::with_options(|options| options.reserved_capacity = false);
    let found = off.get(&active, "m5.large");
    assert!(!found.offerings.iter().any(Offering::is_reserved), "51 §7.2: gate off");
}

#[test]
fn a_shifted_zone_has_nothing_available() {
    let bench = Bench::new();
    let class = reservation("m5.large", "active");
    bench.reservations.sync("cr-1", 3);
    let context = OfferingContext {
        shifted_zone_ids: ["usw2-az2".to_owned()].into(),
        ..OfferingContext::default()
    };
    let offered = offered(&bench.types.get(&class, &context, "m5.large").unwrap());
    for (offering, available) in offered {
        assert_eq!(available, !offering.ends_with("2a"), "51/O11: {offering}");
    }
}

#[test]
fn incompatible_types_are_unavailable() {
    struct Case(&'static str, &'static str, Value, bool);
    let nic = |card: u32| {
        json!({"networkInterfaces": [
            {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
            {"networkCardIndex": card, "deviceIndex": 1, "interfaceType": "interface"},
        ]})
    };
    let efa = json!({"networkInterfaces": [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]});
    let tracking = json!({"connectionTracking": {"udpTimeout": 30}});
    let nested = json!({"cpuOptions": {"nestedVirtualization": "enabled"}});
    let enclaves = json!({"enclaveOptions": {"enabled": true}});
    #[rustfmt::skip]
    let cases = [
        Case("51/O12", "a1.large", json!({}), false),
        Case("51/O12", "a1.large", json!({"amiFamily": "Bottlerocket"}), true),
        Case("51/O13", "m5.large", nic(1), false),
        Case("51/O13", "m6idn.32xlarge", nic(1), true),
        Case("51 §6.1: device", "m5.large", nic(0), true),
        Case("51 §6.1: efa-only", "m5.large", efa.clone(), false),
        Case("51 §6.1: efa-only", "m6idn.32xlarge", efa, true),
        Case("51/O16", "m4.large", tracking.clone(), false),
        Case("51/O16", "m5.large", tracking, true),
        Case("51/O17", "m5.large", nested, false),
        Case("55/UP-N2", "m5.metal", enclaves.clone(), false),
        Case("55/UP-N2", "m5.xlarge", enclaves, true),
        Case("55/UP-N2: off", "m5.metal", json!({"enclaveOptions": {"enabled": false}}), true),
    ];
    let bench = Bench::new();
    for Case(case, name, spec, expected) in cases {
        let class = class(&json!({"spec": spec}));
        assert_eq!(is_available(&bench, &class, name), expected, "{case}: {name} {spec}");
    }
}

#[test]
fn placement_groups_limit_types_and_multiply_offerings() {
    let bench = Bench::new();
    let class = class(&json!({}));
    let get = |group: &PlacementGroup, name: &str| {
        bench.types.get(&class, &context_of(group), name).unwrap()
    };
    let plain = bench.get(&class, "m5.large").offerings.len();
    let partitioned = get(&group("partition", Some(3)), "m5.large");
    assert_eq!(partitioned.offerings.len(), 3 * plain, "51/O14");
    let partitions = "karpenter.k8s.aws/placement-group-partition";
    assert_eq!(label(&partitioned, partitions), "1 2 3", "51/O14");
    assert_eq!(label(&partitioned, "karpenter.k8s.aws/placement-group-id"), "pg-1", "51 §11.3");
    let own = partitioned.offerings.iter().filter_map(|o| o.requirements.get(partitions));
    assert!(own.clone().count() == 3 * plain && own.clone().all(|own| own.len() == 1), "51/O14");

    let cluster = group("cluster", None);
    let available = |name: &str| get(&cluster, name).offerings.iter().any(|o| o.available);
    assert!(!available("t3.large") && available("m5.large"), "51/O15");
    assert_eq!(label(&get(&cluster, "m5.large"), partitions), "undefined");
}

#[test]
fn a_mark_of_a_placement_group_concerns_this_group() {
    let bench = Bench::new();
    let class = class(&json!({}));
    let scope = |partition: Option<&str>| {
        Some(PlacementScope {
            placement_group: "pg-1".to_owned(),
            partition: partition.map(str::to_owned),
        })
    };
    let marked = OfferingKey { scope: scope(None), ..key("m5.large", "spot", "us-west-2a") };
    bench.unavailable.mark(marked, MarkContext::default());
    assert!(offered(&bench.get(&class, "m5.large"))["spot 2a"], "51/O20");
    let spread = context_of(&group("spread", None));
    let found = bench.types.get(&class, &spread, "m5.large").unwrap();
    assert!(!offered(&found)["spot 2a"], "51 §7.1");

    let marked = OfferingKey { scope: scope(Some("2")), ..key("m5.large", "spot", "us-west-2b") };
    bench.unavailable.mark(marked, MarkContext::default());
    let partitions = context_of(&group("partition", Some(2)));
    let found = bench.types.get(&class, &partitions, "m5.large").unwrap();
    let unavailable = found.offerings.iter().filter(|offering| !offering.available);
    assert_eq!(unavailable.count(), 2 + 1, "51 §7.3: both partitions of 2a, one of 2b");
}

#[test]
fn classes_that_differ_in_compatibility_do_not_share_offerings() {
    let specs = [
        json!({"amiFamily": "AL2023"}),
        json!({"amiFamily": "Bottlerocket"}),
        json!({"cpuOptions": {"nestedVirtualization": "enabled"}}),
        json!({"enclaveOptions": {"enabled": true}}),
    ];
    let expected = [[false, true], [true, true], [false, false], [false, false]];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0]] {
        let bench = Bench::new();
        for at in order {
            let class = class(&json!({"spec": specs[at]}));
            let list = bench.list(&class);
            let is_available = |name: &str| {
                let of = list.iter().find(|of| of.name == name).unwrap();
                of.offerings.iter().any(|offering| offering.available)
            };
            let found = ["a1.large", "m5.metal"].map(is_available);
            assert_eq!(found, expected[at], "51/O21: {}", specs[at]);
        }
    }
}
