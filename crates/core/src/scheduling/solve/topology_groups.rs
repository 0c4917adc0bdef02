//! Topology groups: constraints that pods share, and their counts of pods (spec 20 §4).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::counts::Counts;
use super::domains::Domains;
use super::requirement_store::{ReqId, RequirementStore, SplitRequirements};
use crate::bit_set::BitSet;
use crate::rejection::TopologyKind;
use crate::selector::{Labels, Selector};
use crate::taint::Toleration;

/// The number of a topology group of this solve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct GroupId(pub(super) u32);

/// The constraint by which pods share a topology group.
///
/// Everything that the group depends on is in here, so that a group never serves a pod by another
/// pod's rules (spec 20 Q1, Q2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupIdentity {
    /// Whether it is other pods' anti-affinity that keeps pods away, and not a pod's own
    /// constraint.
    pub(super) is_inverse: bool,
    pub(super) kind: TopologyKind,
    pub(super) key: String,
    pub(super) namespaces: BTreeSet<String>,
    pub(super) selector: Selector,
    pub(super) max_skew: i64,
    pub(super) min_domains: Option<i64>,
    pub(super) filter: Option<NodeFilter>,
}

/// The nodes that count for a spread constraint (spec 20 §4.3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeFilter {
    /// One of these must be met, if node affinity is honoured.
    pub(super) sets: Arc<[SplitRequirements]>,
    pub(super) honors_affinity: bool,
    pub(super) honors_taints: bool,
    pub(super) tolerations: Arc<[Toleration]>,
}

impl GroupIdentity {
    /// Returns whether the group selects pods with these labels.
    pub(super) fn selects(&self, namespace: &str, labels: &Labels) -> bool {
        self.namespaces.contains(namespace) && self.selector.matches(labels)
    }

    /// Returns whether domains come from all NodePools, tolerated or not.
    pub(super) fn takes_all_domains(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| !filter.honors_taints)
    }
}

/// A topology group with its counts of pods.
///
/// The domains that it knows are those with pods, those that NodePools offer to its owners, and
/// those with nodes. For hostnames this is not stored: every node is a domain.
#[derive(Clone, Debug)]
pub(super) struct TopologyGroup {
    pub(super) identity: Arc<GroupIdentity>,
    pub(super) domain_kind: DomainKind,
    /// The number of its filter; none without one.
    pub(super) filter: Option<u32>,
    /// The position of the nodes that it counts; none if it counts no nodes.
    pub(super) presence: Option<usize>,
    /// Whether bound pods have the constraint, so that every request includes it.
    pub(super) is_permanent: bool,
    /// The last request that it was part of.
    pub(super) last_request: u32,
    counts: Counts,
    /// Domains that NodePools offer to its owners.
    offered: Vec<bool>,
    /// Grows with every change: a pod that failed need not be tried again while it is equal.
    pub(super) epoch: u64,
}

/// The kind of domains that a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DomainKind {
    /// Nodes, existing and new.
    Host,
    /// Values of a label: the position of its [`Domains`].
    Label(usize),
}

/// The domains where one group lets a pod go, for any candidate.
#[derive(Debug)]
pub(super) struct FeasibleDomains {
    /// Domains that satisfy the group.
    pub(super) domains: BitSet,
    /// Domains of which one may be picked when none of `domains` suits the candidate: the pod would
    /// be the first of its affinity.
    pub(super) bootstrap: Option<BitSet>,
}

impl FeasibleDomains {
    /// Returns whether the group leaves any domain.
    pub(super) fn has_domain(&self) -> bool {
        let may_start = self.bootstrap.as_ref().is_some_and(|start| !start.is_empty());
        !self.domains.is_empty() || may_start
    }
}

impl TopologyGroup {
    pub(super) fn new(identity: GroupIdentity, domain_kind: DomainKind) -> Self {
        Self {
            identity: Arc::new(identity),
            domain_kind,
            filter: None,
            presence: None,
            is_permanent: false,
            last_request: u32::MAX,
            counts: Counts::default(),
            offered: Vec::new(),
            epoch: 0,
        }
    }

    pub(super) fn count(&self, domain: usize) -> u32 {
        self.counts.get(domain)
    }

