//! Builds the template of each NodePool, with its daemons and limits (spec 20 §3.2, §3.3).

use std::sync::Arc;

use super::input::SolverInput;
use super::types::{self, TypeFilter};
use crate::catalog::InstanceType;
use crate::host_port::HostPort;
use crate::id::PoolId;
use crate::labels::{HOSTNAME, INITIALIZED, NODE_POOL, REGISTERED};
use crate::plan::UnusablePool;
use crate::pod::PodSpec;
use crate::requirement::{Requirement, Requirements};
use crate::resources::{PODS, Quantity, Resources};
use crate::scheduling::MinValuesPolicy;
use crate::scheduling::limits::RemainingLimits;
use crate::snapshot::{Daemon, Pool};
use crate::taint::{Taint, Toleration, untolerated_taints};

/// A template: what all NodeClaims of one NodePool have in common.
pub(super) struct Template<'a> {
    pub id: PoolId,
    pub pool: &'a Pool,
    /// The requirements of a new NodeClaim, without hostname.
    pub requirements: Requirements,
    /// The pool's list in the catalog.
    pub list: &'a [Arc<InstanceType>],
    /// Positions in the list that the pool's own requirements leave.
    pub types: Vec<usize>,
    /// Those types by the daemons that run on them.
    pub groups: Vec<DaemonGroup>,
    /// The remaining limits of the pool.
    pub remaining: RemainingLimits,
}

/// Instance types that get the same daemons.
pub(super) struct DaemonGroup {
    /// Positions in the pool's list.
    pub types: Vec<usize>,
    /// What the daemons request together; none without daemons.
    pub overhead: Option<Resources>,
    /// The ports that they take.
    pub ports: Vec<HostPort>,
}

/// Returns the templates in trial order, and the pools without a template.
pub(super) fn build<'a>(input: &SolverInput<'a>) -> (Vec<Template<'a>>, Vec<UnusablePool>) {
    let (mut templates, mut unusable) = (Vec::new(), Vec::new());
    for &id in &input.pools {
        match template(input, id) {
            Ok(template) => templates.push(template),
            Err(pool) => unusable.push(pool),
        }
    }
    (templates, unusable)
}

fn template<'a>(input: &SolverInput<'a>, id: PoolId) -> Result<Template<'a>, UnusablePool> {
    let pool = input.snapshot.pool(id);
    let list = input.types(pool);
    let requirements = requirements(input, pool);
    let everything =
        [DaemonGroup { types: (0..list.len()).collect(), overhead: None, ports: Vec::new() }];
    let filter = TypeFilter {
        input,
        list,
        groups: &everything,
        taken_ports: &[],
        ports: &[],
        requests: &Resources::default(),
        total: &Resources::default(),
    };
    let is_best_effort = input.options.min_values == MinValuesPolicy::BestEffort;
    let kept = types::filter(&filter, &everything[0].types, &requirements, is_best_effort);
    let types = kept
        .map_err(|rejection| UnusablePool {
            pool: id,
            misses_min_values: rejection.min_values.is_some(),
        })?
        .types;
    let groups = daemon_groups(input, &requirements, &pool.taints, list, &types);
    let nodes = input.nodes.iter().map(|&node| input.snapshot.node(node));
    let own = nodes.filter(|node| node.pool.as_ref() == Some(&pool.name));
    let remaining = RemainingLimits::new(&pool.limits, own.map(|node| &node.capacity));
    Ok(Template { id, pool, requirements, list, types, groups, remaining })
}

fn requirements(input: &SolverInput<'_>, pool: &Pool) -> Requirements {
    let class = &pool.node_class;
    let class_label = format!("{}/{}", class.group, class.kind.to_lowercase());
    let labels = input.labels(&pool.labels);
    // Validation rejects NodePools that name a hostname; here it is left out.
    let own = pool.requirements.iter().chain(labels.iter()).filter(|own| own.key() != HOSTNAME);
    let mut requirements: Requirements = own.cloned().collect();
    for (key, value) in [
        (NODE_POOL, pool.name.as_str()),
        (class_label.as_str(), class.name.as_str()),
        // Only so that daemons that wait for these labels are counted.
        (REGISTERED, "true"),
        (INITIALIZED, "true"),
    ] {
        requirements.add(Requirement::in_values(key, [value]));
    }
    requirements
}

fn daemon_groups(
    input: &SolverInput<'_>,
    template: &Requirements,
    taints: &[Taint],
    list: &[Arc<InstanceType>],
    types: &[usize],
) -> Vec<DaemonGroup> {
    let mut groups: Vec<(Vec<&Daemon>, Vec<usize>)> = Vec::new();
    for &position in types {
        let runs = |spec: &PodSpec| {
            runs_on(input, spec, taints, |requirements| {
                template.compatible(requirements, input.well_known()).is_ok()
                    && list[position].requirements.intersects(requirements).is_ok()
            })
        };
        let daemons: Vec<&Daemon> =
            input.snapshot.daemons.iter().filter(|daemon| runs(&daemon.spec)).collect();
        match groups.iter_mut().find(|(known, _)| *known == daemons) {
            Some((_, types)) => types.push(position),
            None => groups.push((daemons, vec![position])),
        }
    }
    groups
        .into_iter()
        .map(|(daemons, types)| DaemonGroup {
            types,
            overhead: (!daemons.is_empty()).then(|| requests(&daemons)),
            ports: daemons.iter().flat_map(|d| d.spec.host_ports.iter().cloned()).collect(),
        })
        .collect()
}

/// Returns whether a daemon runs on nodes with these taints.
///
/// `suits` decides for the node selector with one of the required terms. This is a pure test over
/// all terms, with PreferNoSchedule tolerated (spec 20 Q7).
pub(super) fn runs_on(
    input: &SolverInput<'_>,
    spec: &PodSpec,
    taints: &[Taint],
    suits: impl Fn(&Requirements) -> bool,
) -> bool {
    if spec.requests_dynamic_resources && input.options.ignore_dynamic_resources {
        return false;
    }
    let mut tolerations = spec.tolerations.clone();
    tolerations.push(Toleration::prefer_no_schedule());
    if !untolerated_taints(taints, &tolerations).is_empty() {
        return false;
    }
    alternatives(spec).iter().any(suits)
}

/// Returns the node selector with each required term.
///
/// Without terms it returns the node selector alone.
pub(super) fn alternatives(spec: &PodSpec) -> Vec<Requirements> {
    if spec.node_affinity.is_empty() {
        return vec![spec.node_selector.clone()];
    }
    let with = |term: &Requirements| {
        let mut requirements = spec.node_selector.clone();
        requirements.extend(term.iter().cloned());
        requirements
    };
    spec.node_affinity.iter().map(with).collect()
}

/// Returns the requests of the daemons together; each is one of `pods`.
pub(super) fn requests(daemons: &[&Daemon]) -> Resources {
    let mut sum = Resources::default();
    sum.set(PODS, Quantity::ZERO);
    for daemon in daemons {
        sum.add(&daemon.spec.requests);
    }
    sum
}
