//! Tests of the faulty cloud: shortages, prices, delays, lost instances and failed calls.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use karpenter_api::labels;
use karpenter_core::requirement::Requirement;
use karpenter_operator::clock::TokioClock;
use karpenter_operator::cloud::CloudErrorClass;
use karpenter_operator::testing::FakeCloud;
use serde_json::Value;

use super::*;
use crate::faults::Faults;

struct Test {
    inner: Arc<FakeCloud>,
    cloud: FaultyCloud,
    faults: Faults,
    clock: Arc<dyn Clock>,
}

impl Test {
    fn new(seed: u64) -> Self {
        let start = "2026-01-05T08:00:00Z".parse().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(start));
        let faults = Faults::new(&clock);
        let inner = Arc::new(FakeCloud::new());
        let (switch, journal) = (faults.cloud.clone(), faults.journal.clone());
        let cloud = FaultyCloud::new(
            inner.clone(),
            switch,
            &clock,
            SeededRng::new(seed).fork("cloud"),
            journal,
        );
        Self { inner, cloud, faults, clock }
    }

    fn set(&self, faults: CloudFaults) {
        self.faults.cloud.set(faults, None);
    }

    fn injected_faults(&self) -> Vec<String> {
        self.faults.journal.since(0).iter().map(ToString::to_string).collect()
    }
}

fn claim(name: &str, requirements: &Value) -> NodeClaim {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "uid": name, "labels": {labels::NODEPOOL: "default"}},
        "spec": {
            "requirements": requirements,
            "nodeClassRef": {"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "x"},
        },
    }))
    .unwrap()
}

fn any(name: &str) -> NodeClaim {
    claim(name, &json!([]))
}

fn label<'a>(claim: &'a NodeClaim, key: &str) -> &'a str {
    claim.labels().get(key).map(String::as_str).unwrap_or_default()
}

fn short(instance_type: &str, zone: &str, capacity_type: &str) -> CloudFaults {
    let shortage = Shortage {
        instance_type: instance_type.to_owned(),
        zone: zone.to_owned(),
        capacity_type: capacity_type.to_owned(),
        ..Shortage::default()
    };
    CloudFaults { shortages: vec![shortage], ..CloudFaults::default() }
}

/// Type, zone and capacity type of the offerings that are available.
async fn available(cloud: &FaultyCloud) -> BTreeSet<(String, String, String)> {
    let types = cloud.instance_types(&NodePool::default()).await.unwrap();
    let text = |r: Option<&Requirement>| r.unwrap().values().first().cloned().unwrap_or_default();
    let rows = types.iter().flat_map(|known| {
        known.offerings.iter().filter(|offering| offering.available).map(|offering| {
            let value = |key| text(offering.requirements.get(key));
            (known.name.clone(), value(labels::ZONE), value(labels::CAPACITY_TYPE))
        })
    });
    rows.collect()
}

