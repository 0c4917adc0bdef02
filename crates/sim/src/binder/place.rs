//! The decision: which node a pod goes to.
//!
//! ```text
//! claims of the pod ─▶ can any node have it? ─▶ sums per domain ─▶ filters, node by node ─▶ scores
//!                        no: Rejected                              none left: Refused
//! ```

use super::ask::{NodeAsk, Pod};
use super::classes::Verdict;
use super::score;
use super::storage::{ClaimStep, PodVolumes};
use super::topology::{NO_DOMAIN, NodeAt, NodeCounts, Pull};
use super::unfit::{Blockers, Reason, Refusal, Tally, Unfit};
use super::world::{Node, Pending, SpreadUse, World};

/// So many nodes are always compared, if there are as many that fit.
const LEAST_COMPARED: usize = 100;

/// Where a pod goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The node.
    pub node: String,
    /// What has to be done with its claims before.
    pub claims: Vec<ClaimStep>,
    /// Where the next search begins.
    pub(super) next_start: NodeAt,
}

/// The best node for a pod, or why there is none.
pub fn place(pending: &Pending, world: &World) -> Result<Placement, Unfit> {
    let nodes = world.node_count();
    if nodes == 0 {
        return Err(Unfit::NoNodes);
    }
    let pod = &*pending.pod;
    let named = pod.ask.nodes.named.as_ref();
    if named.is_some_and(std::collections::BTreeSet::is_empty) {
        let reason = "pod affinity terms conflict".to_owned();
        return Err(Unfit::Rejected { nodes, reason, blockers: Blockers::NONE });
    }
    let volumes = world.storage.of_pod(pod).map_err(|reason| Unfit::Rejected {
        nodes,
        reason,
        blockers: Blockers::VOLUMES,
    })?;
    let cycle = Cycle::new(pending, world, volumes);
    let mut search = Search { cycle: &cycle, fitting: Vec::new(), tally: Tally::default() };
    let mut next_start = world.start;
    if let Some(named) = named {
        let known: Vec<_> = named.iter().filter_map(|name| world.node_at(name)).collect();
        search.tally.count_not_named(nodes - known.len());
        for at in known {
            search.look(at);
        }
    } else {
        let (slots, enough) = (world.nodes.len(), compared(nodes));
        for at in (world.start..slots).chain(0..world.start.min(slots)) {
            search.look(at);
            if search.fitting.len() == enough {
                next_start = (at + 1) % slots;
                break;
            }
        }
    }
    let Search { fitting, tally, .. } = search;
    let Some(best) = score::best(&cycle, &fitting) else {
        return Err(Unfit::Refused { nodes, tally: Box::new(tally), may_preempt: pod.may_preempt });
    };
    let Some(node) = &world.nodes[best] else { return Err(Unfit::NoNodes) };
    let claims = world.storage.steps(&cycle.volumes, &node.name, &node.labels);
    Ok(Placement { node: node.name.clone(), claims: claims.unwrap_or_default(), next_start })
}

/// How many nodes that fit are compared, of so many: all of 100, a tenth of 5,000.
fn compared(nodes: usize) -> usize {
    let percent = 50_usize.saturating_sub(nodes / 125).max(5);
    (nodes * percent / 100).max(LEAST_COMPARED)
}

struct Search<'a> {
    cycle: &'a Cycle<'a>,
    fitting: Vec<NodeAt>,
    tally: Tally,
}

impl Search<'_> {
    fn look(&mut self, at: NodeAt) {
        let Some(node) = &self.cycle.world.nodes[at] else { return };
        match self.cycle.check(at, node) {
            Ok(()) => self.fitting.push(at),
            Err(refusal) => {
                self.tally.count(refusal);
                if refusal.has(Reason::OtherResource) {
                    for name in self.cycle.short_others(node) {
                        self.tally.count_other(name);
                    }
                }
            }
        }
    }
}

