//! The report of a plan: a value first, printed as JSON, YAML or a table.
//!
//! The fields up to `pods` are those that upstream's decisions are recorded with, so that the two
//! can be compared; everything after them is ours.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_api::labels;
use karpenter_core::catalog::{Catalog, InstanceType, Offering};
use karpenter_core::id::PodId;
use karpenter_core::plan::{Plan, PlannedNodeClaim};
use karpenter_core::rejection::PodRejection;
use karpenter_core::requirement::Requirements;
use karpenter_core::resources::Resources;
use karpenter_core::snapshot::Snapshot;
use serde::Serialize;

use super::expand::ExpandedWorkload;
use super::rejection_text::{self, NodePoolRejection};

/// Hours of a month, as cloud bills count them.
pub(crate) const HOURS_PER_MONTH: f64 = 730.0;

/// The report of a plan.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// NodeClaims to create.
    pub(crate) node_claims: Vec<NodeClaimReport>,
    /// Pods that go to nodes that exist.
    pub(crate) existing: Vec<Placement>,
    /// Pods that stay pending, with upstream's text.
    pub(crate) errors: BTreeMap<String, String>,
    /// US dollars per hour of the new nodes, each at its cheapest.
    pub(crate) total_price: f64,
    /// How long the decision took.
    pub(crate) seconds: f64,
    /// How long it took to read objects into what decisions work on.
    pub(crate) setup_seconds: f64,
    /// How many pods have a place.
    pub(crate) pods: usize,

    /// US dollars per month of 730 hours.
    pub(crate) monthly_price: f64,
    /// Why pods stay pending, by owner and reason.
    pub(crate) explanations: Vec<PendingPods>,
    /// Pods that are not considered, by reason.
    pub(crate) ignored: Vec<IgnoredPods>,
    /// NodePools whose requirements leave no instance type.
    pub(crate) unusable_node_pools: Vec<String>,
    /// Workloads whose pods were generated.
    pub(crate) expanded: Vec<ExpandedWorkload>,
    /// Objects that were left out or could not be read whole.
    pub(crate) marked: Vec<Remark>,
    /// What to know before believing the numbers.
    pub(crate) notes: Vec<String>,
}

/// A NodeClaim to create.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeClaimReport {
    pub(crate) node_pool: String,
    pub(crate) pods: Vec<String>,
    /// Sorted by name.
    pub(crate) instance_types: Vec<String>,
    pub(crate) cheapest_price: Option<f64>,
    pub(crate) requests: BTreeMap<String, String>,
    /// Without hostname and instance type.
    pub(crate) requirements: Vec<String>,

    pub(crate) weight: i32,
    pub(crate) monthly_price: Option<f64>,
    pub(crate) cheapest_type: String,
    /// What pods can use of the cheapest type.
    pub(crate) allocatable: BTreeMap<String, String>,
    /// Where the cheapest type can be bought at that price.
    pub(crate) zones: Vec<String>,
    pub(crate) capacity_type: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) reservations: Vec<String>,
    /// Whether minValues were lowered for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) min_values_relaxed: bool,
    /// The amounts behind the texts, for the table.
    #[serde(skip)]
    pub(crate) amounts: ClaimAmounts,
}

/// The requests of a claim's pods, and the allocatable resources of its cheapest type.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClaimAmounts {
    pub(crate) requests: Resources,
    pub(crate) allocatable: Resources,
}

/// Pods on a node that exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Placement {
    pub(crate) node: String,
    pub(crate) pods: Vec<String>,
}

/// Pods of one owner that stay pending for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingPods {
    /// `namespace/name` of the owner, or of the pod that has none; the namespace of several pods
    /// without owners.
    pub(crate) owner: String,
    pub(crate) pods: Vec<String>,
    /// Upstream's text.
    pub(crate) error: String,
    pub(crate) node_pools: Vec<NodePoolRejection>,
}

/// Pods that the plan ignores, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IgnoredPods {
    pub(crate) reason: String,
    /// Whether they opted out, by avoiding the nodes of every pool.
    pub(crate) opted_out: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
    pub(crate) pods: Vec<String>,
}

/// An object that was left out, or could not be read whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Remark {
    /// `Kind namespace/name`.
    pub(crate) object: String,
    /// File and line, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) field: Option<String>,
    pub(crate) problem: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
    pub(crate) left_out: bool,
    /// Whether the user has to fix it before the plan is complete.
    pub(crate) broken: bool,
}

