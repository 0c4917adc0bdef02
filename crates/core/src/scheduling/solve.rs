//! The solver: pods in, [`Plan`] out (spec 20 §3).
//!
//! The decisions are those of the plain solver in `reference`; tests compare the two. What makes
//! this solver fast:
//!
//! - requirement sets are numbers, and each check of two sets is calculated once
//!   ([`requirement_store`]);
//! - instance types are bits, and each set leaves a mask ([`types`]);
//! - pods with the same constraints share one class, and relax along one chain ([`shape`]);
//! - in-flight NodeClaims are kept in buckets by number of pods, with a bound of their remaining
//!   resources ([`claim_order`]), existing nodes in blocks with such a bound ([`existing`]);
//! - topology groups calculate once per attempt which domains are left ([`topology_groups`]);
//! - a pod that failed, or a step of its relaxation, is not tried again before something that it
//!   depends on has changed ([`relaxation`]);
//! - many requests about one snapshot share what was prepared for it ([`prepared`],
//!   [`placement_request`]).
//!
//! Start reading at [`solve`], then `attempt`, `node_placement`, `claim_placement` and `claim_fit`.

use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::dra::{Allocator, ClaimKey};
use super::list_sizes::ListSizes;
use super::{Fuel, Request};
use crate::host_port::HostPort;
use crate::id::PodId;
use crate::plan::{Plan, UnusablePool};
use crate::rejection::PodRejection;
use crate::resources::Resources;
use crate::taint::Taint;
use crate::volume::Attachments;

mod amounts;
mod attempt;
mod bound_pods;
mod claim_fit;
mod claim_order;
mod claim_placement;
mod claims;
mod counts;
mod devices;
mod domain_choice;
mod domains;
mod existing;
mod explain;
mod finish;
mod flexibility;
mod input;
mod node_placement;
mod placement_request;
mod pool_domains;
mod prepared;
mod queue;
mod rejection;
mod relaxation;
mod relaxation_chains;
mod relaxation_steps;
mod requirement_store;
mod reservations;
mod selector_index;
mod setup;
mod shape;
mod templates;
mod topology;
mod topology_groups;
mod topology_rejection;
mod type_rejection;
mod types;
mod zones;

use amounts::{Amounts, ResourceColumns};
use claim_order::ClaimOrder;
use claims::InFlightClaim;
use existing::{ExistingNodes, ExpectedDaemons};
use finish::PlanCache;
use input::{SolveMode, SolverInput};
pub use prepared::{
    PlacementRequest, PlacementResult, PreparedSolver, SolverSession, StopConditions, StopReason,
};
use queue::Queue;
use relaxation::{FailedSteps, Failure};
use relaxation_chains::RelaxationChains;
use requirement_store::{RequirementStore, SetId, SplitRequirements};
use reservations::Reservations;
use setup::PodClassIndex;
use shape::ShapeContext;
use templates::Template;
use topology::Topology;
use types::InstanceTypeIndex;

/// Places the pods of a request and returns the plan.
///
/// Deterministic: the same request gives the same plan, whatever the order of the snapshot's lists.
pub fn solve(request: &Request<'_>, fuel: &mut Fuel<'_>) -> Plan {
    solve_with_sizes(request, fuel, ListSizes::default())
}

/// Solves a request with other list sizes, for tests.
#[cfg_attr(not(feature = "testing"), expect(unreachable_pub, reason = "tests of the crate set it"))]
pub fn solve_with_sizes(request: &Request<'_>, fuel: &mut Fuel<'_>, sizes: ListSizes) -> Plan {
    let Request { snapshot, catalog, pods, excluded_nodes, options } = *request;
    let mode = SolveMode::SingleRequest { pods, excluded_nodes };
    let mut solver = Solver::new((snapshot, catalog), options, mode, sizes);
    solver.allocator = Allocator::for_request(request);
    solver.begin_only_request(pods);
    solver.run(fuel, &StopConditions::default());
    solver.finish(fuel)
}

