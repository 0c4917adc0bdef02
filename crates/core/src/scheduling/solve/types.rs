//! Instance types with indexes: bit sets of the types that meet a requirement set or are large
//! enough.
//!
//! A *variant* is an instance type in one of its [allocatable
//! groups](crate::catalog::InstanceType::allocatable_groups). Most types have one. Groups without
//! an available offering can never be launched and have no variant.

use rustc_hash::FxHashMap;
use std::sync::{Arc, OnceLock};

use super::amounts::{Amounts, ResourceColumns};
use super::requirement_store::{KeyId, ReqId, RequirementStore, SetId, UndefinedLabels, number};
use crate::bit_set::BitSet;
use crate::catalog::{InstanceType, InstanceTypes};

/// A list of instance types with indexes, shared by the NodePools that use it.
#[derive(Clone, Debug)]
pub(super) struct InstanceTypeIndex {
    pub(super) list: InstanceTypes,
    pub(super) variants: Vec<Variant>,
    /// The requirements of each type, by key.
    requirements: Vec<Vec<(KeyId, ReqId)>>,
    /// The requirement set of each offering of each type.
    pub(super) offerings: Vec<Vec<SetId>>,
    /// The distinct requirement sets of offerings.
    offering_sets: Vec<SetId>,
    /// By resource: ascending amounts, and the variants that have at least as much.
    sizes: Vec<Vec<(i128, BitSet)>>,
    /// Variants that meet one requirement.
    meeting: FxHashMap<ReqId, BitSet>,
    compatible: FxHashMap<SetId, Arc<CompatibleTypes>>,
    /// Whether some offering is reserved.
    pub(super) has_reserved: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Variant {
    /// Position in the list.
    pub(super) instance_type: u32,
    pub(super) allocatable: Amounts,
    pub(super) capacity: Amounts,
    /// Available offerings of the group: position in the type, and in `offering_sets`.
    pub(super) offerings: Vec<(usize, usize)>,
    /// The same as bits of `offering_sets`.
    offered: BitSet,
}

/// The variants and offerings of a list that a requirement set leaves.
#[derive(Debug)]
pub(super) struct CompatibleTypes {
    /// Variants whose type meets the set and that have an offering which does.
    pub(super) variants: BitSet,
    /// Which of `offering_sets` suit.
    pub(super) offerings: BitSet,
    /// Variants with the lowest price of a suitable available offering, cheapest first. Calculated
    /// on first use: of thousands of sets few need it.
    by_price: OnceLock<Vec<(f64, u32)>>,
}

impl InstanceTypeIndex {
    pub(super) fn new(
        list: &InstanceTypes,
        columns: &ResourceColumns,
        store: &mut RequirementStore<'_>,
    ) -> Self {
        let mut types = Self {
            list: list.clone(),
            variants: Vec::new(),
            requirements: Vec::new(),
            offerings: Vec::new(),
            offering_sets: Vec::new(),
            sizes: Vec::new(),
            meeting: FxHashMap::default(),
            compatible: FxHashMap::default(),
            has_reserved: false,
        };
        let mut set_positions = FxHashMap::default();
        let mut variants = Vec::new();
        for (position, instance_type) in list.iter().enumerate() {
            types.has_reserved |=
                instance_type.offerings.iter().any(crate::catalog::Offering::is_reserved);
            types.requirements.push(requirements_of(instance_type, store));
            // With a hostname, if an offering requires one: no new node has it, so none fits.
            let sets =
                instance_type.offerings.iter().map(|o| store.intern_with_hostname(&o.requirements));
            let sets: Vec<SetId> = sets.collect();
            for group in instance_type.allocatable_groups() {
                let offerings: Vec<_> = group
                    .offerings
                    .iter()
                    .map(|&offering| {
                        let set = sets[offering];
                        let known = *set_positions.entry(set).or_insert_with(|| {
                            types.offering_sets.push(set);
                            types.offering_sets.len() - 1
                        });
                        (offering, known)
                    })
                    .collect();
                if offerings.is_empty() || has_negative(&group.allocatable) {
                    continue;
                }
                variants.push(Variant {
                    instance_type: number(position),
                    allocatable: columns.amounts(&group.allocatable),
                    capacity: columns.amounts(&instance_type.capacity),
                    offerings,
                    offered: BitSet::default(),
                });
            }
            types.offerings.push(sets);
        }
        for variant in &mut variants {
            variant.offered = BitSet::empty(types.offering_sets.len());
            variant.offerings.iter().for_each(|&(_, set)| variant.offered.insert(set));
        }
        types.variants = variants;
        types.sizes = (0..columns.len()).map(|column| types.sizes_of(column)).collect();
        types
    }

    fn sizes_of(&self, column: usize) -> Vec<(i128, BitSet)> {
        let mut by_size: Vec<(i128, usize)> =
            self.variants.iter().enumerate().map(|(v, x)| (x.allocatable[column], v)).collect();
        by_size.sort_unstable();
        let mut at_least = BitSet::empty(self.variants.len());
        let mut sizes: Vec<(i128, BitSet)> = Vec::new();
        for (size, variant) in by_size.into_iter().rev() {
            at_least.insert(variant);
            match sizes.last_mut() {
                Some((last, bits)) if *last == size => *bits = at_least.clone(),
                _ => sizes.push((size, at_least.clone())),
            }
        }
        sizes.reverse();
        sizes
    }

