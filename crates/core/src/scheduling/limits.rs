//! Limits of a NodePool (spec 10 §14, spec 20 §3.13).
//!
//! Limits are checked twice: in a scheduling loop against the *remaining* limits, pessimistically
//! as if every new NodeClaim got its largest instance type, and once more right before a NodeClaim
//! is created, against the usage of the pool then ([`exceeded_by`]).
//!
//! A resource that a limit does not list is not limited, so empty limits limit nothing.

use std::error::Error;
use std::fmt;

use crate::resources::{NODES, Quantity, Resources};

/// Returns the first resource, by name, of which a pool uses more than its limit.
///
/// Using all of a limit is allowed.
pub fn exceeded_by(limits: &Resources, usage: &Resources) -> Option<LimitExceeded> {
    limits.iter().find_map(|(name, limit)| {
        let usage = usage.amount(name);
        (usage > limit).then(|| LimitExceeded { resource: name.to_owned(), usage, limit })
    })
}

/// A pool uses more than its limits allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitExceeded {
    /// The resource's name.
    pub resource: String,
    /// What the pool uses.
    pub usage: Quantity,
    /// What it may use.
    pub limit: Quantity,
}

impl fmt::Display for LimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, usage, limit } = self;
        write!(f, "resource usage exceeds limit ")?;
        write!(f, "(limit={limit}, resource-name={resource}, usage={usage})")
    }
}

impl Error for LimitExceeded {}

/// The resources that a pool's limits still allow in one scheduling loop.
///
/// Amounts may be negative when the pool is over its limits already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemainingLimits {
    resources: Resources,
}

impl RemainingLimits {
    /// The limits less the capacity of the pool's existing nodes, each of which is also one of
    /// `nodes`.
    pub fn new<'a>(limits: &Resources, nodes: impl IntoIterator<Item = &'a Resources>) -> Self {
        let resources = nodes.into_iter().fold(limits.clone(), |remaining, capacity| {
            let mut capacity = capacity.clone();
            capacity.set(NODES, Quantity::from_units(1));
            remaining.subtract(&capacity)
        });
        Self { resources }
    }

    /// The amounts of the limited resources.
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Returns whether an instance type of this capacity stays within the limits.
    pub fn fits(&self, capacity: &Resources) -> bool {
        self.resources.iter().all(|(name, left)| capacity.amount(name) <= left)
    }

    /// Returns the instance types that stay within the limits, or why the pool is rejected.
    ///
    /// The node count is checked first, and for exactly zero: below that no type fits anyway.
    pub fn filter<T>(
        &self,
        instance_types: impl IntoIterator<Item = T>,
        capacity: impl Fn(&T) -> &Resources,
    ) -> Result<Vec<T>, LimitRejection> {
        if self.resources.get(NODES).is_some_and(Quantity::is_zero) {
            return Err(LimitRejection::NodesExhausted);
        }
        let mut types: Vec<T> = instance_types.into_iter().collect();
        types.retain(|instance_type| self.fits(capacity(instance_type)));
        if types.is_empty() { Err(LimitRejection::AllTypesExceed) } else { Ok(types) }
    }

    /// Returns the limits after a NodeClaim that may become any of these instance types.
    ///
    /// The largest amount of each resource is subtracted, whichever type has it. Instance types
    /// have no `nodes`, so these are not counted down inside one loop.
    #[must_use]
    pub fn after_claim<'a>(&self, capacities: impl IntoIterator<Item = &'a Resources>) -> Self {
        Self { resources: self.resources.subtract(&Resources::max(capacities)) }
    }
}

/// Why the limits of a pool allow no further node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitRejection {
    /// The pool has as many nodes as it may have.
    NodesExhausted,
    /// Every instance type exceeds the remaining limits.
    AllTypesExceed,
}

impl fmt::Display for LimitRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NodesExhausted => "node limits have been exhausted for nodepool",
            Self::AllTypesExceed => "all available instance types exceed limits for nodepool",
        })
    }
}

