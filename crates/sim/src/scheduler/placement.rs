//! Places a pod: filters the nodes, scores those that fit, and chooses the best.
//!
//! ```text
//! claims of the pod ─▶ can any node have it? ─▶ sums per domain ─▶ filters, node by node ─▶ scores
//!                        no: PreFilterRejected                     none left: FilterRejected
//! ```

use super::cache::{NodeInfo, PendingPod, SchedulerCache, SpreadUse};
use super::fit_error::{Blockers, FitError, NodeRejection, RejectionCounts, RejectionReason};
use super::pod_classes::Verdict;
use super::pod_info::{NodeRequirements, PodInfo};
use super::score;
use super::storage::{PodVolumes, VolumeClaimStep};
use super::topology::{NO_DOMAIN, NodeCounts, NodeIndex, TermEffect};

/// The least number of nodes that fit to compare, if as many fit.
const MIN_FEASIBLE_NODES_TO_FIND: usize = 100;

/// Where a pod goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The node.
    pub node: String,
    /// What has to be done with its claims before.
    pub claims: Vec<VolumeClaimStep>,
    /// Where the next search begins.
    pub(super) next_start: NodeIndex,
}

/// Returns the best node for a pod, or why no node fits.
pub fn schedule_pod(pending: &PendingPod, cache: &SchedulerCache) -> Result<Placement, FitError> {
    let nodes = cache.node_count();
    if nodes == 0 {
        return Err(FitError::NoNodes);
    }
    let pod = &*pending.pod;
    let named = pod.requirements.node.node_names.as_ref();
    if named.is_some_and(std::collections::BTreeSet::is_empty) {
        let reason = "pod affinity terms conflict".to_owned();
        return Err(FitError::PreFilterRejected { nodes, reason, blockers: Blockers::NONE });
    }
    let volumes = cache.storage.pod_volumes(pod).map_err(|reason| FitError::PreFilterRejected {
        nodes,
        reason,
        blockers: Blockers::VOLUMES,
    })?;
    let cycle = SchedulingCycle::new(pending, cache, volumes);
    let mut search =
        Search { cycle: &cycle, fitting: Vec::new(), rejections: RejectionCounts::default() };
    let mut next_start = cache.next_start;
    if let Some(named) = named {
        let known: Vec<_> = named.iter().filter_map(|name| cache.node_index(name)).collect();
        search.rejections.count_not_named(nodes - known.len());
        for at in known {
            search.filter_node(at);
        }
    } else {
        let (slots, enough) = (cache.nodes.len(), feasible_nodes_to_find(nodes));
        for at in (cache.next_start..slots).chain(0..cache.next_start.min(slots)) {
            search.filter_node(at);
            if search.fitting.len() == enough {
                next_start = (at + 1) % slots;
                break;
            }
        }
    }
    let Search { fitting, rejections, .. } = search;
    let Some(best) = score::best(&cycle, &fitting) else {
        return Err(FitError::FilterRejected {
            nodes,
            rejections: Box::new(rejections),
            may_preempt: pod.may_preempt,
        });
    };
    let Some(node) = &cache.nodes[best] else { return Err(FitError::NoNodes) };
    let claims = cache.storage.steps(&cycle.volumes, &node.name, &node.labels);
    Ok(Placement { node: node.name.clone(), claims: claims.unwrap_or_default(), next_start })
}

/// Returns how many nodes that fit to compare, of this many nodes.
/// All of 100, a tenth of 5,000.
fn feasible_nodes_to_find(nodes: usize) -> usize {
    let percent = 50_usize.saturating_sub(nodes / 125).max(5);
    (nodes * percent / 100).max(MIN_FEASIBLE_NODES_TO_FIND)
}

struct Search<'a> {
    cycle: &'a SchedulingCycle<'a>,
    fitting: Vec<NodeIndex>,
    rejections: RejectionCounts,
}

impl Search<'_> {
    fn filter_node(&mut self, at: NodeIndex) {
        let Some(node) = &self.cycle.cache.nodes[at] else { return };
        match self.cycle.check(at, node) {
            Ok(()) => self.fitting.push(at),
            Err(rejection) => {
                self.rejections.count(rejection);
                if rejection.has(RejectionReason::OtherResource) {
                    for name in self.cycle.short_others(node) {
                        self.rejections.count_other(name);
                    }
                }
            }
        }
    }
}

