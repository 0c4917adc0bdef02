//! Explains the rejection of a pod: each NodePool, each instance type, each check.
//!
//! Calculated on demand only, on plain values, for people: which type came nearest, and by how much
//! did it miss?

use super::Solver;
use super::shape::PodShape;
use super::templates::Template;
use crate::catalog::InstanceType;
use crate::rejection::{
    Explanation, FailedCheck, InstanceTypeMismatch, PodRejection, PoolExplanation,
};
use crate::requirement::{IncompatibleRequirements, Requirements};
use crate::resources::{Quantity, Resources};

impl Solver<'_> {
    /// Returns what each tried NodePool lacks for a pod of this class.
    pub(super) fn explain(
        &self,
        class: usize,
        shape: &PodShape,
        rejection: &PodRejection,
    ) -> Explanation {
        let PodRejection::Pools(pools) = rejection else { return Explanation::default() };
        let mut required = self.store.plain_split(shape.all);
        // Of several topologies of its volumes the first stands for all.
        if let Some(&place) = self.classes[class].volume_topologies.first() {
            required.extend(self.store.plain_split(place).iter().cloned());
        }
        let pools = pools
            .iter()
            .filter_map(|rejection| {
                let template =
                    self.templates.iter().find(|template| template.pool_id == rejection.pool)?;
                Some(PoolExplanation {
                    pool: rejection.name.clone(),
                    reason: rejection.reason.clone(),
                    types: self.misses(template, class, &required),
                })
            })
            .collect();
        Explanation { pools }
    }

    /// Returns all types of a pool with their failed checks, nearest miss first.
    fn misses(
        &self,
        template: &Template<'_>,
        class: usize,
        required: &Requirements,
    ) -> Vec<InstanceTypeMismatch> {
        let mut requirements = self.store.plain(template.set);
        requirements.extend(required.iter().cloned());
        let types = &self.types[template.types];
        // Types that the pool itself excludes come last, whatever else they lack: they do not help.
        let mut is_usable = vec![false; types.list.len()];
        for position in types.types_of(&template.variants) {
            is_usable[position as usize] = true;
        }
        let mut misses: Vec<((bool, usize), f64, InstanceTypeMismatch)> = types
            .list
            .iter()
            .enumerate()
            .map(|(position, instance_type)| {
                let misses =
                    self.misses_of(template, class, &requirements, (position, instance_type));
                let prices = instance_type.offerings.iter().filter(|offering| offering.available);
                let price = prices.map(|offering| offering.price).min_by(f64::total_cmp);
                let name = instance_type.name.clone();
                let rank = (!is_usable[position], misses.len());
                let miss = InstanceTypeMismatch { instance_type: name, failed_checks: misses };
                (rank, price.unwrap_or(f64::INFINITY), miss)
            })
            .collect();
        misses.sort_by(|a, b| {
            let by_name = || a.2.instance_type.cmp(&b.2.instance_type);
            a.0.cmp(&b.0).then_with(|| a.1.total_cmp(&b.1)).then_with(by_name)
        });
        misses.into_iter().map(|(_, _, miss)| miss).collect()
    }

    fn misses_of(
        &self,
        template: &Template<'_>,
        class: usize,
        requirements: &Requirements,
        (position, instance_type): (usize, &InstanceType),
    ) -> Vec<FailedCheck> {
        let class = &self.classes[class];
        let mut misses = Vec::new();
        // Each key is a miss of its own, so that a type that misses fewer is nearer.
        match instance_type.requirements.intersects(requirements) {
            Ok(()) => {}
            Err(IncompatibleRequirements::Conflicts(conflicts)) => {
                let one = |conflict| {
                    FailedCheck::Requirement(IncompatibleRequirements::Conflicts(vec![conflict]))
                };
                misses.extend(conflicts.into_iter().map(one));
            }
            Err(why) => misses.push(FailedCheck::Requirement(why)),
        }
        let types = &self.types[template.types];
        let group = template.groups.iter().find(|group| {
            group.variants.iter().any(|v| types.variants[v].instance_type as usize == position)
        });
        let overhead = group.and_then(|group| group.overhead.as_ref());
        let needed = class.plain_requests.merge(overhead.unwrap_or(&Resources::default()));
        misses.extend(shortages(instance_type, &needed));
        let collides = |port: &_| {
            group.is_some_and(|group| group.ports.iter().any(|other| other.conflicts_with(port)))
        };
        if class.ports.iter().any(collides) {
            misses.push(FailedCheck::HostPort);
        }
        let well_known = self.store.well_known();
        let offers = instance_type.offerings.iter().any(|offering| {
            offering.available
                && requirements.compatible(&offering.requirements, well_known).is_ok()
        });
        if !offers {
            misses.push(FailedCheck::Offering);
        }
        if template.exceeds_limits(&self.columns.amounts(&instance_type.capacity)) {
            misses.push(FailedCheck::Limits);
        }
        misses
    }
}

/// Resources of which the largest offering of a type has too little.
fn shortages(instance_type: &InstanceType, needed: &Resources) -> Vec<FailedCheck> {
    let short_of =
        |allocatable: &Resources| -> Vec<FailedCheck> {
            needed
                .iter()
                .map(|(name, needed)| (name, needed, allocatable.amount(name)))
                .filter(|(_, needed, available)| needed > available)
                .map(|(name, needed, available): (&str, Quantity, Quantity)| {
                    FailedCheck::Resource { name: name.to_owned(), needed, available }
                })
                .collect()
        };
    let groups = instance_type.allocatable_groups();
    groups.iter().map(|group| short_of(&group.allocatable)).min_by_key(Vec::len).unwrap_or_default()
}
