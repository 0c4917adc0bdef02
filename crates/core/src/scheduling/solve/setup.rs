//! Prepares a solver before the first pod is tried (spec 20 §3.1).

use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::amounts::ResourceColumns;
use super::bound_pods::labels_used_by_selectors;
use super::claim_order::ClaimOrder;
use super::existing::{ExistingNodes, ExpectedDaemons, used_by_pool};
use super::finish::PlanCache;
use super::input::{SolveMode, SolverInput};
use super::relaxation::FailedSteps;
use super::relaxation_chains::RelaxationChains;
use super::requirement_store::RequirementStore;
use super::reservations::Reservations;
use super::templates::{Template, TemplateContext};
use super::topology::Topology;
use super::topology_groups::GroupId;
use super::types::InstanceTypeIndex;
use super::{PodClass, Solver, id};
use crate::catalog::Catalog;
use crate::copy_on_write::CopyOnWrite;
use crate::host_port::HostPort;
use crate::id::PodId;
use crate::plan::UnusablePool;
use crate::pod::{ControllerRef, Phase, Pod, PodSpec};
use crate::rejection::PodRejection;
use crate::resources::{NODES, Resources};
use crate::scheduling::default_spread::DefaultSpread;
use crate::scheduling::dra::ClaimRef;
use crate::scheduling::list_sizes::ListSizes;
use crate::scheduling::{MinValuesPolicy, Options};
use crate::selector::{Labels, Selector};
use crate::snapshot::Snapshot;
use crate::taint::TaintEffect;

impl<'a> Solver<'a> {
    /// Returns a solver for a snapshot, without a request.
    pub(super) fn new(
        (snapshot, catalog): (&'a Snapshot, &'a Catalog),
        options: &'a Options,
        mode: SolveMode<'_>,
        sizes: ListSizes,
    ) -> Self {
        let mut store = RequirementStore::new(&catalog.well_known);
        let input = SolverInput::new(snapshot, catalog, options, mode, &mut store);
        let columns = columns(&input);
        let keys = selector_keys(&input);
        let mut topology = Topology::new(&input, keys.as_ref());
        let hosts: Vec<usize> =
            input.nodes.iter().map(|node| topology.host(&node.hostname)).collect();
        let mut daemons = ExpectedDaemons::new(&input, &mut store);
        let context = (&mut daemons, &mut store);
        let existing = ExistingNodes::new(&input, sizes, &columns, &hosts, context);
        let reservations = Reservations::new(&input);
        let tolerate_prefer_no_schedule = input
            .pools
            .iter()
            .flat_map(|pool| &pool.taints)
            .any(|taint| taint.effect == TaintEffect::PreferNoSchedule);
        let mut solver = Self {
            sizes,
            reservations,
            existing,
            daemons,
            topology,
            columns,
            store,
            types: Vec::new(),
            templates: Vec::new(),
            template_taints: Vec::new(),
            unusable_pools: Vec::new(),
            tolerate_prefer_no_schedule,
            chains: RelaxationChains::default(),
            classes: Vec::new(),
            class_of: vec![None; snapshot.pods.len()],
            class_index: PodClassIndex {
                keys: keys.map(Arc::new),
                default_spread: Arc::new(DefaultSpread::new(snapshot, &options.default_spread)),
                by_address: CopyOnWrite::default(),
                by_value: CopyOnWrite::default(),
                inverse: CopyOnWrite::default(),
            },
            claims: Vec::new(),
            order: ClaimOrder::new(sizes.claims_per_run),
            uses_reserved: false,
            allocator: None,
            node_domains: FxHashMap::default(),
            suits_nodes: Vec::new(),
            plan_cache: PlanCache::default(),
            requested_pods: Vec::new(),
            last_request: vec![0; snapshot.pods.len()],
            nodes_losing_pods: BTreeMap::new(),
            placed: Vec::new(),
            placed_labels: Vec::new(),
            placed_count: 0,
            rejected: BTreeSet::new(),
            effective_zones: BTreeMap::new(),
            input: Arc::new(input),
        };
        solver.make_templates();
        solver.uses_reserved =
            options.reserved_capacity && solver.types.iter().any(|types| types.has_reserved);
        solver.count_anti_affinity();
        solver
    }

