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

use crate::pod::{Owner, Pod};
use crate::snapshot::Snapshot;

/// How long a workload is left alone the first time; each next time it is twice as long.
const FIRST: SignedDuration = SignedDuration::from_mins(10);
/// The longest that it is left alone.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);
/// How long it is remembered: who has not come back for long begins anew.
const MEMORY: SignedDuration = SignedDuration::from_hours(48);
/// So often in a row is no accident.
const CERTAIN: u32 = 3;
/// An annotation names no more workloads.
const NAMED: usize = 8;
/// What comes before the hash of the pods that ran.
const PODS: &str = "pods=";

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
    pub fn of(pod: &'a Pod) -> Option<Self> {
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
struct Relapse {
    /// How often in a row.
    count: u32,
    /// Until when it is left alone.
    until: Timestamp,
}

/// The workloads that came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relapses<'a>(BTreeMap<Workload<'a>, Relapse>);

impl<'a> Relapses<'a> {
    /// What the NodeClaims say. What cannot be read there means nothing.
    pub fn of(snapshot: &'a Snapshot, now: Timestamp) -> Self {
        let mut relapses = BTreeMap::new();
        let mut running = None;
        for node in &snapshot.nodes {
            let standing = &node.standing;
            let (Some(text), Some(created)) = (&standing.returned, standing.created) else {
                continue;
            };
            if now.duration_since(created) >= MEMORY {
                continue;
            }
            let mut is_same = || {
                let running = running.get_or_insert_with(|| hash_of_pods(snapshot));
                text.split(',').any(|part| part.strip_prefix(PODS) == Some(running))
            };
            for (workload, count) in text.split(',').filter_map(read) {
                let wait = if count >= CERTAIN && is_same() { LONGEST } else { wait(count) };
                let until = created.saturating_add(wait).unwrap_or(Timestamp::MAX);
                let known = relapses.entry(workload).or_insert(Relapse { count, until });
                known.count = known.count.max(count);
                known.until = known.until.max(until);
            }
        }
        Self(relapses)
    }

    /// Those that are to be left alone now. Methods that are settled look again every five minutes,
    /// so the end of it needs no alarm.
    pub(super) fn active(mut self, now: Timestamp) -> Self {
        self.0.retain(|_, relapse| relapse.until > now);
        self
    }

    /// How often in a row a workload came back.
    pub fn count(&self, workload: Workload<'a>) -> u32 {
        self.0.get(&workload).map_or(0, |relapse| relapse.count)
    }

    /// The workload of these pods that is left alone for longest, and until when.
    pub(super) fn last(
        &self,
        pods: impl Iterator<Item = &'a Pod>,
    ) -> Option<(Workload<'a>, Timestamp)> {
        if self.0.is_empty() {
            return None;
        }
        let known = |workload| Some((workload, self.0.get(&workload)?.until));
        pods.filter_map(Workload::of)
            .filter_map(known)
            .max_by_key(|&(workload, until)| (until, workload))
    }
}

/// The annotation for workloads that came back so often, the most frequent ones if there are many.
pub fn annotation(
    snapshot: &Snapshot,
    workloads: impl IntoIterator<Item = (String, u32)>,
) -> String {
    let mut workloads: Vec<_> = workloads.into_iter().collect();
    workloads.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    workloads.truncate(NAMED);
    let mut texts: Vec<_> =
        workloads.iter().map(|(name, count)| format!("{name}={count}")).collect();
    texts.push(format!("{PODS}{}", hash_of_pods(snapshot)));
    texts.join(",")
}

/// Whose pods run or want to, how many and how large, wherever they are. Those that come and go with
/// nodes are left out.
fn hash_of_pods(snapshot: &Snapshot) -> String {
    let of_node = |pod: &Pod| matches!(pod.owner, Owner::DaemonSet | Owner::Node);
    let pods = snapshot.pods.iter().filter(|pod| pod.is_active() && !pod.is_virtual);
    let hash = |pod: &Pod| {
        let mut hasher = FxHasher::default();
        let own = Workload { namespace: &pod.namespace, kind: "", name: &pod.name };
        let Workload { namespace, kind, name } = Workload::of(pod).unwrap_or(own);
        (namespace, kind, name, &pod.spec.requests).hash(&mut hasher);
        hasher.finish()
    };
    let hashes = pods.filter(|pod| !of_node(pod)).map(|pod| hash(pod));
    format!("{:016x}", hashes.fold(0, u64::wrapping_add))
}

fn read(text: &str) -> Option<(Workload<'_>, u32)> {
    let (workload, count) = text.split_once('=')?;
    let count = count.trim().parse().ok().filter(|&count| count > 0)?;
    Some((Workload::parse(workload)?, count))
}

/// How long a workload is left alone that came back so often.
fn wait(count: u32) -> SignedDuration {
    let factor = 1_i32.checked_shl(count.saturating_sub(1).min(16)).unwrap_or(i32::MAX);
    FIRST.saturating_mul(factor).min(LONGEST)
}
