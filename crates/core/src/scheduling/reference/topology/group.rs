//! A topology group: counts pods by domain and selects domains (spec 20 §4.1, §4.3, §4.5).

use std::collections::{BTreeMap, BTreeSet};

use super::super::templates;
use super::{DomainPrice, Placement, domains};
use crate::catalog::CAPACITY_TYPE;
use crate::labels::{HOSTNAME, ZONE};
use crate::pod::{Pod, PodSpec, SpreadConstraint};
pub(super) use crate::rejection::TopologyKind as Kind;
use crate::rejection::TopologyRejection;
use crate::requirement::{Requirement, Requirements};
use crate::selector::Selector;
use crate::taint::{Taint, Toleration, untolerated_taints};

/// The most domains that a rejection names.
const DOMAINS_SHOWN: usize = 25;

/// The constraint by which pods share a group (spec 20 §4.1, Q1, Q2).
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct GroupIdentity {
    pub kind: Kind,
    pub key: String,
    pub namespaces: BTreeSet<String>,
    /// With `matchLabelKeys` worked in.
    pub selector: Selector,
    pub max_skew: i32,
    pub min_domains: Option<i32>,
    /// The nodes that count; only spread has a filter.
    pub filter: Option<NodeFilter>,
}

/// The nodes that count for a spread constraint (spec 20 §4.3).
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct NodeFilter {
    /// The node selector and one required term each.
    alternatives: Vec<Requirements>,
    tolerations: Vec<Toleration>,
    honors_affinity: bool,
    pub honors_taints: bool,
}

impl NodeFilter {
    pub(super) fn new(spec: &PodSpec, spread: &SpreadConstraint) -> Self {
        Self {
            alternatives: templates::alternatives(spec),
            tolerations: spec.tolerations.clone(),
            honors_affinity: spread.honors_node_affinity,
            honors_taints: spread.honors_node_taints,
        }
    }

    /// Returns whether a node counts. Well-known labels must be set too.
    fn matches(&self, taints: &[Taint], node: &Requirements) -> bool {
        let nothing = BTreeSet::new();
        let has_labels =
            self.alternatives.iter().any(|required| node.compatible(required, &nothing).is_ok());
        let is_tolerated = untolerated_taints(taints, &self.tolerations).is_empty();
        (!self.honors_affinity || has_labels) && (!self.honors_taints || is_tolerated)
    }
}

/// A topology group with the number of pods by domain.
#[derive(Debug)]
pub(in super::super) struct TopologyGroup {
    pub identity: GroupIdentity,
    counts: BTreeMap<String, u32>,
}

impl TopologyGroup {
    pub(super) fn new(identity: GroupIdentity) -> Self {
        Self { identity, counts: BTreeMap::new() }
    }

    /// Adds domains. Returns how many are new.
    pub(super) fn register(&mut self, domains: impl IntoIterator<Item = impl AsRef<str>>) -> usize {
        let before = self.counts.len();
        for domain in domains {
            self.counts.entry(domain.as_ref().to_owned()).or_insert(0);
        }
        self.counts.len() - before
    }

    /// Counts one more pod in each of the domains.
    pub(super) fn record(&mut self, domains: impl IntoIterator<Item = impl AsRef<str>>) {
        for domain in domains {
            let count = self.counts.entry(domain.as_ref().to_owned()).or_insert(0);
            *count = count.saturating_add(1);
        }
    }

    /// Returns whether the group counts the pod.
    pub(super) fn selects(&self, pod: &Pod) -> bool {
        self.identity.namespaces.contains(&pod.namespace)
            && self.identity.selector.matches(&pod.labels)
    }

    /// Returns whether pods on such a node are counted.
    pub(super) fn admits(&self, taints: &[Taint], node: &Requirements) -> bool {
        self.identity.filter.as_ref().is_none_or(|filter| filter.matches(taints, node))
    }

    /// Counts a placed pod.
    ///
    /// Anti-affinity counts it in every domain where it may end up; other groups count it only in a
    /// domain that is certain.
    pub(super) fn place(&mut self, pod: &Pod, placement: &Placement<'_>) {
        if !self.selects(pod) || !self.admits(placement.taints, placement.requirements) {
            return;
        }
        let domains = domains(placement.requirements, &self.identity.key);
        if self.identity.kind == Kind::AntiAffinity || domains.len() == 1 {
            self.record(domains.values());
        }
    }

    /// Returns the domains where the pod may go; empty if the group rejects it.
    pub(in super::super) fn next_domains(
        &self,
        pod: &Pod,
        pod_domains: &Requirement,
        node_domains: &Requirement,
        price: DomainPrice<'_>,
    ) -> Requirement {
        let chosen: Vec<&str> = match self.identity.kind {
            Kind::Spread => self.next_spread(pod, pod_domains, node_domains, price),
            Kind::Affinity => self.next_affinity(pod, pod_domains, node_domains, price),
            Kind::AntiAffinity => self.next_anti_affinity(pod_domains, node_domains),
        };
        Requirement::in_values(&self.identity.key, chosen)
    }

