//! Rules out commands without a simulation (spec 30 §14.3 item 5).
//!
//! Every check is a necessary condition: it ignores daemons, topology, volumes, ports and
//! preferences, so the scheduler would also reject what it rejects. A test compares them.
//!
//! ```text
//! forced pods:  no retained node has capacity for the pod, even alone: it needs the replacement
//! delete:       no pod is forced
//! replace:      all forced pods fit on one instance type that costs less than the removed nodes
//! together:     all pods fit into the free capacity elsewhere, and the largest instance type times
//!               the number of replacements
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::balanced::PoolTotals;
use super::consolidation::Unconsolidatable;
use super::{Candidate, CandidateIndex};
use crate::catalog::InstanceType;
use crate::id::{NodeId, PodId};
use crate::pod::PodSpec;
use crate::requirement::{Aliases, Requirements};
use crate::resources::Resources;
use crate::snapshot::{Pool, StateNode};
use crate::taint::TaintEffect;

/// The most fitting nodes that a pod class remembers.
const FITTING_NODES_MAX: usize = 6;

/// Amounts by column.
type Amounts = SmallVec<[i128; 6]>;

/// The free capacity and launch options of one candidate index.
pub(super) struct Feasibility<'a> {
    index: &'a CandidateIndex<'a>,
    resource_names: Vec<&'a str>,
    /// The requests and fitting nodes of pods, by the address of their spec.
    pod_classes: FxHashMap<usize, PodClass>,
    /// The free capacity of each node; none if it takes no pods.
    free_capacity: Vec<Option<Amounts>>,
    /// The sum of all free capacity; negative amounts count as zero.
    total_free_capacity: Amounts,
    /// Everything that can be launched, cheapest first.
    launch_options: Vec<LaunchOption>,
    /// The largest amount of each resource in one launch.
    largest_launch: Amounts,
}

struct PodClass {
    requests: Amounts,
    fitting_nodes: SmallVec<[NodeId; FITTING_NODES_MAX]>,
    /// Whether more nodes fit than `fitting_nodes` has.
    has_more_fitting_nodes: bool,
    /// Whether some instance type can hold one such pod.
    is_launchable: bool,
}

impl PodClass {
    /// Whether all fitting nodes are among the removed ones.
    fn needs_replacement(&self, gone: &BTreeSet<NodeId>) -> bool {
        !self.has_more_fitting_nodes
            && self.fitting_nodes.iter().all(|available| gone.contains(available))
    }
}

/// The requests of the movable pods of candidates.
struct CandidateRequests {
    total: Amounts,
    /// The requests of pods that need a replacement, if any do.
    needing_replacement: Option<Amounts>,
    /// Whether one of these fits on no instance type.
    has_unlaunchable_pod: bool,
}

struct LaunchOption {
    /// No launch costs less.
    price: f64,
    allocatable: Amounts,
}

impl<'a> Feasibility<'a> {
    pub(super) fn new(index: &'a CandidateIndex<'a>) -> Self {
        let columns = requested_resource_names(index);
        let mut requests: FxHashMap<usize, Amounts> = FxHashMap::default();
        let free: Vec<Option<Amounts>> = index
            .nodes_by_id()
            .map(|id| free_capacity_of_node(index, id, &columns, &mut requests))
            .collect();
        let mut total = Amounts::from_elem(0, columns.len());
        for amounts in free.iter().flatten() {
            add(&mut total, amounts.iter().map(|amount| *amount.max(&0)));
        }
        let options = launch_options(index, &columns);
        let mut largest = Amounts::from_elem(0, columns.len());
        for option in &options {
            for (most, amount) in largest.iter_mut().zip(&option.allocatable) {
                *most = (*most).max(*amount);
            }
        }
        let mut feasibility = Self {
            index,
            resource_names: columns,
            pod_classes: FxHashMap::default(),
            free_capacity: free,
            total_free_capacity: total,
            launch_options: options,
            largest_launch: largest,
        };
        feasibility.find_fitting_nodes();
        feasibility
    }

