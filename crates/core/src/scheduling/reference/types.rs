//! Filters instance types by requirements, resources and offerings (spec 20 §3.10, §3.11).

use std::sync::Arc;

use super::input::SolverInput;
use super::templates::DaemonGroup;
use crate::catalog::{InstanceType, Offering};
use crate::host_port::HostPort;
use crate::labels::HOSTNAME;
use crate::rejection::{InstanceTypesRejection, TypeFlags};
use crate::requirement::Requirements;
use crate::resources::Resources;
use crate::scheduling::min_values;

/// The type filter, with its inputs that do not depend on requirements.
pub(super) struct TypeFilter<'f> {
    pub input: &'f SolverInput<'f>,
    /// The pool's list in the catalog.
    pub list: &'f [Arc<InstanceType>],
    pub groups: &'f [DaemonGroup],
    /// Ports of pods that the NodeClaim has already.
    pub taken_ports: &'f [HostPort],
    /// Ports of the pod.
    pub ports: &'f [HostPort],
    /// Requests of the pod, for the rejection.
    pub requests: &'f Resources,
    /// Requests of all pods of the NodeClaim, this one included.
    pub total: &'f Resources,
}

/// The instance types that pass the filter.
pub(super) struct FilteredTypes {
    /// Positions in the pool's list, ascending.
    pub types: Vec<usize>,
    /// The requirements, with minValues lowered if that was allowed and needed.
    pub requirements: Requirements,
}

impl TypeFilter<'_> {
    /// Returns the groups whose daemons leave the pod's ports free.
    fn groups(&self) -> impl Iterator<Item = &DaemonGroup> {
        let is_free = |group: &&DaemonGroup| {
            let mut taken = group.ports.iter().chain(self.taken_ports);
            !taken.any(|port| self.ports.iter().any(|own| own.conflicts_with(port)))
        };
        self.groups.iter().filter(is_free)
    }

    /// Returns the candidates that pass the filter, and which checks any candidate passed.
    ///
    /// A candidate passes if it meets the requirements, is large enough and has a compatible
    /// offering. minValues are not checked.
    pub(super) fn passing_types(
        &self,
        candidates: &[usize],
        requirements: &Requirements,
    ) -> (Vec<usize>, TypeFlags) {
        let mut flags = TypeFlags::default();
        let mut kept = Vec::new();
        for group in self.groups() {
            let need = match &group.overhead {
                Some(overhead) => self.total.merge(overhead),
                None => self.total.clone(),
            };
            for &position in group.types.iter().filter(|position| candidates.contains(position)) {
                let candidate = &self.list[position];
                let compatible = candidate.requirements.intersects(requirements).is_ok();
                let (fits, offering) = self.fits(candidate, &need, requirements);
                flags.requirements |= compatible;
                flags.fits |= fits;
                flags.offering |= offering;
                flags.requirements_and_fits |= compatible && fits && !offering;
                flags.requirements_and_offering |= compatible && offering && !fits;
                flags.fits_and_offering |= fits && offering && !compatible;
                if compatible && fits {
                    kept.push(position);
                }
            }
        }
        kept.sort_unstable();
        (kept, flags)
    }

    /// Returns whether a compatible offering is large enough, and whether there is any.
    fn fits(
        &self,
        candidate: &InstanceType,
        need: &Resources,
        requirements: &Requirements,
    ) -> (bool, bool) {
        let (mut fits, mut has_offering) = (false, false);
        for group in candidate.allocatable_groups() {
            let suits = group.offerings.iter().any(|&position| {
                let offering = &candidate.offerings[position].requirements;
                requirements.compatible(offering, self.input.well_known()).is_ok()
            });
            has_offering |= suits;
            fits |= suits && need.fits_in(&group.allocatable);
        }
        (fits, has_offering)
    }

    /// Returns the least and the largest daemon overhead of the groups.
    fn overhead(&self) -> Option<(Resources, Resources)> {
        let overheads: Vec<_> = self.groups().filter_map(|group| group.overhead.as_ref()).collect();
        if overheads.is_empty() {
            return None;
        }
        Some((Resources::min(overheads.iter().copied()), Resources::max(overheads)))
    }

    /// Returns the lowest price of the types that pass.
    ///
    /// Only available offerings that are large enough count.
    pub(super) fn cheapest(
        &self,
        candidates: &[usize],
        requirements: &Requirements,
    ) -> Option<f64> {
        let (kept, _) = self.passing_types(candidates, requirements);
        let mut lowest: Option<f64> = None;
        for group in self.groups() {
            let need = group.overhead.iter().fold(self.total.clone(), |sum, own| sum.merge(own));
            for &position in group.types.iter().filter(|position| kept.contains(position)) {
                let bought = large_enough(&self.list[position], &need);
                let price = cheapest_of(self.input, bought, requirements);
                lowest = lowest.into_iter().chain(price).min_by(f64::total_cmp);
            }
        }
        lowest
    }
}

/// Returns the offerings of a type that are large enough.
fn large_enough<'t>(candidate: &'t InstanceType, need: &Resources) -> Vec<&'t Offering> {
    let groups = candidate.allocatable_groups();
    let fitting = groups.iter().filter(|group| need.fits_in(&group.allocatable));
    fitting.flat_map(|group| &group.offerings).map(|&own| &candidate.offerings[own]).collect()
}

/// Returns the lowest price of an available, compatible offering.
pub(super) fn cheapest<'t>(
    input: &SolverInput<'_>,
    types: impl IntoIterator<Item = &'t InstanceType>,
    requirements: &Requirements,
) -> Option<f64> {
    cheapest_of(input, types.into_iter().flat_map(|candidate| &*candidate.offerings), requirements)
}

fn cheapest_of<'t>(
    input: &SolverInput<'_>,
    offerings: impl IntoIterator<Item = &'t Offering>,
    requirements: &Requirements,
) -> Option<f64> {
    offerings
        .into_iter()
        .filter(|offering| offering.available)
        .filter(|offering| {
            requirements.compatible(&offering.requirements, input.well_known()).is_ok()
        })
        .map(|offering| offering.price)
        .min_by(f64::total_cmp)
}

/// Returns the candidates that pass, or why none does.
pub(super) fn filter(
    filter: &TypeFilter<'_>,
    candidates: &[usize],
    requirements: &Requirements,
    may_relax: bool,
) -> Result<FilteredTypes, Box<InstanceTypesRejection>> {
    let (types, flags) = filter.passing_types(candidates, requirements);
    let offered = types.iter().map(|&position| &*filter.list[position].requirements);
    let unmet = min_values::required_type_count(requirements, offered).err();
    if !types.is_empty() && (unmet.is_none() || may_relax) {
        let requirements = match &unmet {
            Some(unmet) => unmet.relaxed(requirements),
            None => requirements.clone(),
        };
        return Ok(FilteredTypes { types, requirements });
    }
    let shown = requirements.iter().filter(|requirement| requirement.key() != HOSTNAME);
    Err(Box::new(InstanceTypesRejection {
        min_values: unmet.filter(|_| !may_relax),
        flags,
        requirements: shown.cloned().collect(),
        requests: filter.requests.clone(),
        overhead: filter.overhead(),
    }))
}