    /// No variant.
    pub(super) fn none(&self) -> BitSet {
        BitSet::empty(self.variants.len())
    }

    /// Keeps the variants that have at least `need`.
    pub(super) fn keep_fitting(&self, variants: &mut BitSet, need: &[i128]) {
        for (sizes, &amount) in self.sizes.iter().zip(need) {
            let position = sizes.partition_point(|(size, _)| *size < amount);
            match sizes.get(position) {
                // The first entry holds every variant.
                Some(_) if position == 0 => {}
                Some((_, bits)) => variants.intersect_with(bits),
                None => *variants = self.none(),
            }
        }
    }

    /// Returns the variants and offerings that a requirement set leaves.
    pub(super) fn compatible_types(
        &mut self,
        set: SetId,
        store: &mut RequirementStore<'_>,
    ) -> Arc<CompatibleTypes> {
        if let Some(answer) = self.compatible.get(&set) {
            return answer.clone();
        }
        let answer = Arc::new(self.compute_compatible_types(set, store));
        self.compatible.insert(set, answer.clone());
        answer
    }

    fn compute_compatible_types(
        &mut self,
        set: SetId,
        store: &mut RequirementStore<'_>,
    ) -> CompatibleTypes {
        let mut offerings = BitSet::empty(self.offering_sets.len());
        for (position, &offering) in self.offering_sets.iter().enumerate() {
            if store.compatible(set, offering, UndefinedLabels::WellKnown) {
                offerings.insert(position);
            }
        }
        let mut variants = self.none();
        for (position, variant) in self.variants.iter().enumerate() {
            if variant.offered.intersects(&offerings) {
                variants.insert(position);
            }
        }
        for requirement in store.members(set).to_vec() {
            variants.intersect_with(self.meeting(requirement, store));
        }
        CompatibleTypes { variants, offerings, by_price: OnceLock::new() }
    }

    /// Returns the compatible variants with their lowest price, cheapest first.
    ///
    /// The price is that of a suitable available offering.
    pub(super) fn by_price<'r>(&self, answer: &'r CompatibleTypes) -> &'r [(f64, u32)] {
        answer.by_price.get_or_init(|| {
            let price = |v| Some((self.lowest_price(v, &answer.offerings)?, number(v)));
            let mut by_price: Vec<(f64, u32)> = answer.variants.iter().filter_map(price).collect();
            by_price.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            by_price
        })
    }

    /// Returns the variants whose type agrees with one requirement, or does not have its key.
    fn meeting(&mut self, requirement: ReqId, store: &mut RequirementStore<'_>) -> &BitSet {
        let key = store.key_of(requirement);
        let Self { variants, requirements, meeting, .. } = self;
        meeting.entry(requirement).or_insert_with(|| {
            let mut bits = BitSet::empty(variants.len());
            for (position, variant) in variants.iter().enumerate() {
                let own = &requirements[variant.instance_type as usize];
                let agrees = match own.binary_search_by_key(&key, |&(key, _)| key) {
                    Ok(found) => store.agree(own[found].1, requirement),
                    Err(_) => true,
                };
                if agrees {
                    bits.insert(position);
                }
            }
            bits
        })
    }

    /// Returns the variants whose type agrees with every requirement of a set.
    ///
    /// Offerings are not checked.
    pub(super) fn meeting_all(&mut self, set: SetId, store: &mut RequirementStore<'_>) -> BitSet {
        let mut variants = BitSet::full(self.variants.len());
        for requirement in store.members(set).to_vec() {
            variants.intersect_with(self.meeting(requirement, store));
        }
        variants
    }

    fn lowest_price(&self, variant: usize, suitable: &BitSet) -> Option<f64> {
        let variant = &self.variants[variant];
        let offerings = &self.instance_type(variant).offerings;
        variant
            .offerings
            .iter()
            .filter(|(_, set)| suitable.contains(*set))
            .map(|&(offering, _)| offerings[offering].price)
            .min_by(f64::total_cmp)
    }

    pub(super) fn instance_type(&self, variant: &Variant) -> &InstanceType {
        &self.list[variant.instance_type as usize]
    }

    /// Returns the requirement of a type on a key.
    pub(super) fn requirement(&self, variant: usize, key: KeyId) -> Option<ReqId> {
        let own = &self.requirements[self.variants[variant].instance_type as usize];
        own.binary_search_by_key(&key, |&(key, _)| key).ok().map(|found| own[found].1)
    }

    /// Returns the types of the variants, in the order of the list.
    pub(super) fn types_of(&self, variants: &BitSet) -> Vec<u32> {
        let mut types: Vec<u32> = variants.iter().map(|v| self.variants[v].instance_type).collect();
        types.dedup();
        types
    }
}

fn requirements_of(
    instance_type: &InstanceType,
    store: &mut RequirementStore<'_>,
) -> Vec<(KeyId, ReqId)> {
    let mut own: Vec<_> = instance_type
        .requirements
        .iter()
        .map(|requirement| {
            let id = store.requirement(requirement);
            (store.key_of(id), id)
        })
        .collect();
    own.sort_unstable();
    own
}

fn has_negative(resources: &crate::resources::Resources) -> bool {
    resources.iter().any(|(_, quantity)| quantity < crate::resources::Quantity::ZERO)
}