/// All that is worked out once for a pod, before nodes are looked at.
pub(super) struct Cycle<'a> {
    pub(super) world: &'a World,
    pub(super) pending: &'a Pending,
    pub(super) pod: &'a Pod,
    volumes: PodVolumes<'a>,
    is_claim_in_use: bool,
    verdicts: &'a [Verdict],
    spread: Vec<Spread<'a>>,
    affinity: Option<Affinity<'a>>,
    /// Domains that the pod's own anti-affinity forbids.
    anti_affinity: Vec<Forbidden<'a>>,
    /// Domains that the anti-affinity of others forbids.
    forbidden: Vec<Forbidden<'a>>,
}

struct Spread<'a> {
    domains: &'a [u32],
    counts: Vec<u32>,
    /// Where a domain may have no more.
    most: i64,
}

struct Affinity<'a> {
    /// Per term: the domains of nodes, and which of them have such pods.
    terms: Vec<(&'a [u32], Vec<bool>)>,
    /// Whether there is no such pod yet, and this one would be the first of its kind.
    is_first: bool,
}

struct Forbidden<'a> {
    domains: &'a [u32],
    is_forbidden: Vec<bool>,
}

impl<'a> Cycle<'a> {
    fn new(pending: &'a Pending, world: &'a World, volumes: PodVolumes<'a>) -> Self {
        let pod = &*pending.pod;
        let verdicts = pending.class.map_or(&[][..], |class| world.classes.verdicts(class));
        let mut cycle = Self {
            world,
            pending,
            pod,
            volumes,
            is_claim_in_use: world.has_claim_in_use(pod),
            verdicts,
            spread: Vec::new(),
            affinity: None,
            anti_affinity: Vec::new(),
            forbidden: Vec::new(),
        };
        cycle.spread = cycle.required_spread();
        cycle.affinity = cycle.required_affinity();
        let anti_affinity = pending.anti_affinity.iter();
        let anti_affinity =
            anti_affinity.map(|&(key, counter)| (key, world.counters.counts(counter)));
        cycle.anti_affinity = cycle.forbid(anti_affinity);
        let groups = world.groups.meaning(world.seen(pod));
        let groups = groups.filter(|(group, _)| group.pull == Pull::Forbids);
        let groups = groups
            .filter_map(|(group, counts)| Some((world.keys.known(&group.topology_key)?, counts)));
        cycle.forbidden = cycle.forbid(groups);
        cycle
    }

    fn ask(&self) -> &NodeAsk {
        &self.pod.ask.nodes
    }

    pub(super) fn verdict(&self, at: NodeAt, node: &Node) -> Verdict {
        match self.verdicts.get(at) {
            Some(verdict) => *verdict,
            None => Verdict::of(self.ask(), node),
        }
    }

