//! The solver: pods in, [`Plan`] out (spec 20 §3).
//!
//! The decisions are those of the plain reading in `reference`, which tests hold it against. What
//! makes it fast:
//!
//! - requirement sets are numbers, and each question about them is answered once ([`store`]);
//! - instance types are bits, and each set leaves a mask ([`types`]);
//! - pods that ask for the same share one class, and relax along one chain ([`shape`]);
//! - in-flight NodeClaims stand in buckets by number of pods, with a bound of their room
//!   ([`order`]), existing nodes in runs with a bound of theirs ([`existing`]);
//! - topology groups say once per attempt which domains are left ([`groups`]);
//! - a pod that failed is not tried again before something that it looks at has changed;
//! - many questions about one snapshot share what is worked out for it ([`prepared`], [`question`]).
//!
//! Start reading at [`solve`], then `attempt`, `on_existing`, `on_claims` and `fits`.

use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::dra::{Allocator, ClaimKey};
use super::sizes::Sizes;
use super::{Fuel, Request};
use crate::host_port::HostPort;
use crate::id::PodId;
use crate::plan::{Plan, UnusablePool};
use crate::reason::Refusal;
use crate::resources::Resources;
use crate::taint::Taint;
use crate::volume::Attachments;

mod amounts;
mod attempt;
mod census;
mod chains;
mod claims;
mod counts;
mod devices;
mod domains;
mod existing;
mod explain;
mod finish;
mod fits;
mod flexibility;
mod groups;
mod on_claims;
mod on_existing;
mod order;
mod pick;
mod preferences;
mod prepared;
mod question;
mod queue;
mod refuse;
mod refuse_topology;
mod refuse_types;
mod reservations;
mod selecting;
mod setup;
mod shape;
mod store;
mod templates;
mod topology;
mod types;
mod universe;
mod world;
mod zones;

use amounts::{Amounts, Columns};
use attempt::No;
use chains::Chains;
use claims::Claim;
use existing::{Daemons, Existing};
use finish::Finishing;
use order::Order;
pub use prepared::{Answer, Ask, Prepared, Session, Stop, Stopped};
use queue::Queue;
use reservations::Reservations;
use setup::ClassMakers;
use shape::{Making, Shape};
use store::{SetId, Split, Store};
use templates::Template;
use topology::Topology;
use types::Types;
use world::{Purpose, World};

/// Where do these pods go?
///
/// Deterministic: the same request gives the same plan, whatever the order of the snapshot's lists.
pub fn solve(request: &Request<'_>, fuel: &mut Fuel<'_>) -> Plan {
    solve_sized(request, fuel, Sizes::default())
}

/// The same with lists cut elsewhere.
#[cfg_attr(not(feature = "testing"), expect(unreachable_pub, reason = "tests of the crate set it"))]
pub fn solve_sized(request: &Request<'_>, fuel: &mut Fuel<'_>, sizes: Sizes) -> Plan {
    let Request { snapshot, catalog, pods, without, options } = *request;
    let purpose = Purpose::One { pods, without };
    let mut solver = Solver::new((snapshot, catalog), options, purpose, sizes);
    solver.allocator = Allocator::for_request(request);
    solver.ask_once(pods);
    solver.run(fuel, &Stop::default());
    solver.finish(fuel)
}

/// A solve in progress, or between the questions of a [`Session`].
#[derive(Clone, Debug)]
struct Solver<'a> {
    sizes: Sizes,
    world: Arc<World<'a>>,
    store: Store<'a>,
    columns: Columns,
    topology: Topology<'a>,
    types: Vec<Types>,
    templates: Vec<Template<'a>>,
    template_taints: Vec<&'a [Taint]>,
    unusable_pools: Vec<UnusablePool>,
    tolerate_prefer_no_schedule: bool,
    chains: Chains<'a>,
    classes: Vec<Class<'a>>,
    /// By position in the snapshot; none for pods that are not asked for.
    class_of: Vec<Option<u32>>,
    makers: ClassMakers<'a>,
    existing: Existing,
    daemons: Daemons<'a>,
    claims: Vec<Claim>,
    order: Order,
    reservations: Reservations,
    /// Whether reserved offerings have to be looked at at all.
    uses_reserved: bool,
    /// None while dynamic resources are ignored.
    allocator: Option<Allocator<'a>>,
    /// The domain of existing nodes by key and set.
    node_domains: FxHashMap<(usize, SetId), Option<usize>>,
    /// By shape and kind of existing node, as far as asked: whether its labels and taints suit.
    suits_nodes: Vec<FxHashMap<u32, bool>>,
    finishing: Finishing,
    /// The pods to place, each once; ids that point nowhere are left out.
    asked: Vec<PodId>,
    /// By pod: the last question that asked for it.
    asked_in: Vec<u32>,
    /// Nodes that pods are taken off, although they were counted there: by
    /// [`Who`](chains::Who).
    leaving: BTreeMap<usize, Vec<usize>>,
    /// Where pods were placed, for groups that appear later: by [`Who`](chains::Who).
    placed: Vec<Vec<Target>>,
    /// Who was placed.
    placed_whos: Vec<usize>,
    placed_count: u64,
    /// Pods that found no place when they were last tried.
    refused: BTreeSet<PodId>,
    effective_zones: BTreeMap<String, usize>,
}

/// Pods that are alike in everything that matters here.
#[derive(Clone, Debug)]
struct Class<'a> {
    chain: usize,
    requests: Amounts,
    plain_requests: &'a Resources,
    ports: &'a [HostPort],
    /// Where their volumes may be: one of these.
    alternatives: Vec<Split>,
    attachments: Attachments,
    /// ResourceClaims that they use.
    devices: Vec<&'a ClaimKey>,
    /// Why they cannot be placed at all.
    refusal: Option<Arc<Refusal>>,
    /// Whether they may go to nodes whose consolidateAfter has not passed.
    is_exempt: bool,
    /// The last failure, and what it was based on.
    failure: Option<Failure>,
}