/// The state of one scheduling cycle, computed before the nodes are filtered.
pub(super) struct SchedulingCycle<'a> {
    pub(super) cache: &'a SchedulerCache,
    pub(super) pending: &'a PendingPod,
    pub(super) pod: &'a PodInfo,
    volumes: PodVolumes<'a>,
    is_claim_in_use: bool,
    verdicts: &'a [Verdict],
    spread: Vec<Spread<'a>>,
    affinity: Option<Affinity<'a>>,
    /// Domains that the pod's own anti-affinity forbids.
    anti_affinity: Vec<ForbiddenDomains<'a>>,
    /// Domains that the anti-affinity of bound pods forbids.
    existing_anti_affinity: Vec<ForbiddenDomains<'a>>,
}

struct Spread<'a> {
    domains: &'a [u32],
    counts: Vec<u32>,
    /// The most matching pods that a domain may already have.
    max_count: i64,
}

struct Affinity<'a> {
    /// Per term: the domains of nodes, and which of them have such pods.
    terms: Vec<(&'a [u32], Vec<bool>)>,
    /// Whether there is no such pod yet, and this one would be the first of its kind.
    is_first: bool,
}

struct ForbiddenDomains<'a> {
    domains: &'a [u32],
    is_forbidden: Vec<bool>,
}

impl<'a> SchedulingCycle<'a> {
    fn new(pending: &'a PendingPod, cache: &'a SchedulerCache, volumes: PodVolumes<'a>) -> Self {
        let pod = &*pending.pod;
        let verdicts = pending.class.map_or(&[][..], |class| cache.classes.verdicts(class));
        let mut cycle = Self {
            cache,
            pending,
            pod,
            volumes,
            is_claim_in_use: cache.has_claim_in_use(pod),
            verdicts,
            spread: Vec::new(),
            affinity: None,
            anti_affinity: Vec::new(),
            existing_anti_affinity: Vec::new(),
        };
        cycle.spread = cycle.required_spread();
        cycle.affinity = cycle.required_affinity();
        let anti_affinity = pending.anti_affinity.iter();
        let anti_affinity =
            anti_affinity.map(|&(key, counter)| (key, cache.counters.counts(counter)));
        cycle.anti_affinity = cycle.forbid(anti_affinity);
        let terms = cache.bound_terms.matching(cache.match_target(pod));
        let terms = terms.filter(|(term, _)| term.effect == TermEffect::Forbid);
        let terms = terms
            .filter_map(|(term, counts)| Some((cache.keys.known(&term.topology_key)?, counts)));
        cycle.existing_anti_affinity = cycle.forbid(terms);
        cycle
    }

    fn node_requirements(&self) -> &NodeRequirements {
        &self.pod.requirements.node
    }

    pub(super) fn verdict(&self, at: NodeIndex, node: &NodeInfo) -> Verdict {
        match self.verdicts.get(at) {
            Some(verdict) => *verdict,
            None => Verdict::of(self.node_requirements(), node),
        }
    }

