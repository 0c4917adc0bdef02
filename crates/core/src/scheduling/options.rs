//! Options of a solve, from the operator of the cluster or the caller (spec 20 §3.1).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::id::PodId;
use crate::pod::SpreadConstraint;

/// Switches of a solve. The default is what the provisioner uses with default flags.
#[derive(Clone, Debug)]
pub struct Options {
    /// `--preference-policy`.
    pub preferences: PreferencePolicy,
    /// `--min-values-policy`.
    pub min_values: MinValuesPolicy,
    /// How the solve handles reserved offerings that fit but are not available.
    pub reserved_mode: ReservedMode,
    /// Gate `ReservedCapacity`.
    pub reserved_capacity: bool,
    /// `--ignore-dra-requests`.
    pub ignore_dynamic_resources: bool,
    /// Slots that a simulation adds to reservations, by id (spec 45 §11.1).
    pub reservation_credits: BTreeMap<String, u32>,
    /// Default spread constraints of `--scheduler-config`. Their selectors are deduced per pod.
    pub default_spread: Vec<SpreadConstraint>,
    /// Set by consolidation: nodes whose `consolidateAfter` has not passed at this time take no
    /// pods that could stay where they are.
    pub enforce_consolidate_after: Option<Timestamp>,
    /// Pods for which the plan explains every rejection, if they are not placed.
    pub explain: BTreeSet<PodId>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            preferences: PreferencePolicy::Respect,
            min_values: MinValuesPolicy::Strict,
            reserved_mode: ReservedMode::Strict,
            reserved_capacity: true,
            ignore_dynamic_resources: true,
            reservation_credits: BTreeMap::new(),
            default_spread: Vec::new(),
            enforce_consolidate_after: None,
            explain: BTreeSet::new(),
        }
    }
}

/// Whether preferences of pods are tried before they are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreferencePolicy {
    /// Treat them as required, and relax them one by one.
    Respect,
    /// Act as if they were not there.
    Ignore,
}

/// Whether minValues may be missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinValuesPolicy {
    /// A NodeClaim that misses them is not made.
    Strict,
    /// They are lowered to the available number of values.
    BestEffort,
}

/// How a solve handles reserved offerings that fit but are not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservedMode {
    /// The pod waits for the next loop.
    Strict,
    /// The pod uses other offerings.
    Fallback,
}