    /// Rejects candidates that `most` replacements certainly cannot replace.
    pub(super) fn check(
        &self,
        candidates: &[&Candidate],
        most: usize,
        totals: &PoolTotals,
    ) -> Result<(), Unconsolidatable> {
        let required = self.candidate_requests(candidates);
        if required.has_unlaunchable_pod && candidates.len() == 1 {
            // The scheduler gives the best reason why such a pod has to stay.
            return Ok(());
        }
        let mut available = self.free_capacity_without(candidates);
        let count = i128::try_from(most).unwrap_or(i128::MAX);
        add(&mut available, self.largest_launch.iter().map(|amount| amount.saturating_mul(count)));
        if !fits_within(&required.total, &available) {
            let pods =
                candidates.iter().flat_map(|candidate| &candidate.movable).copied().collect();
            return Err(Unconsolidatable::TooManyReplacements { claims: most + 1, pods });
        }
        let Some(forced) = required.needing_replacement.filter(|_| most == 1) else {
            return Ok(());
        };
        let cheapest =
            self.launch_options.iter().find(|option| fits_within(&forced, &option.allocatable));
        let Some(cheapest) = cheapest else {
            let pods = self.pods_needing_replacement(candidates);
            return Err(Unconsolidatable::TooManyReplacements { claims: 2, pods });
        };
        let ceiling: f64 = candidates.iter().map(|candidate| candidate.price).sum();
        if cheapest.price >= ceiling {
            return Err(Unconsolidatable::NoCheaperInstanceType {
                pods: self.pods_needing_replacement(candidates),
            });
        }
        if let [candidate] = candidates
            && !totals.may_be_approved(self.index, candidate, ceiling - cheapest.price)
        {
            let (pool, savings) = (&candidate.pool, ceiling - cheapest.price);
            let score = totals.score(pool, savings, candidate.reschedule_cost);
            return Err(Unconsolidatable::ScoreTooLow { scores: vec![score] });
        }
        Ok(())
    }

    /// Whether the candidates may go without a replacement.
    pub(super) fn may_delete(&self, candidates: &[&Candidate]) -> bool {
        let required = self.candidate_requests(candidates);
        required.needing_replacement.is_none()
            && fits_within(&required.total, &self.free_capacity_without(candidates))
    }

    /// Adds up the requests of the candidates' movable pods.
    fn candidate_requests(&self, candidates: &[&Candidate]) -> CandidateRequests {
        let gone: BTreeSet<NodeId> = candidates.iter().map(|candidate| candidate.node).collect();
        let mut total = Amounts::from_elem(0, self.resource_names.len());
        let mut needing_replacement: Option<Amounts> = None;
        let mut has_unlaunchable_pod = false;
        for pod in candidates.iter().flat_map(|candidate| &candidate.movable) {
            let spec = Arc::as_ptr(&self.index.context.snapshot.pod(*pod).spec) as usize;
            let Some(class) = self.pod_classes.get(&spec) else { continue };
            add(&mut total, class.requests.iter().copied());
            if class.needs_replacement(&gone) {
                has_unlaunchable_pod |= !class.is_launchable;
                let sum = needing_replacement
                    .get_or_insert_with(|| Amounts::from_elem(0, self.resource_names.len()));
                add(sum, class.requests.iter().copied());
            }
        }
        CandidateRequests { total, needing_replacement, has_unlaunchable_pod }
    }

    /// Returns the pods of a single candidate that need a replacement.
    /// Returns none for several candidates.
    fn pods_needing_replacement(&self, candidates: &[&Candidate]) -> Vec<PodId> {
        let &[candidate] = candidates else { return Vec::new() };
        let gone = BTreeSet::from([candidate.node]);
        let is_forced = |pod: &PodId| {
            let spec = Arc::as_ptr(&self.index.context.snapshot.pod(*pod).spec) as usize;
            self.pod_classes.get(&spec).is_some_and(|class| class.needs_replacement(&gone))
        };
        candidate.movable.iter().copied().filter(is_forced).collect()
    }

    /// Returns the free capacity of the other nodes.
    fn free_capacity_without(&self, candidates: &[&Candidate]) -> Amounts {
        let mut available = self.total_free_capacity.clone();
        for amounts in
            candidates.iter().filter_map(|one| self.free_capacity[one.node.index()].as_ref())
        {
            add(&mut available, amounts.iter().map(|amount| -*amount.max(&0)));
        }
        available
    }

    /// Finds the fitting nodes for each class of movable pods.
    fn find_fitting_nodes(&mut self) {
        // The nodes with the most of the first resource come first: the search ends at the first
        // node that has too little of it.
        let mut targets: Vec<NodeId> = self.index.nodes_by_id().collect();
        targets.retain(|node| self.free_capacity[node.index()].is_some());
        let first =
            |node: NodeId| self.free_capacity[node.index()].as_ref().and_then(|free| free.first());
        targets.sort_by(|&a, &b| first(b).cmp(&first(a)).then(a.cmp(&b)));
        let candidates =
            self.index.nodes_by_id().filter_map(|node| self.index.unchecked_candidate(node));
        for pod in candidates.flat_map(|candidate| &candidate.movable) {
            let spec = &self.index.context.snapshot.pod(*pod).spec;
            let key = Arc::as_ptr(spec) as usize;
            if !self.pod_classes.contains_key(&key) {
                let class = self.pod_class(spec, &targets);
                self.pod_classes.insert(key, class);
            }
        }
    }