    fn make_templates(&mut self) {
        let mut lists: FxHashMap<*const Arc<crate::catalog::InstanceType>, usize> =
            FxHashMap::default();
        let input = self.input.clone();
        let pools = input.pools.iter().copied().zip(input.pool_ids.iter().copied());
        for ((pool, pool_id), &taints_id) in pools.zip(&input.pool_taints) {
            let list = self.input.catalog.pools.get(&pool.name).filter(|list| !list.is_empty());
            let Some(list) = list else {
                self.unusable_pools.push(UnusablePool { pool: pool_id, misses_min_values: false });
                continue;
            };
            let types = *lists.entry(list.as_ptr()).or_insert_with(|| {
                self.types.push(InstanceTypeIndex::new(list, &self.columns, &mut self.store));
                self.types.len() - 1
            });
            // Validation rejects NodePools that name a hostname; here it is left out.
            let requirements = Template::requirements(pool, &self.input);
            let set = self.store.split(&requirements).set;
            let variants =
                self.types[types].compatible_types(set, &mut self.store).variants.clone();
            let used = used_by_pool(&self.input, &pool.name);
            let mut context = TemplateContext {
                input: &self.input,
                columns: &self.columns,
                store: &mut self.store,
                types: &mut self.types,
                taints_id,
            };
            let template =
                Template::new((pool, pool_id), (set, types, variants.clone()), used, &mut context);
            self.templates.push(template);
            let lacks =
                !self.lacking_min_values(set, &variants, self.templates.len() - 1).is_empty()
                    && self.input.options.min_values == MinValuesPolicy::Strict;
            if variants.is_empty() || lacks {
                let min_values = lacks && !variants.is_empty();
                self.templates.pop();
                self.unusable_pools
                    .push(UnusablePool { pool: pool_id, misses_min_values: min_values });
            } else {
                self.template_taints.push(&pool.taints);
            }
        }
    }

    /// Counts bound pods whose anti-affinity keeps others away.
    fn count_anti_affinity(&mut self) {
        let input = self.input.clone();
        for (pod, is_requested) in input.snapshot.pods.iter().zip(&input.is_requested) {
            if *is_requested {
                continue;
            }
            let Some((groups, labels)) = self.inverse_of_bound(pod) else { continue };
            for &group in groups.iter() {
                self.topology.mark_permanent(group);
                self.topology.add_owner(group, &pod.spec.tolerations, &input);
                self.topology.count_inverse(group, labels);
            }
        }
    }

    /// Returns the groups of a bound pod's required anti-affinity, and its node's labels.
    ///
    /// Replicas share their spec, and with it the groups of their terms.
    pub(super) fn inverse_of_bound(
        &mut self,
        pod: &'a Pod,
    ) -> Option<(Arc<[GroupId]>, &'a Labels)> {
        if pod.spec.pod_anti_affinity.is_empty() || pod.is_terminal() {
            return None;
        }
        let object = self.input.snapshot.node(pod.node?).object.as_ref()?;
        let key = (Arc::as_ptr(&pod.spec).addr(), pod.namespace.as_str());
        if let Some(known) = self.class_index.inverse.get(&key) {
            return Some((known.clone(), &object.labels));
        }
        let labels_id = self.chains.intern_labels(&pod.namespace, Labels::new());
        let (chains, mut context) = self.shape_context();
        let groups = chains.inverse_groups(&pod.spec.pod_anti_affinity, labels_id, &mut context);
        let groups: Arc<[GroupId]> = groups.into();
        self.class_index.inverse.insert(key, groups.clone());
        Some((groups, &object.labels))
    }

    /// Returns the class of a pod, and creates it if it is new.
    pub(super) fn find_or_create_class(&mut self, id: PodId) -> u32 {
        if let Some(class) = self.class_of[id.index()] {
            return class;
        }
        let class = self.find_class(self.input.snapshot.pod(id));
        self.class_of[id.index()] = Some(class);
        class
    }

    fn find_class(&mut self, pod: &'a Pod) -> u32 {
        let is_deleting = pod.node.is_some_and(|node| self.input.snapshot.node(node).is_deleting);
        let is_exempt = pod.phase == Phase::Pending || is_deleting;
        let has_defaults = !self.input.options.default_spread.is_empty();
        let controller = pod.controller.as_ref().filter(|_| has_defaults);
        let parts = (Arc::as_ptr(&pod.spec).addr(), Arc::as_ptr(&pod.labels).addr());
        let address = (parts, pod.namespace.as_str(), is_exempt, controller);
        // Replicas share spec and labels, so the address alone identifies most classes.
        let is_plain = pod.volume_claims.is_empty();
        if is_plain && let Some(&class) = self.class_index.by_address.get(&address) {
            return class;
        }
        let spread = has_defaults.then(|| self.class_index.default_spread.spread_constraints(pod));
        let labels = labels_used_by_selectors(&pod.labels, self.class_index.keys.as_deref());
        let labels_id = self.chains.intern_labels(&pod.namespace, labels);
        let (chains, mut context) = self.shape_context();
        let chain = chains.chain(&pod.spec, spread, labels_id, &mut context);
        let key = ClassKey {
            chain,
            requests: &pod.spec.requests,
            ports: &pod.spec.host_ports,
            claims: &pod.volume_claims,
            dynamic: (pod.spec.requests_dynamic_resources, &pod.spec.resource_claims),
            is_exempt,
        };
        let class = if let Some(&class) = self.class_index.by_value.get(&key) {
            class
        } else {
            let class = self.new_class(pod, chain, is_exempt);
            self.class_index.by_value.insert(key, class);
            class
        };
        if is_plain {
            self.class_index.by_address.insert(address, class);
        }
        class
    }

