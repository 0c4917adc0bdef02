//! StatefulSet: keeps pods with ordinals and claims of their own, one after the other.
//!
//! Templates are kept in ControllerRevisions, since pods below the partition are made again as
//! they were. Left out: deleting claims (`persistentVolumeClaimRetentionPolicy`).

mod identity;
mod revision;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{
    ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus,
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use self::revision::Revisions;
use super::daemon_set::REVISION_HASH;
use super::index::labels;
use super::int_or_percent::{int, nonzero_count, scaled_value};
use super::pods::{is_available, is_finished, is_ready, is_terminating, next_available, phase};

/// In this order.
#[derive(Debug, Default)]
pub(super) struct Decision {
    pub(super) revision: Option<ControllerRevision>,
    /// Claims that may be there already.
    pub(super) claims: Vec<PersistentVolumeClaim>,
    pub(super) create: Vec<Pod>,
    pub(super) delete: Vec<Arc<Pod>>,
    pub(super) status: StatefulSetStatus,
    /// Revisions beyond the history limit that no pod uses.
    pub(super) unused_revisions: Vec<Arc<ControllerRevision>>,
    pub(super) requeue_at: Option<Timestamp>,
}

struct StatefulSetSync<'a> {
    set: &'a StatefulSet,
    spec: &'a StatefulSetSpec,
    revisions: Revisions<'a>,
    /// By number, all that are there.
    pods: BTreeMap<i32, &'a Arc<Pod>>,
    now: Timestamp,
}

pub(super) fn decide(
    set: &StatefulSet,
    pods: &[Arc<Pod>],
    revisions: &[Arc<ControllerRevision>],
    now: Timestamp,
) -> Option<Decision> {
    let spec = set.spec.as_ref()?;
    let numbered = pods.iter().filter_map(|pod| Some((identity::ordinal(set, pod)?, pod)));
    let sync = StatefulSetSync {
        set,
        spec,
        revisions: Revisions::new(set, spec, revisions),
        pods: numbered.collect(),
        now,
    };
    let mut decision = Decision { status: sync.status(), ..Decision::default() };
    let alive = pods.iter().filter(|pod| !is_terminating(pod)).map(Arc::as_ref);
    decision.requeue_at = next_available(alive, sync.min_ready(), now);
    if set.metadata.deletion_timestamp.is_none() {
        decision.revision = sync.revisions.missing();
        if sync.create_missing_pods(&mut decision) && sync.delete_condemned_pods(&mut decision) {
            sync.roll(&mut decision);
        }
        let used: Vec<&str> = pods.iter().filter_map(|pod| revision_of(pod)).collect();
        decision.unused_revisions = sync.revisions.unused(&decision.status, &used);
    }
    Some(decision)
}

fn revision_of(pod: &Pod) -> Option<&str> {
    labels(pod).get(REVISION_HASH).map(String::as_str)
}

