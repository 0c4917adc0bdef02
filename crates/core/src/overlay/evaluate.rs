//! All overlays on all pools at once (spec 40 §6.1, spec 10 §4.4, spec 20 §3.21).
//!
//! First every overlay is recorded or refused, heaviest first, since one that conflicts anywhere is
//! applied nowhere. Then the catalog is rewritten, where something changed.

use std::sync::Arc;

use super::{Overlay, OverlayConflict, Overrides, Selection, TypeKey, matching_offerings};
use crate::catalog::{Catalog, InstanceType, InstanceTypes, Offering};
use crate::labels::NODE_POOL;
use crate::requirement::{Aliases, Requirement, Requirements};
use crate::snapshot::Pool;
use crate::weight::order_by_weight;

#[cfg(test)]
mod tests;

/// A NodeOverlay.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedOverlay {
    /// Its name.
    pub name: String,
    /// What it selects.
    pub requirements: Requirements,
    /// What it puts on top.
    pub overlay: Overlay,
    /// Why it cannot be used, found when it was read (runtime validation).
    pub problem: Option<String>,
}

/// What an evaluation found.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The catalog with all accepted overlays. What none of them touches is the same object as
    /// before.
    pub catalog: Catalog,
    /// What was recorded, for lists of types that come later.
    pub overrides: Overrides,
    /// The status of each overlay, in the order of evaluation.
    pub statuses: Vec<(String, OverlayStatus)>,
}

/// The result of evaluating an overlay: accepted, invalid or in conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverlayStatus {
    /// The overlay applies to all that it selects, which may be nothing.
    Accepted,
    /// The overlay cannot be used, with the reason.
    Invalid(String),
    /// An overlay of equal weight sets the same value, so this one is applied nowhere.
    Conflict,
}

/// Applies overlays to a catalog that has none yet. `pools` are all NodePools, since an overlay can
/// be in conflict with another on any of them; those that the catalog does not have are skipped.
pub fn evaluate(pools: &[Pool], catalog: &Catalog, overlays: &[NamedOverlay]) -> Evaluation {
    let views: Vec<_> = pools.iter().filter_map(|pool| PoolView::new(pool, catalog)).collect();
    let mut overlays: Vec<_> = overlays.iter().collect();
    order_by_weight(&mut overlays, |named| (named.overlay.weight, &named.name));
    let mut overrides = Overrides::default();
    let mut verdicts = Vec::new();
    for named in overlays {
        let verdict = match &named.problem {
            Some(problem) => OverlayStatus::Invalid(problem.clone()),
            None => record_overlay(&mut overrides, named, &views, catalog),
        };
        verdicts.push((named.name.clone(), verdict));
    }
    Evaluation {
        catalog: overlaid_catalog(&overrides, catalog, &views),
        overrides,
        statuses: verdicts,
    }
}

impl Overrides {
    /// A pool's types with what was recorded for them. What nothing was recorded for is the same
    /// object as before.
    pub fn apply(&self, pool: &str, types: &InstanceTypes) -> InstanceTypes {
        overlaid_types(pool, types, self).unwrap_or_else(|| Arc::clone(types))
    }
}

/// Records an overlay for all NodePools, unless it conflicts in one of them.
fn record_overlay(
    overrides: &mut Overrides,
    named: &NamedOverlay,
    views: &[PoolView<'_>],
    catalog: &Catalog,
) -> OverlayStatus {
    let selections: Vec<_> =
        views.iter().flat_map(|view| view.selections(named, catalog)).collect();
    match overrides.record(&named.overlay, &selections) {
        Ok(()) => OverlayStatus::Accepted,
        Err(OverlayConflict) => OverlayStatus::Conflict,
    }
}

/// A NodePool with the instance types that it can launch.
struct PoolView<'a> {
    name: &'a str,
    /// What the template says about every node: labels and the pool's name.
    labels: Requirements,
    types: &'a InstanceTypes,
}

impl<'a> PoolView<'a> {
    fn new(pool: &'a Pool, catalog: &'a Catalog) -> Option<Self> {
        let types = catalog.pools.get(&pool.name)?;
        Some(Self { name: &pool.name, labels: node_labels(pool, &catalog.aliases), types })
    }

