//! Explains why a NodePool can launch nothing, whatever pods request.

use karpenter_core::catalog::{Catalog, InstanceType};
use karpenter_core::requirement::{Requirement, Requirements};
use karpenter_core::snapshot::Pool;

use super::rejection_text;

/// Returns the problem and its fix.
pub(super) fn explain(pool: &Pool, catalog: &Catalog, is_min_values: bool) -> (String, String) {
    let types = catalog.pools.get(&pool.name).map(|types| types.iter().collect::<Vec<_>>());
    let types: Vec<&InstanceType> =
        types.unwrap_or_default().into_iter().map(AsRef::as_ref).collect();
    if types.is_empty() {
        let fix = "name a file with types (--instance-types), or leave the option out";
        return ("there are no instance types".to_owned(), fix.to_owned());
    }
    let mut requested = pool.requirements.clone();
    requested.extend(
        Requirements::from_labels(pool.labels.iter().map(|(k, v)| (&**k, &**v)), &catalog.aliases)
            .iter()
            .cloned(),
    );
    if is_min_values {
        return min_values_problem(&requested, &types);
    }
    // The types that are left after each requirement; the one that takes the last is to blame.
    let mut left = types.clone();
    for requirement in requested.iter() {
        let one = Requirements::from_iter([requirement.clone()]);
        left.retain(|it| has_offering(it, &one, catalog));
        if left.is_empty() {
            let alone = types.iter().any(|it| has_offering(it, &one, catalog));
            return requirement_problem(requirement, alone, &types);
        }
    }
    let dead = types.iter().filter(|it| it.offerings.iter().all(|offering| !offering.available));
    let problem = match dead.count() {
        count if count == types.len() => "no instance type has an offering",
        _ => "no instance type has an offering that meets all requirements together",
    };
    (
        problem.to_owned(),
        "give the types offerings in the zones and capacity types that the pool has".to_owned(),
    )
}

/// Whether a type and one of its offerings meet requirements.
pub(crate) fn has_offering(
    instance_type: &InstanceType,
    requested: &Requirements,
    catalog: &Catalog,
) -> bool {
    let offerings = instance_type.offerings.iter();
    instance_type.requirements.intersects(requested).is_ok()
        && offerings.filter(|offering| offering.available).any(|offering| {
            requested.compatible(&offering.requirements, &catalog.well_known).is_ok()
        })
}

fn requirement_problem(
    requirement: &Requirement,
    is_fine_alone: bool,
    types: &[&InstanceType],
) -> (String, String) {
    let (key, requested) = (requirement.key(), rejection_text::values_text(requirement));
    if is_fine_alone {
        let problem =
            format!("no instance type has {key} {requested} beside its other requirements");
        return (problem, format!("loosen {key} or another requirement of the pool"));
    }
    let mut known: Vec<&str> = types
        .iter()
        .flat_map(|it| {
            it.requirements
                .get(key)
                .into_iter()
                .chain(it.offerings.iter().filter_map(|o| o.requirements.get(key)))
        })
        .filter(|known| !known.is_complement())
        .flat_map(|known| known.values().iter().map(String::as_str))
        .collect();
    known.sort_unstable();
    known.dedup();
    let problem = format!("no instance type has {key} {requested}");
    let fix = match known.as_slice() {
        [] => format!("drop {key}, which no type has"),
        known => format!(
            "use what there is: {}",
            rejection_text::join_first(known.iter().copied(), known.len())
        ),
    };
    (problem, fix)
}

/// Returns the unmet minValues of a pool with their fix.
fn min_values_problem(requested: &Requirements, types: &[&InstanceType]) -> (String, String) {
    let usable = types.iter().filter(|it| it.requirements.intersects(requested).is_ok());
    let usable: Vec<_> = usable.collect();
    let unmet = requested.iter().filter_map(|requirement| {
        let min = requirement.min_values()?;
        let mut values: Vec<&str> = usable
            .iter()
            .filter_map(|it| it.requirements.get(requirement.key()))
            .flat_map(|known| known.values().iter().map(String::as_str))
            .filter(|value| requirement.has(value))
            .collect();
        values.sort_unstable();
        values.dedup();
        (values.len() < usize::try_from(min).unwrap_or(usize::MAX))
            .then(|| format!("{} has {} of {min} values", requirement.key(), values.len()))
    });
    let unmet: Vec<_> = unmet.collect();
    let problem = format!("its types do not meet minValues: {}", unmet.join(", "));
    (problem, "lower minValues, loosen the pool, or use --min-values-policy BestEffort".to_owned())
}
