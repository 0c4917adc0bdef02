//! The queue and the main loop of the reference solver (spec 20 §3.5 to §3.7, §3.13).

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::claim::{Change, InFlightClaim};
use super::existing::ExistingNode;
use super::finish;
use super::input::SolverInput;
use super::preferences;
use super::relaxable_pod::RelaxablePod;
use super::reservations::Reservations;
use super::templates::{self, Template};
use super::topology::{Placement, Topology};
use super::zones;
use crate::id::PodId;
use crate::plan::{Plan, UnusablePool};
use crate::pod::{Phase, Pod};
use crate::rejection::{PodRejection, PoolRejection, RejectionReason};
use crate::requirement::Requirement;
use crate::resources::{CPU, MEMORY};
use crate::scheduling::{Fuel, MinValuesPolicy};

/// The state of a solve.
pub(super) struct Solver<'a> {
    input: &'a SolverInput<'a>,
    templates: Vec<Template<'a>>,
    unusable: Vec<UnusablePool>,
    existing: Vec<ExistingNode<'a>>,
    /// In the order they were opened.
    claims: Vec<InFlightClaim>,
    /// Positions in `claims` in the order they are tried.
    order: Vec<usize>,
    topology: Topology<'a>,
    reservations: Reservations,
    /// The pods to place, before any relaxation.
    relaxable_pods: BTreeMap<PodId, RelaxablePod<'a>>,
    rejected: BTreeMap<PodId, PodRejection>,
}

/// The outcome of placing a pod, with all its relaxations.
enum Outcome {
    Placed,
    Rejected(PodRejection),
    OutOfFuel,
}

impl<'a> Solver<'a> {
    pub(super) fn new(input: &'a SolverInput<'a>) -> Self {
        let relaxable_pods: BTreeMap<_, _> =
            input.pods.iter().map(|&id| (id, RelaxablePod::new(input, id))).collect();
        let mut topology = Topology::new(input);
        for id in &input.pods {
            topology.update(&relaxable_pods[id], &[]);
        }
        let (templates, unusable) = templates::build(input);
        let existing: Vec<_> = input.nodes.iter().map(|&id| ExistingNode::new(input, id)).collect();
        for node in &existing {
            topology.register_host(&node.hostname);
        }
        Self {
            input,
            templates,
            unusable,
            existing,
            claims: Vec::new(),
            order: Vec::new(),
            topology,
            reservations: Reservations::new(input),
            relaxable_pods,
            rejected: BTreeMap::new(),
        }
    }

    pub(super) fn run(mut self, fuel: &mut Fuel<'_>) -> Plan {
        let effective_zones = self.effective_zones();
        let mut queue = Queue::new(self.input);
        while let Some(id) = queue.pop(self.topology.learned_domain_count) {
            match self.try_pod(id, fuel) {
                Outcome::Placed => {
                    self.rejected.remove(&id);
                }
                Outcome::Rejected(rejection) => {
                    self.rejected.insert(id, rejection);
                    let unrelaxed = self.relaxable_pods[&id].clone();
                    self.update_topology(&unrelaxed);
                    queue.push(id, self.topology.learned_domain_count);
                }
                Outcome::OutOfFuel => break,
            }
        }
        self.plan(effective_zones, fuel.is_used_up())
    }

    fn effective_zones(&self) -> BTreeMap<String, usize> {
        let mut zones = BTreeMap::new();
        for id in &self.input.pods {
            let relaxable = &self.relaxable_pods[id];
            if relaxable.pod.phase == Phase::Pending {
                *zones.entry(zones::effective_zone(&self.topology, relaxable)).or_insert(0) += 1;
            }
        }
        zones
    }

    /// Tries to place the pod, with one preference less each time.
    fn try_pod(&mut self, id: PodId, fuel: &mut Fuel<'_>) -> Outcome {
        let mut relaxable = self.relaxable_pods[&id].clone();
        let tolerate = self.input.tolerates_prefer_no_schedule();
        loop {
            if !fuel.may_continue() {
                return Outcome::OutOfFuel;
            }
            let Err(rejection) = self.add(&relaxable) else { return Outcome::Placed };
            let is_final = rejection.waits_for_reservation()
                || matches!(rejection, PodRejection::DynamicResourcesIgnored);
            if is_final || !preferences::relax(&mut relaxable.spec, tolerate) {
                return Outcome::Rejected(rejection);
            }
            relaxable.recompute(self.input);
            self.update_topology(&relaxable);
        }
    }

