//! One attempt to place a pod in one shape: existing nodes, in-flight NodeClaims, new ones (spec 20
//! §3.7–§3.10).

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use super::amounts::{Amounts, widen, within};
use super::claims::Claim;
use super::devices::Devices;
use super::existing::{ExistingNode, sum};
use super::groups::{Feasible, GroupId};
use super::order::{Joining, Run};
use super::shape::{OverHost, Shape};
use super::store::{ReqId, SetId, Split, Store, Undefined};
use super::topology::Landing;
use super::{Solver, Target};
use crate::bits::Bits;
use crate::catalog::CAPACITY_TYPE;
use crate::id::PodId;
use crate::reason::TopologyKind;
use crate::scheduling::MinValuesPolicy;
use crate::taint::untolerated;

/// What an attempt knows before it looks at candidates.
pub(super) struct View {
    pub(super) shape: Rc<Shape>,
    /// By group over a label.
    pub(super) feasible: Vec<Feasible>,
    /// By group over hosts: whether an affinity may start anywhere.
    pub(super) may_start: Vec<bool>,
    /// Requirement sets of NodeClaims that were asked already: whether they leave the pod a chance.
    /// Thousands of NodeClaims mostly share a handful of sets, so this is one look for most: it
    /// took 10,000 diverse pods from 79 to 25 ms.
    known: FxHashMap<SetId, bool>,
}

/// How a NodeClaim would look with the pod.
pub(super) struct Fit {
    pub(super) set: SetId,
    pub(super) variants: Bits,
    pub(super) reserved: BTreeSet<String>,
    pub(super) min_values_relaxed: bool,
    pub(super) devices: Option<Devices>,
}

/// Why a candidate does not take the pod, as far as an attempt needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum No {
    /// It does not fit.
    Unfit,
    /// It does not fit in the domain that a topology group picked. A candidate for which the group
    /// picks another one may.
    Unlucky,
    /// It waits for a reservation: no other pool and no relaxation may be tried.
    Deferred,
}

impl<'a> Solver<'a> {
    /// Tries to place the pod as it is in this shape.
    pub(super) fn attempt(
        &mut self,
        pod: PodId,
        class: usize,
        shape: &Rc<Shape>,
    ) -> Result<(), No> {
        let mut view = self.view(shape);
        if !view.is_feasible() {
            return Err(No::Unfit);
        }
        if self.place_on_existing(pod, class, &view) || self.place_in_flight(pod, class, &mut view)
        {
            return Ok(());
        }
        match self.place_on_new(pod, class, &view) {
            Err(No::Unfit) if !shape.over_labels.is_empty() => Err(No::Unlucky),
            result => result,
        }
    }

    pub(super) fn view(&mut self, shape: &Rc<Shape>) -> View {
        let feasible = shape
            .over_labels
            .iter()
            .filter_map(|over| {
                self.topology.feasible(over.group, over.selects_pod, over.pod, &self.store)
            })
            .collect();
        let may_start = shape
            .over_hosts
            .iter()
            .map(|over| {
                let pod = shape.strict.host.map(|host| self.store.get(host));
                over.limit.is_none()
                    && over.selects_pod
                    && self.topology.host_bootstrap(over.group, pod)
            })
            .collect();
        View { shape: shape.clone(), feasible, may_start, known: FxHashMap::default() }
    }

    /// Whether the groups over hosts let the pod go to one.
    fn hosts_allow(&self, view: &View, host: usize) -> bool {
        view.shape.over_hosts.iter().zip(&view.may_start).all(|(over, &may_start)| {
            let OverHost { group, limit, .. } = *over;
            let count = self.topology.group(group).count(host);
            match limit {
                Some(limit) => i64::from(count) <= limit,
                None => count > 0 || may_start,
            }
        })
    }

    fn place_on_existing(&mut self, pod: PodId, class_id: usize, view: &View) -> bool {
        if self.existing.nodes.is_empty() {
            return false;
        }
        // Taken out for the search, since the test needs the rest of the solver.
        let mut existing = std::mem::take(&mut self.existing);
        let need = self.classes[class_id].requests.clone();
        let asks_devices = !self.classes[class_id].devices.is_empty();
        let mut devices = None;
        let found = existing.first(&need, |node| {
            if !self.node_takes(node, class_id, view) {
                return false;
            }
            if asks_devices {
                devices = self.devices_on_node(node, class_id);
            }
            !asks_devices || devices.is_some()
        });
        self.existing = existing;
        let Some(index) = found else { return false };
        if let Some(devices) = devices {
            self.hold_on_node(index, devices);
        }
        let class = &self.classes[class_id];
        let node = &mut self.existing.nodes[index];
        node.take(pod, &class.requests, class.ports, &class.attachments);
        self.record(class_id, Target::Node(index));
        true
    }

