//! Topology groups: constraints that pods share, and the counts they look at (spec 20 §4).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::counts::Counts;
use super::domains::Domains;
use super::requirement_store::{ReqId, RequirementStore, SplitRequirements};
use crate::bit_set::BitSet;
use crate::rejection::TopologyKind;
use crate::selector::{Labels, Selector};
use crate::taint::Toleration;

/// A topology group of this solve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct GroupId(pub(super) u32);

/// What makes two constraints one group. Everything that the group looks at is in here, so that a
/// group never serves a pod by another pod's rules (spec 20 Q1, Q2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupIdentity {
    /// Anti-affinity of others that keeps pods away, as opposed to a pod's own constraint.
    pub(super) is_inverse: bool,
    pub(super) kind: TopologyKind,
    pub(super) key: String,
    pub(super) namespaces: BTreeSet<String>,
    pub(super) selector: Selector,
    pub(super) max_skew: i64,
    pub(super) min_domains: Option<i64>,
    pub(super) filter: Option<NodeFilter>,
}

/// Which nodes count for a spread constraint (spec 20 §4.3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeFilter {
    /// One of these must be met, if node affinity is honoured.
    pub(super) sets: Vec<SplitRequirements>,
    pub(super) honors_affinity: bool,
    pub(super) honors_taints: bool,
    pub(super) tolerations: Vec<Toleration>,
}

impl GroupIdentity {
    /// Whether the group is about a pod with these labels.
    pub(super) fn selects(&self, namespace: &str, labels: &Labels) -> bool {
        self.namespaces.contains(namespace) && self.selector.matches(labels)
    }

    /// Whether domains are taken from all NodePools, tolerated or not.
    pub(super) fn takes_all_domains(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| !filter.honors_taints)
    }
}

/// A group and its counts.
///
/// The domains that it knows are those with pods, those that NodePools offer to its owners, and
/// those where nodes are. For hostnames this is not kept: every node is a domain.
#[derive(Clone, Debug)]
pub(super) struct TopologyGroup {
    pub(super) identity: Arc<GroupIdentity>,
    pub(super) domain_kind: DomainKind,
    /// The number of its filter; none without one.
    pub(super) filter: Option<u32>,
    /// Where nodes are that it lets count, as a position; none if it does not look.
    pub(super) presence: Option<usize>,
    /// Whether bound pods have the rule, so that it is there whatever is asked.
    pub(super) is_permanent: bool,
    /// The last question that it was part of.
    pub(super) last_request: u32,
    counts: Counts,
    /// Domains that NodePools offer to its owners.
    offered: Vec<bool>,
    /// Grows with every change: a pod that failed need not be tried again while it stands.
    pub(super) epoch: u64,
}

/// What the domains of a group are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DomainKind {
    /// Nodes, existing and new.
    Host,
    /// Values of a label: the position of its [`Domains`].
    Label(usize),
}

/// Where a pod may go, as one group sees it, before any candidate is looked at.
#[derive(Debug)]
pub(super) struct FeasibleDomains {
    /// Domains that satisfy the group.
    pub(super) domains: BitSet,
    /// Domains of which one may be picked when none of `domains` suits the candidate: the pod would
    /// be the first of its affinity.
    pub(super) bootstrap: Option<BitSet>,
}

impl FeasibleDomains {
    /// Whether some domain is left.
    pub(super) fn has_domain(&self) -> bool {
        let may_start = self.bootstrap.as_ref().is_some_and(|start| !start.is_empty());
        !self.domains.is_empty() || may_start
    }
}

impl TopologyGroup {
    pub(super) fn new(identity: GroupIdentity, place: DomainKind) -> Self {
        Self {
            identity: Arc::new(identity),
            domain_kind: place,
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

    /// NodePools offer a domain to an owner. Returns whether none did before.
    pub(super) fn offer(&mut self, domain: usize) -> bool {
        if self.offered.len() <= domain {
            self.offered.resize(domain + 1, false);
        }
        !std::mem::replace(&mut self.offered[domain], true)
    }

    /// The owner to whom a domain was offered first is no more.
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

    /// Takes back what was counted.
    pub(super) fn forget(&mut self, domain: usize, pods: u32) {
        self.counts.remove(domain, pods);
        self.epoch += 1;
    }

    /// Whether a domain counts, `present` being the number of nodes by domain.
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

    /// Where a pod may go (spec 20 §4.5), for groups over a label. `selects_pod` says whether the
    /// pod counts itself, `pod` is what its own strict requirements say about the key.
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

    /// The least count that spread is measured against, among the domains that the pod allows.
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

    /// How many pods a host may have for the pod to go there; none for affinity, which wants some.
    pub(super) fn host_limit(&self, selects_pod: bool) -> Option<i64> {
        match self.identity.kind {
            TopologyKind::Spread => Some(self.identity.max_skew - i64::from(selects_pod)),
            TopologyKind::Affinity => None,
            TopologyKind::AntiAffinity => Some(0),
        }
    }
}
