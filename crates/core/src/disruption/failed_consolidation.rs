//! Workloads whose pods found no room after a consolidation, and for how long they are left alone.
//!
//! A simulation fills holes in an order of its own, kube-scheduler in another: a pod that had a place
//! may find none and get a new node, of which the next simulation says the same. So the NodeClaim that
//! is launched then says in an annotation whose pods came back, and how often in a row:
//!
//! ```text
//! default/ReplicaSet/web-5d9c=1,default/StatefulSet/db=3,pods=9f2c41d07be35a68
//! ```
//!
//! Who keeps coming back while the same pods run would come back again, so it is left alone until pods
//! come or go, or for a day. The annotation lives as long as the node that it is about, and
//! outlives the process.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash as _, Hasher as _};

use jiff::{SignedDuration, Timestamp};
use rustc_hash::FxHasher;

use crate::pod::{OwnerKind, Pod};
use crate::snapshot::Snapshot;

/// How long a workload is left alone the first time; each next time it is twice as long.
const BACKOFF_MIN: SignedDuration = SignedDuration::from_mins(10);
/// The longest that it is left alone.
const BACKOFF_MAX: SignedDuration = SignedDuration::from_hours(24);
/// How long it is remembered: who has not come back for long begins anew.
const RETENTION: SignedDuration = SignedDuration::from_hours(48);
/// So often in a row is no accident.
const REPEATED_FAILURES: u32 = 3;
/// An annotation names no more workloads.
const WORKLOADS_MAX: usize = 8;
/// What comes before the hash of the pods that ran.
const POD_HASH_PREFIX: &str = "pods=";

/// What makes pods, and makes them again: their controller.
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
    /// The workload of a pod; none if nobody would make it again.
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

/// What is known of a workload that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FailedConsolidation {
    /// How often in a row.
    count: u32,
    /// Until when it is left alone.
    until: Timestamp,
}

/// The workloads that came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedConsolidations<'a>(BTreeMap<Workload<'a>, FailedConsolidation>);

impl<'a> FailedConsolidations<'a> {
    /// What the NodeClaims say. What cannot be read there means nothing.
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

    /// Those that are to be left alone now. Methods that are settled look again every five minutes,
    /// so the end of it needs no alarm.
    pub(super) fn retain_active(mut self, now: Timestamp) -> Self {
        self.0.retain(|_, failure| failure.until > now);
        self
    }

    /// How often in a row a workload came back.
    pub fn count(&self, workload: Workload<'a>) -> u32 {
        self.0.get(&workload).map_or(0, |failure| failure.count)
    }

    /// The workload of these pods that is left alone for longest, and until when.
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

/// The annotation for workloads that came back so often, the most frequent ones if there are many.
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

/// Whose pods run or want to, how many and how large, wherever they are. Those that come and go with
/// nodes are left out.
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

/// How long a workload is left alone that came back so often.
fn backoff(count: u32) -> SignedDuration {
    let factor = 1_i32.checked_shl(count.saturating_sub(1).min(16)).unwrap_or(i32::MAX);
    BACKOFF_MIN.saturating_mul(factor).min(BACKOFF_MAX)
}