    pub(super) fn domains(&self, key: usize) -> &'a [u32] {
        &self.world.keys.domains(key).by_node
    }

    /// Per domain, how many there are.
    pub(super) fn sums(&self, key: usize, counts: &NodeCounts) -> Vec<u32> {
        let domains = self.world.keys.domains(key);
        let mut sums = vec![0; domains.len()];
        for (domain, count) in domains.by_node.iter().zip(&counts.by_node) {
            if *domain != NO_DOMAIN {
                sums[*domain as usize] += count;
            }
        }
        sums
    }

    /// Whether a node counts for a spread constraint.
    pub(super) fn includes(&self, spread: &SpreadUse, at: NodeAt, node: &Node) -> bool {
        if !spread.honors_affinity && !spread.honors_taints {
            return true;
        }
        let verdict = self.verdict(at, node);
        !(spread.honors_affinity && verdict.is_elsewhere
            || spread.honors_taints && verdict.is_tainted)
    }

    fn required_spread(&self) -> Vec<Spread<'a>> {
        let required = || self.pending.spread.iter().filter(|spread| spread.is_required);
        let keys: Vec<_> = required().map(|spread| self.domains(spread.key)).collect();
        required().map(|spread| self.spread_of(spread, &keys)).collect()
    }

    fn spread_of(&self, spread: &SpreadUse, keys: &[&[u32]]) -> Spread<'a> {
        let domains = self.domains(spread.key);
        let found = self.world.counters.counts(spread.counter);
        let mut counts = vec![0_u32; self.world.keys.domains(spread.key).len()];
        let mut is_there = vec![false; counts.len()];
        for (at, node) in self.world.nodes.iter().enumerate() {
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
        let most = least + spread.max_skew - i64::from(spread.counts_itself);
        Spread { domains, counts, most }
    }

    fn required_affinity(&self) -> Option<Affinity<'a>> {
        let (counter, keys) = self.pending.affinity.as_ref()?;
        let counts = self.world.counters.counts(*counter);
        let term = |key: &usize| {
            let sums = self.sums(*key, counts);
            (self.domains(*key), sums.into_iter().map(|count| count > 0).collect::<Vec<_>>())
        };
        let terms: Vec<_> = keys.iter().map(term).collect();
        let is_nowhere = terms.iter().all(|(_, is_there)| is_there.iter().all(|there| !there));
        let meant = self.world.counters.counted(*counter);
        let means_itself = meant.is_some_and(|meant| meant.means(self.world.seen(self.pod)));
        Some(Affinity { terms, is_first: is_nowhere && means_itself })
    }

    fn forbid<'c>(
        &self,
        counts: impl Iterator<Item = (usize, &'c NodeCounts)>,
    ) -> Vec<Forbidden<'a>> {
        let counts = counts.filter(|(_, counts)| !counts.is_zero());
        let forbidden = counts.map(|(key, counts)| Forbidden {
            domains: self.domains(key),
            is_forbidden: self.sums(key, counts).into_iter().map(|count| count > 0).collect(),
        });
        forbidden.collect()
    }

    /// Whether a node can have the pod: kube-scheduler's filters, in their order.
    fn check(&self, at: NodeAt, node: &Node) -> Result<(), Refusal> {
        let verdict = self.verdict(at, node);
        if verdict.is_cordoned {
            return Err(Refusal::lasting(Reason::Unschedulable));
        }
        if verdict.is_tainted {
            return Err(Refusal::lasting(Reason::Taint));
        }
        if verdict.is_elsewhere {
            return Err(Refusal::lasting(Reason::NodeAffinity));
        }
        let ports = &self.pod.ask.host_ports;
        if ports.iter().any(|port| node.ports.iter().any(|taken| taken.collides(port))) {
            return Err(Refusal::resolvable(Reason::Ports));
        }
        self.check_room(node)?;
        if !self.pod.claims.is_empty() {
            self.check_volumes(node)?;
        }
        self.check_spread(at)?;
        self.check_pods(at)
    }

    fn check_room(&self, node: &Node) -> Result<(), Refusal> {
        let asked = &self.pod.ask.requests;
        let mut refusal = Refusal::none();
        if node.pod_count + 1 > node.allowed_pods {
            refusal.because(Reason::Pods, true);
        }
        let (has, used) = (&node.allocatable, &node.used);
        for (reason, asked, has, used) in [
            (Reason::Cpu, asked.cpu_millis, has.cpu_millis, used.cpu_millis),
            (Reason::Memory, asked.memory, has.memory, used.memory),
            (
                Reason::EphemeralStorage,
                asked.ephemeral_storage,
                has.ephemeral_storage,
                used.ephemeral_storage,
            ),
        ] {
            if asked > 0 && asked > has.saturating_sub(used) {
                refusal.because(reason, asked <= has);
            }
        }
        for (name, asked) in &asked.others {
            let has = has.other(name);
            if *asked > has.saturating_sub(used.other(name)) {
                refusal.because(Reason::OtherResource, *asked <= has);
            }
        }
        refusal.result()
    }

    /// The other resources that are short.
    fn short_others(&self, node: &Node) -> impl Iterator<Item = &str> {
        let others = self.pod.ask.requests.others.iter();
        let short = others.filter(|(name, asked)| {
            *asked > node.allocatable.other(name).saturating_sub(node.used.other(name))
        });
        short.map(|(name, _)| name.as_str())
    }

    fn check_volumes(&self, node: &Node) -> Result<(), Refusal> {
        if self.is_claim_in_use {
            return Err(Refusal::resolvable(Reason::ReadWriteOncePod));
        }
        if self.is_attach_limit_reached(node) {
            return Err(Refusal::resolvable(Reason::VolumeCount));
        }
        if self.volumes.is_empty() {
            return Ok(());
        }
        let mut refusal = Refusal::none();
        if !self.volumes.reach(&node.name, &node.labels) {
            refusal.because(Reason::VolumeAffinity, false);
        }
        if self.world.storage.steps(&self.volumes, &node.name, &node.labels).is_none() {
            refusal.because(Reason::VolumeBinding, false);
        }
        if self.volumes.is_volume_missing() {
            refusal.because(Reason::VolumeMissing, false);
        }
        refusal.result()?;
        if self.volumes.are_in_zone(&node.labels) {
            Ok(())
        } else {
            Err(Refusal::lasting(Reason::VolumeZone))
        }
    }

    /// Whether the volumes would be too many for a driver. What is attached is gathered here and
    /// not kept, since it changes with every claim that is bound; few pods and nodes come to this.
    fn is_attach_limit_reached(&self, node: &Node) -> bool {
        let storage = &self.world.storage;
        let Some(limits) = storage.limits(&node.name) else { return false };
        if !self.volumes.attached.iter().any(|(driver, _)| limits.contains_key(driver)) {
            return false;
        }
        let mut attached = self.volumes.attached.clone();
        for key in &node.mounting {
            if let Some(pod) = self.world.bound(key) {
                attached.extend(storage.attached(&key.namespace, &pod.claims));
            }
        }
        limits.iter().any(|(name, limit)| {
            let of_driver = |(driver, _): &&(String, String)| driver == name;
            let is_asked = self.volumes.attached.iter().any(|volume| of_driver(&volume));
            let count = attached.iter().filter(of_driver).count();
            is_asked && i64::try_from(count).unwrap_or(i64::MAX) > *limit
        })
    }

    fn check_spread(&self, at: NodeAt) -> Result<(), Refusal> {
        for spread in &self.spread {
            let domain = domain(spread.domains, at);
            if domain == NO_DOMAIN {
                return Err(Refusal::lasting(Reason::SpreadLabel));
            }
            if i64::from(spread.counts[domain as usize]) > spread.most {
                return Err(Refusal::resolvable(Reason::Spread));
            }
        }
        Ok(())
    }

    fn check_pods(&self, at: NodeAt) -> Result<(), Refusal> {
        if let Some(affinity) = &self.affinity {
            let mut is_there = true;
            for (domains, there) in &affinity.terms {
                match domain(domains, at) {
                    NO_DOMAIN => return Err(Refusal::lasting(Reason::PodAffinity)),
                    domain => is_there &= there[domain as usize],
                }
            }
            if !is_there && !affinity.is_first {
                return Err(Refusal::lasting(Reason::PodAffinity));
            }
        }
        let is_forbidden = |forbidden: &Forbidden<'_>| match domain(forbidden.domains, at) {
            NO_DOMAIN => false,
            domain => forbidden.is_forbidden[domain as usize],
        };
        if self.anti_affinity.iter().any(is_forbidden) {
            return Err(Refusal::resolvable(Reason::PodAntiAffinity));
        }
        if self.forbidden.iter().any(is_forbidden) {
            return Err(Refusal::resolvable(Reason::ExistingAntiAffinity));
        }
        Ok(())
    }
}

pub(super) fn domain(domains: &[u32], at: NodeAt) -> u32 {
    domains.get(at).copied().unwrap_or(NO_DOMAIN)
}
