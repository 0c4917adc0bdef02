//! Everything that is worked out before the first pod is tried (spec 20 §3.1).

use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::amounts::Columns;
use super::census::asked_about;
use super::chains::Chains;
use super::existing::{Daemons, Existing, used_by_pool};
use super::finish::Finishing;
use super::groups::GroupId;
use super::order::Order;
use super::reservations::Reservations;
use super::store::Store;
use super::templates::{Template, TemplateMaking};
use super::topology::Topology;
use super::types::Types;
use super::world::{Purpose, World};
use super::{Class, Solver, id};
use crate::catalog::Catalog;
use crate::host_port::HostPort;
use crate::id::PodId;
use crate::plan::UnusablePool;
use crate::pod::{Controller, Phase, Pod, PodSpec};
use crate::reason::Refusal;
use crate::resources::{NODES, Resources};
use crate::scheduling::default_spread::Deduction;
use crate::scheduling::dra::ClaimRef;
use crate::scheduling::sizes::Sizes;
use crate::scheduling::{MinValuesPolicy, Options};
use crate::selector::{Labels, Selector};
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::taint::TaintEffect;

impl<'a> Solver<'a> {
    /// A solver for a snapshot. No question is asked yet.
    pub(super) fn new(
        (snapshot, catalog): (&'a Snapshot, &'a Catalog),
        options: &'a Options,
        purpose: Purpose<'_>,
        sizes: Sizes,
    ) -> Self {
        let mut store = Store::new(&catalog.well_known);
        let world = World::new(snapshot, catalog, options, purpose, &mut store);
        let columns = columns(&world);
        let keys = selector_keys(&world);
        let mut topology = Topology::new(&world, keys.as_ref());
        let hosts: Vec<usize> =
            world.nodes.iter().map(|node| topology.host(&node.hostname)).collect();
        let mut daemons = Daemons::new(&world, &mut store);
        let making = (&mut daemons, &mut store);
        let existing = Existing::new(&world, sizes, &columns, &hosts, making);
        let reservations = Reservations::new(&world);
        let tolerate_prefer_no_schedule = world
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
            chains: Chains::default(),
            classes: Vec::new(),
            class_of: vec![None; snapshot.pods.len()],
            makers: ClassMakers {
                keys: keys.map(Arc::new),
                default_spread: Arc::new(Deduction::new(snapshot, &options.default_spread)),
                by_address: Shared::default(),
                by_value: Shared::default(),
                inverse: Shared::default(),
            },
            claims: Vec::new(),
            order: Order::new(sizes.claims_per_run),
            uses_reserved: false,
            allocator: None,
            node_domains: FxHashMap::default(),
            suits_nodes: Vec::new(),
            finishing: Finishing::default(),
            asked: Vec::new(),
            asked_in: vec![0; snapshot.pods.len()],
            leaving: BTreeMap::new(),
            placed: Vec::new(),
            placed_whos: Vec::new(),
            placed_count: 0,
            refused: BTreeSet::new(),
            effective_zones: BTreeMap::new(),
            world: Arc::new(world),
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
        let world = self.world.clone();
        let pools = world.pools.iter().copied().zip(world.pool_ids.iter().copied());
        for ((pool, pool_id), &taints_id) in pools.zip(&world.pool_taints) {
            let list = self.world.catalog.pools.get(&pool.name).filter(|list| !list.is_empty());
            let Some(list) = list else {
                self.unusable_pools.push(UnusablePool { pool: pool_id, min_values: false });
                continue;
            };
            let types = *lists.entry(list.as_ptr()).or_insert_with(|| {
                self.types.push(Types::new(list, &self.columns, &mut self.store));
                self.types.len() - 1
            });
            // Validation refuses NodePools that name a hostname; here it is left out.
            let requirements = Template::requirements(pool, &self.world);
            let set = self.store.split(&requirements).set;
            let variants = self.types[types].answer(set, &mut self.store).variants.clone();
            let used = used_by_pool(&self.world, &pool.name);
            let mut making = TemplateMaking {
                world: &self.world,
                columns: &self.columns,
                store: &mut self.store,
                types: &mut self.types,
                taints_id,
            };
            let template =
                Template::new((pool, pool_id), (set, types, variants.clone()), used, &mut making);
            self.templates.push(template);
            let lacks =
                !self.lacking_min_values(set, &variants, self.templates.len() - 1).is_empty()
                    && self.world.options.min_values == MinValuesPolicy::Strict;
            if variants.is_empty() || lacks {
                let min_values = lacks && !variants.is_empty();
                self.templates.pop();
                self.unusable_pools.push(UnusablePool { pool: pool_id, min_values });
            } else {
                self.template_taints.push(&pool.taints);
            }
        }
    }

