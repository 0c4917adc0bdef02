//! NodePools and DaemonSets with harmless defaults.

use std::sync::Arc;

use jiff::SignedDuration;

use super::labels::{quantity, requirement};
use super::types::TypeBuilder;
use super::{PodBuilder, label_key, taint};
use crate::catalog::InstanceType;
use crate::disruption::budget::Budget;
use crate::disruption::{ConsolidationPolicy, Reason};
use crate::requirement::{Operator, Requirements};
use crate::resources::Resources;
use crate::snapshot::{Daemon, ManagedPool, NodeClassRef, Pool};

/// A NodePool in the making, with the instance types that it can launch.
#[derive(Clone, Debug)]
pub struct PoolBuilder {
    pub(super) pool: Pool,
    pub(super) policy: ConsolidationPolicy,
    pub(super) budgets: Vec<Budget>,
    pub(super) replicas: Option<i64>,
    pub(super) is_ready: bool,
    pub(super) is_deleting: bool,
    /// None for those of the world.
    pub(super) types: Option<Vec<Arc<InstanceType>>>,
}

/// A NodePool that allows everything.
pub fn pool(name: &str) -> PoolBuilder {
    let node_class = NodeClassRef {
        group: "karpenter.test.sh".to_owned(),
        kind: "TestNodeClass".to_owned(),
        name: "default".to_owned(),
    };
    let pool = Pool {
        name: name.to_owned(),
        weight: None,
        requirements: Requirements::default(),
        labels: [].into(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        limits: Resources::default(),
        node_class,
        consolidate_after: Some(SignedDuration::ZERO),
    };
    PoolBuilder {
        pool,
        policy: ConsolidationPolicy::WhenEmptyOrUnderutilized,
        budgets: Vec::new(),
        replicas: None,
        is_ready: true,
        is_deleting: false,
        types: None,
    }
}

impl PoolBuilder {
    /// The same under another name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.pool.name);
        self
    }

    /// Launches these types instead of the world's.
    #[must_use]
    pub fn types(mut self, types: impl IntoIterator<Item = TypeBuilder>) -> Self {
        self.types = Some(types.into_iter().map(|one| Arc::new(one.build())).collect());
        self
    }

    /// Is tried before pools of less weight.
    #[must_use]
    pub fn weight(mut self, weight: i32) -> Self {
        self.pool.weight = Some(weight);
        self
    }

    /// Requires something of its nodes.
    #[must_use]
    pub fn require(mut self, short_key: &str, operator: Operator, values: &[&str]) -> Self {
        self.pool.requirements.add(requirement(short_key, operator, values));
        self
    }

    /// The same with minValues.
    #[must_use]
    pub fn require_min(
        mut self,
        short_key: &str,
        operator: Operator,
        values: &[&str],
        min_values: u32,
    ) -> Self {
        let requirement = requirement(short_key, operator, values);
        self.pool.requirements.add(requirement.with_min_values(Some(min_values)));
        self
    }

    /// Labels its nodes.
    #[must_use]
    pub fn label(mut self, short_key: &str, value: &str) -> Self {
        self.pool.labels.insert(label_key(short_key).to_owned(), value.to_owned());
        self
    }

    /// Taints its nodes, as `key=value:Effect`.
    #[must_use]
    pub fn taint(mut self, text: &str) -> Self {
        self.pool.taints.push(taint(text));
        self
    }

    /// Taints its nodes while they start.
    #[must_use]
    pub fn startup_taint(mut self, text: &str) -> Self {
        self.pool.startup_taints.push(taint(text));
        self
    }

    /// Limits what its nodes have together.
    #[must_use]
    pub fn limit(mut self, name: &str, amount: &str) -> Self {
        self.pool.limits.set(name, quantity(amount));
        self
    }

    /// Waits before it consolidates a node.
    #[must_use]
    pub fn consolidate_after(mut self, seconds: i64) -> Self {
        self.pool.consolidate_after = Some(SignedDuration::from_secs(seconds));
        self
    }
}

/// How it is disrupted. By default nothing limits that.
impl PoolBuilder {
    /// Never consolidates a node.
    #[must_use]
    pub fn never_consolidates(mut self) -> Self {
        self.pool.consolidate_after = None;
        self
    }

    /// Consolidates by another policy.
    #[must_use]
    pub fn policy(mut self, policy: ConsolidationPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Adds a budget for some reasons, for all if none is named.
    #[must_use]
    pub fn budget(mut self, nodes: &str, reasons: &[Reason]) -> Self {
        let reasons = (!reasons.is_empty()).then(|| reasons.to_vec());
        self.budgets.push(Budget {
            nodes: nodes.to_owned(),
            schedule: None,
            duration: None,
            reasons,
        });
        self
    }

    /// Is static.
    #[must_use]
    pub fn replicas(mut self, replicas: i64) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Is not Ready.
    #[must_use]
    pub fn unready(mut self) -> Self {
        self.is_ready = false;
        self
    }

    /// Is on its way out.
    #[must_use]
    pub fn deleting(mut self) -> Self {
        self.is_deleting = true;
        self
    }

    /// As disruption sees it.
    pub(super) fn managed(&self) -> ManagedPool {
        ManagedPool {
            pool: self.pool.clone(),
            policy: self.policy,
            budgets: self.budgets.clone(),
            replicas: self.replicas,
            is_ready: self.is_ready,
            is_deleting: self.is_deleting,
        }
    }
}

/// The DaemonSet whose pods look like this one.
pub fn daemon(pod: &PodBuilder) -> Daemon {
    Daemon {
        namespace: "default".to_owned(),
        name: pod.name().to_owned(),
        spec: Arc::new(pod.spec()),
    }
}