    /// What an overlay selects of this pool.
    fn selections(&self, named: &NamedOverlay, catalog: &Catalog) -> Vec<Selection> {
        let select = |instance_type: &Arc<InstanceType>| {
            let offerings = &instance_type.offerings;
            let matching = matching_offerings(
                &named.requirements,
                &self.node_requirements(instance_type, &named.requirements),
                offerings.iter().map(|offering| &*offering.requirements),
                &catalog.well_known,
            );
            (!matching.is_empty()).then(|| Selection {
                instance_type: type_key(self.name, instance_type),
                offerings: matching
                    .into_iter()
                    .map(|index| offering_key(&offerings[index]))
                    .collect(),
            })
        };
        self.types.iter().filter_map(select).collect()
    }

    /// Returns the requirements of a node on the label keys of an overlay.
    ///
    /// The node is one of this NodePool and instance type. Other labels are left out: they do not
    /// matter, and there are many.
    fn node_requirements(
        &self,
        instance_type: &InstanceType,
        overlay_requirements: &Requirements,
    ) -> Requirements {
        overlay_requirements
            .keys()
            .flat_map(|key| [self.labels.get(key), instance_type.requirements.get(key)])
            .flatten()
            .cloned()
            .collect()
    }
}

fn type_key(pool: &str, instance_type: &InstanceType) -> TypeKey {
    TypeKey { pool: pool.to_owned(), instance_type: instance_type.name.clone() }
}

/// Returns a NodePool's instance types with overlays applied, or `None` if unchanged.
fn overlaid_types(
    pool: &str,
    types: &InstanceTypes,
    overrides: &Overrides,
) -> Option<InstanceTypes> {
    let overlay = |instance_type: &Arc<InstanceType>| {
        overlaid_type(instance_type, &type_key(pool, instance_type), overrides).map(Arc::new)
    };
    let changes: Vec<_> = types.iter().map(overlay).collect();
    changes.iter().any(Option::is_some).then(|| {
        let types = types.iter().zip(changes);
        types.map(|(same, changed)| changed.unwrap_or_else(|| Arc::clone(same))).collect()
    })
}

fn node_labels(pool: &Pool, aliases: &Aliases) -> Requirements {
    let labels = pool.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let mut labels = Requirements::from_labels(labels, aliases);
    labels.add(Requirement::in_values(NODE_POOL, [&pool.name]));
    labels
}

/// Returns the key of an offering within its instance type: its requirements.
fn offering_key(offering: &Offering) -> String {
    offering.requirements.to_string()
}

fn overlaid_catalog(overrides: &Overrides, catalog: &Catalog, views: &[PoolView<'_>]) -> Catalog {
    let mut result = catalog.clone();
    // Pools that shared a list, and still have the same one, go on sharing it.
    let mut lists: Vec<(&InstanceTypes, InstanceTypes)> = Vec::new();
    for view in views {
        let Some(types) = overlaid_types(view.name, view.types, overrides) else { continue };
        let known =
            lists.iter().find(|(before, after)| Arc::ptr_eq(before, view.types) && *after == types);
        let types = if let Some((_, after)) = known {
            Arc::clone(after)
        } else {
            lists.push((view.types, Arc::clone(&types)));
            types
        };
        result.pools.insert(view.name.to_owned(), types);
    }
    result
}

/// Returns the instance type with overlays applied, or `None` if unchanged.
fn overlaid_type(
    instance_type: &InstanceType,
    key: &TypeKey,
    overrides: &Overrides,
) -> Option<InstanceType> {
    if !overrides.applies_to(key) {
        return None;
    }
    let mut changed = instance_type.clone();
    let capacity = overrides.capacity(key);
    if !capacity.is_empty() {
        changed.capacity = changed.capacity.overlaid_by(&capacity).into();
        changed.has_capacity_overlay = true;
    }
    if overrides.has_price_changes(key) {
        changed.offerings = overlaid_offerings(&changed.offerings, key, overrides);
    }
    Some(changed)
}

fn overlaid_offerings(
    offerings: &[Offering],
    key: &TypeKey,
    overrides: &Overrides,
) -> Arc<[Offering]> {
    let overlaid = |offering: &Offering| match overrides.price_change(key, &offering_key(offering))
    {
        Some(change) => Offering {
            price: change.apply(offering.price),
            has_price_overlay: true,
            ..offering.clone()
        },
        None => offering.clone(),
    };
    offerings.iter().map(overlaid).collect()
}