    /// Counts bound pods whose anti-affinity keeps others away.
    fn count_anti_affinity(&mut self) {
        let world = self.world.clone();
        for (pod, is_asked) in world.snapshot.pods.iter().zip(&world.is_asked) {
            if *is_asked {
                continue;
            }
            let Some((groups, labels)) = self.inverse_of_bound(pod) else { continue };
            for &group in groups.iter() {
                self.topology.fix(group);
                self.topology.own(group, &pod.spec.tolerations, &world);
                self.topology.count_inverse(group, labels);
            }
        }
    }

    /// By term of the required anti-affinity of a bound pod, the group that counts it, and the
    /// labels that say where. Replicas share their spec, and with it the groups of their terms.
    pub(super) fn inverse_of_bound(
        &mut self,
        pod: &'a Pod,
    ) -> Option<(Arc<[GroupId]>, &'a Labels)> {
        if pod.spec.pod_anti_affinity.is_empty() || pod.is_terminal() {
            return None;
        }
        let object = self.world.snapshot.node(pod.node?).object.as_ref()?;
        let key = (Arc::as_ptr(&pod.spec).addr(), pod.namespace.as_str());
        if let Some(known) = self.makers.inverse.get(&key) {
            return Some((known.clone(), &object.labels));
        }
        let who = self.chains.who(&pod.namespace, Labels::new());
        let (chains, mut making) = self.making();
        let groups = chains.inverse_groups(&pod.spec.pod_anti_affinity, who, &mut making);
        let groups: Arc<[GroupId]> = groups.into();
        self.makers.inverse.insert(key, groups.clone());
        Some((groups, &object.labels))
    }

    /// The class of a pod, found or made.
    pub(super) fn class(&mut self, id: PodId) -> u32 {
        if let Some(class) = self.class_of[id.index()] {
            return class;
        }
        let class = self.find_class(self.world.snapshot.pod(id));
        self.class_of[id.index()] = Some(class);
        class
    }

    fn find_class(&mut self, pod: &'a Pod) -> u32 {
        let is_deleting = pod.node.is_some_and(|node| self.world.snapshot.node(node).is_deleting);
        let is_exempt = pod.phase == Phase::Pending || is_deleting;
        let has_defaults = !self.world.options.default_spread.is_empty();
        let controller = pod.controller.as_ref().filter(|_| has_defaults);
        let parts = (Arc::as_ptr(&pod.spec).addr(), Arc::as_ptr(&pod.labels).addr());
        let address = (parts, pod.namespace.as_str(), is_exempt, controller);
        // Replicas share spec and labels, so most are told apart by address alone.
        let is_plain = pod.claims.is_empty();
        if is_plain && let Some(&class) = self.makers.by_address.get(&address) {
            return class;
        }
        let spread = has_defaults.then(|| self.makers.default_spread.applied(pod));
        let labels = asked_about(&pod.labels, self.makers.keys.as_deref());
        let who = self.chains.who(&pod.namespace, labels);
        let (chains, mut making) = self.making();
        let chain = chains.chain(&pod.spec, spread, who, &mut making);
        let key = ClassKey {
            chain,
            requests: &pod.spec.requests,
            ports: &pod.spec.host_ports,
            claims: &pod.claims,
            dynamic: (pod.spec.asks_dynamic_resources, &pod.spec.resource_claims),
            is_exempt,
        };
        let class = if let Some(&class) = self.makers.by_value.get(&key) {
            class
        } else {
            let class = self.new_class(pod, chain, is_exempt);
            self.makers.by_value.insert(key, class);
            class
        };
        if is_plain {
            self.makers.by_address.insert(address, class);
        }
        class
    }