#[tokio::test(start_paused = true)]
async fn short_offerings_are_unavailable_and_never_launched() {
    let test = Test::new(1);
    let all = available(&test.cloud).await;
    let first = test.cloud.create(&any("before")).await.unwrap();
    let cheapest = (
        label(&first, labels::INSTANCE_TYPE).to_owned(),
        label(&first, labels::ZONE).to_owned(),
        label(&first, labels::CAPACITY_TYPE).to_owned(),
    );
    assert!(all.contains(&cheapest), "{cheapest:?}");
    for (of_type, zone, capacity_type) in [
        (cheapest.0.as_str(), "*", "*"),
        ("*", cheapest.1.as_str(), "*"),
        ("*", "*", cheapest.2.as_str()),
        (cheapest.0.as_str(), cheapest.1.as_str(), cheapest.2.as_str()),
    ] {
        test.set(short(of_type, zone, capacity_type));
        let is_short = |row: &(String, String, String)| {
            (of_type == "*" || of_type == row.0)
                && (zone == "*" || zone == row.1)
                && (capacity_type == "*" || capacity_type == row.2)
        };
        let expected: BTreeSet<_> = all.iter().filter(|row| !is_short(row)).cloned().collect();
        assert!(expected.len() < all.len());
        assert_eq!(available(&test.cloud).await, expected);
        let name = format!("{of_type}/{zone}/{capacity_type}");
        let launched = test.cloud.create(&any(&name)).await.unwrap();
        let got = (
            label(&launched, labels::INSTANCE_TYPE).to_owned(),
            label(&launched, labels::ZONE).to_owned(),
            label(&launched, labels::CAPACITY_TYPE).to_owned(),
        );
        assert!(expected.contains(&got), "{name}: {got:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_limited_to_short_offerings_fails_until_the_shortage_ends() {
    let test = Test::new(1);
    let zone = label(&test.cloud.create(&any("a")).await.unwrap(), labels::ZONE).to_owned();
    let mut faults = short("*", &zone, "*");
    faults.shortages[0].until = Some(Duration::from_mins(5));
    test.set(faults);
    let pinned = json!([{"key": labels::ZONE, "operator": "In", "values": [zone]}]);
    let error = test.cloud.create(&claim("b", &pinned)).await.unwrap_err();
    assert!(error.is(CloudErrorClass::InsufficientCapacity), "{error}");
    assert_eq!(test.inner.calls().create.len(), 1, "the provider was not asked");
    test.clock.sleep(Duration::from_mins(5)).await;
    test.cloud.create(&claim("b", &pinned)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_a_matching_shortage_is_launched_unchanged() {
    let test = Test::new(1);
    test.set(short("no-such-type", "*", "*"));
    test.cloud.create(&any("a")).await.unwrap();
    assert_eq!(test.inner.calls().create, [any("a")]);
}

#[tokio::test(start_paused = true)]
async fn instance_types_are_rebuilt_only_when_shortages_change() {
    let test = Test::new(1);
    let pool = NodePool::default();
    let plain = test.cloud.instance_types(&pool).await.unwrap();
    test.set(short("*", "*", "spot"));
    let first = test.cloud.instance_types(&pool).await.unwrap();
    let second = test.cloud.instance_types(&pool).await.unwrap();
    assert!(Arc::ptr_eq(&first, &second) && !Arc::ptr_eq(&first, &plain));
    test.set(CloudFaults::default());
    assert!(Arc::ptr_eq(&test.cloud.instance_types(&pool).await.unwrap(), &plain));
}

#[tokio::test(start_paused = true)]
async fn launches_take_longer_by_the_delay() {
    let test = Test::new(1);
    let launch_delay = Duration::from_secs(20);
    test.set(CloudFaults { launch_delay, ..CloudFaults::default() });
    let mut delays = BTreeSet::new();
    for n in 0..10 {
        let before = test.clock.now();
        test.cloud.create(&any(&format!("c{n}"))).await.unwrap();
        let took = test.clock.now().duration_since(before).as_secs();
        assert!((20..=25).contains(&took), "{took}");
        delays.insert(took);
    }
    assert!(delays.len() > 1, "not all alike: {delays:?}");
}

fn ids(claims: &[NodeClaim]) -> Vec<&str> {
    claims.iter().filter_map(provider_id).collect()
}

#[tokio::test(start_paused = true)]
async fn a_lost_instance_is_not_found_and_its_claim_can_be_deleted() {
    let test = Test::new(1);
    let within = RandomDelay { rate: 1.0, by: Duration::from_mins(10) };
    test.set(CloudFaults { lost_instances: within, ..CloudFaults::default() });
    let launched = test.cloud.create(&any("a")).await.unwrap();
    let id = provider_id(&launched).unwrap();
    assert_eq!(ids(&test.cloud.list().await.unwrap()), [id], "it lives for a while");
    test.clock.sleep(Duration::from_mins(10)).await;
    assert_eq!(ids(&test.cloud.list().await.unwrap()), [""; 0]);
    let error = test.cloud.get(id).await.unwrap_err();
    assert!(error.is(CloudErrorClass::NodeClaimNotFound), "{error}");
    let error = test.cloud.delete(&launched).await.unwrap_err();
    assert!(error.is(CloudErrorClass::NodeClaimNotFound), "{error}");
    assert_eq!(test.inner.calls().delete.len(), 1, "the provider may clean up");
    assert!(test.inner.list().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_never_registers_is_listed_until_deleted() {
    let test = Test::new(1);
    test.set(CloudFaults { failed_registrations: 1.0, ..CloudFaults::default() });
    let launched = test.cloud.create(&any("a")).await.unwrap();
    let id = provider_id(&launched).unwrap();
    assert!(test.inner.list().await.unwrap().is_empty(), "there is no machine");
    assert_eq!(ids(&test.cloud.list().await.unwrap()), [id]);
    assert_eq!(test.cloud.get(id).await.unwrap(), launched);
    let ended = test.cloud.delete(&launched).await.unwrap_err();
    assert!(ended.is(CloudErrorClass::NodeClaimNotFound), "{ended}");
    assert!(test.cloud.list().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_method_can_fail_be_slow_or_lose_its_answer() {
    for method in Method::ALL {
        let slow = RandomDelay { rate: 1.0, by: Duration::from_secs(7) };
        for (faults, is_error, seconds) in [
            (CallFaults { errors: 1.0, ..CallFaults::default() }, true, 0),
            (CallFaults { lost_answers: 1.0, ..CallFaults::default() }, true, 0),
            (CallFaults { slow, ..CallFaults::default() }, false, 7),
        ] {
            let test = Test::new(1);
            let launched = test.cloud.create(&any("a")).await.unwrap();
            let before = test.clock.now();
            // All others are fine.
            test.set(CloudFaults { methods: [(method, faults)].into(), ..CloudFaults::default() });
            let id = provider_id(&launched).unwrap();
            let results = [
                (Method::Create, test.cloud.create(&any("b")).await.is_err()),
                (Method::Get, test.cloud.get(id).await.is_err()),
                (Method::List, test.cloud.list().await.is_err()),
                (
                    Method::InstanceTypes,
                    test.cloud.instance_types(&NodePool::default()).await.is_err(),
                ),
                (Method::IsDrifted, test.cloud.is_drifted(&launched).await.is_err()),
                (Method::Reboot, test.cloud.reboot(&launched, "1").await.is_err()),
                (Method::Delete, test.cloud.delete(&launched).await.is_err()),
            ];
            for (called, failed) in results {
                assert_eq!(failed, is_error && called == method, "{called:?} {faults:?}");
            }
            let took = test.clock.now().duration_since(before).as_secs();
            assert_eq!(took, seconds, "{method:?} {faults:?}");
            let injected = test.injected_faults();
            assert!(injected.len() == 1 && injected[0].contains(method.name()), "{injected:?}");
            let happens = faults.errors.to_bits() != 1.0_f64.to_bits();
            let expected = if method == Method::Create && !happens { 1 } else { 2 };
            assert_eq!(test.inner.calls().create.len(), expected, "{method:?} {faults:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_concurrency_limit_are_rejected() {
    let test = Test::new(1);
    let slow = RandomDelay { rate: 1.0, by: Duration::from_secs(1) };
    test.set(CloudFaults {
        calls: CallFaults { slow, ..CallFaults::default() },
        calls_in_flight: Some(3),
        ..CloudFaults::default()
    });
    let answers = join_all((0..5).map(|_| test.cloud.list())).await;
    let failed: Vec<_> = answers.iter().map(Result::is_err).collect();
    assert_eq!(failed, [false, false, false, true, true]);
    assert!(test.cloud.list().await.is_ok(), "when they are over there is room");
}

/// Returns the journal of faults after launching many claims under this seed.
async fn faults_for_seed(seed: u64) -> Vec<String> {
    let test = Test::new(seed);
    let slow = RandomDelay { rate: 0.2, by: Duration::from_secs(1) };
    test.set(CloudFaults {
        launch_delay: Duration::from_secs(5),
        lost_instances: RandomDelay { rate: 0.2, by: Duration::from_mins(1) },
        failed_registrations: 0.2,
        calls: CallFaults { errors: 0.2, slow, lost_answers: 0.1 },
        ..CloudFaults::default()
    });
    for n in 0..30 {
        let _ = test.cloud.create(&any(&format!("c{n}"))).await;
        let _ = test.cloud.list().await;
    }
    test.injected_faults()
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_injects_the_same_cloud_faults() {
    let first = faults_for_seed(5).await;
    assert!(first.len() > 30, "{first:?}");
    assert_eq!(first, faults_for_seed(5).await);
    assert_ne!(first, faults_for_seed(6).await);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_launch_gets_the_same_fault() {
    for seed in 0..10 {
        let test = Test::new(seed);
        test.set(CloudFaults { failed_registrations: 0.5, ..CloudFaults::default() });
        test.cloud.create(&any("a")).await.unwrap();
        test.cloud.create(&any("a")).await.unwrap();
        let count = test.inner.list().await.unwrap().len();
        assert!(count == 0 || count == 2, "seed {seed}: {count}");
    }
}

#[tokio::test(start_paused = true)]
async fn launches_avoid_offerings_with_raised_prices() {
    let test = Test::new(1);
    let usual = test.cloud.create(&any("usual")).await.unwrap();
    let price = test.cloud.price(&usual).await.unwrap();
    let change = PriceChange {
        instance_type: label(&usual, labels::INSTANCE_TYPE).to_owned(),
        zone: "*".to_owned(),
        capacity_type: "*".to_owned(),
        factor: 100.0,
    };
    test.cloud.set_prices(vec![change]);
    let dearer = test.cloud.price(&usual).await.unwrap();
    assert!((dearer - 100.0 * price).abs() < 1e-9, "{price} {dearer}");
    let types = test.cloud.instance_types(&NodePool::default()).await.unwrap();
    let seen = types.iter().find(|known| known.name == label(&usual, labels::INSTANCE_TYPE));
    let seen = seen.unwrap().offerings.iter().map(|offering| offering.price);
    assert!(
        seen.clone().any(|price| price.total_cmp(&dearer).is_eq()),
        "{:?}",
        seen.collect::<Vec<_>>()
    );
    let other = test.cloud.create(&any("other")).await.unwrap();
    assert_ne!(label(&other, labels::INSTANCE_TYPE), label(&usual, labels::INSTANCE_TYPE));
    test.cloud.set_prices(Vec::new());
    let again = test.cloud.create(&any("again")).await.unwrap();
    assert_eq!(label(&again, labels::INSTANCE_TYPE), label(&usual, labels::INSTANCE_TYPE));
}
