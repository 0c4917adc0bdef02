//! Queries on the outcome of a solve, for tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{World, label_key};
use crate::id::{NodeId, PodId};
use crate::plan::{Plan, PlannedNodeClaim};
use crate::requirement::Requirement;
use crate::snapshot::{Pool, StateNode};

/// How many instance types a line of text names.
const TYPES_SHOWN: usize = 4;

/// A plan with the worlds before and after it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The plan.
    pub plan: Plan,
    /// The world before the solve.
    pub initial_world: World,
    /// The world with the new nodes and their pods.
    pub resulting_world: World,
}

impl Outcome {
    pub(super) fn new(before: World, plan: Plan) -> Self {
        let after = before.apply_plan(&plan, true);
        Self { plan, initial_world: before, resulting_world: after }
    }

    /// Returns the world with the new nodes, and the pods still pending.
    pub fn resulting_world_without_binding(&self) -> World {
        self.initial_world.apply_plan(&self.plan, false)
    }

    /// How many nodes are new.
    pub fn new_nodes(&self) -> usize {
        self.plan.claims.len()
    }

    /// Returns the pods that the plan rejects, in the order they were added.
    pub fn rejected(&self) -> Vec<&str> {
        self.plan.rejected.keys().map(|&id| self.name(id)).collect()
    }

    /// Returns why a pod was rejected; empty if it was placed.
    #[track_caller]
    pub fn rejection(&self, pod: &str) -> String {
        let refusal = self.plan.rejected.get(&self.initial_world.pod_id(pod));
        refusal.map(ToString::to_string).unwrap_or_default()
    }

    /// The node that a pod is on afterwards.
    #[track_caller]
    pub fn node_of(&self, pod: &str) -> Option<&StateNode> {
        let id = self.resulting_world.snapshot.pod(self.resulting_world.pod_id(pod)).node?;
        Some(self.resulting_world.snapshot.node(id))
    }

    /// A label of the node that a pod is on afterwards; empty without a node.
    #[track_caller]
    pub fn label_of(&self, pod: &str, short_key: &str) -> &str {
        let labels = self.node_of(pod).map(|node| &node.labels);
        labels.and_then(|labels| labels.get(label_key(short_key))).map_or("", String::as_str)
    }

    /// The NodePool of the node that a pod is on afterwards; empty without a node.
    #[track_caller]
    pub fn pool_of(&self, pod: &str) -> &str {
        self.label_of(pod, "nodepool")
    }

    /// The NodeClaim that was opened for a pod, or that it joined.
    #[track_caller]
    pub fn claim_of(&self, pod: &str) -> &PlannedNodeClaim {
        let id = self.initial_world.pod_id(pod);
        let found = self.plan.claims.iter().find(|claim| claim.pods.contains(&id));
        found.unwrap_or_else(|| panic!("{pod} is on no new node\n{}", self.text()))
    }

    /// The instance types of a pod's NodeClaim, cheapest first.
    #[track_caller]
    pub fn types_of(&self, pod: &str) -> Vec<&str> {
        self.types(self.claim_of(pod))
    }

    /// What a pod's NodeClaim requires of a label, as text; empty for nothing.
    #[track_caller]
    pub fn requirement_of(&self, pod: &str, short_key: &str) -> String {
        let requirement = self.claim_of(pod).requirements.get(label_key(short_key));
        requirement.map(ToString::to_string).unwrap_or_default()
    }