    fn new_class(&mut self, pod: &'a Pod, chain: usize, is_exempt: bool) -> u32 {
        let spec = &*pod.spec;
        let volumes = &self.world.snapshot.volumes;
        let mut refusal = None;
        let mut alternatives = Vec::new();
        let mut attachments = crate::volume::Attachments::new();
        if !pod.claims.is_empty() {
            match (volumes.alternatives(pod), volumes.attachments(pod)) {
                (Ok(places), Ok(attached)) => {
                    alternatives = places.iter().map(|place| self.store.split(place)).collect();
                    attachments = attached;
                }
                (Err(text), _) | (_, Err(text)) => refusal = Some(Refusal::Volumes(text)),
            }
        }
        let mut devices = Vec::new();
        if spec.asks_dynamic_resources {
            let claims = &spec.resource_claims;
            match self.allocator.as_ref().map(|own| own.resolve(&pod.namespace, claims)) {
                None => refusal = Some(Refusal::DynamicResourcesIgnored),
                Some(Ok(claims)) => devices = claims,
                Some(Err(text)) => refusal = Some(Refusal::DynamicResources(text)),
            }
        }
        self.classes.push(Class {
            chain,
            requests: self.columns.amounts(&spec.requests),
            plain_requests: &spec.requests,
            ports: &spec.host_ports,
            alternatives,
            attachments,
            devices,
            refusal: refusal.map(Arc::new),
            is_exempt,
            failure: None,
        });
        id(self.classes.len() - 1)
    }
}

/// Classes that exist already, and what making them needs.
#[derive(Clone, Debug)]
pub(super) struct ClassMakers<'a> {
    /// Label keys that selectors ask about; none if that is not known.
    keys: Option<Arc<BTreeSet<&'a str>>>,
    default_spread: Arc<Deduction<'a>>,
    by_address: Shared<FxHashMap<Address<'a>, u32>>,
    by_value: Shared<FxHashMap<ClassKey<'a>, u32>>,
    /// The groups of each term of required anti-affinity, by spec and namespace.
    inverse: Shared<InverseGroups<'a>>,
}

/// By the address of a spec and a namespace.
type InverseGroups<'a> = FxHashMap<(usize, &'a str), Arc<[GroupId]>>;

/// What tells most pods apart at a glance: spec and labels, namespace, whether they may always move,
/// and the controller if defaults are deduced from it.
type Address<'a> = ((usize, usize), &'a str, bool, Option<&'a Controller>);

/// What tells classes apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ClassKey<'a> {
    chain: usize,
    requests: &'a Resources,
    ports: &'a [HostPort],
    claims: &'a [String],
    dynamic: (bool, &'a [ClaimRef]),
    is_exempt: bool,
}

/// Resources that can make a difference.
fn columns(world: &World<'_>) -> Columns {
    let mut columns = Columns::default();
    let mut seen: FxHashSet<*const PodSpec> = FxHashSet::default();
    for (_, pod) in world.askable() {
        if seen.insert(Arc::as_ptr(&pod.spec)) {
            columns.add(&pod.spec.requests);
        }
    }
    world.snapshot.daemons.iter().for_each(|daemon| columns.add(&daemon.spec.requests));
    for pool in &world.pools {
        let limits: Resources = pool.limits.iter().filter(|(name, _)| *name != NODES).collect();
        columns.add(&limits);
    }
    columns
}

/// Label keys that some selector asks about; none if that cannot be told beforehand, since default
/// constraints bring selectors of their own.
fn selector_keys<'a>(world: &World<'a>) -> Option<BTreeSet<&'a str>> {
    if !world.options.default_spread.is_empty() {
        return None;
    }
    let mut keys = BTreeSet::new();
    let mut seen: FxHashSet<*const PodSpec> = FxHashSet::default();
    for pod in &world.snapshot.pods {
        let terms = &pod.spec.pod_anti_affinity;
        keys.extend(terms.iter().flat_map(|term| keys_of(&term.selector)));
    }
    for (_, pod) in world.askable() {
        let spec = &*pod.spec;
        if seen.insert(Arc::as_ptr(&pod.spec)) {
            let preferred =
                spec.preferred_pod_affinity.iter().chain(&spec.preferred_pod_anti_affinity);
            let terms = spec.pod_affinity.iter().chain(&spec.pod_anti_affinity);
            let terms = terms.chain(preferred.map(|preference| &preference.term));
            keys.extend(terms.flat_map(|term| keys_of(&term.selector)));
            for constraint in &spec.spread {
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
