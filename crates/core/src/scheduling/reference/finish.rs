//! Converts NodeClaims to the form of the plan (spec 20 §3.24).

use std::sync::Arc;

use super::claim::InFlightClaim;
use super::input::SolverInput;
use super::templates::Template;
use super::types;
use crate::catalog::{CAPACITY_TYPE, RESERVED};
use crate::labels::HOSTNAME;
use crate::plan::PlannedNodeClaim;
use crate::rejection::PodRejection;
use crate::requirement::{Requirement, Requirements};
use crate::resources::Resources;
use crate::scheduling::truncation;

/// Returns the finished NodeClaim, or why its pods are rejected after all.
pub(super) fn finish(
    input: &SolverInput<'_>,
    template: &Template<'_>,
    claim: InFlightClaim,
) -> Result<PlannedNodeClaim, PodRejection> {
    let requirements = requirements(input, &claim);
    let requests = claim.requests.merge(&least_overhead(template, &claim));
    let mut types = claim.types;
    truncation::truncate(
        &mut types,
        |&position| &template.list[position],
        &requirements,
        input.well_known(),
        input.listed_types,
        input.options.min_values,
    )
    .map_err(|unmet| PodRejection::MinValuesMissedAfterTruncation {
        pool: template.pool.name.clone(),
        unmet,
    })?;
    let kept = types.iter().map(|&position| &*template.list[position]);
    Ok(PlannedNodeClaim {
        pool: template.id,
        lowest_price: types::cheapest(input, kept, &requirements),
        pods: claim.pods,
        instance_types: types
            .iter()
            .map(|&position| u32::try_from(position).expect("lists fit into memory"))
            .collect(),
        requirements: Arc::new(requirements),
        requests,
        reservations: claim.reservations.into_iter().collect(),
        min_values_relaxed: claim.min_values_relaxed,
        dynamic_drivers: Vec::new(),
    })
}

/// Returns the requirements of a finished NodeClaim.
///
/// They have no hostname and are pinned to the reservations that the NodeClaim holds.
fn requirements(input: &SolverInput<'_>, claim: &InFlightClaim) -> Requirements {
    let holds = !claim.reservations.is_empty();
    let is_dropped = |key: &str| key == HOSTNAME || (holds && key == CAPACITY_TYPE);
    let kept = claim.requirements.iter().filter(|requirement| !is_dropped(requirement.key()));
    let mut requirements: Requirements = kept.cloned().collect();
    if holds {
        requirements.add(Requirement::in_values(CAPACITY_TYPE, [RESERVED]));
        if let Some(label) = &input.catalog.reservation_id_label {
            requirements.add(Requirement::in_values(label, claim.reservations.iter().cloned()));
        }
    }
    requirements
}

/// Returns the least overhead of the daemon groups that still have a type.
///
/// Groups without daemons are left out of the minimum.
fn least_overhead(template: &Template<'_>, claim: &InFlightClaim) -> Resources {
    let groups = template.groups.iter();
    let possible = groups.filter(|group| group.types.iter().any(|t| claim.types.contains(t)));
    Resources::min(possible.filter_map(|group| group.overhead.as_ref()))
}
