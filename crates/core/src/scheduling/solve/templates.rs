//! Templates: NodePools with their daemons and limits (spec 20 §3.2, §3.3, §3.13).

use rustc_hash::FxHashMap;

use super::amounts::{Amounts, ResourceColumns};
use super::input::SolverInput;
use super::requirement_store::{RequirementStore, SetId, UndefinedLabels};
use super::shape::strict_requirements;
use super::types::InstanceTypeIndex;
use crate::bit_set::BitSet;
use crate::host_port::HostPort;
use crate::id::PoolId;
use crate::labels::{INITIALIZED, NODE_POOL, REGISTERED};
use crate::pod::PodSpec;
use crate::requirement::{Requirement, Requirements};
use crate::resources::{NODES, Resources};
use crate::scheduling::limits::LimitRejection;
use crate::snapshot::Pool;
use crate::taint::{Taint, Toleration, untolerated_taints};

/// A NodePool that can launch something: what all its NodeClaims have in common.
#[derive(Clone, Debug)]
pub(super) struct Template<'a> {
    pub(super) pool: &'a Pool,
    pub(super) pool_id: PoolId,
    pub(super) set: SetId,
    /// Position of its list of types.
    pub(super) types: usize,
    /// Variants that its own requirements leave.
    pub(super) variants: BitSet,
    pub(super) groups: Vec<DaemonGroup>,
    pub(super) taints_id: u32,
    /// Whether its own requirements have minValues; those of pods never do.
    pub(super) has_min_values: bool,
    /// The capacity of its nodes, excluded nodes included.
    used: Resources,
    limits: Limits,
    /// The limits before the request changed them.
    before: Option<Box<Limits>>,
}

/// Types of a template that get the same daemons.
#[derive(Clone, Debug)]
pub(super) struct DaemonGroup {
    pub(super) variants: BitSet,
    /// What the daemons request; none without daemons.
    pub(super) overhead: Option<Resources>,
    pub(super) amounts: Amounts,
    pub(super) ports: Vec<HostPort>,
}

/// The remaining limits of a NodePool.
#[derive(Clone, Debug)]
struct Limits {
    /// Columns that are limited.
    columns: Vec<usize>,
    left: Amounts,
    nodes: Option<i128>,
    /// Variants within the limits; none after a change, until they are needed.
    within: Option<BitSet>,
}

impl<'a> Template<'a> {
    /// Returns the requirements of a NodePool's NodeClaims.
    pub(super) fn requirements(pool: &Pool, input: &SolverInput<'_>) -> Requirements {
        let class = &pool.node_class;
        let class_label = format!("{}/{}", class.group, class.kind.to_lowercase());
        let own = [
            (NODE_POOL, pool.name.as_str()),
            (class_label.as_str(), class.name.as_str()),
            (REGISTERED, "true"),
            (INITIALIZED, "true"),
        ];
        let mut requirements = pool.requirements.clone();
        let labels = pool.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let labels = Requirements::from_labels(labels, &input.catalog.aliases);
        requirements.extend(labels.iter().cloned());
        requirements.extend(own.map(|(key, value)| Requirement::in_values(key, [value])));
        requirements
    }