    fn pod_class(&self, spec: &PodSpec, targets: &[NodeId]) -> PodClass {
        let context = self.index.context;
        let requests = amounts(&self.resource_names, &spec.requests);
        let is_launchable =
            self.launch_options.iter().any(|one| fits_within(&requests, &one.allocatable));
        let mut class = PodClass {
            requests,
            fitting_nodes: SmallVec::new(),
            has_more_fitting_nodes: false,
            is_launchable,
        };
        for &target in targets {
            let Some(free) = &self.free_capacity[target.index()] else { continue };
            if free.first() < class.requests.first() {
                break;
            }
            let node = context.snapshot.node(target);
            if fits_within(&class.requests, free)
                && may_fit_pod(node, spec, &context.catalog.aliases)
            {
                if class.fitting_nodes.len() == FITTING_NODES_MAX {
                    class.has_more_fitting_nodes = true;
                    break;
                }
                class.fitting_nodes.push(target);
            }
        }
        class
    }
}

/// Returns the names of the resources that pods request, sorted.
fn requested_resource_names<'a>(index: &CandidateIndex<'a>) -> Vec<&'a str> {
    let mut specs: FxHashSet<usize> = FxHashSet::default();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for pod in &index.context.snapshot.pods {
        if specs.insert(Arc::as_ptr(&pod.spec) as usize) {
            names.extend(pod.spec.requests.iter().map(|(name, _)| name));
        }
    }
    names.into_iter().collect()
}

fn amounts(columns: &[&str], resources: &Resources) -> Amounts {
    columns.iter().map(|name| resources.amount(name).nanos()).collect()
}

fn add(sum: &mut Amounts, amounts: impl Iterator<Item = i128>) {
    for (sum, amount) in sum.iter_mut().zip(amounts) {
        *sum = sum.saturating_add(amount);
    }
}

fn fits_within(need: &Amounts, available: &Amounts) -> bool {
    need.iter().zip(available).all(|(need, available)| *need <= 0 || need <= available)
}

/// Returns the free capacity of a node; none if it takes no pods.
fn free_capacity_of_node(
    index: &CandidateIndex<'_>,
    id: NodeId,
    columns: &[&str],
    requests: &mut FxHashMap<usize, Amounts>,
) -> Option<Amounts> {
    let node = index.context.snapshot.node(id);
    // A place on a node that is not ready does not count.
    if node.is_deleting || !node.is_initialized {
        return None;
    }
    let mut free = amounts(columns, &node.allocatable);
    for pod in index.pods_on(id).filter(|pod| !pod.is_terminal()) {
        let required = requests
            .entry(Arc::as_ptr(&pod.spec) as usize)
            .or_insert_with(|| amounts(columns, &pod.spec.requests));
        add(&mut free, required.iter().map(|amount| -amount));
    }
    Some(free)
}

/// Whether taints and known labels of the node allow the pod.
fn may_fit_pod(node: &StateNode, spec: &PodSpec, aliases: &Aliases) -> bool {
    let bars = |taint: &&crate::taint::Taint| taint.effect != TaintEffect::PreferNoSchedule;
    let is_tolerated = node
        .taints
        .iter()
        .filter(bars)
        .all(|taint| spec.tolerations.iter().any(|toleration| toleration.tolerates(taint)));
    // A label that is not there may be there under another spelling.
    let suits = |required: &Requirements| {
        required.iter().all(|required| {
            let label = node.labels.get(required.key());
            label.is_none_or(|value| required.has(&aliases.normalize_value(required.key(), value)))
        })
    };
    let affinity = &spec.node_affinity;
    is_tolerated
        && suits(&spec.node_selector)
        && (affinity.is_empty() || affinity.iter().any(suits))
}

/// Returns everything that can be launched, cheapest first.
fn launch_options(index: &CandidateIndex<'_>, columns: &[&str]) -> Vec<LaunchOption> {
    let catalog = index.context.catalog;
    let mut options = Vec::new();
    for pool in &index.context.snapshot.pools {
        for one in catalog.pools.get(&pool.name).into_iter().flat_map(|types| types.iter()) {
            let Some(price) = lowest_launch_price(index, pool, one) else { continue };
            for group in one.allocatable_groups() {
                let allocatable = amounts(columns, &group.allocatable);
                options.push(LaunchOption { price, allocatable });
            }
        }
    }
    options.sort_by(|a, b| a.price.total_cmp(&b.price));
    options
}

/// Returns the lowest launch price of an instance type in a NodePool.
/// None if the pool excludes the type. Requirements of pods do not count.
fn lowest_launch_price(index: &CandidateIndex<'_>, pool: &Pool, of: &InstanceType) -> Option<f64> {
    of.requirements.intersects(&pool.requirements).ok()?;
    of.cheapest_launch_price(&pool.requirements, &index.context.catalog.well_known)
}
