//! Applies requirements to instance types, one after the other, and sorts the rest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clap::ValueEnum;
use karpenter_api::labels;
use karpenter_core::catalog::{Catalog, InstanceType, InstanceTypes, Offering};
use karpenter_core::requirement::{Requirement, Requirements};
use karpenter_core::resources::{CPU, MEMORY, Quantity};

use crate::plan::has_offering;

/// The resource of pods per node.
const PODS: &str = "pods";
/// Resources that count as GPUs.
const GPUS: [&str; 3] = ["nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi"];

/// What the instance types are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortKey {
    #[default]
    Price,
    Cpu,
    Memory,
    Name,
    Pods,
    Gpu,
}

/// The instance types that meet all requirements.
#[derive(Debug)]
pub(crate) struct Selection {
    /// The NodePool whose requirements were applied.
    pub(crate) node_pool: Option<String>,
    /// How many types there were before the first step.
    pub(crate) total: usize,
    pub(crate) steps: Vec<Step>,
    pub(crate) types: Vec<SelectedType>,
}

/// What one requirement removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) requirement: String,
    pub(crate) removed: usize,
    pub(crate) left: usize,
}

/// An instance type with the offerings that meet the requirements.
#[derive(Clone, Debug)]
pub(crate) struct SelectedType {
    pub(crate) instance_type: Arc<InstanceType>,
    /// Unavailable ones included.
    pub(crate) offerings: Vec<Offering>,
}

/// Applies requirements to instance types.
pub(crate) fn select(
    node_pool: Option<String>,
    types: &InstanceTypes,
    requirements: &[Requirement],
    catalog: &Catalog,
) -> Selection {
    let mut left: Vec<_> = types.iter().cloned().collect();
    let mut applied = Requirements::default();
    let mut steps = Vec::new();
    let mut apply = |requirement: String, applied: &Requirements| {
        let before = left.len();
        left.retain(|one| has_offering(one, applied, catalog));
        steps.push(Step { requirement, removed: before - left.len(), left: left.len() });
    };
    apply("an available offering".to_owned(), &applied);
    for requirement in requirements {
        applied.add(requirement.clone());
        apply(requirement.to_string(), &applied);
    }
    let is_compatible = |offering: &&Offering| {
        applied.compatible(&offering.requirements, &catalog.well_known).is_ok()
    };
    let selected = |instance_type: Arc<InstanceType>| SelectedType {
        offerings: instance_type.offerings.iter().filter(is_compatible).cloned().collect(),
        instance_type,
    };
    let selected = left.into_iter().map(selected).collect();
    Selection { node_pool, total: types.len(), steps, types: selected }
}

impl Selection {
    /// Sorts the types, those with equal keys by name. GPUs are in descending order.
    pub(crate) fn sort(&mut self, key: SortKey) {
        let amount = |of: &SelectedType, name: &str| of.instance_type.capacity.amount(name);
        let types = &mut self.types;
        types.sort_by(|a, b| a.instance_type.name.cmp(&b.instance_type.name));
        match key {
            SortKey::Name => {}
            SortKey::Cpu => types.sort_by_key(|one| amount(one, CPU)),
            SortKey::Memory => types.sort_by_key(|one| amount(one, MEMORY)),
            SortKey::Pods => types.sort_by_key(|one| amount(one, PODS)),
            SortKey::Gpu => types.sort_by_key(|one| Reverse(one.gpus())),
            SortKey::Price => {
                let price = |one: &SelectedType| one.cheapest_price().unwrap_or(f64::INFINITY);
                types.sort_by(|a, b| price(a).total_cmp(&price(b)));
            }
        }
    }
}

impl SelectedType {
    /// Returns the number of GPUs.
    pub(crate) fn gpus(&self) -> Quantity {
        let amounts = GPUS.map(|name| self.instance_type.capacity.amount(name));
        amounts.into_iter().fold(Quantity::ZERO, Quantity::saturating_add)
    }

    /// Returns the lowest price of the offerings that can be launched, by capacity type.
    pub(crate) fn prices(&self) -> BTreeMap<&str, f64> {
        let mut prices = BTreeMap::new();
        for offering in self.launchable() {
            for capacity_type in values(offering, labels::CAPACITY_TYPE) {
                let lowest = prices.entry(capacity_type).or_insert(offering.price);
                *lowest = offering.price.min(*lowest);
            }
        }
        prices
    }

    /// Returns the zones of the offerings that can be launched.
    pub(crate) fn zones(&self) -> BTreeSet<&str> {
        self.launchable().flat_map(|offering| values(offering, labels::ZONE)).collect()
    }

    fn cheapest_price(&self) -> Option<f64> {
        self.prices().into_values().min_by(f64::total_cmp)
    }

    fn launchable(&self) -> impl Iterator<Item = &Offering> {
        self.offerings.iter().filter(|offering| offering.is_launchable())
    }
}

/// Returns the values that an offering has for a label.
pub(crate) fn values<'a>(
    offering: &'a Offering,
    key: &str,
) -> impl Iterator<Item = &'a str> + use<'a> {
    let requirement = offering.requirements.get(key);
    requirement.into_iter().flat_map(Requirement::values).map(String::as_str)
}
