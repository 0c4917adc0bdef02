//! Tracks workloads whose consolidation failed, and for how long consolidation skips them.
//!
//! A simulation places pods in an order of its own, kube-scheduler in another: a pod that the
//! simulation placed may be unschedulable and get a new node, about which the next simulation
//! decides the same. So the NodeClaim that is launched then records in an annotation the workloads
//! of its pods, and how often in a row their consolidation failed:
//!
//! ```text
//! default/ReplicaSet/web-5d9c=1,default/StatefulSet/db=3,pods=9f2c41d07be35a68
//! ```
//!
//! A workload whose consolidation keeps failing while the same pods run would fail again, so it is
//! skipped until pods come or go, or for a day. The annotation lives as long as its NodeClaim, and
//! outlives the process.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash as _, Hasher as _};

use jiff::{SignedDuration, Timestamp};
use rustc_hash::FxHasher;

use crate::pod::{OwnerKind, Pod};
use crate::snapshot::Snapshot;

/// The backoff after the first failure; it doubles with each further one.
const BACKOFF_MIN: SignedDuration = SignedDuration::from_mins(10);
/// The longest backoff.
const BACKOFF_MAX: SignedDuration = SignedDuration::from_hours(24);
/// How long a failure counts, from the creation of the NodeClaim on.
const RETENTION: SignedDuration = SignedDuration::from_hours(48);
/// So many failures in a row get the longest backoff.
/// Only while the same pods run.
const REPEATED_FAILURES: u32 = 3;
/// The most workloads that an annotation names.
const WORKLOADS_MAX: usize = 8;
/// The prefix of the hash of all pods.
const POD_HASH_PREFIX: &str = "pods=";

/// The controller that creates and recreates pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Workload<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The kind of the controller.
    pub kind: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl<'a> Workload<'a> {
    /// Returns the workload of a pod; none if it has no controller.
    pub fn of_pod(pod: &'a Pod) -> Option<Self> {
        let controller = pod.controller.as_ref()?;
        Some(Self { namespace: &pod.namespace, kind: &controller.kind, name: &controller.name })
    }

    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split('/').map(str::trim).filter(|part| !part.is_empty());
        let found = Self { namespace: parts.next()?, kind: parts.next()?, name: parts.next()? };
        parts.next().is_none().then_some(found)
    }
}

impl fmt::Display for Workload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.kind, self.name)
    }
}

/// The failures of one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FailedConsolidation {
    /// How often in a row its consolidation failed.
    count: u32,
    /// Until when consolidation skips it.
    until: Timestamp,
}

/// The workloads whose consolidation failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedConsolidations<'a>(BTreeMap<Workload<'a>, FailedConsolidation>);

impl<'a> FailedConsolidations<'a> {
    /// Reads the annotations of all NodeClaims, without unparsable entries.
    pub fn from_snapshot(snapshot: &'a Snapshot, now: Timestamp) -> Self {
        let mut failed = BTreeMap::new();
        let mut running = None;
        for node in &snapshot.nodes {
            let standing = &node.disruption_state;
            let (Some(text), Some(created)) =
                (&standing.failed_consolidations, standing.node_claim_created_at)
            else {
                continue;
            };
            if now.duration_since(created) >= RETENTION {
                continue;
            }
            let mut is_same = || {
                let running = running.get_or_insert_with(|| pod_hash(snapshot));
                text.split(',').any(|part| part.strip_prefix(POD_HASH_PREFIX) == Some(running))
            };
            for (workload, count) in text.split(',').filter_map(parse_entry) {
                let wait = if count >= REPEATED_FAILURES && is_same() {
                    BACKOFF_MAX
                } else {
                    backoff(count)
                };
                let until = created.saturating_add(wait).unwrap_or(Timestamp::MAX);
                let known = failed.entry(workload).or_insert(FailedConsolidation { count, until });
                known.count = known.count.max(count);
                known.until = known.until.max(until);
            }
        }
        Self(failed)
    }

    /// Keeps the workloads that are in backoff at `now`.
    /// Settled methods run again every five minutes, so the end of a backoff needs no timer.
    pub(super) fn retain_active(mut self, now: Timestamp) -> Self {
        self.0.retain(|_, failure| failure.until > now);
        self
    }

    /// Returns how often in a row the consolidation of a workload failed.
    pub fn count(&self, workload: Workload<'a>) -> u32 {
        self.0.get(&workload).map_or(0, |failure| failure.count)
    }

    /// Returns the workload of these pods with the longest backoff, and its end.
    pub(super) fn longest_backoff(
        &self,
        pods: impl Iterator<Item = &'a Pod>,
    ) -> Option<(Workload<'a>, Timestamp)> {
        if self.0.is_empty() {
            return None;
        }
        let known = |workload| Some((workload, self.0.get(&workload)?.until));
        pods.filter_map(Workload::of_pod)
            .filter_map(known)
            .max_by_key(|&(workload, until)| (until, workload))
    }
}

/// Returns the annotation for workloads with their numbers of failures.
/// If there are many it names those with the most failures.
pub fn annotation_value(
    snapshot: &Snapshot,
    workloads: impl IntoIterator<Item = (String, u32)>,
) -> String {
    let mut workloads: Vec<_> = workloads.into_iter().collect();
    workloads.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    workloads.truncate(WORKLOADS_MAX);
    let mut texts: Vec<_> =
        workloads.iter().map(|(name, count)| format!("{name}={count}")).collect();
    texts.push(format!("{POD_HASH_PREFIX}{}", pod_hash(snapshot)));
    texts.join(",")
}

/// Returns a hash of all active pods: workload and requests of each.
/// Pods of DaemonSets and of nodes are left out, and nodes do not count.
fn pod_hash(snapshot: &Snapshot) -> String {
    let of_node = |pod: &Pod| matches!(pod.owner, OwnerKind::DaemonSet | OwnerKind::Node);
    let pods = snapshot.pods.iter().filter(|pod| pod.is_active() && !pod.is_virtual);
    let hash = |pod: &Pod| {
        let mut hasher = FxHasher::default();
        let own = Workload { namespace: &pod.namespace, kind: "", name: &pod.name };
        let Workload { namespace, kind, name } = Workload::of_pod(pod).unwrap_or(own);
        (namespace, kind, name, &pod.spec.requests).hash(&mut hasher);
        hasher.finish()
    };
    let hashes = pods.filter(|pod| !of_node(pod)).map(|pod| hash(pod));
    format!("{:016x}", hashes.fold(0, u64::wrapping_add))
}

fn parse_entry(text: &str) -> Option<(Workload<'_>, u32)> {
    let (workload, count) = text.split_once('=')?;
    let count = count.trim().parse().ok().filter(|&count| count > 0)?;
    Some((Workload::parse(workload)?, count))
}

/// Returns the backoff after `count` failures in a row.
fn backoff(count: u32) -> SignedDuration {
    let factor = 1_i32.checked_shl(count.saturating_sub(1).min(16)).unwrap_or(i32::MAX);
    BACKOFF_MIN.saturating_mul(factor).min(BACKOFF_MAX)
}
