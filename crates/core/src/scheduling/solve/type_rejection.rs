//! Finds the checks by which instance types reject a pod, to report them.

use super::Solver;
use super::amounts::sum;
use super::requirement_store::{SetId, UndefinedLabels};
use crate::bit_set::BitSet;
use crate::rejection::{InstanceTypesRejection, RejectionReason, TypeFlags};
use crate::resources::Resources;
use crate::scheduling::{MinValuesPolicy, min_values};

impl Solver<'_> {
    /// Returns the instance types that are left, or which checks they failed.
    pub(super) fn types_left(
        &mut self,
        set: SetId,
        template: usize,
        candidates: &BitSet,
        class: usize,
    ) -> Result<BitSet, RejectionReason> {
        let list = self.templates[template].types;
        let answer = self.types[list].compatible_types(set, &mut self.store);
        let compatible = self.types[list].meeting_all(set, &mut self.store);
        let (types, class) = (&self.types[list], &self.classes[class]);
        let mut flags = TypeFlags::default();
        let mut overhead: Option<(Resources, Resources)> = None;
        let mut kept = types.none();
        for group in &self.templates[template].groups {
            let collides = |port: &_| group.ports.iter().any(|other| other.conflicts_with(port));
            if class.ports.iter().any(collides) {
                continue;
            }
            if let Some(own) = &group.overhead {
                overhead = Some(match overhead {
                    None => (own.clone(), own.clone()),
                    Some((least, largest)) => {
                        (Resources::min([&least, own]), Resources::max([&largest, own]))
                    }
                });
            }
            let mut own = candidates.clone();
            own.intersect_with(&group.variants);
            let mut large_enough = own.clone();
            types.keep_fitting(&mut large_enough, &sum(&class.requests, &group.amounts));
            let own: Vec<usize> = own.iter().collect();
            let type_of = |variant: usize| types.variants[variant].instance_type;
            for of_type in own.chunk_by(|&a, &b| type_of(a) == type_of(b)) {
                let (mut is_compatible, mut fits) = (false, false);
                // Also offerings that give less than nothing, which are no variant.
                let position = type_of(of_type[0]) as usize;
                let mut sold =
                    types.list[position].offerings.iter().zip(&types.offerings[position]);
                let offers = sold.any(|(offering, &required)| {
                    offering.available
                        && self.store.compatible(set, required, UndefinedLabels::WellKnown)
                });
                for &variant in of_type {
                    is_compatible |= compatible.contains(variant);
                    let suitable = types.variants[variant]
                        .offerings
                        .iter()
                        .any(|(_, offering)| answer.offerings.contains(*offering));
                    fits |= suitable && large_enough.contains(variant);
                    if compatible.contains(variant) && suitable && large_enough.contains(variant) {
                        kept.insert(variant);
                    }
                }
                flags.requirements |= is_compatible;
                flags.offering |= offers;
                flags.fits |= fits;
                flags.requirements_and_fits |= is_compatible && fits && !offers;
                flags.requirements_and_offering |= is_compatible && offers && !fits;
                flags.fits_and_offering |= fits && offers && !is_compatible;
            }
        }
        let requirements = self.store.plain(set);
        let mut unmet = None;
        if requirements.has_min_values() && self.input.options.min_values == MinValuesPolicy::Strict
        {
            let offered = types
                .types_of(&kept)
                .into_iter()
                .map(|position| &*types.list[position as usize].requirements);
            unmet = min_values::required_type_count(&requirements, offered).err();
        }
        if !kept.is_empty() && unmet.is_none() {
            return Ok(kept);
        }
        Err(RejectionReason::InstanceTypes(Box::new(InstanceTypesRejection {
            min_values: unmet,
            flags,
            requirements,
            requests: class.plain_requests.clone(),
            overhead,
        })))
    }
}
