//! Allocates devices for the ResourceClaims of a pod (spec 20 §3.8, §3.9 steps b and e).

use super::Solver;
use super::claim_placement::placeholder_hostname;
use super::existing::ExistingNode;
use super::requirement_store::SetId;
use crate::bit_set::BitSet;
use crate::labels::{HOSTNAME, INSTANCE_TYPE};
use crate::requirement::{Requirement, Requirements};
use crate::scheduling::dra::{Allocation, Candidate, CandidateId, CandidateType};

/// The error when no instance type is left.
pub(super) const NO_TYPE: &str =
    "no instance type satisfies both scheduling and dynamic resource requirements";

/// Devices found for a pod, with the types that were searched.
#[derive(Debug)]
pub(super) struct DeviceAllocation {
    pub(super) allocation: Allocation,
    /// The types that were searched, by position in the list.
    types: Vec<u32>,
}

impl Solver<'_> {
    /// Finds the devices of a class on an existing node.
    pub(super) fn devices_on_node(
        &self,
        node: &ExistingNode,
        class: usize,
    ) -> Option<DeviceAllocation> {
        let allocator = self.allocator.as_ref()?;
        let facts = self.input.snapshot.node(node.id);
        let name = facts.labels.get(INSTANCE_TYPE);
        let types = facts.pool.as_ref().and_then(|pool| self.input.catalog.pools.get(pool));
        let own = types.and_then(|types| types.iter().find(|t| Some(&t.name) == name));
        let labels = facts.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let mut requirements = Requirements::from_labels(labels, &self.input.catalog.aliases);
        let hostname = self.topology.host_name(node.host);
        requirements.add(Requirement::in_values(HOSTNAME, [hostname]));
        let candidate = Candidate {
            id: CandidateId::Node(node.id),
            node_name: facts.object.as_ref().map(|_| facts.name.as_str()),
            requirements: &requirements,
            types: vec![CandidateType::of_node(
                name.map_or("", String::as_str),
                own.map(|own| &own.dynamic_resources),
                facts.is_initialized,
            )],
        };
        let allocation = allocator.allocate(&candidate, &self.classes[class].devices).ok()?;
        Some(DeviceAllocation { allocation, types: Vec::new() })
    }

    /// Finds the devices of a class on a NodeClaim with this set and these variants.
    pub(super) fn devices_on_claim(
        &self,
        claim: Option<usize>,
        (set, variants): (SetId, &BitSet),
        template: usize,
        class: usize,
    ) -> Result<DeviceAllocation, String> {
        let Some(allocator) = &self.allocator else { return Err(NO_TYPE.to_owned()) };
        let index = claim.unwrap_or(self.claims.len());
        let types = &self.types[self.templates[template].types];
        let positions = types.types_of(variants);
        let mut requirements = self.store.plain(set);
        requirements.add(Requirement::in_values(HOSTNAME, [placeholder_hostname(index)]));
        let candidate = Candidate {
            id: CandidateId::InFlight(super::id(index)),
            node_name: None,
            requirements: &requirements,
            types: positions
                .iter()
                .map(|&position| &types.list[position as usize])
                .map(|t| CandidateType::in_flight(&t.name, &t.dynamic_resources))
                .collect(),
        };
        let allocation = allocator
            .allocate(&candidate, &self.classes[class].devices)
            .map_err(|text| format!("allocating dynamic resources, {text}"))?;
        Ok(DeviceAllocation { allocation, types: positions })
    }

    /// Keeps the types that have the devices.
    pub(super) fn keep_with_devices(
        &self,
        variants: &mut BitSet,
        devices: &DeviceAllocation,
        template: usize,
    ) {
        let types = &self.types[self.templates[template].types];
        let mut has = vec![false; types.list.len()];
        for &position in &devices.allocation.types {
            if let Some(&listed) = devices.types.get(position) {
                has[listed as usize] = true;
            }
        }
        for variant in variants.clone().iter() {
            if !has[types.variants[variant].instance_type as usize] {
                variants.remove(variant);
            }
        }
    }

    /// Holds devices for a NodeClaim, and releases those of types that it will not become.
    pub(super) fn hold_on_claim(&mut self, index: usize, devices: DeviceAllocation) {
        let Some(allocator) = &mut self.allocator else { return };
        let claim = &mut self.claims[index];
        claim.has_devices = true;
        let types = &self.types[self.templates[claim.template].types];
        let left = types.types_of(&claim.variants);
        let candidate = CandidateId::InFlight(super::id(index));
        allocator.commit(candidate, devices.allocation);
        let dropped = devices.types.iter().filter(|position| !left.contains(position));
        allocator.release(
            candidate,
            dropped.map(|&position| types.list[position as usize].name.as_str()),
        );
    }

    /// Releases the devices of types that a NodeClaim had before and has no more.
    pub(super) fn release_devices(&mut self, index: usize, before: &BitSet) {
        let Some(allocator) = &mut self.allocator else { return };
        let claim = &self.claims[index];
        let types = &self.types[self.templates[claim.template].types];
        let left = types.types_of(&claim.variants);
        let dropped = types.types_of(before).into_iter().filter(|had| !left.contains(had));
        let names = dropped.map(|position| types.list[position as usize].name.as_str());
        allocator.release(CandidateId::InFlight(super::id(index)), names);
    }

    /// Holds devices for an existing node.
    pub(super) fn hold_on_node(&mut self, index: usize, devices: DeviceAllocation) {
        let candidate = CandidateId::Node(self.existing.nodes[index].id);
        if let Some(allocator) = &mut self.allocator {
            allocator.commit(candidate, devices.allocation);
        }
    }
}
