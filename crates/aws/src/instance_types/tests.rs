//! Tests of instance types: the cases of spec 51 §5 and §7, and upstream's recorded values.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use karpenter_api::ec2_nodeclass::Ec2NodeClass;
use karpenter_core::catalog::{InstanceType, Offering};
use karpenter_operator::clock::TokioClock;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::discovery::PriceTable;
use crate::tables;

mod cache;
mod expressions;
mod fixture_table;
mod labels;
mod laws;
mod offerings;
mod recorded;
mod resources;

/// The subnets of the recorded node classes: one for each zone of us-west-2.
const ZONES: [(&str, &str); 4] = [
    ("us-west-2a", "usw2-az2"),
    ("us-west-2b", "usw2-az1"),
    ("us-west-2c", "usw2-az3"),
    ("us-west-2d", "usw2-az4"),
];

/// An instance type with its figures, its zones in us-west-2 and its price in us-east-1.
#[derive(Clone, Deserialize)]
struct Entry {
    info: InstanceTypeInfo,
    #[serde(default)]
    figures: TypeFigures,
    price: Option<f64>,
    zones: Vec<String>,
}

/// Returns the instance types of the test data, by name.
fn entries() -> Vec<Entry> {
    static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
        let text = include_str!("../../../../scenarios/aws-instance-types/ec2.json");
        serde_json::from_str(text).unwrap()
    });
    ENTRIES.clone()
}

/// Returns all instance types of the committed table of us-west-2.
fn all_entries() -> Vec<Entry> {
    let table = tables::RegionTable::load("us-west-2").unwrap();
    let (figures, prices) = (tables::figures(), tables::on_demand_prices("us-east-1").prices);
    let entry = |info: InstanceTypeInfo| Entry {
        figures: figures.get(&info.name).copied().unwrap_or_default(),
        price: prices.get(&info.name).copied(),
        zones: table.offered_zones[&info.name].iter().cloned().collect(),
        info,
    };
    table.types.into_iter().map(entry).collect()
}

/// Returns one instance type of the test data.
fn entry(name: &str) -> Entry {
    entries().into_iter().find(|entry| entry.info.name == name).unwrap()
}

/// Instance types of the test data with all their state.
struct Bench {
    types: InstanceTypes,
    clock: Arc<TokioClock>,
    prices: Arc<PriceBook>,
    unavailable: Arc<UnavailableOfferings>,
    reservations: Arc<ReservationCounts>,
}

impl Bench {
    fn new() -> Self {
        Self::with(ResolutionOptions::new("us-west-2"), entries())
    }

    fn with_options(change: impl FnOnce(&mut ResolutionOptions)) -> Self {
        let mut options = ResolutionOptions::new("us-west-2");
        change(&mut options);
        Self::with(options, entries())
    }

    fn with(options: ResolutionOptions, entries: Vec<Entry>) -> Self {
        let clock = Arc::new(TokioClock::starting_at(jiff::Timestamp::UNIX_EPOCH));
        let clock_port: Arc<dyn Clock> = clock.clone();
        let named = |entry: &Entry| (entry.info.name.clone(), entry.figures);
        let table = PriceTable {
            region: "us-east-1".to_owned(),
            prices: entries
                .iter()
                .filter_map(|entry| Some((entry.info.name.clone(), entry.price?)))
                .collect(),
            ..PriceTable::default()
        };
        let prices = Arc::new(PriceBook::new("us-west-2", false, PriceList::from_table(&table)));
        let unavailable = Arc::new(UnavailableOfferings::new(Arc::clone(&clock_port)));
        let reservations = Arc::new(ReservationCounts::new(Arc::clone(&clock_port)));
        let sources = InstanceTypeSources {
            figures: entries.iter().map(named).collect(),
            clock: clock_port,
            prices: Arc::clone(&prices),
            unavailable: Arc::clone(&unavailable),
            reservations: Arc::clone(&reservations),
        };
        let types = InstanceTypes::new(options, sources);
        let zones = entries
            .iter()
            .map(|entry| (entry.info.name.clone(), entry.zones.iter().cloned().collect()))
            .collect();
        types.replace(entries.into_iter().map(|entry| entry.info).collect(), zones);
        Self { types, clock, prices, unavailable, reservations }
    }

    fn list(&self, class: &Ec2NodeClass) -> karpenter_core::catalog::InstanceTypes {
        self.types.list(class, &OfferingContext::default()).unwrap()
    }

    fn get(&self, class: &Ec2NodeClass, name: &str) -> Arc<InstanceType> {
        self.types.get(class, &OfferingContext::default(), name).unwrap()
    }
}

/// Returns an AL2023 node class with a subnet in each zone, changed by a merge patch.
fn class(patch: &Value) -> Ec2NodeClass {
    let subnets: Vec<_> = ZONES
        .iter()
        .map(|(zone, id)| json!({"id": format!("subnet-{zone}"), "zone": zone, "zoneID": id}))
        .collect();
    let mut class = json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "amiFamily": "AL2023",
            "amiSelectorTerms": [{"id": "ami-1"}],
            "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}],
            "role": "node",
        },
        "status": {"subnets": subnets},
    });
    merge(&mut class, patch);
    serde_json::from_value(class).unwrap()
}

/// Returns a class of an AMI family with kubelet settings.
fn kubelet(family: &str, kubelet: &Value) -> Ec2NodeClass {
    class(&json!({"spec": {"amiFamily": family, "kubelet": kubelet}}))
}

/// Applies a JSON merge patch.
fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(target.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}

/// Returns an amount as Kubernetes writes it.
fn text(of: &InstanceType, resource: &str) -> String {
    of.capacity.get(resource).map(Quantity::canonical).unwrap_or_default()
}

/// Returns the values of a label as text: `a b`, `DoesNotExist`, or `undefined`.
fn label(of: &InstanceType, key: &str) -> String {
    let Some(requirement) = of.requirements.get(key) else { return "undefined".to_owned() };
    assert!(!requirement.is_complement(), "{key}");
    if requirement.is_empty() {
        return "DoesNotExist".to_owned();
    }
    requirement.values().iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// Returns the offerings of a type as `capacity type, zone`, with those that are available.
fn offered(of: &InstanceType) -> BTreeMap<String, bool> {
    let single = |offering: &Offering, key: &str| {
        let values = offering.requirements.get(key).map(|known| known.values().clone());
        values.and_then(|values| values.first().cloned()).unwrap_or_default()
    };
    let name = |offering: &Offering| {
        let zone = single(offering, "topology.kubernetes.io/zone");
        let zone = zone.rsplit('-').next().unwrap_or_default().to_owned();
        format!("{} {zone}", single(offering, "karpenter.sh/capacity-type"))
    };
    of.offerings.iter().map(|offering| (name(offering), offering.available)).collect()
}
