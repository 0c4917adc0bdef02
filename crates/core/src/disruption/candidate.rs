//! A node that may be disrupted, with what matters for choosing it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Rejection;
use super::cost::{self, BASE_COST};
use crate::catalog::InstanceType;
use crate::id::{NodeId, PodId};

/// A node that may be disrupted.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The node.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// The name of its NodeClaim.
    pub node_claim: String,
    /// The provider id of its instance.
    pub provider_id: String,
    /// Its NodePool.
    pub pool: String,
    /// Whether that is static.
    pub is_static: bool,
    /// Its instance type, if the catalog knows it.
    pub instance_type: Option<Arc<InstanceType>>,
    /// The label with the name of the instance type; may be empty.
    pub instance_type_label: String,
    /// Its zone.
    pub zone: Option<String>,
    /// Its capacity type.
    pub capacity_type: Option<String>,
    /// The reservation that it is in.
    pub reservation_id: Option<String>,
    /// The pods to reschedule when it is removed, in the order of the snapshot.
    pub pods: Vec<PodId>,
    /// Those of `pods` that no annotation or PodDisruptionBudget holds for good.
    pub movable: Vec<PodId>,
    /// The price per hour; 0 if it is not known.
    pub price: f64,
    /// What it costs to evict all its pods, weighted with its age.
    pub disruption_cost: f64,
    /// The cost of rescheduling `pods`, plus the base cost of the node.
    pub reschedule_cost: f64,
    /// Why its pods block graceful disruption now, if they do.
    pub blocker: Option<Rejection>,
    /// Whether it is ready for pods.
    pub is_initialized: bool,
    /// The condition Consolidatable.
    pub is_consolidatable: bool,
    /// Since when it has drifted.
    pub drifted_at: Option<Timestamp>,
    /// How long its drain may take; none for no bound.
    pub termination_grace_period: Option<SignedDuration>,
}

impl Candidate {
    /// The saving of its removal in relation to what that costs.
    pub fn savings_ratio(&self) -> f64 {
        self.price / self.reschedule_cost
    }

    /// Whether its price is known. If not, it counts as nothing in every sum.
    pub fn is_priced(&self) -> bool {
        let (zone, capacity_type) = (self.zone.as_deref(), self.capacity_type.as_deref());
        cost::price(self.instance_type.as_deref(), zone, capacity_type).is_some()
    }

    /// Whether no pods are on it that count.
    pub fn is_empty(&self) -> bool {
        self.reschedule_cost <= BASE_COST
    }
}

/// Sorts candidates by savings ratio, the best first (spec 30 §3.6).
/// Equal ones are sorted by name.
pub(super) fn sort_by_savings_ratio(candidates: &mut [&Candidate]) {
    candidates.sort_by(|a, b| {
        let ratio = b.savings_ratio().total_cmp(&a.savings_ratio());
        ratio.then_with(|| a.name.cmp(&b.name))
    });
}