    pub(super) fn domains(&self, key: usize) -> &'a [u32] {
        &self.cache.keys.domains(key).by_node
    }

    /// Returns the number of counted pods in each domain of the key.
    pub(super) fn domain_counts(&self, key: usize, counts: &NodeCounts) -> Vec<u32> {
        let domains = self.cache.keys.domains(key);
        let mut sums = vec![0; domains.len()];
        for (domain, count) in domains.by_node.iter().zip(&counts.by_node) {
            if *domain != NO_DOMAIN {
                sums[*domain as usize] += count;
            }
        }
        sums
    }

    /// Whether a node counts for a spread constraint.
    pub(super) fn includes(&self, spread: &SpreadUse, at: NodeIndex, node: &NodeInfo) -> bool {
        if !spread.honors_affinity && !spread.honors_taints {
            return true;
        }
        let verdict = self.verdict(at, node);
        !(spread.honors_affinity && verdict.is_affinity_mismatch
            || spread.honors_taints && verdict.is_tainted)
    }

    fn required_spread(&self) -> Vec<Spread<'a>> {
        let required = || self.pending.spread.iter().filter(|spread| spread.is_required);
        let keys: Vec<_> = required().map(|spread| self.domains(spread.key)).collect();
        required().map(|spread| self.spread_of(spread, &keys)).collect()
    }

    fn spread_of(&self, spread: &SpreadUse, keys: &[&[u32]]) -> Spread<'a> {
        let domains = self.domains(spread.key);
        let found = self.cache.counters.counts(spread.counter);
        let mut counts = vec![0_u32; self.cache.keys.domains(spread.key).len()];
        let mut is_there = vec![false; counts.len()];
        for (at, node) in self.cache.nodes.iter().enumerate() {
            let Some(node) = node else { continue };
            let has_all = keys.iter().all(|domains| domain(domains, at) != NO_DOMAIN);
            if has_all && self.includes(spread, at, node) {
                let domain = domain(domains, at) as usize;
                counts[domain] += found.at(at);
                is_there[domain] = true;
            }
        }
        let there = || counts.iter().zip(&is_there).filter(|(_, is_there)| **is_there);
        let least = if there().count() < spread.min_domains {
            0
        } else {
            there().map(|(count, _)| i64::from(*count)).min().unwrap_or(0)
        };
        let max_count = least + spread.max_skew - i64::from(spread.counts_itself);
        Spread { domains, counts, max_count }
    }

    fn required_affinity(&self) -> Option<Affinity<'a>> {
        let (counter, keys) = self.pending.affinity.as_ref()?;
        let counts = self.cache.counters.counts(*counter);
        let term = |key: &usize| {
            let sums = self.domain_counts(*key, counts);
            (self.domains(*key), sums.into_iter().map(|count| count > 0).collect::<Vec<_>>())
        };
        let terms: Vec<_> = keys.iter().map(term).collect();
        let is_nowhere = terms.iter().all(|(_, is_there)| is_there.iter().all(|there| !there));
        let meant = self.cache.counters.filter(*counter);
        let means_itself =
            meant.is_some_and(|meant| meant.matches(self.cache.match_target(self.pod)));
        Some(Affinity { terms, is_first: is_nowhere && means_itself })
    }

    fn forbid<'c>(
        &self,
        counts: impl Iterator<Item = (usize, &'c NodeCounts)>,
    ) -> Vec<ForbiddenDomains<'a>> {
        let counts = counts.filter(|(_, counts)| !counts.is_zero());
        let forbidden = counts.map(|(key, counts)| ForbiddenDomains {
            domains: self.domains(key),
            is_forbidden: self
                .domain_counts(key, counts)
                .into_iter()
                .map(|count| count > 0)
                .collect(),
        });
        forbidden.collect()
    }

    /// Whether a node can have the pod: kube-scheduler's filters, in their order.
    fn check(&self, at: NodeIndex, node: &NodeInfo) -> Result<(), NodeRejection> {
        let verdict = self.verdict(at, node);
        if verdict.is_cordoned {
            return Err(NodeRejection::unresolvable(RejectionReason::Unschedulable));
        }
        if verdict.is_tainted {
            return Err(NodeRejection::unresolvable(RejectionReason::Taint));
        }
        if verdict.is_affinity_mismatch {
            return Err(NodeRejection::unresolvable(RejectionReason::NodeAffinity));
        }
        let ports = &self.pod.requirements.host_ports;
        if ports.iter().any(|port| node.ports.iter().any(|taken| taken.conflicts_with(port))) {
            return Err(NodeRejection::resolvable(RejectionReason::Ports));
        }
        self.check_resources(node)?;
        if !self.pod.claims.is_empty() {
            self.check_volumes(node)?;
        }
        self.check_spread(at)?;
        self.check_pods(at)
    }

    fn check_resources(&self, node: &NodeInfo) -> Result<(), NodeRejection> {
        let requested = &self.pod.requirements.requests;
        let mut rejection = NodeRejection::none();
        if node.pod_count + 1 > node.allowed_pods {
            rejection.add(RejectionReason::Pods, true);
        }
        let (has, used) = (&node.allocatable, &node.used);
        for (reason, requested, has, used) in [
            (RejectionReason::Cpu, requested.cpu_millis, has.cpu_millis, used.cpu_millis),
            (RejectionReason::Memory, requested.memory, has.memory, used.memory),
            (
                RejectionReason::EphemeralStorage,
                requested.ephemeral_storage,
                has.ephemeral_storage,
                used.ephemeral_storage,
            ),
        ] {
            if requested > 0 && requested > has.saturating_sub(used) {
                rejection.add(reason, requested <= has);
            }
        }
        for (name, requested) in &requested.others {
            let has = has.other(name);
            if *requested > has.saturating_sub(used.other(name)) {
                rejection.add(RejectionReason::OtherResource, *requested <= has);
            }
        }
        rejection.result()
    }

    /// The other resources that are short.
    fn short_others(&self, node: &NodeInfo) -> impl Iterator<Item = &str> {
        let others = self.pod.requirements.requests.others.iter();
        let short = others.filter(|(name, requested)| {
            *requested > node.allocatable.other(name).saturating_sub(node.used.other(name))
        });
        short.map(|(name, _)| name.as_str())
    }

    fn check_volumes(&self, node: &NodeInfo) -> Result<(), NodeRejection> {
        if self.is_claim_in_use {
            return Err(NodeRejection::resolvable(RejectionReason::ReadWriteOncePod));
        }
        if self.is_attach_limit_reached(node) {
            return Err(NodeRejection::resolvable(RejectionReason::VolumeCount));
        }
        if self.volumes.is_empty() {
            return Ok(());
        }
        let mut rejection = NodeRejection::none();
        if !self.volumes.reach(&node.name, &node.labels) {
            rejection.add(RejectionReason::VolumeAffinity, false);
        }
        if self.cache.storage.steps(&self.volumes, &node.name, &node.labels).is_none() {
            rejection.add(RejectionReason::VolumeBinding, false);
        }
        if self.volumes.is_volume_missing() {
            rejection.add(RejectionReason::VolumeMissing, false);
        }
        rejection.result()?;
        if self.volumes.are_in_zone(&node.labels) {
            Ok(())
        } else {
            Err(NodeRejection::unresolvable(RejectionReason::VolumeZone))
        }
    }

    /// Whether the volumes would be too many for a driver. The attached volumes are collected here
    /// and not kept, since they change with every claim that is bound; few pods and nodes come to
    /// this.
    fn is_attach_limit_reached(&self, node: &NodeInfo) -> bool {
        let storage = &self.cache.storage;
        let Some(limits) = storage.limits(&node.name) else { return false };
        if !self.volumes.attached.iter().any(|(driver, _)| limits.contains_key(driver)) {
            return false;
        }
        let mut attached = self.volumes.attached.clone();
        for key in &node.pods_with_volume_claims {
            if let Some(pod) = self.cache.bound(key) {
                attached.extend(storage.attached(&key.namespace, &pod.claims));
            }
        }
        limits.iter().any(|(name, limit)| {
            let of_driver = |(driver, _): &&(String, String)| driver == name;
            let is_requested = self.volumes.attached.iter().any(|volume| of_driver(&volume));
            let count = attached.iter().filter(of_driver).count();
            is_requested && i64::try_from(count).unwrap_or(i64::MAX) > *limit
        })
    }

    fn check_spread(&self, at: NodeIndex) -> Result<(), NodeRejection> {
        for spread in &self.spread {
            let domain = domain(spread.domains, at);
            if domain == NO_DOMAIN {
                return Err(NodeRejection::unresolvable(RejectionReason::SpreadLabel));
            }
            if i64::from(spread.counts[domain as usize]) > spread.max_count {
                return Err(NodeRejection::resolvable(RejectionReason::Spread));
            }
        }
        Ok(())
    }

    fn check_pods(&self, at: NodeIndex) -> Result<(), NodeRejection> {
        if let Some(affinity) = &self.affinity {
            let mut is_there = true;
            for (domains, there) in &affinity.terms {
                match domain(domains, at) {
                    NO_DOMAIN => {
                        return Err(NodeRejection::unresolvable(RejectionReason::PodAffinity));
                    }
                    domain => is_there &= there[domain as usize],
                }
            }
            if !is_there && !affinity.is_first {
                return Err(NodeRejection::unresolvable(RejectionReason::PodAffinity));
            }
        }
        let is_forbidden = |forbidden: &ForbiddenDomains<'_>| match domain(forbidden.domains, at) {
            NO_DOMAIN => false,
            domain => forbidden.is_forbidden[domain as usize],
        };
        if self.anti_affinity.iter().any(is_forbidden) {
            return Err(NodeRejection::resolvable(RejectionReason::PodAntiAffinity));
        }
        if self.existing_anti_affinity.iter().any(is_forbidden) {
            return Err(NodeRejection::resolvable(RejectionReason::ExistingAntiAffinity));
        }
        Ok(())
    }
}

pub(super) fn domain(domains: &[u32], at: NodeIndex) -> u32 {
    domains.get(at).copied().unwrap_or(NO_DOMAIN)
}