    /// Counts the running pods of an app by the value of a node label.
    pub fn pods_by_label(&self, short_key: &str, app: &str) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for pod in self.resulting_world.snapshot.pods.iter().filter(|pod| pod.is_active()) {
            let node = pod.node.map(|id| self.resulting_world.snapshot.node(id));
            let domain = node.and_then(|node| node.labels.get(label_key(short_key)));
            if let Some(domain) = domain.filter(|_| pod.labels.get("app").is_some_and(|a| a == app))
            {
                *counts.entry(domain.as_str()).or_default() += 1;
            }
        }
        counts
    }

    /// The same without the values, the largest first.
    pub fn skew(&self, short_key: &str, app: &str) -> Vec<usize> {
        let mut counts: Vec<_> = self.pods_by_label(short_key, app).into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    /// Returns the number of pods per new node, in the order of opening.
    pub fn pods_per_new_node(&self) -> Vec<usize> {
        self.plan.claims.iter().map(|claim| claim.pods.len()).collect()
    }

    /// The plan in text: existing nodes, new ones, refused pods with the gist of why.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (node, pods) in &self.plan.existing_nodes {
            line(&mut text, &format!("node {}: {}", self.node_name(*node), self.names(pods)));
        }
        for claim in &self.plan.claims {
            line(&mut text, &self.claim_text(claim));
        }
        for (&pod, why) in &self.plan.rejected {
            line(&mut text, &format!("refused {}: {}", self.name(pod), short(&why.to_string())));
        }
        for unusable in &self.plan.unusable_pools {
            let name = &self.initial_world.snapshot.pool(unusable.pool).name;
            let why = if unusable.misses_min_values { " for minValues" } else { "" };
            line(&mut text, &format!("unusable {name}{why}"));
        }
        text
    }

    fn claim_text(&self, claim: &PlannedNodeClaim) -> String {
        let pool = self.initial_world.snapshot.pool(claim.pool);
        let narrowed = |requirement: &&Requirement| !is_given(requirement, pool);
        let narrowed = claim.requirements.iter().filter(narrowed).map(ToString::to_string);
        let narrowed: Vec<_> = narrowed.collect();
        let types = self.types(claim);
        let mut shown = types[..types.len().min(TYPES_SHOWN)].join(" ");
        if types.len() > TYPES_SHOWN {
            let _ = write!(shown, " +{}", types.len() - TYPES_SHOWN);
        }
        let parts = [narrowed.join(", "), shown].into_iter().filter(|part| !part.is_empty());
        let parts: Vec<_> = parts.collect();
        format!("new {}: {} | {}", pool.name, self.names(&claim.pods), parts.join(" | "))
    }

    fn types(&self, claim: &PlannedNodeClaim) -> Vec<&str> {
        let types = self.initial_world.types_of(&self.initial_world.snapshot.pool(claim.pool).name);
        claim.instance_types.iter().map(|&one| types[one as usize].name.as_str()).collect()
    }

    fn names(&self, pods: &[PodId]) -> String {
        let names: Vec<_> = pods.iter().map(|&pod| self.name(pod)).collect();
        names.join(" ")
    }

    fn name(&self, pod: PodId) -> &str {
        &self.initial_world.snapshot.pod(pod).name
    }

    fn node_name(&self, node: NodeId) -> &str {
        &self.initial_world.snapshot.node(node).name
    }
}

/// Shortens the text of a rejection.
///
/// Leaves out repetitions, and the requirements and resources of each NodePool.
fn short(refusal: &str) -> String {
    let cut = |pool: &str| pool.split(", requirements=").next().unwrap_or(pool).to_owned();
    let mut reasons: Vec<String> = refusal.split("; ").map(cut).collect();
    reasons.dedup();
    reasons.join("; ")
}

/// Whether every node of the pool has it, whatever its pods ask for.
fn is_given(requirement: &Requirement, pool: &Pool) -> bool {
    let label = pool.labels.get(requirement.key());
    requirement.key().starts_with("karpenter.sh/")
        && requirement.key() != label_key("capacity-type")
        || requirement.key().starts_with(&pool.node_class.group)
            && requirement.values().first() == Some(&pool.node_class.name)
        || pool.requirements.get(requirement.key()) == Some(requirement)
        || label.is_some_and(|label| requirement.values().first() == Some(label))
}

fn line(text: &mut String, one: &str) {
    text.push_str(one);
    text.push('\n');
}
