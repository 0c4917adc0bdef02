//! Checks the invariants of a simulated world, whatever faults it has.
//!
//! ```text
//! World ── gather ──▶ WorldSnapshot ──▶ Checker::check      after each step; keeps the last one
//!                          └─────────▶ violations_at_rest  at the end, when the world is at rest
//! ```
//!
//! The rules are in [`rules`], as functions of a [`WorldSnapshot`]. Some things may be wrong for a
//! moment, such as an instance whose NodeClaim is gone: those are violations when they last.

pub mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::serde::de::DeserializeOwned;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_operator::cloud::CloudError;
use kube::api::ListParams;
use kube::{Api, Client, Resource};

use crate::world::World;
use karpenter_operator::watch::ObjectKey;

#[cfg(test)]
mod tests;

/// How long something may be wrong that the product has to notice first: the longest that a
/// NodeClaim may take to become a node.
pub const WINDOW: Duration = Duration::from_mins(15);

/// All objects and instances of a world at one moment.
#[derive(Debug, Clone, Default)]
pub struct WorldSnapshot {
    pub now: Timestamp,
    pub nodes: Vec<Node>,
    pub pods: Vec<Pod>,
    pub namespaces: Vec<Namespace>,
    pub budgets: Vec<PodDisruptionBudget>,
    pub claims: Vec<NodeClaim>,
    /// What runs in the cloud, whatever its API says at the moment.
    pub instances: Vec<NodeClaim>,
}