impl Error for LimitRejection {}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(list: &[(&str, i64)]) -> Resources {
        list.iter().map(|&(name, n)| (name, Quantity::from_millis(n))).collect()
    }

    #[test]
    fn usage_may_reach_a_limit_but_not_pass_it() {
        #[rustfmt::skip]
        let cases = [
            ("10/LM-1",      millis(&[("cpu", 10_000)]), millis(&[("cpu", 10_000)]), None),
            ("10/LM-1",      millis(&[("cpu", 10_000)]), millis(&[("cpu", 10_001)]),
                Some("resource usage exceeds limit (limit=10, resource-name=cpu, usage=10.001)")),
            ("not limited",  millis(&[("cpu", 1_000)]),  millis(&[("memory", 5_000)]), None),
            ("no limits",    millis(&[]),                millis(&[("cpu", 5_000)]), None),
            ("not used",     millis(&[("cpu", 0)]),      millis(&[]), None),
            ("first by name", millis(&[("memory", 0), ("cpu", 0)]), millis(&[("memory", 1), ("cpu", 1)]),
                Some("resource usage exceeds limit (limit=0, resource-name=cpu, usage=0.001)")),
        ];
        for (case, limits, usage, expected) in cases {
            let got = exceeded_by(&limits, &usage).map(|exceeded| exceeded.to_string());
            assert_eq!(got.as_deref(), expected, "{case}: limits {limits:?}, usage {usage:?}");
        }
    }

    #[test]
    fn quantities_compare_by_amount_whatever_their_unit() {
        let written_in_millis = millis(&[("cpu", 1_000)]);
        let written_in_units: Resources = [("cpu", Quantity::from_units(1))].into_iter().collect();
        assert_eq!(exceeded_by(&written_in_millis, &written_in_units), None, "10/LM-2");
        assert_eq!(exceeded_by(&written_in_units, &written_in_millis), None, "10/LM-2");
    }

    #[test]
    fn existing_nodes_use_up_capacity_and_one_node_each() {
        let limits = millis(&[("cpu", 10_000), ("nodes", 3_000)]);
        let node = millis(&[("cpu", 4_000), ("memory", 8_000)]);
        let remaining = RemainingLimits::new(&limits, [&node, &node, &node, &node]);
        assert_eq!(remaining.resources(), &millis(&[("cpu", -6_000), ("nodes", -1_000)]));
    }

    #[test]
    fn types_over_the_remaining_limits_are_left_out() {
        let small = millis(&[("cpu", 2_000), ("memory", 4_000)]);
        let large = millis(&[("cpu", 8_000), ("memory", 16_000)]);
        #[rustfmt::skip]
        let cases = [
            ("unlimited",       millis(&[]),                               Ok(vec![&small, &large])),
            ("equal fits",      millis(&[("cpu", 8_000)]),                 Ok(vec![&small, &large])),
            ("one is too large", millis(&[("cpu", 7_999)]),                Ok(vec![&small])),
            ("any resource",    millis(&[("cpu", 9_000), ("memory", 1)]),  Err(LimitRejection::AllTypesExceed)),
            ("missing is zero", millis(&[("gpu", 0)]),                     Ok(vec![&small, &large])),
            ("negative",        millis(&[("gpu", -1)]),                    Err(LimitRejection::AllTypesExceed)),
            ("nodes left",      millis(&[("nodes", 1_000)]),               Ok(vec![&small, &large])),
            ("nodes exhausted", millis(&[("nodes", 0), ("cpu", 0)]),       Err(LimitRejection::NodesExhausted)),
            ("nodes negative",  millis(&[("nodes", -1_000)]),              Err(LimitRejection::AllTypesExceed)),
        ];
        for (case, left, expected) in cases {
            let remaining = RemainingLimits::new(&left, []);
            assert_eq!(remaining.filter([&small, &large], |t| t), expected, "{case}: {left:?}");
        }
    }

    #[test]
    fn limit_rejections_print_the_upstream_messages() {
        #[rustfmt::skip]
        let cases = [
            (LimitRejection::NodesExhausted, "node limits have been exhausted for nodepool"),
            (LimitRejection::AllTypesExceed, "all available instance types exceed limits for nodepool"),
        ];
        for (rejection, text) in cases {
            assert_eq!(rejection.to_string(), text);
        }
    }

    #[test]
    fn a_new_claim_takes_the_largest_of_each_resource() {
        let remaining = RemainingLimits::new(
            &millis(&[("cpu", 10_000), ("memory", 10_000), ("nodes", 1_000)]),
            [],
        );
        let more_cpu = millis(&[("cpu", 8_000), ("memory", 1_000)]);
        let more_memory = millis(&[("cpu", 1_000), ("memory", 12_000), ("gpu", 1_000)]);
        let left = remaining.after_claim([&more_cpu, &more_memory]);
        let expected = millis(&[("cpu", 2_000), ("memory", -2_000), ("nodes", 1_000)]);
        assert_eq!(left.resources(), &expected);
        assert_eq!(remaining.after_claim([]), remaining);
    }
}