    fn update_topology(&mut self, relaxable: &RelaxablePod<'_>) {
        let on_nodes = self.existing.iter().flat_map(|node| {
            let (taints, requirements) = (&node.node.taints[..], &node.requirements);
            node.pods.iter().map(move |&pod| Placement { pod, taints, requirements })
        });
        let on_claims = self.claims.iter().flat_map(|claim| {
            let taints = &self.templates[claim.template].pool.taints[..];
            let requirements = &claim.requirements;
            claim.pods.iter().map(move |&pod| Placement { pod, taints, requirements })
        });
        let placements: Vec<_> = on_nodes.chain(on_claims).collect();
        self.topology.update(relaxable, &placements);
    }

    /// Places the pod on the first existing node, open NodeClaim or new NodeClaim that takes it.
    fn add(&mut self, relaxable: &RelaxablePod<'_>) -> Result<(), PodRejection> {
        if let Some(rejection) = &relaxable.rejection {
            return Err(rejection.clone());
        }
        if self.add_to_existing(relaxable) || self.add_to_open_claim(relaxable) {
            return Ok(());
        }
        if self.templates.is_empty() {
            return Err(PodRejection::NoUsablePool);
        }
        self.add_to_new_claim(relaxable).map_err(PodRejection::Pools)
    }

    fn add_to_existing(&mut self, relaxable: &RelaxablePod<'_>) -> bool {
        let accepts =
            |node: &&mut ExistingNode<'_>| node.accepts(self.input, &self.topology, relaxable);
        let Some(node) = self.existing.iter_mut().find(accepts) else { return false };
        node.add(relaxable);
        let (taints, requirements) = (&node.node.taints[..], &node.requirements);
        self.topology.record(&Placement { pod: relaxable.id, taints, requirements });
        true
    }

    /// Places the pod on an open NodeClaim. Those with the fewest pods are tried first.
    fn add_to_open_claim(&mut self, relaxable: &RelaxablePod<'_>) -> bool {
        self.order.sort_by_key(|&position| self.claims[position].pods.len());
        let accepted = self.order.iter().find_map(|&position| {
            let change = self.with_pod(&self.claims[position], relaxable, false).ok()?;
            Some((position, change))
        });
        let Some((position, change)) = accepted else { return false };
        self.place(position, relaxable, change);
        true
    }

    /// Places the pod on a new NodeClaim, or returns one rejection per template.
    ///
    /// No template is tried after one whose rejection makes the pod wait for a reservation.
    fn add_to_new_claim(&mut self, relaxable: &RelaxablePod<'_>) -> Result<(), Vec<PoolRejection>> {
        let mut rejections = Vec::new();
        for position in 0..self.templates.len() {
            match self.new_claim(position, relaxable) {
                Ok((mut claim, change)) => {
                    claim.min_values_relaxed = self.is_relaxed(position, &change);
                    self.order.push(self.claims.len());
                    self.claims.push(claim);
                    self.place(self.claims.len() - 1, relaxable, change);
                    self.take_from_limits(position);
                    return Ok(());
                }
                Err(why) => {
                    let defers = matches!(&why, RejectionReason::Reserved(own) if own.defers_pod());
                    let Template { id, pool, .. } = &self.templates[position];
                    rejections.push(PoolRejection {
                        pool: *id,
                        name: pool.name.clone(),
                        reason: why,
                    });
                    if defers {
                        break;
                    }
                }
            }
        }
        Err(rejections)
    }

    fn new_claim(
        &self,
        position: usize,
        relaxable: &RelaxablePod<'_>,
    ) -> Result<(InFlightClaim, Change), RejectionReason> {
        let template = &self.templates[position];
        let all = template.types.iter().map(|&position| (position, &template.list[position]));
        let within = template.remaining.filter(all, |(_, own)| &own.capacity);
        let types =
            within.map_err(RejectionReason::Limits)?.into_iter().map(|(position, _)| position);
        let claim = InFlightClaim::new(position, template, types.collect(), self.claims.len() + 1);
        let may_relax = self.input.options.min_values == MinValuesPolicy::BestEffort;
        let change = self.with_pod(&claim, relaxable, may_relax)?;
        Ok((claim, change))
    }