    fn node_takes(&mut self, node: &ExistingNode, class: usize, view: &View) -> bool {
        if !self.hosts_allow(view, node.host) || !self.tolerates_node(node, view) {
            return false;
        }
        let class = &self.classes[class];
        if node.waits && !class.is_exempt {
            return false;
        }
        if !class.attachments.is_empty() && !node.can_attach(&class.attachments) {
            return false;
        }
        if class.ports.iter().any(|port| node.ports.iter().any(|taken| port.collides(taken))) {
            return false;
        }
        let store = &mut self.store;
        let suits = |split: Split, store: &mut Store<'_>| {
            let hostname = self.topology.host_name(node.host);
            split.host.is_none_or(|host| store.get(host).has(hostname))
                && store.compatible(node.set, split.set, Undefined::Refused)
        };
        if !suits(view.shape.all, store) || !suits(view.shape.strict, store) {
            return false;
        }
        // Labels of a node are facts: no alternative and no topology changes them, so that one
        // alternative suits is all there is to know.
        let alternatives = &class.alternatives;
        if !alternatives.is_empty() && !alternatives.iter().any(|&split| suits(split, store)) {
            return false;
        }
        view.shape.over_labels.iter().zip(&view.feasible).all(|(over, feasible)| {
            let domain = self.node_domains.entry((over.domains, node.set)).or_insert_with(|| {
                let domains = &mut self.topology.domains[over.domains];
                let value = store.find(node.set, domains.key)?;
                Some(domains.number(store.get(value).values().first()?))
            });
            domain.is_some_and(|domain| {
                let may_start = feasible.bootstrap.as_ref();
                feasible.domains.has(domain) || may_start.is_some_and(|start| start.has(domain))
            })
        })
    }

    fn tolerates_node(&self, node: &ExistingNode, view: &View) -> bool {
        let taints = self.world.nodes[node.id.index()].taints;
        if taints.is_empty() {
            return true;
        }
        let mut known = view.shape.tolerates_nodes.borrow_mut();
        *known
            .entry(node.taints_id)
            .or_insert_with(|| untolerated(taints, &view.shape.tolerations).is_empty())
    }

    fn place_in_flight(&mut self, pod: PodId, class: usize, view: &mut View) -> bool {
        // Taken out for the search, since looking closer at a NodeClaim needs the whole solver.
        let mut buckets = self.order.take();
        let found = self.first_in_flight(&mut buckets, class, view);
        self.order.put_back(buckets);
        let Some((index, fit)) = found else { return false };
        self.put(pod, class, index, fit);
        let claim = &self.claims[index];
        let count = |group| self.topology.group(group).count(claim.host);
        let joining = Joining { claim: super::id(index), room: &claim.room, count: &count };
        self.order.grow(&joining, claim.pods.len());
        true
    }

    fn first_in_flight(
        &mut self,
        buckets: &mut [VecDeque<Run>],
        class: usize,
        view: &mut View,
    ) -> Option<(usize, Fit)> {
        let need = self.classes[class].requests.clone();
        for run in buckets.iter_mut().flatten() {
            let limits =
                || view.shape.over_hosts.iter().filter_map(|over| Some((over.group, over.limit?)));
            if !run.may_fit(&need) || limits().any(|(group, limit)| run.exceeds(group, limit)) {
                continue;
            }
            let mut has_room = false;
            for position in 0..run.claims.len() {
                let index = run.claims[position] as usize;
                let claim = &self.claims[index];
                if !within(&need, &claim.room) {
                    continue;
                }
                has_room = true;
                if view.shape.tolerates[claim.template]
                    && self.hosts_allow(view, claim.host)
                    && self.leaves_a_chance(claim.set, view)
                    && let Ok(fit) = self.fits(&Candidate::InFlight(index), class, view)
                {
                    return Some((index, fit));
                }
            }
            self.learn(run, has_room, view);
        }
        None
    }

    /// Whether a NodeClaim with these requirements may take the pod, as far as labels and topology
    /// tell.
    fn leaves_a_chance(&mut self, set: SetId, view: &mut View) -> bool {
        if let Some(known) = view.known.get(&set) {
            return *known;
        }
        let answer = self.store.compatible(set, view.shape.strict.set, Undefined::WellKnown)
            && self.store.narrow(set, view.shape.all.set).is_some_and(|narrowed| {
                view.shape.over_labels.iter().zip(&view.feasible).all(|(over, feasible)| {
                    let domains = &mut self.topology.domains[over.domains];
                    let own = domains.allowed(self.store.find(narrowed, domains.key), &self.store);
                    feasible.domains.meets(&own)
                        || feasible.bootstrap.as_ref().is_some_and(|start| start.meets(&own))
                })
            });
        view.known.insert(set, answer);
        answer
    }

    /// Sharpens the bounds of a run that took no pod.
    fn learn(&self, run: &mut Run, has_room: bool, view: &View) {
        let claim = |&index: &u32| &self.claims[index as usize];
        if !has_room {
            run.room.fill(i128::MIN);
            run.claims.iter().map(claim).for_each(|claim| widen(&mut run.room, &claim.room));
            return;
        }
        for over in &view.shape.over_hosts {
            let Some(limit) = over.limit else { continue };
            let group = self.topology.group(over.group);
            let least = run.claims.iter().map(|index| group.count(claim(index).host)).min();
            if let Some(least) = least.filter(|&least| i64::from(least) > limit) {
                run.learn(over.group, least);
            }
        }
    }

    /// Opens a NodeClaim from the first template that can take the pod.
    fn place_on_new(&mut self, pod: PodId, class: usize, view: &View) -> Result<(), No> {
        for template in 0..self.templates.len() {
            match self.fits_template(template, class, view) {
                Ok(fit) => {
                    self.open(pod, class, template, fit);
                    return Ok(());
                }
                Err(No::Deferred) => return Err(No::Deferred),
                Err(No::Unfit | No::Unlucky) => {}
            }
        }
        Err(No::Unfit)
    }

    fn fits_template(&mut self, template: usize, class: usize, view: &View) -> Result<Fit, No> {
        if !view.shape.tolerates[template] || !self.hosts_allow(view, usize::MAX) {
            return Err(No::Unfit);
        }
        let types = &self.types[self.templates[template].types];
        let Ok(variants) = self.templates[template].within_limits(types) else {
            return Err(No::Unfit);
        };
        self.fits(&Candidate::New { template, variants }, class, view)
    }

    fn open(&mut self, pod: PodId, class: usize, template: usize, fit: Fit) {
        let index = self.claims.len();
        let host = self.topology.host(&placeholder(index));
        let set = self.templates[template].set;
        self.claims.push(Claim::new(template, set, host, self.columns.zero()));
        let types = &self.types[self.templates[template].types];
        self.templates[template].use_up(&fit.variants, types);
        self.claims[index].min_values_relaxed = fit.min_values_relaxed;
        self.put(pod, class, index, fit);
        let claim = &self.claims[index];
        let count = |group| self.topology.group(group).count(claim.host);
        let joining = Joining { claim: super::id(index), room: &claim.room, count: &count };
        self.order.open(&joining);
    }

    /// Puts a pod on a NodeClaim that was found to take it.
    fn put(&mut self, pod: PodId, class_id: usize, index: usize, fit: Fit) {
        let class = &self.classes[class_id];
        let claim = &mut self.claims[index];
        let before = claim.has_devices.then(|| claim.variants.clone());
        claim.take(pod, &class.requests, fit.set, fit.variants);
        claim.ports.extend_from_slice(class.ports);
        for (driver, claims) in &class.attachments {
            claim.attached.entry(driver.clone()).or_default().extend(claims.iter().cloned());
        }
        let template = &self.templates[claim.template];
        claim.measure(template, &self.types[template.types]);
        if self.uses_reserved {
            self.reservations.hold(index, fit.reserved);
        }
        if let Some(devices) = fit.devices {
            self.hold_on_claim(index, devices);
        }
        if let Some(before) = before {
            self.release_devices(index, &before);
        }
        self.record(class_id, Target::Claim(index));
    }

    /// Whether a NodeClaim, in flight or new, can take the pod, and how it would look.
    fn fits(&mut self, candidate: &Candidate, class_id: usize, view: &View) -> Result<Fit, No> {
        let (template, set, claim, mut variants) = match candidate {
            Candidate::InFlight(index) => {
                let claim = &self.claims[*index];
                (claim.template, claim.set, Some(*index), claim.variants.clone())
            }
            Candidate::New { template, variants } => {
                (*template, self.templates[*template].set, None, variants.clone())
            }
        };
        let class = &self.classes[class_id];
        if !hostname_allows(self, view.shape.all, claim) {
            return Err(No::Unfit);
        }
        // A preference that contradicts a requirement must not make the label look unwanted.
        let strict = view.shape.strict.set;
        if !self.store.compatible(set, strict, Undefined::WellKnown) {
            return Err(No::Unfit);
        }
        let base = self.store.narrow(set, view.shape.all.set).ok_or(No::Unfit)?;
        let before = variants.clone();
        let need = match claim {
            Some(index) => sum(&self.claims[index].total, &class.requests),
            None => class.requests.clone(),
        };
        if !class.attachments.is_empty() {
            self.keep_attachable(&mut variants, template, class_id, claim);
        }
        self.keep_large_enough(&mut variants, template, class_id, claim, &need);
        if variants.is_empty() {
            return Err(No::Unfit);
        }
        let mut last = No::Unfit;
        let count = self.classes[class_id].alternatives.len().max(1);
        for alternative in 0..count {
            let narrowed = match self.classes[class_id].alternatives.get(alternative).copied() {
                None => Some(base),
                Some(split) if !hostname_allows(self, split, claim) => None,
                Some(split) => self.store.narrow(base, split.set),
            };
            let Some(narrowed) = narrowed else {
                last = No::Unfit;
                continue;
            };
            let fit = if self.classes[class_id].devices.is_empty() {
                self.fits_alternative(narrowed, &variants, template, claim, view)
            } else {
                let before = (set, &before);
                self.fits_with_devices(
                    narrowed,
                    before,
                    &variants,
                    (template, claim),
                    class_id,
                    view,
                )
            };
            match fit {
                Ok(fit) => return Ok(fit),
                Err(no) => last = no,
            }
        }
        Err(last)
    }

    /// The same for a pod with ResourceClaims: devices may narrow where the NodeClaim can be, and
    /// leave fewer types.
    fn fits_with_devices(
        &mut self,
        narrowed: SetId,
        before: (SetId, &Bits),
        large_enough: &Bits,
        (template, claim): (usize, Option<usize>),
        class: usize,
        view: &View,
    ) -> Result<Fit, No> {
        let devices =
            self.devices_on_claim(claim, before, template, class).map_err(|_| No::Unfit)?;
        let asked = self.store.split(&devices.allocation.requirements);
        let narrowed = self.store.narrow(narrowed, asked.set).ok_or(No::Unfit)?;
        let mut variants = large_enough.clone();
        self.keep_with_devices(&mut variants, &devices, template);
        let fit = self.fits_alternative(narrowed, &variants, template, claim, view)?;
        Ok(Fit { devices: Some(devices), ..fit })
    }

    fn fits_alternative(
        &mut self,
        set: SetId,
        large_enough: &Bits,
        template: usize,
        claim: Option<usize>,
        view: &View,
    ) -> Result<Fit, No> {
        let mut variants = large_enough.clone();
        let types = &mut self.types[self.templates[template].types];
        // Without the topology first: what fails here fails whatever domain is picked.
        variants.keep(&types.answer(set, &mut self.store).variants);
        if variants.is_empty() {
            return Err(No::Unfit);
        }
        let mut set = set;
        if !view.shape.over_labels.is_empty() {
            let narrowed = self.with_topology(set, &variants, template, view).ok_or(No::Unfit)?;
            if narrowed != set {
                set = narrowed;
                let types = &mut self.types[self.templates[template].types];
                variants.keep(&types.answer(set, &mut self.store).variants);
                if variants.is_empty() {
                    return Err(No::Unfit);
                }
            }
        }
        let relaxes =
            claim.is_none() && self.world.options.min_values == MinValuesPolicy::BestEffort;
        let mut min_values_relaxed = false;
        if !self.templates[template].min_values.is_empty() {
            match self.lacking_min_values(set, &variants, template) {
                lacking if lacking.is_empty() => {}
                lacking if relaxes => {
                    set = self.relax_min_values(set, lacking);
                    min_values_relaxed = true;
                }
                _ => return Err(No::Unfit),
            }
        }
        let reserved = if self.uses_reserved {
            self.reservable(set, &variants, template, claim)
                .map_err(|refusal| if refusal.defers() { No::Deferred } else { No::Unfit })?
        } else {
            BTreeSet::new()
        };
        Ok(Fit { set, variants, reserved, min_values_relaxed, devices: None })
    }

    /// Narrows by the topology groups over labels (spec 20 §4.5). Each group sees the set as it was
    /// before.
    fn with_topology(
        &mut self,
        before: SetId,
        variants: &Bits,
        template: usize,
        view: &View,
    ) -> Option<SetId> {
        let mut picks: SmallVec<[ReqId; 4]> = SmallVec::new();
        for (over, feasible) in view.shape.over_labels.iter().zip(&view.feasible) {
            picks.push(self.pick(
                over.group,
                over.domains,
                feasible,
                before,
                variants,
                template,
            )?);
        }
        let mut set = before;
        for pick in picks {
            set = self.store.narrow_by(set, pick)?;
        }
        Some(set)
    }

    /// The domains that one group leaves to a candidate.
    pub(super) fn pick(
        &mut self,
        group: GroupId,
        position: usize,
        feasible: &Feasible,
        set: SetId,
        variants: &Bits,
        template: usize,
    ) -> Option<ReqId> {
        let domains = &mut self.topology.domains[position];
        let key = domains.key;
        let own = domains.allowed(self.store.find(set, key), &self.store);
        let mut options = feasible.domains.clone();
        options.keep(&own);
        let kind = self.topology.group(group).identity.kind;
        let is_start = options.is_empty();
        if is_start {
            options = feasible.bootstrap.clone()?;
            options.keep(&own);
        }
        if options.is_empty() {
            return None;
        }
        if kind == TopologyKind::Spread {
            let group = self.topology.group(group);
            let least = options.iter().map(|domain| group.count(domain)).min()?;
            let tied: Vec<usize> =
                options.iter().filter(|&domain| group.count(domain) == least).collect();
            options = self.break_tie(position, tied, set, variants, template);
        } else if is_start {
            let tied = options.iter().collect();
            options = self.break_tie(position, tied, set, variants, template);
        }
        Some(self.topology.domains[position].exactly(&options, &mut self.store))
    }

    /// One of several equal domains: for zones and capacity types the cheapest, then the first by
    /// name (spec 20 §4.8). Upstream leaves it to chance.
    pub(super) fn break_tie(
        &mut self,
        position: usize,
        tied: Vec<usize>,
        set: SetId,
        variants: &Bits,
        template: usize,
    ) -> Bits {
        let size = self.topology.domains[position].len();
        let one = |domain: usize| {
            let mut bits = Bits::none(size);
            bits.insert(domain);
            bits
        };
        if let [only] = tied.as_slice() {
            return one(*only);
        }
        let key = self.store.key_name(self.topology.domains[position].key);
        let by_price = matches!(key, ZONE | CAPACITY_TYPE);
        let mut best: Option<(f64, usize)> = None;
        for domain in tied {
            let price = if by_price {
                self.price_in(position, &one(domain), set, variants, template)
            } else {
                0.0
            };
            let is_better = best.is_none_or(|(lowest, chosen)| {
                let domains = &self.topology.domains[position];
                let names = || domains.name(domain).cmp(domains.name(chosen));
                price.total_cmp(&lowest).then_with(names).is_lt()
            });
            if is_better {
                best = Some((price, domain));
            }
        }
        one(best.map_or(0, |(_, domain)| domain))
    }

    /// The lowest price of a candidate if it went to a domain.
    fn price_in(
        &mut self,
        position: usize,
        domain: &Bits,
        set: SetId,
        variants: &Bits,
        template: usize,
    ) -> f64 {
        let requirement = self.topology.domains[position].exactly(domain, &mut self.store);
        let set = self.store.tighten(set, requirement);
        let types = &mut self.types[self.templates[template].types];
        let answer = types.answer(set, &mut self.store);
        let cheapest = answer.by_price.iter().find(|(_, variant)| variants.has(*variant as usize));
        cheapest.map_or(f64::INFINITY, |(price, _)| *price)
    }

    /// Counts a placed pod in the groups that care.
    fn record(&mut self, class: usize, target: Target) {
        self.placed.push((class, target));
        let chain = self.classes[class].chain;
        let who = self.chains.all[chain].who;
        let groups = self.chains.counted_by(who, &self.topology).to_vec();
        let landing = self.landing(target);
        for group in groups {
            self.topology.record(group, &landing, &mut self.store);
        }
        for group in self.chains.all[chain].feeds.clone() {
            self.topology.record(group, &landing, &mut self.store);
        }
    }

    /// Where a pod landed, as groups see it.
    pub(super) fn landing(&self, target: Target) -> Landing<'a> {
        match target {
            Target::Node(index) => {
                let node = &self.existing.nodes[index];
                let taints = self.world.nodes[node.id.index()].taints;
                Landing { set: node.set, host: node.host, taints: (taints, node.taints_id) }
            }
            Target::Claim(index) => {
                let claim = &self.claims[index];
                let template = &self.templates[claim.template];
                let taints = (template.pool.taints.as_slice(), template.taints_id);
                Landing { set: claim.set, host: claim.host, taints }
            }
        }
    }
}

