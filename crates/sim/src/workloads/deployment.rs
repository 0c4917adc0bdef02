//! Deployment: decides which ReplicaSets exist, and their sizes.
//!
//! One sync decides all at once, where kube-controller-manager makes one write per sync; the
//! resulting sizes are the same. Left out: the events, and rollback annotations of the extensions
//! API.

mod revision;
mod rolling;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus, ReplicaSet};

pub(super) use self::revision::REVISION;
use super::pods::{created, is_same_template};
use super::replica_set::spec_replicas;

/// What to do about a Deployment, in this order.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) create: Option<ReplicaSet>,
    pub(super) update: Vec<ReplicaSet>,
    /// Names of ReplicaSets beyond the history limit.
    pub(super) delete: Vec<String>,
    /// The new value of its revision annotation.
    pub(super) revision: Option<String>,
    pub(super) status: DeploymentStatus,
    /// When the progress deadline passes, if there is one.
    pub(super) requeue_at: Option<Timestamp>,
}

/// A Deployment and its ReplicaSets, whose sizes and annotations are changed on paper.
struct Rollout<'a> {
    deployment: &'a Deployment,
    spec: &'a DeploymentSpec,
    sets: Vec<ReplicaSet>,
    /// The position of the one with the present template.
    new: Option<usize>,
}

/// `old_pods_left` says whether pods of earlier templates have not ended yet.
pub(super) fn decide(
    deployment: &Deployment,
    sets: &[Arc<ReplicaSet>],
    old_pods_left: bool,
    now: Timestamp,
) -> Option<Decision> {
    let spec = deployment.spec.as_ref()?;
    let mut originals = sets.to_vec();
    originals.sort_by(|a, b| {
        (created(&a.metadata), &a.metadata.name).cmp(&(created(&b.metadata), &b.metadata.name))
    });
    let copies: Vec<ReplicaSet> = originals.iter().map(|set| (**set).clone()).collect();
    let new = copies.iter().position(|set| {
        let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
        template.is_some_and(|template| is_same_template(template, &spec.template))
    });
    let mut rollout = Rollout { deployment, spec, sets: copies, new };
    let is_going = deployment.metadata.deletion_timestamp.is_some();
    let is_paused = spec.paused == Some(true);
    let mut create = None;
    if !is_going {
        rollout.sync_new_annotations();
        if is_paused || rollout.is_scaling() {
            rollout.scale();
        } else if rollout.is_rolling() {
            create = rollout.roll();
        } else {
            create = rollout.recreate(old_pods_left);
        }
    }
    let (status, requeue_at) = status::status(&rollout, create.as_ref(), now);
    let is_complete = !is_going && create.is_none() && status::is_complete(&rollout, &status);
    let delete = if is_complete || (is_paused && !is_going) {
        rollout.sets_beyond_history_limit()
    } else {
        Vec::new()
    };
    let revision = if is_going { None } else { rollout.revision(create.as_ref()) };
    let changed = rollout.sets.into_iter().zip(&originals);
    let update =
        changed.filter(|(set, original)| *set != ***original).map(|(set, _)| set).collect();
    Some(Decision { create, update, delete, revision, status, requeue_at })
}

impl Rollout<'_> {
    fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1).max(0)
    }

    fn is_rolling(&self) -> bool {
        let kind = self.spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
        kind != Some("Recreate")
    }

    /// Positions of all but the new one, the oldest first.
    fn old(&self) -> impl Iterator<Item = usize> + use<> {
        let new = self.new;
        (0..self.sets.len()).filter(move |index| Some(*index) != new)
    }

    fn total(&self) -> i32 {
        self.sets.iter().map(spec_replicas).sum()
    }

    /// Whether the number of replicas has changed since a ReplicaSet was sized.
    fn is_scaling(&self) -> bool {
        let active = self.sets.iter().filter(|set| spec_replicas(set) > 0);
        let mut sized = active.filter_map(revision::desired_replicas);
        sized.any(|desired| desired != self.replicas())
    }

    /// All old pods first, then the new ones.
    fn recreate(&mut self, old_pods_left: bool) -> Option<ReplicaSet> {
        let mut is_clear = !old_pods_left;
        for index in self.old() {
            if spec_replicas(&self.sets[index]) > 0 {
                self.resize(index, 0);
                is_clear = false;
            }
        }
        if !is_clear {
            return None;
        }
        match self.new {
            None => return Some(self.new_set(self.replicas())),
            Some(new) if spec_replicas(&self.sets[new]) != self.replicas() => {
                self.resize(new, self.replicas());
            }
            Some(_) => {}
        }
        None
    }

    /// Returns unused ReplicaSets beyond the history limit, oldest revisions first.
    fn sets_beyond_history_limit(&self) -> Vec<String> {
        let limit = self.spec.revision_history_limit.unwrap_or(10);
        let limit = usize::try_from(limit).unwrap_or_default();
        let old = self.old().map(|index| &self.sets[index]);
        let mut old: Vec<_> = old.filter(|set| set.metadata.deletion_timestamp.is_none()).collect();
        let excess = old.len().saturating_sub(limit);
        old.sort_by_key(|set| revision::revision_of(set));
        let is_unused = |set: &&ReplicaSet| {
            let status = set.status.as_ref();
            spec_replicas(set) == 0
                && status.map_or(0, |status| status.replicas) == 0
                && status.and_then(|status| status.observed_generation) >= set.metadata.generation
        };
        let beyond = old.into_iter().take(excess).filter(is_unused);
        beyond.filter_map(|set| set.metadata.name.clone()).collect()
    }
}