impl Remark {
    /// Returns the rejection of a pool that was left out, for pods.
    pub(super) fn pool_rejection(&self) -> Option<NodePoolRejection> {
        let pool = self.object.strip_prefix("NodePool ").filter(|_| self.left_out)?;
        let problem = match &self.field {
            Some(field) => format!("{field}: {}", self.problem),
            None => self.problem.clone(),
        };
        let (node_pool, fix) = (Some(pool.to_owned()), self.fix.clone());
        Some(NodePoolRejection { node_pool, problem, fix, nearest: Vec::new() })
    }
}

/// Builds the report of a plan. The caller adds times and remarks; `left_out` are the pools that
/// were not planned with.
pub(crate) fn build_report(
    snapshot: &Snapshot,
    catalog: &Catalog,
    plan: &Plan,
    left_out: &[NodePoolRejection],
) -> Report {
    let node_claims: Vec<_> =
        plan.claims.iter().map(|planned| node_claim_report(snapshot, catalog, planned)).collect();
    let existing: Vec<_> = plan
        .existing_nodes
        .iter()
        .map(|(node, pods)| Placement {
            node: snapshot.node(*node).name.clone(),
            pods: pod_names(snapshot, pods.iter().copied()),
        })
        .collect();
    // Not sum(), which is -0 for nothing.
    let prices = node_claims.iter().filter_map(|claim| claim.cheapest_price);
    let total_price = prices.fold(0.0, |sum, price| sum + price);
    let placed = node_claims.iter().map(|claim| claim.pods.len());
    let placed = placed.chain(existing.iter().map(|placement| placement.pods.len())).sum();
    let refused = plan.rejected.iter();
    Report {
        errors: refused.map(|(pod, why)| (pod_name(snapshot, *pod), why.to_string())).collect(),
        total_price,
        pods: placed,
        monthly_price: total_price * HOURS_PER_MONTH,
        explanations: rejected_groups(snapshot, plan)
            .iter()
            .map(|group| group.pending_pods(snapshot, plan, left_out))
            .collect(),
        unusable_node_pools: plan
            .unusable_pools
            .iter()
            .map(|unusable| snapshot.pool(unusable.pool).name.clone())
            .collect(),
        node_claims,
        existing,
        ..Report::default()
    }
}

pub(super) fn node_claim_report(
    snapshot: &Snapshot,
    catalog: &Catalog,
    planned: &PlannedNodeClaim,
) -> NodeClaimReport {
    let pool = snapshot.pool(planned.pool);
    let types = catalog.pools.get(&pool.name);
    let options: Vec<&InstanceType> = planned
        .instance_types
        .iter()
        .filter_map(|position| types?.get(usize::try_from(*position).ok()?))
        .map(AsRef::as_ref)
        .collect();
    let mut instance_types: Vec<_> = options.iter().map(|option| option.name.clone()).collect();
    instance_types.sort();
    let hidden = [labels::HOSTNAME, labels::INSTANCE_TYPE];
    let requirements = planned.requirements.iter();
    let mut requirements: Vec<_> = requirements
        .filter(|requirement| !hidden.contains(&requirement.key()))
        .map(ToString::to_string)
        .collect();
    requirements.sort();
    let cheapest = options.first().copied();
    let purchase = cheapest.map(|cheapest| Purchase::cheapest_for(cheapest, planned, catalog));
    let Purchase { zones, capacity_type, allocatable } = purchase.unwrap_or_default();
    NodeClaimReport {
        node_pool: pool.name.clone(),
        pods: pod_names(snapshot, planned.pods.iter().copied()),
        instance_types,
        cheapest_price: planned.lowest_price,
        requests: quantity_texts(&planned.requests),
        requirements,
        weight: pool.weight.unwrap_or(0),
        monthly_price: planned.lowest_price.map(|price| price * HOURS_PER_MONTH),
        cheapest_type: cheapest.map(|cheapest| cheapest.name.clone()).unwrap_or_default(),
        allocatable: quantity_texts(&allocatable),
        zones,
        capacity_type,
        reservations: planned.reservations.clone(),
        min_values_relaxed: planned.min_values_relaxed,
        amounts: ClaimAmounts { requests: planned.requests.clone(), allocatable },
    }
}

/// How the cheapest type of a claim would be bought.
#[derive(Debug, Default)]
struct Purchase {
    zones: Vec<String>,
    capacity_type: String,
    allocatable: Resources,
}

