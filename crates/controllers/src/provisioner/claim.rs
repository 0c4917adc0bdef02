//! Builds NodeClaims from planned ones and from pool templates (spec 20 §5).

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karpenter_api::grammar::Duration;
use karpenter_api::hash::{NODEPOOL_HASH_VERSION, nodepool_hash};
use karpenter_api::nodeclaim::{NodeClaim, NodeClaimSpec, ResourceRequirements};
use karpenter_api::nodepool::NodePool;
use karpenter_api::requirement::Requirement as WireRequirement;
use karpenter_api::{annotations, labels};
use karpenter_core::catalog::{CAPACITY_TYPE, Catalog, InstanceType};
use karpenter_core::plan::PlannedNodeClaim;
use karpenter_core::requirement::{Requirement, RequirementItem, Requirements};
use karpenter_operator::cloud::CloudProvider;
use karpenter_operator::cloud::nodeclaim::quantities;
use karpenter_operator::rng::SeededRng;
use kube::ResourceExt;

/// Builds the claim of a planned one. `pool` is the pool at the time of the decision, whose hash
/// the claim gets.
pub fn from_plan(
    pool: &NodePool,
    planned: &PlannedNodeClaim,
    catalog: &Catalog,
    rng: &mut SeededRng,
) -> NodeClaim {
    let types = types(pool, planned, catalog);
    let requirements = requirements(planned, &types, catalog);
    let mut claim = base_claim(pool);
    claim.spec.requirements = wire(&requirements);
    claim.spec.resources = Some(ResourceRequirements {
        requests: Some(quantities(&planned.requests)).filter(|requests| !requests.is_empty()),
    });
    let meta = &mut claim.metadata;
    let own = meta.labels.get_or_insert_default();
    for requirement in planned.requirements.iter() {
        let key = requirement.key();
        // The provider knows those that are well known when it has launched.
        if !catalog.well_known.contains(key)
            && ![labels::HOSTNAME, labels::REGISTERED, labels::INITIALIZED].contains(&key)
            && let Some(value) = requirement.pick_value(rng.u64())
        {
            own.insert(key.to_owned(), value);
        }
    }
    let notes = meta.annotations.get_or_insert_default();
    let mut note = |key: &str, value: String| notes.insert(key.to_owned(), value);
    note(annotations::NODECLAIM_MIN_VALUES_RELAXED, planned.min_values_relaxed.to_string());
    if types.iter().any(|kind| kind.offerings.iter().any(|offering| offering.has_price_overlay)) {
        note(annotations::PRICE_OVERLAY_APPLIED, "true".to_owned());
    }
    if types.iter().any(|kind| kind.has_capacity_overlay) {
        note(annotations::CAPACITY_OVERLAY_APPLIED, "true".to_owned());
    }
    if !planned.dynamic_drivers.is_empty() {
        note(annotations::REQUESTED_DRA_DRIVERS, planned.dynamic_drivers.join(","));
    }
    claim
}

/// Builds the claim of a static pool: its template and nothing else.
pub fn from_template(pool: &NodePool, rng: &mut SeededRng, catalog: &Catalog) -> NodeClaim {
    let mut claim = base_claim(pool);
    let own = claim.metadata.labels.get_or_insert_default();
    let mut requirements = template_requirements(pool, catalog);
    for (key, value) in own.iter() {
        requirements.add(Requirement::in_values(key, [value.clone()]));
    }
    for requirement in requirements.iter() {
        if !catalog.well_known.contains(requirement.key())
            && let Some(value) = requirement.pick_value(rng.u64())
        {
            own.insert(requirement.key().to_owned(), value);
        }
    }
    claim.spec.requirements = wire(&requirements);
    claim
}

/// Sets the provider's defaults where the pool has no value.
pub fn apply_provider_defaults(claim: &mut NodeClaim, cloud: &dyn CloudProvider) {
    let period = &mut claim.spec.termination_grace_period;
    if period.is_none() {
        let default = cloud.default_termination_grace_period();
        let default = default.and_then(|default| SignedDuration::try_from(default).ok());
        *period = default.map(Duration::from);
    }
}