/// A solve in progress, or between the requests of a [`SolverSession`].
#[derive(Clone, Debug)]
struct Solver<'a> {
    sizes: ListSizes,
    input: Arc<SolverInput<'a>>,
    store: RequirementStore<'a>,
    columns: ResourceColumns,
    topology: Topology<'a>,
    types: Vec<InstanceTypeIndex>,
    templates: Vec<Template<'a>>,
    template_taints: Vec<&'a [Taint]>,
    unusable_pools: Vec<UnusablePool>,
    tolerate_prefer_no_schedule: bool,
    chains: RelaxationChains<'a>,
    classes: Vec<PodClass<'a>>,
    /// By position in the snapshot; none for pods that no request has contained.
    class_of: Vec<Option<u32>>,
    class_index: PodClassIndex<'a>,
    existing: ExistingNodes,
    daemons: ExpectedDaemons<'a>,
    claims: Vec<InFlightClaim>,
    order: ClaimOrder,
    reservations: Reservations,
    /// Whether reserved offerings have to be checked at all.
    uses_reserved: bool,
    /// None while dynamic resources are ignored.
    allocator: Option<Allocator<'a>>,
    /// The domain of existing nodes by key and set.
    node_domains: FxHashMap<(usize, SetId), Option<usize>>,
    /// By shape and kind of existing node, as far as known: whether labels and taints suit.
    suits_nodes: Vec<FxHashMap<u32, bool>>,
    plan_cache: PlanCache,
    /// The pods to place, each once. Unknown ids are left out.
    requested_pods: Vec<PodId>,
    /// By pod: the number of the last request that contains it.
    last_request: Vec<u32>,
    /// By [`NamespacedLabels`](relaxation_chains::NamespacedLabels): the nodes that requested pods
    /// leave.
    nodes_losing_pods: BTreeMap<usize, Vec<usize>>,
    /// By [`NamespacedLabels`](relaxation_chains::NamespacedLabels): where pods were placed, for
    /// groups that appear later.
    placed: Vec<Vec<PlacementTarget>>,
    /// The [`NamespacedLabels`](relaxation_chains::NamespacedLabels) of placed pods, each once.
    placed_labels: Vec<usize>,
    placed_count: u64,
    /// Pods that were rejected when they were last tried.
    rejected: BTreeSet<PodId>,
    effective_zones: BTreeMap<String, usize>,
}

/// Pods that are alike in all that scheduling considers.
#[derive(Clone, Debug)]
struct PodClass<'a> {
    chain: usize,
    requests: Amounts,
    plain_requests: &'a Resources,
    ports: &'a [HostPort],
    /// Requirements of their volumes, of which one must hold; empty allows any node.
    volume_topologies: Vec<SplitRequirements>,
    attachments: Attachments,
    /// The ResourceClaims that they use.
    devices: Vec<&'a ClaimKey>,
    /// Why no node and no NodeClaim can take them.
    rejection: Option<Arc<PodRejection>>,
    /// Whether they may go to nodes whose consolidateAfter has not passed.
    is_exempt: bool,
    /// The last failure, if any.
    failure: Option<Failure>,
    /// The steps that failed for the last pod.
    failed_steps: FailedSteps,
}

/// The node or NodeClaim that a pod was placed on.
#[derive(Clone, Copy, Debug)]
enum PlacementTarget {
    Node(usize),
    Claim(usize),
}

impl<'a> Solver<'a> {
    /// Places all pods that fit. Returns the stop condition that ended the run, if any.
    fn run(&mut self, fuel: &mut Fuel<'_>, stop: &StopConditions) -> Option<StopReason> {
        let mut queue = Queue::new(self.input.snapshot, &self.requested_pods);
        while let Some(pod) = queue.pop(self.topology.learned_domain_count) {
            match self.place(pod, fuel) {
                Some(true) => {
                    self.rejected.remove(&pod);
                    if stop.max_claims.is_some_and(|most| self.claims.len() > most) {
                        return Some(StopReason::TooManyClaims);
                    }
                }
                Some(false) => {
                    if stop.on_bound_pod_rejection && self.is_permanently_rejected(pod) {
                        return Some(StopReason::BoundPodRejected(pod));
                    }
                    self.rejected.insert(pod);
                    queue.push(pod, self.topology.learned_domain_count);
                }
                None => break,
            }
        }
        None
    }

    /// Returns the class of a requested pod.
    fn class_of(&self, pod: PodId) -> usize {
        self.class_of[pod.index()].expect("every pod that is asked for has a class") as usize
    }

    /// Returns the relaxation chains, and the context to make shapes.
    fn shape_context(&mut self) -> (&mut RelaxationChains<'a>, ShapeContext<'_, 'a>) {
        let context = ShapeContext {
            input: &self.input,
            store: &mut self.store,
            topology: &mut self.topology,
            template_taints: &self.template_taints,
            tolerate_prefer_no_schedule: self.tolerate_prefer_no_schedule,
        };
        (&mut self.chains, context)
    }
}

/// A position as an id.
fn id(index: usize) -> u32 {
    requirement_store::number(index)
}
