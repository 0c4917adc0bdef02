//! Collects the topology domains that NodePools can offer (spec 20 §4.4).

use std::collections::{BTreeMap, BTreeSet};

use super::input::SolverInput;
use crate::requirement::Requirement;
use crate::taint::Taint;

/// The domains that NodePools offer, with the taints of each pool.
///
/// None if a pool without taints offers the domain.
pub(super) type PoolDomains = BTreeMap<String, Option<Vec<Vec<Taint>>>>;

/// Returns the domains of a key that the NodePools of the solve offer.
///
/// Only concrete values are domains (spec 20 Q4).
pub(super) fn pool_domains(input: &SolverInput<'_>, key: &str) -> PoolDomains {
    let mut domains = PoolDomains::new();
    for pool in &input.pools {
        let Some(types) = input.catalog.pools.get(&pool.name).filter(|types| !types.is_empty())
        else {
            continue;
        };
        let own = pool_requirement(input, pool, key);
        let mut values: BTreeSet<String> = BTreeSet::new();
        // Types share few distinct requirements on a key.
        let mut seen: Vec<&Requirement> = Vec::new();
        for instance_type in types.iter() {
            let Some(theirs) = instance_type.requirements.get(key) else { continue };
            if seen.contains(&theirs) {
                continue;
            }
            // Keys that differ for every type, as the instance type does, are not worth a list.
            if seen.len() < 64 {
                seen.push(theirs);
            }
            let both = match &own {
                Some(own) => theirs.intersection(own),
                None => theirs.clone(),
            };
            if !both.is_complement() {
                values.extend(both.values().iter().cloned());
            }
        }
        if let Some(own) = own.filter(|own| !own.is_complement()) {
            values.extend(own.values().iter().cloned());
        }
        for value in values {
            let entry = domains.entry(value).or_insert_with(|| Some(Vec::new()));
            match entry {
                Some(taints) if !pool.taints.is_empty() => taints.push(pool.taints.clone()),
                _ => *entry = None,
            }
        }
    }
    domains
}

fn pool_requirement(
    input: &SolverInput<'_>,
    pool: &crate::snapshot::Pool,
    key: &str,
) -> Option<Requirement> {
    let mut requirements = pool.requirements.clone();
    let labels = pool.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let labels = crate::requirement::Requirements::from_labels(labels, &input.catalog.aliases);
    requirements.extend(labels.iter().cloned());
    requirements.get(key).cloned()
}