    /// Returns the host, for the hostname key. The group need not know it yet.
    fn host<'d>(&self, node_domains: &'d Requirement) -> Option<&'d str> {
        let is_one = self.identity.key == HOSTNAME && node_domains.len() == 1;
        node_domains.values().first().filter(|_| is_one).map(String::as_str)
    }

    fn count(&self, domain: &str) -> u32 {
        self.counts.get(domain).copied().unwrap_or(0)
    }

    fn next_spread<'d>(
        &'d self,
        pod: &Pod,
        pod_domains: &Requirement,
        node_domains: &'d Requirement,
        price: DomainPrice<'_>,
    ) -> Vec<&'d str> {
        if let Some(host) = self.host(node_domains) {
            let count = i64::from(self.count(host)) + i64::from(self.selects(pod));
            let is_fine = count <= i64::from(self.identity.max_skew);
            return is_fine.then_some(host).into_iter().collect();
        }
        let valid = self.valid_spread(pod, pod_domains, node_domains);
        let least = valid.iter().map(|domain| self.count(domain)).min();
        let tied = valid.into_iter().filter(|domain| Some(self.count(domain)) == least);
        self.best(tied, node_domains, price).into_iter().collect()
    }

    /// Returns every domain that keeps the skew.
    pub(in super::super) fn valid_spread(
        &self,
        pod: &Pod,
        pod_domains: &Requirement,
        node_domains: &Requirement,
    ) -> Vec<&str> {
        let own = i64::from(self.selects(pod));
        let least = self.least_count(pod_domains);
        self.counts
            .iter()
            .filter(|(domain, _)| node_domains.has(domain))
            .filter(|&(_, &count)| {
                i64::from(count) + own - least <= i64::from(self.identity.max_skew)
            })
            .map(|(domain, _)| domain.as_str())
            .collect()
    }

    fn least_count(&self, pod_domains: &Requirement) -> i64 {
        if self.identity.key == HOSTNAME {
            return 0;
        }
        let allowed = || self.counts.iter().filter(|(domain, _)| pod_domains.has(domain));
        let wanted = self.identity.min_domains.map_or(0, |min| usize::try_from(min).unwrap_or(0));
        if allowed().count() < wanted {
            return 0;
        }
        allowed().map(|(_, &count)| i64::from(count)).min().unwrap_or(i64::from(i32::MAX))
    }

    fn next_affinity<'d>(
        &'d self,
        pod: &Pod,
        pod_domains: &Requirement,
        node_domains: &'d Requirement,
        price: DomainPrice<'_>,
    ) -> Vec<&'d str> {
        let may_bootstrap = || self.selects(pod) && !self.has_pod_in(pod_domains);
        if let Some(host) = self.host(node_domains) {
            let is_fine = pod_domains.has(host) && (self.count(host) > 0 || may_bootstrap());
            return is_fine.then_some(host).into_iter().collect();
        }
        let known = || self.counts.keys().map(String::as_str);
        let allowed = || known().filter(|domain| pod_domains.has(domain));
        let here = || allowed().filter(|domain| node_domains.has(domain));
        let with_pods: Vec<_> = here().filter(|domain| self.count(domain) > 0).collect();
        if !with_pods.is_empty() || !may_bootstrap() {
            return with_pods;
        }
        // Upstream goes on with a domain that the node does not allow, which the node then rejects;
        // but a node that may lack the label would accept it.
        let has_values = !node_domains.is_complement() && !node_domains.is_empty();
        let other = || self.best(allowed().filter(|_| has_values), node_domains, price);
        self.best(here(), node_domains, price).or_else(other).into_iter().collect()
    }

    /// Returns whether a counted pod is in a domain that the pod allows.
    ///
    /// Also false when there is no counted pod at all: both allow the pod to be the first.
    fn has_pod_in(&self, pod_domains: &Requirement) -> bool {
        self.counts.iter().any(|(domain, &count)| count > 0 && pod_domains.has(domain))
    }

    fn next_anti_affinity<'d>(
        &'d self,
        pod_domains: &Requirement,
        node_domains: &'d Requirement,
    ) -> Vec<&'d str> {
        if let Some(host) = self.host(node_domains) {
            return (self.count(host) == 0).then_some(host).into_iter().collect();
        }
        let empty = self.counts.iter().filter(|&(_, &count)| count == 0);
        empty
            .map(|(domain, _)| domain.as_str())
            .filter(|domain| node_domains.has(domain) && pod_domains.has(domain))
            .collect()
    }

    /// Returns one of equally good domains (spec 20 §4.8).
    ///
    /// The order is the candidate's own domain, the cheapest, the first by name.
    fn best<'d>(
        &self,
        tied: impl Iterator<Item = &'d str>,
        node_domains: &Requirement,
        price: DomainPrice<'_>,
    ) -> Option<&'d str> {
        let key = self.identity.key.as_str();
        let has_price = key == ZONE || key == CAPACITY_TYPE;
        let rank = |domain: &str| {
            let is_fixed = node_domains.len() == 1 && node_domains.has(domain);
            let price = has_price.then(|| price(key, domain)).flatten().unwrap_or(f64::INFINITY);
            (!is_fixed, price)
        };
        let ranked = tied.map(|domain| (rank(domain), domain));
        let best = ranked.min_by(|((fixed_a, price_a), a), ((fixed_b, price_b), b)| {
            fixed_a.cmp(fixed_b).then(price_a.total_cmp(price_b)).then(a.cmp(b))
        });
        best.map(|(_, domain)| domain)
    }

    /// Returns why the group rejects a pod.
    pub(super) fn rejection(
        &self,
        pod_domains: Requirement,
        node_domains: Requirement,
    ) -> TopologyRejection {
        let shown = self.counts.iter().take(DOMAINS_SHOWN);
        TopologyRejection {
            kind: self.identity.kind,
            key: self.identity.key.clone(),
            counts: shown.map(|(domain, &count)| (domain.clone(), count)).collect(),
            omitted_domains: self.counts.len().saturating_sub(DOMAINS_SHOWN),
            pod_domains,
            node_domains,
        }
    }
}
