//! Job: runs pods until enough of them have succeeded.
//!
//! Pods have a finalizer until they are counted, as those of the real controller do: a pod that is
//! deleted with its node is counted all the same. Counting takes two syncs: the status records the
//! uids, the finalizers are removed, and then the counts grow. Left out: success policies, rules on
//! exit codes (`podFailurePolicy`) and limits per index, and `managedBy` others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::int_or_percent::{int, nonzero, nonzero_count};
use super::pods::{
    created, from_template, is_active, is_finished, is_ready, is_terminating, phase,
};
use super::queue::later;
use super::replica_set::BURST;

mod indexes;
#[cfg(test)]
mod tests;

pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The backoff before the next pod after a failure; each further failure doubles it.
const INITIAL_BACKOFF: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_mins(10);

/// In this order: the status first, so that no pod is let go that is not noted.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) status: JobStatus,
    /// Pods to be let go.
    pub(super) release: Vec<Arc<Pod>>,
    pub(super) delete: Vec<Arc<Pod>>,
    pub(super) create: Vec<Pod>,
    /// Whether the time has come to delete the Job itself.
    pub(super) expired: bool,
    pub(super) requeue_at: Option<Timestamp>,
}

/// Whether the pod waits to be counted.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

fn index_of(pod: &Pod) -> Option<i32> {
    pod.metadata.annotations.as_ref()?.get(INDEX)?.parse().ok()
}

pub(super) fn decide(job: &Job, pods: &[Arc<Pod>], now: Timestamp) -> Option<Decision> {
    let spec = job.spec.as_ref()?;
    if let Some(managed_by) = &spec.managed_by
        && managed_by != "kubernetes.io/job-controller"
    {
        return None;
    }
    let mut status = job.status.clone().unwrap_or_default();
    let finished = end_of(&status);
    let mut sync = JobSync { job, spec, pods, now, release: Vec::new() };
    let requeue_at;
    let (mut create, mut delete, mut expired) = (Vec::new(), Vec::new(), false);
    if finished.is_some() || job.metadata.deletion_timestamp.is_some() {
        (expired, requeue_at) = sync.ttl_expiry(finished);
        // No more pods are created, and the remaining ones are deleted.
        sync.release = pods.iter().filter(|pod| is_tracked(pod)).cloned().collect();
        delete.extend(pods.iter().filter(|pod| finished.is_some() && is_active(pod)).cloned());
    } else {
        sync.count(&mut status);
        let outcome = sync.update_outcome(&mut status);
        let active = || pods.iter().filter(|pod| is_active(pod)).cloned();
        (create, delete, requeue_at) = match outcome {
            JobOutcome::Failed => (Vec::new(), active().collect(), None),
            JobOutcome::Succeeded => {
                // They are not needed, which is no failure.
                sync.release.extend(active().filter(|pod| is_tracked(pod)));
                (Vec::new(), active().collect(), None)
            }
            JobOutcome::Running => sync.scale_pods(&mut status),
        };
    }
    sync.update_pod_counts(&mut status);
    let release = sync.release;
    Some(Decision { status, release, delete, create, expired, requeue_at })
}

/// When the Job has completed or failed, if it has.
fn end_of(status: &JobStatus) -> Option<Timestamp> {
    let conditions = status.conditions.iter().flatten();
    let mut ends = conditions.filter(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
    });
    ends.next()?.last_transition_time.as_ref().map(|time| time.0)
}

enum JobOutcome {
    Failed,
    Succeeded,
    Running,
}

struct JobSync<'a> {
    job: &'a Job,
    spec: &'a JobSpec,
    pods: &'a [Arc<Pod>],
    now: Timestamp,
    release: Vec<Arc<Pod>>,
}