/// An error from reading the objects or instances of a world.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error("listing {resource}: {source}")]
    List { resource: &'static str, source: Box<kube::Error> },
    #[error("listing instances: {0}")]
    Instances(#[from] CloudError),
}

impl WorldSnapshot {
    /// Reads all objects and instances, bypassing the faults of the world.
    pub async fn gather(world: &World) -> Result<Self, CheckError> {
        let client = world.client();
        Ok(Self {
            now: world.clock.now(),
            // Pods first: what they are bound to was there before them.
            pods: list_namespaced(&client, "pods").await?,
            nodes: all(Api::all(client.clone()), "nodes").await?,
            namespaces: all(Api::all(client.clone()), "namespaces").await?,
            budgets: list_namespaced(&client, "poddisruptionbudgets").await?,
            claims: all(Api::all(client), "nodeclaims").await?,
            instances: world.faulty_cloud.instances().await?,
        })
    }
}

async fn list_namespaced<K>(client: &Client, resource: &'static str) -> Result<Vec<K>, CheckError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + fmt::Debug,
{
    all(Api::all(client.clone()), resource).await
}

async fn all<K>(api: Api<K>, resource: &'static str) -> Result<Vec<K>, CheckError>
where
    K: Clone + DeserializeOwned + fmt::Debug,
{
    let listed = api.list(&ListParams::default()).await;
    let listed =
        listed.map_err(|source| CheckError::List { resource, source: Box::new(source) })?;
    Ok(listed.items)
}

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// The pods of a node request more of a resource than the node has.
    NodeOvercommitted { node: String, resource: String, used: i64, has: i64 },
    /// A pod was bound to a node whose cordon, taints or labels reject it.
    PodNotAllowedOnNode { pod: ObjectKey, node: String, reason: &'static str },
    /// A pod has been on a node that is not there.
    NodeMissing { pod: ObjectKey, node: String },
    /// A pod shares a topology domain with a pod that its anti-affinity excludes.
    AntiAffinityViolated { pod: ObjectKey, other: ObjectKey, domain: String },
    /// More healthy pods are being evicted at once than the PodDisruptionBudget allows.
    BudgetExceeded { budget: ObjectKey, evicted: i64, allowed: i64 },
    /// An instance runs that belongs to no NodeClaim.
    InstanceWithoutClaim { instance: String },
    /// The instance of a NodeClaim is gone.
    InstanceMissing { claim: String },
    /// A NodeClaim never got an instance.
    NeverLaunched { claim: String },
    /// A pod has not come to rest.
    NotRunning { pod: ObjectKey, phase: String },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeOvercommitted { node, resource, used, has } => {
                write!(f, "pods on node {node} use {used} {resource} of {has}")
            }
            Self::PodNotAllowedOnNode { pod, node, reason: why } => {
                write!(f, "pod {pod} was bound to node {node} {why}")
            }
            Self::NodeMissing { pod, node } => {
                write!(f, "pod {pod} is on node {node}, which does not exist")
            }
            Self::AntiAffinityViolated { pod, other, domain } => {
                write!(f, "pod {pod} is with pod {other} in {domain}, against its anti-affinity")
            }
            Self::BudgetExceeded { budget, evicted, allowed } => {
                let (pods, are) = if *evicted == 1 { ("pod", "is") } else { ("pods", "are") };
                write!(f, "{evicted} {pods} of budget {budget} {are} evicted at once, of {allowed}")
            }
            Self::InstanceWithoutClaim { instance } => {
                write!(f, "instance {instance} has no NodeClaim")
            }
            Self::InstanceMissing { claim } => write!(f, "NodeClaim {claim} has no instance"),
            Self::NeverLaunched { claim } => write!(f, "NodeClaim {claim} was never launched"),
            Self::NotRunning { pod, phase } => write!(f, "pod {pod} is {phase}"),
        }
    }
}

/// Returns all violations of a world at rest.
/// The rules of every moment hold, nothing leaks, and every pod runs or has finished.
pub fn violations_at_rest(snapshot: &WorldSnapshot) -> Vec<Violation> {
    let mut found = rules::immediate_violations(snapshot);
    found.extend(leaks(snapshot));
    found.extend(rules::not_running(snapshot));
    found
}

/// Returns leaks: instances without claims, claims without instances, pods without nodes.
pub fn leaks(snapshot: &WorldSnapshot) -> Vec<Violation> {
    let mut found = rules::claims_and_instances(snapshot);
    found.extend(rules::missing_nodes(snapshot));
    found
}

/// Checks snapshots of one world and reports each violation once.
#[derive(Debug)]
pub struct Checker {
    /// How long something may be wrong that has to be noticed first.
    window: Duration,
    before: Option<WorldSnapshot>,
    /// Since when something is wrong that may be for a while.
    since: BTreeMap<Violation, Timestamp>,
    /// The most that budgets have allowed while pods of theirs were going.
    allowances: BTreeMap<ObjectKey, rules::Allowance>,
    found: BTreeSet<Violation>,
}

impl Default for Checker {
    fn default() -> Self {
        Self::with_window(WINDOW)
    }
}

impl Checker {
    /// One for worlds in which it takes longer to notice something than [`WINDOW`].
    pub fn with_window(window: Duration) -> Self {
        Self {
            window,
            before: None,
            since: BTreeMap::new(),
            allowances: BTreeMap::new(),
            found: BTreeSet::new(),
        }
    }

    /// Returns the violations in a snapshot that are not reported yet.
    pub fn check(&mut self, snapshot: &WorldSnapshot) -> Vec<Violation> {
        let mut found = rules::immediate_violations(snapshot);
        if let Some(before) = &self.before {
            found.extend(rules::wrongly_bound_pods(before, snapshot));
        }
        found.extend(rules::exceeded_budgets(snapshot, &mut self.allowances));
        found.extend(self.lasting(snapshot));
        self.before = Some(snapshot.clone());
        found.retain(|violation| self.found.insert(violation.clone()));
        found
    }

    /// All that was wrong so far.
    pub fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.found.iter()
    }

    /// Returns violations that every check has found for too long.
    fn lasting(&mut self, snapshot: &WorldSnapshot) -> Vec<Violation> {
        let wrong = leaks(snapshot);
        self.since.retain(|violation, _| wrong.contains(violation));
        let mut lasting = Vec::new();
        for violation in wrong {
            let since = *self.since.entry(violation.clone()).or_insert(snapshot.now);
            let passed = Duration::try_from(snapshot.now.duration_since(since)).unwrap_or_default();
            if passed >= self.window {
                lasting.push(violation);
            }
        }
        lasting
    }
}