impl StatefulSetSync<'_> {
    fn min_ready(&self) -> i32 {
        self.spec.min_ready_seconds.unwrap_or_default()
    }

    /// One after the other, unless the set says that the order does not matter.
    fn is_ordered(&self) -> bool {
        self.spec.pod_management_policy.as_deref() != Some("Parallel")
    }

    fn ordinals(&self) -> std::ops::Range<i32> {
        let start = self.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start);
        let start = start.unwrap_or_default().max(0);
        start..start.saturating_add(self.spec.replicas.unwrap_or(1).max(0))
    }

    fn partition(&self) -> i32 {
        let rolling = self.spec.update_strategy.as_ref().and_then(|s| s.rolling_update.as_ref());
        rolling.and_then(|rolling| rolling.partition).unwrap_or_default()
    }

    fn is_rolling(&self) -> bool {
        let kind = self.spec.update_strategy.as_ref().and_then(|s| s.type_.as_deref());
        kind != Some("OnDelete")
    }

    fn is_healthy(pod: &Pod) -> bool {
        phase(pod) == "Running" && is_ready(pod) && !is_terminating(pod)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        Self::is_healthy(pod) && is_available(pod, self.min_ready(), self.now)
    }

    /// Creates missing pods, from the lowest ordinal on.
    /// Returns whether all exist and are available.
    fn create_missing_pods(&self, decision: &mut Decision) -> bool {
        for ordinal in self.ordinals() {
            let is_settled = match self.pods.get(&ordinal) {
                None => {
                    self.make(ordinal, decision);
                    false
                }
                Some(pod) if is_finished(pod) => {
                    // It is created again when it is gone.
                    if !is_terminating(pod) {
                        decision.delete.push(Arc::clone(pod));
                    }
                    false
                }
                Some(pod) => self.is_available(pod),
            };
            if self.is_ordered() && !is_settled {
                return false;
            }
        }
        true
    }

    fn make(&self, ordinal: i32, decision: &mut Decision) {
        let is_kept =
            self.is_rolling() && ordinal < self.ordinals().start.saturating_add(self.partition());
        let (name, template) =
            if is_kept { self.revisions.current() } else { self.revisions.update() };
        decision.claims.extend(identity::claims(self.set, self.spec, ordinal));
        decision.create.push(identity::pod(self.set, self.spec, &template, &name, ordinal));
    }

    /// Deletes pods beyond the replicas, from the highest ordinal down.
    /// Returns whether the set may go on: there were none, or it is parallel.
    fn delete_condemned_pods(&self, decision: &mut Decision) -> bool {
        let wanted = self.ordinals();
        let mut is_clear = true;
        for pod in self.pods.iter().rev().filter(|(n, _)| !wanted.contains(n)).map(|(_, pod)| *pod)
        {
            is_clear = false;
            if !is_terminating(pod) {
                decision.delete.push(Arc::clone(pod));
            }
            if self.is_ordered() {
                return false;
            }
        }
        is_clear || !self.is_ordered()
    }

    /// Ends pods of an earlier template, from the highest number down to the partition, as long as
    /// no more are missing than may be.
    fn roll(&self, decision: &mut Decision) {
        if !self.is_rolling() || !decision.create.is_empty() {
            return;
        }
        let (update, _) = self.revisions.update();
        let rolling = self.spec.update_strategy.as_ref().and_then(|s| s.rolling_update.as_ref());
        let most = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let replicas = int(self.ordinals().len());
        let most = most.map_or(1, |value| scaled_value(value, replicas, false).unwrap_or(1).max(1));
        let ordinals = self.ordinals();
        let low = ordinals.start.saturating_add(self.partition().max(0));
        let mut missing = 0;
        for ordinal in (low..ordinals.end).rev() {
            let Some(pod) = self.pods.get(&ordinal) else { continue };
            let is_old = revision_of(pod) != Some(update.as_str());
            if is_old && !is_terminating(pod) && missing < most {
                decision.delete.push(Arc::clone(pod));
                missing += 1;
            } else if !Self::is_healthy(pod) {
                missing += 1;
            }
            if missing >= most {
                return;
            }
        }
    }

    fn status(&self) -> StatefulSetStatus {
        let old = self.set.status.clone().unwrap_or_default();
        let (update, _) = self.revisions.update();
        let (current, _) = self.revisions.current();
        let number =
            |holds: &dyn Fn(&Pod) -> bool| self.pods.values().filter(|pod| holds(pod)).count();
        let of = |revision: &str| {
            number(&|pod| !is_terminating(pod) && revision_of(pod) == Some(revision))
        };
        let ready = number(&|pod| phase(pod) == "Running" && is_ready(pod));
        let available =
            number(&|pod| phase(pod) == "Running" && is_available(pod, self.min_ready(), self.now));
        let updated = of(&update);
        let replicas = self.pods.len();
        // When all are of the new template, that is the current one.
        let is_done = self.is_rolling()
            && int(updated) == int(self.ordinals().len())
            && updated == replicas
            && ready == replicas;
        let current = if is_done { update.clone() } else { current };
        StatefulSetStatus {
            replicas: int(replicas),
            ready_replicas: nonzero_count(ready),
            available_replicas: Some(int(available)),
            current_replicas: nonzero_count(of(&current)),
            updated_replicas: nonzero_count(updated),
            current_revision: Some(current),
            update_revision: Some(update),
            observed_generation: self.set.metadata.generation,
            collision_count: old.collision_count.or(Some(0)),
            conditions: old.conditions,
        }
    }
}
