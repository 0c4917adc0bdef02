//! Amounts of resources by number instead of by name, for many comparisons.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::catalog::InstanceType;
use crate::pod::PodSpec;
use crate::resources::{Quantity, Resources};

/// Amounts by the number of the resource. Amounts beyond the end are zero.
pub(super) type Amounts = Vec<Quantity>;

/// Converts resources to [`Amounts`], those of pods and instance types once each.
#[derive(Default)]
pub(super) struct AmountTable {
    /// The names of the resources, by number.
    names: Vec<String>,
    /// The requests of pods, by the address of their spec: replicas share it.
    requests: FxHashMap<*const PodSpec, Vec<(usize, Quantity)>>,
    /// What pods may use of an instance type, by its address: once for each group of offerings.
    allocatable: FxHashMap<*const InstanceType, Vec<Amounts>>,
    /// What pods may use of every instance type of a NodeClaim, by the address of its list:
    /// NodeClaims share lists. None if the offerings of a type differ.
    least: FxHashMap<(*const u32, *const Arc<InstanceType>), Option<Amounts>>,
}

impl AmountTable {
    /// Returns the sum of the pods' requests.
    pub(super) fn requests<'s>(&mut self, specs: impl Iterator<Item = &'s PodSpec>) -> Amounts {
        let mut sum = Amounts::new();
        for spec in specs {
            let own = self.requests.entry(std::ptr::from_ref(spec)).or_insert_with(|| {
                let all = spec.requests.iter();
                all.map(|(name, amount)| (number(&mut self.names, name), amount)).collect()
            });
            for &(number, amount) in own.iter() {
                add(&mut sum, number, amount);
            }
        }
        sum
    }

    /// Returns the names and amounts.
    pub(super) fn named<'t>(
        &'t self,
        amounts: &'t [Quantity],
    ) -> impl Iterator<Item = (&'t str, Quantity)> {
        self.names.iter().map(String::as_str).zip(amounts.iter().copied())
    }

    /// Returns the positions of the instance types that do not have this much for pods.
    pub(super) fn too_small(
        &mut self,
        need: &[Quantity],
        positions: &[u32],
        list: &[Arc<InstanceType>],
    ) -> Vec<u32> {
        let key = (positions.as_ptr(), list.as_ptr());
        if !self.least.contains_key(&key) {
            let least = self.least_allocatable(positions, list);
            self.least.insert(key, least);
        }
        if let Some(Some(least)) = self.least.get(&key)
            && fits(need, least)
        {
            return Vec::new();
        }
        let is_too_small =
            |&at: &u32| !self.groups(&list[at as usize]).iter().any(|has| fits(need, has));
        positions.iter().copied().filter(is_too_small).collect()
    }

    /// Returns the least amounts of all instance types; none if the offerings of a type differ.
    fn least_allocatable(
        &mut self,
        positions: &[u32],
        list: &[Arc<InstanceType>],
    ) -> Option<Amounts> {
        let mut least: Option<Amounts> = None;
        for &at in positions {
            let [own] = self.groups(&list[at as usize]) else { return None };
            let Some(least) = &mut least else {
                least = Some(own.clone());
                continue;
            };
            least.truncate(own.len());
            for (least, own) in least.iter_mut().zip(own) {
                *least = (*least).min(*own);
            }
        }
        least
    }

    /// Returns what pods may use of an instance type, for each group of offerings.
    fn groups(&mut self, own: &InstanceType) -> &[Amounts] {
        self.allocatable.entry(std::ptr::from_ref(own)).or_insert_with(|| {
            let groups = own.allocatable_groups().into_iter();
            let usable = groups.filter(|group| is_not_overdrawn(&group.allocatable));
            usable.map(|group| amounts(&mut self.names, &group.allocatable)).collect()
        })
    }
}

/// Returns whether this much can be had from the other amounts.
fn fits(need: &[Quantity], has: &[Quantity]) -> bool {
    let mut has = has.iter().copied().chain(std::iter::repeat(Quantity::ZERO));
    need.iter().all(|&need| has.next().is_some_and(|has| need <= has))
}

/// Nothing can be had from a node that is overdrawn anywhere (spec 20 §1.11).
fn is_not_overdrawn(resources: &Resources) -> bool {
    resources.iter().all(|(_, amount)| amount >= Quantity::ZERO)
}

fn amounts(names: &mut Vec<String>, resources: &Resources) -> Amounts {
    let mut amounts = Amounts::new();
    for (name, amount) in resources.iter() {
        add(&mut amounts, number(names, name), amount);
    }
    amounts
}

/// Returns the number of a resource.
fn number(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

fn add(sum: &mut Amounts, number: usize, amount: Quantity) {
    if number >= sum.len() {
        sum.resize(number + 1, Quantity::ZERO);
    }
    sum[number] = sum[number].saturating_add(amount);
}