/// The last time that a pod of a class found no place.
#[derive(Clone, Debug)]
struct Failure {
    /// What it was based on, see [`Solver::stamp`].
    stamp: u64,
    /// Whether any placement of another pod may help.
    may_heal: bool,
    /// The shape that was tried last.
    shape: Option<Arc<Shape>>,
}

/// Where a pod was placed.
#[derive(Clone, Copy, Debug)]
enum Target {
    Node(usize),
    Claim(usize),
}

impl<'a> Solver<'a> {
    /// Places what can be placed, unless there is a reason to stop.
    fn run(&mut self, fuel: &mut Fuel<'_>, stop: &Stop) -> Option<Stopped> {
        let mut queue = Queue::new(self.world.snapshot, &self.asked);
        while let Some(pod) = queue.pop(self.topology.learned) {
            match self.place(pod, fuel) {
                Some(true) => {
                    self.refused.remove(&pod);
                    if stop.claims.is_some_and(|most| self.claims.len() > most) {
                        return Some(Stopped::Claims);
                    }
                }
                Some(false) => {
                    if stop.refusals && self.is_refused_for_good(pod) {
                        return Some(Stopped::Refused(pod));
                    }
                    self.refused.insert(pod);
                    queue.push(pod, self.topology.learned);
                }
                None => break,
            }
        }
        None
    }

    /// Tries to place a pod, relaxing it step by step. None when the fuel ran out.
    fn place(&mut self, pod: PodId, fuel: &mut Fuel<'_>) -> Option<bool> {
        let class = self.class_of(pod);
        // Nothing that its class looks at has changed since it failed: it would fail again.
        let last = self.classes[class].failure.as_ref();
        let fails_again = last.is_some_and(|last| last.stamp == self.stamp(class, last.may_heal));
        if fails_again || self.classes[class].refusal.is_some() {
            return fuel.may_go_on().then_some(false);
        }
        let mut last: Option<Arc<Shape>> = None;
        let mut may_heal = self.uses_reserved
            || !self.classes[class].devices.is_empty()
            || self.classes[class].alternatives.iter().any(|p| self.store.asks_custom_label(p.set));
        // Taken beforehand: its own relaxation may teach groups domains that help others.
        let stamps = [self.stamp(class, false), self.stamp(class, true)];
        let mut step = 0;
        while let Some(shape) = self.shape(class, step) {
            if !fuel.may_go_on() {
                return None;
            }
            step += 1;
            // A step that changes nothing ends as the one before.
            if last.as_ref().is_some_and(|last| Arc::ptr_eq(last, &shape)) {
                continue;
            }
            match self.attempt(pod, class, &shape) {
                Ok(()) => return Some(true),
                Err(no) => {
                    may_heal |= no == No::Unlucky || self.store.asks_custom_label(shape.all.set);
                    last = Some(shape);
                    if no == No::Deferred {
                        break;
                    }
                }
            }
        }
        let stamp = stamps[usize::from(may_heal)];
        self.classes[class].failure = Some(Failure { stamp, may_heal, shape: last });
        Some(false)
    }

    /// The class of a pod that is asked for.
    fn class_of(&self, pod: PodId) -> usize {
        self.class_of[pod.index()].expect("every pod that is asked for has a class") as usize
    }

    /// What the failure of a class depends on: it grows with every change that may help.
    ///
    /// Nodes and NodeClaims only fill up and narrow, so what they refused once they refuse for good,
    /// unless a group that the class looks at counts differently. The exception is what depends on
    /// the candidate (`may_heal`): the domain that a group picks for it, reservations, devices, and
    /// labels that only a pod defines. There another pod may make a candidate that suits.
    fn stamp(&self, class: usize, may_heal: bool) -> u64 {
        let watched = &self.chains.all[self.classes[class].chain].watched;
        let groups: u64 = watched.iter().map(|&group| self.topology.group(group).epoch).sum();
        groups + if may_heal { self.placed_count } else { 0 }
    }

    /// The chains, and what making them and their shapes needs.
    fn making(&mut self) -> (&mut Chains<'a>, Making<'_, 'a>) {
        let making = Making {
            world: &self.world,
            store: &mut self.store,
            topology: &mut self.topology,
            template_taints: &self.template_taints,
            tolerate_prefer_no_schedule: self.tolerate_prefer_no_schedule,
        };
        (&mut self.chains, making)
    }

    /// The shape of a class after so many steps of relaxation. Groups that this makes count the
    /// pods that were placed before (spec 20 Q3).
    fn shape(&mut self, class: usize, step: usize) -> Option<Arc<Shape>> {
        let chain = self.classes[class].chain;
        let question = self.topology.question();
        let (of, mut reached) = self.chains.all[chain].reached;
        if of != question {
            reached = 0;
        }
        while reached <= step {
            let (chains, mut making) = self.making();
            let shape = chains.shape(chain, reached, &mut making)?;
            // A new toleration opens new domains to the groups against others as well (Q9).
            let feeds = self.chains.all[chain].feeds.clone();
            self.take_part(&feeds, &shape.owned, &shape.tolerations);
            reached += 1;
            self.chains.all[chain].reached = (question, reached);
        }
        self.chains.all[chain].shapes.get(step).cloned()
    }
}

/// A position as an id.
fn id(index: usize) -> u32 {
    store::number(index)
}