    fn new_class(&mut self, pod: &'a Pod, chain: usize, is_exempt: bool) -> u32 {
        let spec = &*pod.spec;
        let volumes = &self.input.snapshot.volumes;
        let mut rejection = None;
        let mut volume_topologies = Vec::new();
        let mut attachments = crate::volume::Attachments::new();
        if !pod.volume_claims.is_empty() {
            match (volumes.node_requirement_alternatives(pod), volumes.attachments(pod)) {
                (Ok(places), Ok(attached)) => {
                    volume_topologies =
                        places.iter().map(|place| self.store.split(place)).collect();
                    attachments = attached;
                }
                (Err(text), _) | (_, Err(text)) => rejection = Some(PodRejection::Volumes(text)),
            }
        }
        let mut devices = Vec::new();
        if spec.requests_dynamic_resources {
            let claims = &spec.resource_claims;
            match self.allocator.as_ref().map(|own| own.resolve(&pod.namespace, claims)) {
                None => rejection = Some(PodRejection::DynamicResourcesIgnored),
                Some(Ok(claims)) => devices = claims,
                Some(Err(text)) => rejection = Some(PodRejection::DynamicResources(text)),
            }
        }
        self.classes.push(PodClass {
            chain,
            requests: self.columns.amounts(&spec.requests),
            plain_requests: &spec.requests,
            ports: &spec.host_ports,
            volume_topologies,
            attachments,
            devices,
            rejection: rejection.map(Arc::new),
            is_exempt,
            failure: None,
            failed_steps: FailedSteps::default(),
        });
        id(self.classes.len() - 1)
    }
}

/// Finds the class of a pod, and has the data to create new classes.
#[derive(Clone, Debug)]
pub(super) struct PodClassIndex<'a> {
    /// Label keys that selectors use; none if they are unknown.
    keys: Option<Arc<BTreeSet<&'a str>>>,
    default_spread: Arc<DefaultSpread<'a>>,
    by_address: CopyOnWrite<FxHashMap<PodPointers<'a>, u32>>,
    by_value: CopyOnWrite<FxHashMap<ClassKey<'a>, u32>>,
    /// The groups of each term of required anti-affinity, by spec and namespace.
    inverse: CopyOnWrite<InverseGroups<'a>>,
}

/// By the address of a spec and a namespace.
type InverseGroups<'a> = FxHashMap<(usize, &'a str), Arc<[GroupId]>>;

/// Identifies most pods by the addresses of spec and labels.
///
/// With the namespace, whether they may always move, and the controller if default spread
/// constraints are deduced from it.
type PodPointers<'a> = ((usize, usize), &'a str, bool, Option<&'a ControllerRef>);

/// Everything by which classes differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ClassKey<'a> {
    chain: usize,
    requests: &'a Resources,
    ports: &'a [HostPort],
    claims: &'a [String],
    dynamic: (bool, &'a [ClaimRef]),
    is_exempt: bool,
}

/// Returns the resources that the solve considers.
fn columns(input: &SolverInput<'_>) -> ResourceColumns {
    let mut columns = ResourceColumns::default();
    let mut seen: FxHashSet<*const PodSpec> = FxHashSet::default();
    for (_, pod) in input.requestable_pods() {
        if seen.insert(Arc::as_ptr(&pod.spec)) {
            columns.add(&pod.spec.requests);
        }
    }
    input.snapshot.daemons.iter().for_each(|daemon| columns.add(&daemon.spec.requests));
    for pool in &input.pools {
        let limits: Resources = pool.limits.iter().filter(|(name, _)| *name != NODES).collect();
        columns.add(&limits);
    }
    columns
}

/// Returns the label keys that selectors use.
///
/// None with default spread constraints, whose selectors are not known beforehand.
fn selector_keys<'a>(input: &SolverInput<'a>) -> Option<BTreeSet<&'a str>> {
    if !input.options.default_spread.is_empty() {
        return None;
    }
    let mut keys = BTreeSet::new();
    let mut seen: FxHashSet<*const PodSpec> = FxHashSet::default();
    for pod in &input.snapshot.pods {
        let terms = &pod.spec.pod_anti_affinity;
        keys.extend(terms.iter().flat_map(|term| keys_of(&term.selector)));
    }
    for (_, pod) in input.requestable_pods() {
        let spec = &*pod.spec;
        if seen.insert(Arc::as_ptr(&pod.spec)) {
            let preferred =
                spec.preferred_pod_affinity.iter().chain(&spec.preferred_pod_anti_affinity);
            let terms = spec.pod_affinity.iter().chain(&spec.pod_anti_affinity);
            let terms = terms.chain(preferred.map(|preference| &preference.term));
            keys.extend(terms.flat_map(|term| keys_of(&term.selector)));
            for constraint in &spec.topology_spread {
                keys.extend(keys_of(&constraint.selector));
                keys.extend(constraint.match_label_keys.iter().map(String::as_str));
            }
        }
    }
    Some(keys)
}

fn keys_of(selector: &Selector) -> Vec<&str> {
    match selector {
        Selector::Nothing => Vec::new(),
        Selector::Matching(selector) => {
            let expressions = selector.expressions.iter().map(|expression| &expression.key);
            selector.labels.keys().chain(expressions).map(String::as_str).collect()
        }
    }
}