impl JobSync<'_> {
    fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    fn parallelism(&self) -> i32 {
        self.spec.parallelism.unwrap_or(1).max(0)
    }

    /// Pods that have finished and wait to be counted.
    fn finished(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods
            .iter()
            .filter(|pod| is_tracked(pod) && (phase(pod) == "Succeeded" || self.has_failed(pod)))
    }

    /// Failed, or ended before it could succeed. A Job that replaces only failed pods waits until
    /// the pod is at its end.
    fn has_failed(&self, pod: &Pod) -> bool {
        let waits = self.spec.pod_replacement_policy.as_deref() == Some("Failed");
        let is_at_end = pod.metadata.deletion_grace_period_seconds == Some(0);
        phase(pod) == "Failed"
            || (is_terminating(pod) && phase(pod) != "Succeeded" && (!waits || is_at_end))
    }

    /// Grows the counts by pods that were noted and let go, and notes those that have finished.
    fn count(&mut self, status: &mut JobStatus) {
        let noted = status.uncounted_terminated_pods.take().unwrap_or_default();
        let tracked: BTreeSet<&str> =
            self.pods.iter().filter(|pod| is_tracked(pod)).map(|pod| uid(pod)).collect();
        let still = |uids: Option<Vec<String>>| -> (Vec<String>, i32) {
            let all = uids.unwrap_or_default();
            let total = int(all.len());
            let left: Vec<String> =
                all.into_iter().filter(|uid| tracked.contains(uid.as_str())).collect();
            let counted = total - int(left.len());
            (left, counted)
        };
        let (mut succeeded, new_successes) = still(noted.succeeded);
        let (mut failed, new_failures) = still(noted.failed);
        let mut indexes = indexes::parse(status.completed_indexes.as_deref().unwrap_or_default());
        if !self.is_indexed() {
            status.succeeded = nonzero(status.succeeded.unwrap_or_default() + new_successes);
        }
        status.failed = nonzero(status.failed.unwrap_or_default() + new_failures);
        let mut release = Vec::new();
        for pod in self.finished() {
            if release.len() >= BURST {
                break;
            }
            release.push(Arc::clone(pod));
            if self.has_failed(pod) {
                add_uid(&mut failed, uid(pod));
            } else if self.is_indexed() {
                // Indexes are counted once, however many of their pods succeed.
                let most = self.spec.completions.unwrap_or_default();
                indexes.extend(index_of(pod).filter(|index| (0..most).contains(index)));
            } else {
                add_uid(&mut succeeded, uid(pod));
            }
        }
        self.release = release;
        if self.is_indexed() {
            status.succeeded = nonzero_count(indexes.len());
            status.completed_indexes =
                Some(indexes::write(&indexes)).filter(|text| !text.is_empty());
        }
        let list = |uids: Vec<String>| Some(uids).filter(|uids| !uids.is_empty());
        status.uncounted_terminated_pods =
            Some(UncountedTerminatedPods { succeeded: list(succeeded), failed: list(failed) });
    }

    fn terminated_counts(status: &JobStatus) -> (i32, i32) {
        let noted = status.uncounted_terminated_pods.as_ref();
        let len = |uids: Option<&Vec<String>>| uids.map_or(0, |uids| int(uids.len()));
        let succeeded = len(noted.and_then(|noted| noted.succeeded.as_ref()));
        let failed = len(noted.and_then(|noted| noted.failed.as_ref()));
        (
            succeeded + status.succeeded.unwrap_or_default(),
            failed + status.failed.unwrap_or_default(),
        )
    }

    fn update_outcome(&mut self, status: &mut JobStatus) -> JobOutcome {
        let (succeeded, failed) = Self::terminated_counts(status);
        let is_suspended = self.spec.suspend == Some(true);
        let limit = self.spec.backoff_limit.unwrap_or(6);
        let started = status.start_time.as_ref().map(|time| time.0);
        let deadline = self.spec.active_deadline_seconds;
        let deadline = deadline.zip(started).map(|(wait, started)| later(started, seconds(wait)));
        let failure = if failed > limit {
            Some(("BackoffLimitExceeded", "Job has reached the specified backoff limit"))
        } else if !is_suspended && deadline.is_some_and(|deadline| deadline <= self.now) {
            Some(("DeadlineExceeded", "Job was active longer than specified deadline"))
        } else {
            None
        };
        let active = self.pods.iter().filter(|pod| is_active(pod)).count();
        let is_complete = match self.spec.completions {
            Some(completions) => succeeded >= completions,
            None => succeeded > 0 && active == 0,
        };
        let is_counted = status.uncounted_terminated_pods
            == Some(UncountedTerminatedPods::default())
            && self.release.is_empty();
        let left = self.pods.iter().any(|pod| !is_finished(pod));
        if let Some((reason, message)) = failure {
            set(status, "FailureTarget", "True", reason, message, self.now);
            if is_counted && !left {
                set(status, "Failed", "True", reason, message, self.now);
            }
            return JobOutcome::Failed;
        }
        if is_complete {
            let (reason, message) =
                ("CompletionsReached", "Reached expected number of succeeded pods");
            set(status, "SuccessCriteriaMet", "True", reason, message, self.now);
            if is_counted && !left {
                set(status, "Complete", "True", reason, message, self.now);
                status.completion_time = Some(Time(self.now));
            }
            return JobOutcome::Succeeded;
        }
        JobOutcome::Running
    }

    /// Returns the pods to create and to delete, and when to sync again.
    fn scale_pods(&self, status: &mut JobStatus) -> (Vec<Pod>, Vec<Arc<Pod>>, Option<Timestamp>) {
        let mut active: Vec<&Arc<Pod>> = self.pods.iter().filter(|pod| is_active(pod)).collect();
        if self.spec.suspend == Some(true) {
            status.start_time = None;
            set(status, "Suspended", "True", "JobSuspended", "Job suspended", self.now);
            return (Vec::new(), active.into_iter().cloned().collect(), None);
        }
        if has(status, "Suspended") {
            set(status, "Suspended", "False", "JobResumed", "Job resumed", self.now);
        }
        if status.start_time.is_none() {
            status.start_time = Some(Time(self.now));
        }
        let deadline = self.spec.active_deadline_seconds.zip(status.start_time.as_ref());
        let deadline = deadline.map(|(wait, started)| later(started.0, seconds(wait)));
        let (succeeded, _) = Self::terminated_counts(status);
        let left = match self.spec.completions {
            Some(completions) => (completions - succeeded).max(0),
            // A pool of workers: no more are made once one has succeeded.
            None if succeeded > 0 => int(active.len()),
            None => i32::MAX,
        };
        let wanted = usize::try_from(self.parallelism().min(left)).unwrap_or_default();
        if active.len() > wanted {
            // The least advanced go: not ready ones, then young ones.
            active.sort_by_key(|pod| {
                (is_ready(pod), std::cmp::Reverse(created(&pod.metadata)), uid(pod).to_owned())
            });
            active.truncate(active.len() - wanted);
            return (Vec::new(), active.into_iter().cloned().collect(), deadline);
        }
        let ending =
            self.pods.iter().filter(|pod| is_terminating(pod) && !is_finished(pod)).count();
        let waits = self.spec.pod_replacement_policy.as_deref() == Some("Failed");
        let present = if waits { active.len() + ending } else { active.len() };
        let missing = wanted.saturating_sub(present).min(BURST);
        let backoff = self.backoff_ends().filter(|end| *end > self.now);
        if missing > 0 && backoff.is_some() {
            return (Vec::new(), Vec::new(), backoff.into_iter().chain(deadline).min());
        }
        (self.new_pods(status, &active, missing), Vec::new(), deadline)
    }

    fn new_pods(&self, status: &JobStatus, active: &[&Arc<Pod>], missing: usize) -> Vec<Pod> {
        if !self.is_indexed() {
            return vec![pod_of(self.job, self.spec, None); missing];
        }
        let mut taken = indexes::parse(status.completed_indexes.as_deref().unwrap_or_default());
        taken.extend(active.iter().filter_map(|pod| index_of(pod)));
        let completions = self.spec.completions.unwrap_or_default();
        let free = (0..completions).filter(|index| !taken.contains(index));
        free.take(missing).map(|index| pod_of(self.job, self.spec, Some(index))).collect()
    }

    /// When the next pod may come, after those that have failed since the last success.
    fn backoff_ends(&self) -> Option<Timestamp> {
        let ended = |pod: &Pod| {
            let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.clone());
            let ends = statuses
                .unwrap_or_default()
                .into_iter()
                .filter_map(|container| Some(container.state?.terminated?.finished_at?.0));
            ends.max()
                .or_else(|| deletion_requested_at(pod))
                .unwrap_or_else(|| created(&pod.metadata))
        };
        let successes = self.pods.iter().filter(|pod| phase(pod) == "Succeeded");
        let success = successes.map(|pod| ended(pod)).max();
        let failures = self.pods.iter().filter(|pod| self.has_failed(pod)).map(|pod| ended(pod));
        let failures: Vec<Timestamp> =
            failures.filter(|end| success.is_none_or(|success| *end > success)).collect();
        let last = failures.iter().max()?;
        let doublings = u32::try_from(failures.len() - 1).unwrap_or(u32::MAX).min(10);
        Some(later(*last, (INITIAL_BACKOFF * 2_u32.pow(doublings)).min(MAX_BACKOFF)))
    }

    /// Returns whether to delete a finished Job now, and when if later.
    fn ttl_expiry(&self, end: Option<Timestamp>) -> (bool, Option<Timestamp>) {
        let ttl = self.spec.ttl_seconds_after_finished;
        let time = end.zip(ttl).map(|(end, ttl)| later(end, seconds(i64::from(ttl))));
        match time {
            Some(time) if time <= self.now => {
                (self.job.metadata.deletion_timestamp.is_none(), None)
            }
            time => (false, time),
        }
    }

    fn update_pod_counts(&self, status: &mut JobStatus) {
        let active = self.pods.iter().filter(|pod| is_active(pod));
        status.active = nonzero_count(active.clone().count());
        status.ready = Some(int(active.filter(|pod| is_ready(pod)).count()));
        let ending = self.pods.iter().filter(|pod| is_terminating(pod) && !is_finished(pod));
        status.terminating = Some(int(ending.count()));
    }
}