    pub(super) fn new(
        pool: (&'a Pool, PoolId),
        (set, types_position, variants): (SetId, usize, BitSet),
        used: Resources,
        context: &mut TemplateContext<'_, 'a>,
    ) -> Self {
        let (pool, pool_id) = pool;
        let types = &mut context.types[types_position];
        let groups = daemon_groups(
            pool,
            set,
            &variants,
            types,
            context.input,
            context.columns,
            context.store,
        );
        let limits = Limits::new(pool, &used, context.columns);
        Self {
            pool,
            pool_id,
            set,
            types: types_position,
            variants,
            groups,
            taints_id: context.taints_id,
            has_min_values: pool.requirements.has_min_values(),
            used,
            limits,
            before: None,
        }
    }

    /// Releases the capacity of removed nodes until [`Self::roll_back`].
    pub(super) fn release_capacity(&mut self, capacity: &Resources, columns: &ResourceColumns) {
        if self.pool.limits.is_empty() {
            return;
        }
        let used = self.used.subtract(capacity);
        let limits = Limits::new(self.pool, &used, columns);
        let before = std::mem::replace(&mut self.limits, limits);
        self.before.get_or_insert_with(|| Box::new(before));
    }

    /// Restores the limits before the request.
    pub(super) fn roll_back(&mut self) {
        if let Some(before) = self.before.take() {
            self.limits = *before;
        }
    }

    /// Returns the types that stay within the limits.
    pub(super) fn within_limits(
        &mut self,
        types: &InstanceTypeIndex,
    ) -> Result<BitSet, LimitRejection> {
        let limits = &mut self.limits;
        if limits.nodes == Some(0) {
            return Err(LimitRejection::NodesExhausted);
        }
        if limits.within.is_none() {
            let mut within = self.variants.clone();
            let is_out = limits.nodes.is_some_and(|nodes| nodes < 0);
            for variant in self.variants.iter() {
                let capacity = &types.variants[variant].capacity;
                if is_out || limits.columns.iter().any(|&c| capacity[c] > limits.left[c]) {
                    within.remove(variant);
                }
            }
            limits.within = Some(within);
        }
        match &limits.within {
            Some(within) if !within.is_empty() => Ok(within.clone()),
            _ => Err(LimitRejection::AllTypesExceed),
        }
    }

    /// Subtracts the largest amounts of the types that a new NodeClaim may become.
    pub(super) fn reserve_limits(&mut self, variants: &BitSet, types: &InstanceTypeIndex) {
        let limits = &mut self.limits;
        if !limits.columns.is_empty() && self.before.is_none() {
            self.before = Some(Box::new(limits.clone()));
        }
        for &column in &limits.columns {
            let largest = variants.iter().map(|v| types.variants[v].capacity[column]).max();
            limits.left[column] = limits.left[column].saturating_sub(largest.unwrap_or(0));
            limits.within = None;
        }
    }

    /// Returns whether a type of this capacity exceeds the remaining limits.
    pub(super) fn exceeds_limits(&self, capacity: &Amounts) -> bool {
        let limits = &self.limits;
        limits.nodes.is_some_and(|nodes| nodes <= 0)
            || limits.columns.iter().any(|&column| capacity[column] > limits.left[column])
    }

    /// Returns how much of a resource the daemons of a type request.
    pub(super) fn overhead_of(&self, variant: usize, column: usize) -> i128 {
        match self.groups.as_slice() {
            [only] => only.amounts[column],
            groups => groups
                .iter()
                .find(|group| group.variants.contains(variant))
                .map_or(0, |group| group.amounts[column]),
        }
    }
}

impl Limits {
    fn new(pool: &Pool, used: &Resources, columns: &ResourceColumns) -> Self {
        let left = pool.limits.subtract(used);
        let limited = pool.limits.iter().filter(|(name, _)| *name != NODES);
        Self {
            columns: limited.filter_map(|(name, _)| columns.position(name)).collect(),
            left: columns.amounts(&left),
            nodes: left.get(NODES).map(crate::resources::Quantity::nanos),
            within: None,
        }
    }
}

/// The parts of the solver that are needed to make templates.
pub(super) struct TemplateContext<'s, 'a> {
    pub(super) input: &'s SolverInput<'a>,
    pub(super) columns: &'s ResourceColumns,
    pub(super) store: &'s mut RequirementStore<'a>,
    pub(super) types: &'s mut [InstanceTypeIndex],
    pub(super) taints_id: u32,
}

/// Groups types by their daemons (spec 20 §3.3).
fn daemon_groups(
    pool: &Pool,
    set: SetId,
    variants: &BitSet,
    types: &mut InstanceTypeIndex,
    input: &SolverInput<'_>,
    columns: &ResourceColumns,
    store: &mut RequirementStore<'_>,
) -> Vec<DaemonGroup> {
    let daemons: Vec<(BitSet, &PodSpec)> = input
        .snapshot
        .daemons
        .iter()
        .map(|daemon| &*daemon.spec)
        .filter(|spec| !(spec.requests_dynamic_resources && input.options.ignore_dynamic_resources))
        .filter(|spec| daemon_tolerates(spec, &pool.taints))
        .map(|spec| (variants_for(spec, set, types, store), spec))
        .collect();
    let mut groups: FxHashMap<Vec<usize>, usize> = FxHashMap::default();
    let mut result: Vec<DaemonGroup> = Vec::new();
    for variant in variants.iter() {
        let own: Vec<usize> =
            (0..daemons.len()).filter(|&daemon| daemons[daemon].0.contains(variant)).collect();
        let group = *groups.entry(own.clone()).or_insert_with(|| {
            let mut overhead = Resources::default();
            for &daemon in &own {
                overhead.add(&daemons[daemon].1.requests);
            }
            result.push(DaemonGroup {
                variants: types.none(),
                amounts: columns.amounts(&overhead),
                ports: own.iter().flat_map(|&d| daemons[d].1.host_ports.clone()).collect(),
                overhead: (!own.is_empty()).then_some(overhead),
            });
            result.len() - 1
        });
        result[group].variants.insert(variant);
    }
    result
}

/// Returns whether a daemon runs in spite of taints. PreferNoSchedule does not matter.
pub(super) fn daemon_tolerates(daemon: &PodSpec, taints: &[Taint]) -> bool {
    let mut tolerations = daemon.tolerations.clone();
    tolerations.push(Toleration::prefer_no_schedule());
    untolerated_taints(taints, &tolerations).is_empty()
}

/// Returns the requirement sets of a daemon, one per required term.
pub(super) fn daemon_sets(daemon: &PodSpec) -> Vec<Requirements> {
    if daemon.node_affinity.is_empty() {
        return vec![daemon.node_selector.clone()];
    }
    let with = |term: &Requirements| {
        strict_requirements(&daemon.node_selector, std::slice::from_ref(term))
    };
    daemon.node_affinity.iter().map(with).collect()
}

fn variants_for(
    daemon: &PodSpec,
    set: SetId,
    types: &mut InstanceTypeIndex,
    store: &mut RequirementStore<'_>,
) -> BitSet {
    let mut variants = types.none();
    for requirements in daemon_sets(daemon) {
        let required = store.split(&requirements);
        // A template has no hostname, so a daemon can only require its absence.
        let host_suits = required.host.is_none_or(|host| store.get(host).allows_absence());
        if host_suits && store.compatible(set, required.set, UndefinedLabels::WellKnown) {
            variants.union_with(&types.meeting_all(required.set, store));
        }
    }
    variants
}