    /// Adds a domain that NodePools offer to an owner. Returns whether it is new.
    pub(super) fn offer(&mut self, domain: usize) -> bool {
        if self.offered.len() <= domain {
            self.offered.resize(domain + 1, false);
        }
        !std::mem::replace(&mut self.offered[domain], true)
    }

    /// Removes a domain that was [offered](Self::offer).
    pub(super) fn withdraw(&mut self, domain: usize) {
        self.offered[domain] = false;
    }

    /// Counts pods in a domain.
    pub(super) fn record(&mut self, domain: usize, pods: u32) {
        if pods == 0 {
            return;
        }
        self.counts.add(domain, pods);
        self.epoch += 1;
    }

    /// Subtracts pods that were counted.
    pub(super) fn forget(&mut self, domain: usize, pods: u32) {
        self.counts.remove(domain, pods);
        self.epoch += 1;
    }

    /// Returns whether the group knows a domain; `present` is the number of nodes by domain.
    pub(super) fn is_known(&self, domain: usize, present: &[u32]) -> bool {
        self.offered.get(domain).copied().unwrap_or(false)
            || present.get(domain).is_some_and(|&nodes| nodes > 0)
            || self.count(domain) > 0
    }

    pub(super) fn is_unoccupied(&self) -> bool {
        self.counts.occupied() == 0
    }

    /// Domains with pods.
    pub(super) fn occupied(&self) -> impl Iterator<Item = usize> {
        self.counts.domains()
    }

    /// Returns the domains where a pod may go (spec 20 §4.5), for groups over a label.
    ///
    /// `selects_pod`: whether the group counts the pod itself. `pod`: its own strict requirement on
    /// the key.
    pub(super) fn feasible(
        &self,
        domains: &mut Domains,
        present: &[u32],
        selects_pod: bool,
        pod: Option<ReqId>,
        store: &RequirementStore<'_>,
    ) -> FeasibleDomains {
        let allowed = domains.allowed(pod, store);
        let known = || (0..domains.len()).filter(|&domain| self.is_known(domain, present));
        let pick = |test: &dyn Fn(usize) -> bool| {
            let mut bits = BitSet::empty(domains.len());
            known().filter(|&domain| test(domain)).for_each(|domain| bits.insert(domain));
            bits
        };
        match self.identity.kind {
            TopologyKind::Spread => {
                let least = self.least_count(known().filter(|&domain| allowed.contains(domain)));
                let max_count = self.identity.max_skew + least - i64::from(selects_pod);
                let domains = pick(&|domain| i64::from(self.count(domain)) <= max_count);
                FeasibleDomains { domains, bootstrap: None }
            }
            TopologyKind::Affinity => {
                let domains = pick(&|domain| self.count(domain) > 0 && allowed.contains(domain));
                let is_first = self.is_unoccupied() || domains.is_empty();
                let bootstrap =
                    (selects_pod && is_first).then(|| pick(&|domain| allowed.contains(domain)));
                FeasibleDomains { domains, bootstrap }
            }
            TopologyKind::AntiAffinity => {
                let domains = pick(&|domain| self.count(domain) == 0 && allowed.contains(domain));
                FeasibleDomains { domains, bootstrap: None }
            }
        }
    }

    /// Returns the count that spread is measured against: the least of the allowed domains.
    fn least_count(&self, allowed: impl Iterator<Item = usize>) -> i64 {
        let (mut least, mut domains) = (i64::from(i32::MAX), 0_i64);
        for domain in allowed {
            least = least.min(i64::from(self.count(domain)));
            domains += 1;
        }
        match self.identity.min_domains {
            Some(wanted) if domains < wanted => 0,
            _ => least,
        }
    }

    /// Returns the most pods of the group that a host may have before the pod.
    ///
    /// None for affinity, which needs a host with some.
    pub(super) fn host_limit(&self, selects_pod: bool) -> Option<i64> {
        match self.identity.kind {
            TopologyKind::Spread => Some(self.identity.max_skew - i64::from(selects_pod)),
            TopologyKind::Affinity => None,
            TopologyKind::AntiAffinity => Some(0),
        }
    }
}