fn deletion_requested_at(pod: &Pod) -> Option<Timestamp> {
    let end = pod.metadata.deletion_timestamp.as_ref()?.0;
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
    end.checked_sub(seconds(grace)).ok()
}

fn add_uid(uids: &mut Vec<String>, uid: &str) {
    if !uids.iter().any(|known| known == uid) {
        uids.push(uid.to_owned());
    }
}

fn seconds(number: i64) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or_default())
}

fn has(status: &JobStatus, kind: &str) -> bool {
    status.conditions.iter().flatten().any(|condition| condition.type_ == kind)
}

/// Does nothing if the condition has this status.
fn set(
    status: &mut JobStatus,
    kind: &str,
    value: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let conditions = status.conditions.get_or_insert_default();
    if conditions.iter().any(|known| known.type_ == kind && known.status == value) {
        return;
    }
    conditions.retain(|condition| condition.type_ != kind);
    conditions.push(JobCondition {
        type_: kind.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    });
}

fn pod_of(job: &Job, spec: &JobSpec, index: Option<i32>) -> Pod {
    let mut pod = from_template(job, &spec.template);
    pod.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
    let Some(index) = index else { return pod };
    let name = job.metadata.name.as_deref().unwrap_or_default();
    pod.metadata.generate_name = Some(format!("{name}-{index}-"));
    for entries in [&mut pod.metadata.annotations, &mut pod.metadata.labels] {
        entries.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
    }
    if let Some(spec) = &mut pod.spec {
        spec.hostname = Some(format!("{name}-{index}"));
        for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
            let env = container.env.get_or_insert_default();
            if env.iter().all(|variable| variable.name != "JOB_COMPLETION_INDEX") {
                env.push(index_variable());
            }
        }
    }
    pod
}

/// Containers read their index from the label of their pod.
fn index_variable() -> EnvVar {
    let field = ObjectFieldSelector {
        field_path: format!("metadata.labels['{INDEX}']"),
        ..ObjectFieldSelector::default()
    };
    EnvVar {
        name: "JOB_COMPLETION_INDEX".to_owned(),
        value: None,
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
    }
}
