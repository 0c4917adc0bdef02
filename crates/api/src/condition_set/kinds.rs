//! The condition sets of the kinds.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{ConditionSet, Subject};
use crate::conditions::{
    KWOK_NODE_CLASS_DEPENDENTS, NODECLAIM_DEPENDENTS, NODEOVERLAY_DEPENDENTS, NODEPOOL_DEPENDENTS,
    ec2_node_class_dependents,
};
use crate::ec2_nodeclass::Ec2NodeClass;
use crate::kwok_nodeclass::KwokNodeClass;
use crate::nodeclaim::NodeClaim;
use crate::nodeoverlay::NodeOverlay;
use crate::nodepool::NodePool;

/// A kind whose status carries a condition set.
pub trait HasConditions {
    /// The conditions as they are; reading fills nothing in.
    fn conditions(&self) -> &[Condition];

    /// Returns the condition set with these dependents of `Ready`, adding missing ones.
    fn condition_set_with(
        &mut self,
        dependents: &'static [&'static str],
        now: Timestamp,
    ) -> ConditionSet<'_>;
}

macro_rules! has_conditions {
    ($($Kind:ty),*) => {$(
        impl HasConditions for $Kind {
            fn conditions(&self) -> &[Condition] {
                let conditions = self.status.as_ref().and_then(|s| s.conditions.as_deref());
                conditions.unwrap_or_default()
            }

            fn condition_set_with(
                &mut self,
                dependents: &'static [&'static str],
                now: Timestamp,
            ) -> ConditionSet<'_> {
                let subject = Subject::from(&self.metadata);
                let status = self.status.get_or_insert_default();
                let conditions = status.conditions.get_or_insert_default();
                ConditionSet::new(conditions, dependents, subject, now)
            }
        }
    )*};
}

has_conditions!(NodePool, NodeClaim, NodeOverlay, Ec2NodeClass, KwokNodeClass);

impl NodePool {
    /// Returns the pool's condition set, adding missing conditions.
    pub fn condition_set(&mut self, now: Timestamp) -> ConditionSet<'_> {
        self.condition_set_with(NODEPOOL_DEPENDENTS, now)
    }
}

impl NodeClaim {
    /// Returns the claim's condition set, adding missing conditions.
    pub fn condition_set(&mut self, now: Timestamp) -> ConditionSet<'_> {
        self.condition_set_with(NODECLAIM_DEPENDENTS, now)
    }
}

impl NodeOverlay {
    /// Returns the overlay's condition set, adding missing conditions.
    pub fn condition_set(&mut self, now: Timestamp) -> ConditionSet<'_> {
        self.condition_set_with(NODEOVERLAY_DEPENDENTS, now)
    }
}

impl KwokNodeClass {
    /// Returns the class's condition set, adding missing conditions.
    pub fn condition_set(&mut self, now: Timestamp) -> ConditionSet<'_> {
        self.condition_set_with(KWOK_NODE_CLASS_DEPENDENTS, now)
    }
}

impl Ec2NodeClass {
    /// Returns the class's condition set, adding missing conditions.
    /// Whether capacity reservations count depends on gate ReservedCapacity.
    pub fn condition_set(&mut self, reserved_capacity: bool, now: Timestamp) -> ConditionSet<'_> {
        self.condition_set_with(ec2_node_class_dependents(reserved_capacity), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition_set::is_true;
    use crate::conditions::{CAPACITY_RESERVATIONS_READY, READY};

    fn types(conditions: &[Condition]) -> Vec<&str> {
        conditions.iter().map(|condition| condition.type_.as_str()).collect()
    }

    #[test]
    fn a_fresh_object_gets_the_conditions_of_its_kind() {
        let now = Timestamp::UNIX_EPOCH;
        let mut pool = NodePool::default();
        assert!(pool.conditions().is_empty());
        pool.condition_set(now);
        assert_eq!(types(pool.conditions()), ["ValidationSucceeded", "NodeClassReady", "Ready"]);

        let mut overlay = NodeOverlay::default();
        overlay.condition_set(now);
        assert_eq!(types(overlay.conditions()), ["ValidationSucceeded", "Ready"]);
    }

    #[test]
    fn capacity_reservations_count_only_with_their_gate() {
        let now = Timestamp::UNIX_EPOCH;
        for gate in [false, true] {
            let mut class = Ec2NodeClass::default();
            let mut set = class.condition_set(gate, now);
            assert_eq!(set.get(CAPACITY_RESERVATIONS_READY).is_some(), gate);
            for type_ in ec2_node_class_dependents(false) {
                set.set_true(type_);
            }
            assert_eq!(is_true(class.conditions(), READY), !gate);
        }
    }
}