/// Returns the fields that every claim of the pool has.
fn base_claim(pool: &NodePool) -> NodeClaim {
    let template = &pool.spec.template;
    let (mut own, mut notes) = match &template.metadata {
        Some(meta) => {
            (meta.labels.clone().unwrap_or_default(), meta.annotations.clone().unwrap_or_default())
        }
        None => (BTreeMap::new(), BTreeMap::new()),
    };
    let class = &template.spec.node_class_ref;
    own.insert(labels::NODEPOOL.to_owned(), pool.name_any());
    own.insert(labels::node_class(&class.group, &class.kind), class.name.clone());
    notes.insert(annotations::NODEPOOL_HASH.to_owned(), nodepool_hash(&pool.spec));
    notes.insert(annotations::NODEPOOL_HASH_VERSION.to_owned(), NODEPOOL_HASH_VERSION.to_owned());
    NodeClaim {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", pool.name_any())),
            labels: Some(own),
            annotations: Some(notes),
            owner_references: Some(vec![OwnerReference {
                api_version: "karpenter.sh/v1".to_owned(),
                kind: "NodePool".to_owned(),
                name: pool.name_any(),
                uid: pool.uid().unwrap_or_default(),
                block_owner_deletion: Some(true),
                controller: None,
            }]),
            ..ObjectMeta::default()
        },
        spec: NodeClaimSpec {
            taints: template.spec.taints.clone(),
            startup_taints: template.spec.startup_taints.clone(),
            requirements: Vec::new(),
            resources: None,
            node_class_ref: class.clone(),
            termination_grace_period: template.spec.termination_grace_period.clone(),
            expire_after: template.spec.expire_after.clone(),
        },
        status: None,
    }
}

/// Returns the instance types of the plan, cheapest first.
fn types<'a>(
    pool: &NodePool,
    planned: &PlannedNodeClaim,
    catalog: &'a Catalog,
) -> Vec<&'a InstanceType> {
    let Some(all) = catalog.pools.get(&pool.name_any()) else { return Vec::new() };
    let position = |index: &u32| usize::try_from(*index).ok();
    let types = planned.instance_types.iter().filter_map(position);
    types.filter_map(|index| all.get(index)).map(AsRef::as_ref).collect()
}

/// Returns the requirements of the claim (spec 20 §5.4).
fn requirements(
    planned: &PlannedNodeClaim,
    types: &[&InstanceType],
    catalog: &Catalog,
) -> Requirements {
    let is_ours =
        |key: &str| ![labels::HOSTNAME, labels::REGISTERED, labels::INITIALIZED].contains(&key);
    let mut requirements: Requirements = planned
        .requirements
        .iter()
        .filter(|requirement| is_ours(requirement.key()))
        .cloned()
        .collect();
    let min_values = requirements.get(labels::INSTANCE_TYPE).and_then(Requirement::min_values);
    let names = types.iter().map(|kind| kind.name.as_str());
    requirements
        .add(Requirement::in_values(labels::INSTANCE_TYPE, names).with_min_values(min_values));
    let offerings = types.iter().flat_map(|kind| &*kind.offerings);
    let launchable = offerings.filter(|offering| {
        offering.is_launchable()
            && requirements.compatible(&offering.requirements, &catalog.well_known).is_ok()
    });
    let capacity_types: Vec<String> = launchable
        .filter_map(|offering| offering.requirements.get(CAPACITY_TYPE))
        .flat_map(|types| types.values().iter().cloned())
        .collect();
    if !capacity_types.is_empty() {
        requirements.add(Requirement::in_values(CAPACITY_TYPE, capacity_types));
    }
    requirements
}

fn wire(requirements: &Requirements) -> Vec<WireRequirement> {
    let items = requirements.items().into_iter();
    items
        .map(|RequirementItem { key, operator, values, min_values }| WireRequirement {
            key,
            operator: operator.name().to_owned(),
            values: (!values.is_empty()).then_some(values),
            min_values: min_values.map(i64::from),
        })
        .collect()
}

/// Returns the requirements of the pool's template.
pub(crate) fn template_requirements(pool: &NodePool, catalog: &Catalog) -> Requirements {
    let items = pool.spec.template.spec.requirements.iter();
    items.filter_map(|wire| requirement(wire, catalog)).collect()
}

/// Converts a requirement of a template; none if it is invalid, which admission rejects.
fn requirement(wire: &WireRequirement, catalog: &Catalog) -> Option<Requirement> {
    let WireRequirement { key, operator, values, min_values } = wire;
    let item = RequirementItem::parse(key, operator, values.as_deref(), *min_values).ok()?;
    Requirement::from_item(&item, &catalog.aliases).ok()
}