impl Purchase {
    /// Returns the cheapest offerings that suit the claim.
    fn cheapest_for(
        instance_type: &InstanceType,
        planned: &PlannedNodeClaim,
        catalog: &Catalog,
    ) -> Self {
        let suits = |offering: &&Offering| {
            offering.available
                && planned
                    .requirements
                    .compatible(&offering.requirements, &catalog.well_known)
                    .is_ok()
        };
        let offerings = instance_type.offerings.iter();
        let price = offerings.clone().filter(suits).map(|o| o.price).min_by(f64::total_cmp);
        let is_cheapest = |offering: &&Offering| Some(offering.price) == price;
        let cheapest: Vec<_> = offerings.filter(suits).filter(is_cheapest).collect();
        let mut zones: Vec<_> =
            cheapest.iter().flat_map(|o| listed_values(&o.requirements, labels::ZONE)).collect();
        zones.sort();
        zones.dedup();
        let capacity_type = cheapest
            .first()
            .and_then(|o| listed_values(&o.requirements, labels::CAPACITY_TYPE).into_iter().next());
        let first = cheapest.first().copied();
        let group = instance_type.allocatable_groups().into_iter().find(|group| {
            let members = group.offerings.iter().filter_map(|p| instance_type.offerings.get(*p));
            first.is_some_and(|first| members.into_iter().any(|o| std::ptr::eq(o, first)))
        });
        Self {
            zones,
            capacity_type: capacity_type.unwrap_or_default(),
            allocatable: group.map_or_else(|| instance_type.allocatable(), |g| g.allocatable),
        }
    }
}

fn listed_values(requirements: &Requirements, key: &str) -> Vec<String> {
    match requirements.get(key) {
        Some(requirement) if !requirement.is_complement() => {
            requirement.values().iter().cloned().collect()
        }
        _ => Vec::new(),
    }
}

fn quantity_texts(resources: &Resources) -> BTreeMap<String, String> {
    resources.iter().map(|(name, quantity)| (name.to_owned(), quantity.canonical())).collect()
}

pub(super) fn pod_name(snapshot: &Snapshot, pod: PodId) -> String {
    snapshot.pod(pod).full_name()
}

pub(super) fn pod_names(snapshot: &Snapshot, pods: impl IntoIterator<Item = PodId>) -> Vec<String> {
    let mut names: Vec<_> = pods.into_iter().map(|pod| pod_name(snapshot, pod)).collect();
    names.sort();
    names
}

/// Rejected pods of one owner and reason.
#[derive(Debug)]
struct RejectedGroup<'a> {
    owner: String,
    rejection: &'a PodRejection,
    error: String,
    /// Never empty.
    pods: Vec<PodId>,
}

impl RejectedGroup<'_> {
    fn pending_pods(
        &self,
        snapshot: &Snapshot,
        plan: &Plan,
        left_out: &[NodePoolRejection],
    ) -> PendingPods {
        let tree = self.pods.iter().find_map(|pod| plan.explanations.get(pod));
        PendingPods {
            owner: self.owner.clone(),
            pods: pod_names(snapshot, self.pods.iter().copied()),
            error: self.error.clone(),
            node_pools: rejection_text::node_pool_rejections(self.rejection, tree, left_out),
        }
    }
}

/// Returns one pod of each of the first `max` groups of rejected pods.
pub(crate) fn representative_pods(snapshot: &Snapshot, plan: &Plan, max: usize) -> BTreeSet<PodId> {
    let groups = rejected_groups(snapshot, plan);
    groups.iter().take(max).filter_map(|group| group.pods.first()).copied().collect()
}

/// Groups rejected pods by owner and reason, in the order of owners.
fn rejected_groups<'a>(snapshot: &Snapshot, plan: &'a Plan) -> Vec<RejectedGroup<'a>> {
    let mut groups: BTreeMap<(String, String), RejectedGroup<'a>> = BTreeMap::new();
    for (id, refusal) in &plan.rejected {
        let pod = snapshot.pod(*id);
        let owner = match &pod.controller {
            Some(controller) => format!("{}/{}", pod.namespace, controller.name),
            None => pod.namespace.clone(),
        };
        let error = refusal.to_string();
        groups
            .entry((owner.clone(), error.clone()))
            .or_insert_with(|| RejectedGroup { owner, rejection: refusal, error, pods: Vec::new() })
            .pods
            .push(*id);
    }
    let named = groups.into_values().map(|group| match group.pods.as_slice() {
        // A single pod has its own name.
        [pod] if snapshot.pod(*pod).controller.is_none() => {
            RejectedGroup { owner: pod_name(snapshot, *pod), ..group }
        }
        _ => group,
    });
    let mut groups: Vec<_> = named.collect();
    groups.sort_by(|a, b| a.owner.cmp(&b.owner));
    groups
}