    fn with_pod(
        &self,
        claim: &InFlightClaim,
        relaxable: &RelaxablePod<'_>,
        may_relax: bool,
    ) -> Result<Change, RejectionReason> {
        let template = &self.templates[claim.template];
        claim.with_pod(
            self.input,
            template,
            &self.topology,
            &self.reservations,
            relaxable,
            may_relax,
        )
    }

    /// Returns whether some minValues is lower than in the template.
    fn is_relaxed(&self, position: usize, change: &Change) -> bool {
        self.templates[position].requirements.iter().any(|original| {
            let now = change.requirements.get(original.key()).and_then(Requirement::min_values);
            matches!((now, original.min_values()), (Some(now), Some(original_min)) if now < original_min)
        })
    }

    fn place(&mut self, position: usize, relaxable: &RelaxablePod<'_>, change: Change) {
        let claim = &mut self.claims[position];
        self.reservations.exchange(&claim.reservations, &change.reservations);
        claim.add(relaxable, change);
        self.topology.register_host(&claim.hostname);
        let taints = &self.templates[claim.template].pool.taints;
        let requirements = &claim.requirements;
        self.topology.record(&Placement { pod: relaxable.id, taints, requirements });
    }

    /// Subtracts the newest NodeClaim from the limits of its pool.
    ///
    /// It may become the largest of its types.
    fn take_from_limits(&mut self, position: usize) {
        let template = &mut self.templates[position];
        let types = self.claims.last().map_or(&[][..], |claim| &claim.types);
        let capacities = types.iter().map(|&position| &*template.list[position].capacity);
        template.remaining = template.remaining.after_claim(capacities);
    }

    fn plan(mut self, effective_zones: BTreeMap<String, usize>, was_cut_short: bool) -> Plan {
        let mut claims = Vec::new();
        for claim in self.claims {
            let pods = claim.pods.clone();
            match finish::finish(self.input, &self.templates[claim.template], claim) {
                Ok(claim) => claims.push(claim),
                Err(rejection) => {
                    self.rejected.extend(pods.iter().map(|&id| (id, rejection.clone())));
                }
            }
        }
        let taken = self.existing.into_iter().filter(|node| !node.pods.is_empty());
        let rejected = self.rejected.into_iter();
        Plan {
            claims,
            existing_nodes: taken.map(|node| (node.id, node.pods)).collect(),
            rejected: rejected.map(|(id, rejection)| (id, Arc::new(rejection))).collect(),
            explanations: BTreeMap::new(),
            unusable_pools: self.unusable,
            effective_zones,
            was_cut_short,
        }
    }
}

/// The pods in the order they are tried. It ends after a whole round without progress.
struct Queue {
    pods: VecDeque<PodId>,
    /// The length of the queue when a pod was put back, and the learned domains by then: a domain
    /// that appears while other pods are tried is progress too.
    at_push: BTreeMap<PodId, (usize, usize)>,
}

impl Queue {
    fn new(input: &SolverInput<'_>) -> Self {
        let mut pods = input.pods.clone();
        let rank = |pod: &Pod| {
            let requests = &pod.spec.requests;
            let size = (Reverse(requests.amount(CPU)), Reverse(requests.amount(MEMORY)));
            (size, pod.created, pod.uid.clone())
        };
        pods.sort_by_key(|&id| rank(input.snapshot.pod(id)));
        Self { pods: pods.into(), at_push: BTreeMap::new() }
    }

    fn pop(&mut self, learned: usize) -> Option<PodId> {
        let head = self.pods.front()?;
        let made_no_progress = self.at_push.get(head) == Some(&(self.pods.len(), learned));
        if made_no_progress { None } else { self.pods.pop_front() }
    }

    fn push(&mut self, pod: PodId, learned: usize) {
        self.pods.push_back(pod);
        self.at_push.insert(pod, (self.pods.len(), learned));
    }
}
