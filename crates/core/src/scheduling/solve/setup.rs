//! Everything that is worked out before the first pod is tried (spec 20 §3.1).

use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::amounts::Columns;
use super::census::asked_about;
use super::chains::Chains;
use super::existing::{Existing, used_by_pool};
use super::groups::GroupId;
use super::order::Order;
use super::reservations::Reservations;
use super::store::Store;
use super::templates::{Template, TemplateMaking};
use super::topology::Topology;
use super::types::Types;
use super::world::World;
use super::{Class, Solver, id};
use crate::host_port::HostPort;
use crate::plan::UnusablePool;
use crate::pod::{AffinityTerm, Controller, Phase, Pod, PodSpec};
use crate::reason::Refusal;
use crate::resources::{NODES, Resources};
use crate::scheduling::default_spread::Deduction;
use crate::scheduling::dra::{Allocator, ClaimRef};
use crate::scheduling::sizes::Sizes;
use crate::scheduling::{MinValuesPolicy, Request};
use crate::selector::{Labels, Selector};
use crate::taint::TaintEffect;

impl<'a> Solver<'a> {
    pub(super) fn new(request: &Request<'a>, sizes: Sizes) -> Self {
        let mut store = Store::new(&request.catalog.well_known);
        let world = World::new(request, &mut store);
        let columns = columns(&world);
        let keys = selector_keys(&world);
        let mut topology = Topology::new(&world, keys.as_ref());
        let hosts: Vec<usize> =
            world.nodes.iter().map(|node| topology.host(&node.hostname)).collect();
        let existing = Existing::new(&world, sizes, &columns, &hosts, &mut store);
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
            class_of: vec![None; world.snapshot.pods.len()],
            claims: Vec::new(),
            order: Order::new(sizes.claims_per_run),
            uses_reserved: false,
            allocator: Allocator::for_request(request),
            node_domains: FxHashMap::default(),
            placed: Vec::new(),
            placed_count: 0,
            refused: BTreeSet::new(),
            effective_zones: BTreeMap::new(),
            world,
        };
        solver.make_templates();
        solver.uses_reserved = solver.world.options.reserved_capacity
            && solver.types.iter().any(|types| types.has_reserved);
        solver.make_classes(keys.as_ref());
        solver.count_effective_zones();
        solver
    }

    fn make_templates(&mut self) {
        let mut lists: FxHashMap<*const Arc<crate::catalog::InstanceType>, usize> =
            FxHashMap::default();
        let pools = self.world.pools.clone().into_iter().zip(self.world.pool_ids.clone());
        for (pool, pool_id) in pools {
            let taints_id = self.world.taints_id(&pool.taints);
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
                Template::new((pool, pool_id), (set, types, variants.clone()), &used, &mut making);
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

    fn make_classes(&mut self, keys: Option<&BTreeSet<&str>>) {
        // Bound pods whose anti-affinity keeps others away.
        let snapshot = self.world.snapshot;
        let mut inverse = FxHashMap::default();
        for (pod, is_asked) in snapshot.pods.iter().zip(self.world.is_asked.clone()) {
            let is_bound = pod.node.is_some() && !is_asked && !pod.is_terminal();
            if is_bound && !pod.spec.pod_anti_affinity.is_empty() {
                self.count_anti_affinity(pod, &mut inverse);
            }
        }
        let mut makers = ClassMakers {
            default_spread: Deduction::new(snapshot, &self.world.options.default_spread),
            by_address: FxHashMap::default(),
            by_value: FxHashMap::default(),
        };
        for pod in self.world.asked.clone() {
            let class = self.class(snapshot.pod(pod), keys, &mut makers);
            self.class_of[pod.index()] = Some(class);
        }
    }

    /// Replicas share their spec, and with it the groups of their terms.
    fn count_anti_affinity(&mut self, pod: &'a Pod, inverse: &mut InverseGroups<'a>) {
        let object = pod.node.and_then(|node| self.world.snapshot.node(node).object.as_ref());
        let Some(object) = object else { return };
        let key = (Arc::as_ptr(&pod.spec), pod.namespace.as_str());
        let groups = inverse.entry(key).or_insert_with(|| {
            let who = self.chains.who(&pod.namespace, Labels::new());
            let (chains, mut making) = self.making();
            let PodSpec { pod_anti_affinity, tolerations, .. } = &*pod.spec;
            let terms = pod_anti_affinity.iter().map(std::slice::from_ref::<AffinityTerm>);
            terms
                .flat_map(|term| chains.inverse_groups(term, tolerations, who, &mut making))
                .collect()
        });
        for &group in groups.iter() {
            self.topology.count_inverse(group, &object.labels);
        }
    }

    fn class(
        &mut self,
        pod: &'a Pod,
        keys: Option<&BTreeSet<&str>>,
        makers: &mut ClassMakers<'a>,
    ) -> u32 {
        let is_deleting = pod.node.is_some_and(|node| self.world.snapshot.node(node).is_deleting);
        let is_exempt = pod.phase == Phase::Pending || is_deleting;
        let has_defaults = !self.world.options.default_spread.is_empty();
        let controller = pod.controller.as_ref().filter(|_| has_defaults);
        let parts = (Arc::as_ptr(&pod.spec), Arc::as_ptr(&pod.labels));
        let address = (parts, pod.namespace.as_str(), is_exempt, controller);
        // Replicas share spec and labels, so most are told apart by address alone.
        let is_plain = pod.claims.is_empty();
        if is_plain && let Some(&class) = makers.by_address.get(&address) {
            return class;
        }
        let spread = has_defaults.then(|| makers.default_spread.applied(pod));
        let who = self.chains.who(&pod.namespace, asked_about(&pod.labels, keys));
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
        let class = if let Some(&class) = makers.by_value.get(&key) {
            class
        } else {
            let class = self.new_class(pod, chain, is_exempt);
            makers.by_value.insert(key, class);
            class
        };
        if is_plain {
            makers.by_address.insert(address, class);
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

/// The groups of each term of required anti-affinity, by spec and namespace.
type InverseGroups<'a> = FxHashMap<(*const PodSpec, &'a str), Vec<GroupId>>;

/// Classes that exist already.
struct ClassMakers<'a> {
    default_spread: Deduction<'a>,
    by_address: FxHashMap<Address<'a>, u32>,
    by_value: FxHashMap<ClassKey<'a>, u32>,
}

/// What tells most pods apart at a glance: spec and labels, namespace, whether they may always move,
/// and the controller if defaults are deduced from it.
type Address<'a> = ((*const PodSpec, *const Labels), &'a str, bool, Option<&'a Controller>);

/// What tells classes apart.
#[derive(PartialEq, Eq, Hash)]
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
    for &pod in &world.asked {
        let spec = &world.snapshot.pod(pod).spec;
        if seen.insert(Arc::as_ptr(spec)) {
            columns.add(&spec.requests);
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
    for (pod, is_asked) in world.snapshot.pods.iter().zip(&world.is_asked) {
        let spec = &*pod.spec;
        if !*is_asked {
            keys.extend(spec.pod_anti_affinity.iter().flat_map(|term| keys_of(&term.selector)));
        } else if seen.insert(Arc::as_ptr(&pod.spec)) {
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