impl View {
    /// Whether every group leaves some domain at all.
    fn is_feasible(&self) -> bool {
        self.feasible.iter().all(|feasible| {
            !feasible.domains.is_empty()
                || feasible.bootstrap.as_ref().is_some_and(|start| !start.is_empty())
        })
    }
}

/// A NodeClaim that may take a pod.
pub(super) enum Candidate {
    InFlight(usize),
    New { template: usize, variants: Bits },
}

/// The label of the zone.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

/// The hostname that a NodeClaim goes by until it has one.
pub(super) fn placeholder(index: usize) -> String {
    format!("hostname-placeholder-{:04}", index + 1)
}

fn hostname_allows(solver: &Solver<'_>, split: Split, claim: Option<usize>) -> bool {
    split.host.is_none_or(|host| {
        let index = claim.unwrap_or(solver.claims.len());
        solver.store.get(host).has(&placeholder(index))
    })
}

impl Solver<'_> {
    /// Keeps the types that can attach the volumes of a NodeClaim and the pod (spec 45 §11.2).
    fn keep_attachable(
        &self,
        variants: &mut Bits,
        template: usize,
        class: usize,
        claim: Option<usize>,
    ) {
        let class = &self.classes[class];
        let mut counts = std::collections::BTreeMap::new();
        let empty = crate::volume::Attachments::new();
        let own = claim.map_or(&empty, |index| &self.claims[index].attached);
        for (driver, claims) in own.iter().chain(&class.attachments) {
            counts.entry(driver).or_insert_with(BTreeSet::new).extend(claims);
        }
        let types = &self.types[self.templates[template].types];
        for variant in variants.clone().iter() {
            let limits = &types.instance_type(&types.variants[variant]).volume_limits;
            let exceeds = |(driver, claims): (&&String, &BTreeSet<&String>)| {
                limits.get(*driver).is_some_and(|&limit| claims.len() > limit as usize)
            };
            if counts.iter().any(exceeds) {
                variants.remove(variant);
            }
        }
    }

    /// Keeps the types that are large enough, daemons included, and whose daemons leave the pod's
    /// host ports free.
    pub(super) fn keep_large_enough(
        &self,
        variants: &mut Bits,
        template: usize,
        class: usize,
        claim: Option<usize>,
        need: &Amounts,
    ) {
        let class = &self.classes[class];
        let template = &self.templates[template];
        let types = &self.types[template.types];
        let taken = claim.map_or(&[][..], |index| &self.claims[index].ports);
        let collides = |ports: &[crate::host_port::HostPort]| {
            class.ports.iter().any(|port| ports.iter().any(|other| port.collides(other)))
        };
        if collides(taken) {
            *variants = types.none();
            return;
        }
        if let [only] = template.groups.as_slice() {
            if collides(&only.ports) {
                *variants = types.none();
            } else if only.overhead.is_some() {
                types.keep_fitting(variants, &sum(need, &only.amounts));
            } else {
                types.keep_fitting(variants, need);
            }
            return;
        }
        let mut kept = types.none();
        for group in template.groups.iter().filter(|group| !collides(&group.ports)) {
            let mut own = variants.clone();
            own.keep(&group.variants);
            types.keep_fitting(&mut own, &sum(need, &group.amounts));
            kept.extend(&own);
        }
        *variants = kept;
    }
}
