//! Whether a NodeClaim still is what its NodePool asks for (spec 30 §10.1).
//!
//! ```text
//! template ──▶ requirements ──▶ instance type, now and then ──▶ the provider's own verdict
//! ```
//!
//! The first that finds drift names it. What the provider says is its own business.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::static_hash::{self, StaticHash};
use crate::catalog::{CAPACITY_TYPE, InstanceType, ON_DEMAND, RESERVED};
use crate::labels::INSTANCE_TYPE;
use crate::requirement::{Requirement, Requirements};

/// How often a claim is checked for drift without any event.
pub const RECHECK_INTERVAL: Duration = Duration::from_mins(5);

/// How long a check that found the instance type stays valid.
pub const TYPE_CHECK_TTL: SignedDuration = SignedDuration::from_mins(30);

/// The age from which the instance type of a claim is checked.
/// Catalogs drop instance types slowly.
const TYPE_CHECK_MIN_AGE: SignedDuration = SignedDuration::from_hours(1);

/// How a claim differs from its NodePool.
/// The name is reason and message of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriftCause {
    /// The template has changed.
    NodePool,
    /// The requirements leave the claim's labels out.
    Requirements,
    /// The catalog has no such instance type or offering.
    InstanceType,
}

impl DriftCause {
    /// The reason of the condition `Drifted`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NodePool => "NodePoolDrifted",
            Self::Requirements => "RequirementsDrifted",
            Self::InstanceType => "InstanceTypeNotFound",
        }
    }
}

/// Whether a claim with this hash and these labels differs from a pool with that hash and those
/// requirements.
pub fn from_pool(
    (pool_hash, requirements): (StaticHash<'_>, &Requirements),
    (claim_hash, labels): (StaticHash<'_>, &Requirements),
) -> Option<DriftCause> {
    if static_hash::is_drifted(pool_hash, claim_hash) {
        return Some(DriftCause::NodePool);
    }
    let is_suitable = labels.compatible(requirements, &BTreeSet::new()).is_ok();
    (!is_suitable).then_some(DriftCause::Requirements)
}

/// Whether the instance type of a claim of that age has to be checked.
/// `has_checked` is true if a check that found it is still [valid](TYPE_CHECK_TTL).
pub fn is_type_check_due(created: Timestamp, has_checked: bool, now: Timestamp) -> bool {
    !has_checked && now.duration_since(created) > TYPE_CHECK_MIN_AGE
}

/// Whether none of the types is the one that the claim's labels name, as they name it: zone,
/// capacity type and so on. Whether it is available does not matter.
///
/// What began in a reservation may be billed on demand later, before its labels say so. Hence the
/// two count as one, and labels about reservations, `reservation_labels`, do not count.
pub fn from_catalog(
    types: &[Arc<InstanceType>],
    labels: &Requirements,
    reservation_labels: &BTreeSet<String>,
    well_known: &BTreeSet<String>,
) -> Option<DriftCause> {
    let has = |key: &str, value: &str| labels.get(key).is_some_and(|label| label.has(value));
    let of_claim = types.iter().find(|known| has(INSTANCE_TYPE, &known.name));
    let is_reserved = has(CAPACITY_TYPE, RESERVED);
    let required: Requirements = if is_reserved {
        let is_kept = |label: &&Requirement| {
            label.key() != CAPACITY_TYPE && !reservation_labels.contains(label.key())
        };
        let rest = labels.iter().filter(is_kept).cloned();
        rest.chain([Requirement::in_values(CAPACITY_TYPE, [RESERVED, ON_DEMAND])]).collect()
    } else {
        labels.clone()
    };
    let is_sold = of_claim.is_some_and(|known| {
        let mut offerings = known.offerings.iter();
        offerings.any(|offering| required.compatible(&offering.requirements, well_known).is_ok())
    });
    (!is_sold).then_some(DriftCause::InstanceType)
}

#[cfg(test)]
mod tests;
