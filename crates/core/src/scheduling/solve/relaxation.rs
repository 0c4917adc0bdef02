//! Relaxes a pod step by step until it is placed, and remembers what failed for equal pods.
//!
//! ```text
//! pod 1 of a class: step 0 ✗ (group g has no domain) ─▶ step 400, after which g is dropped ✓
//! pod 2:            steps 0..400 fail while g is the same ─▶ step 400 ✓
//! ```

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

use super::attempt::CandidateRejection;
use super::shape::PodShape;
use super::topology::Topology;
use super::topology_groups::GroupId;
use super::{Fuel, PodClass, Solver};
use crate::id::PodId;

/// The last failed attempt to place a pod of a class.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// The state that it was based on, see [`Solver::stamp`].
    stamp: u64,
    /// Whether placing any other pod may help.
    pub(super) may_recover: bool,
    /// The shape that was tried last.
    pub(super) shape: Option<Arc<PodShape>>,
}

/// The first steps of a class, which failed when they were last tried.
#[derive(Clone, Debug, Default)]
pub(super) struct FailedSteps {
    /// How many steps failed. The last step is never one of them: it explains a rejection.
    count: usize,
    /// The groups that the failures depend on, with their epochs at that time.
    groups: FxHashMap<GroupId, u64>,
    /// The number of placed pods, if placing any other pod may help.
    placed: Option<u64>,
}

/// The result of trying the steps of a pod.
enum Relaxation {
    Placed,
    Failed { may_recover: bool, shape: Option<Arc<PodShape>> },
    OutOfFuel,
}

impl FailedSteps {
    /// Returns whether none of the inputs has changed, so that the steps would fail again.
    fn would_fail_again(&self, topology: &Topology<'_>, placed: u64) -> bool {
        self.placed.is_none_or(|then| then == placed)
            && self.groups.iter().all(|(&group, &epoch)| topology.group(group).epoch == epoch)
    }

    fn depend_on(&mut self, groups: impl Iterator<Item = GroupId>, topology: &Topology<'_>) {
        for group in groups {
            self.groups.entry(group).or_insert_with(|| topology.group(group).epoch);
        }
    }
}

impl Solver<'_> {
    /// Tries to place a pod, relaxing it step by step. None when the fuel is used up.
    pub(super) fn place(&mut self, pod: PodId, fuel: &mut Fuel<'_>) -> Option<bool> {
        let class = self.class_of(pod);
        // Nothing that its class depends on has changed since it failed: it would fail again.
        let last = self.classes[class].failure.as_ref();
        let fails_again =
            last.is_some_and(|last| last.stamp == self.stamp(class, last.may_recover));
        if fails_again || self.classes[class].rejection.is_some() {
            return fuel.may_continue().then_some(false);
        }
        // Taken beforehand: its own relaxation may teach groups domains that help others.
        let stamps = [self.stamp(class, false), self.stamp(class, true)];
        let mut failed = std::mem::take(&mut self.classes[class].failed_steps);
        if !failed.would_fail_again(&self.topology, self.placed_count) {
            failed = FailedSteps::default();
        }
        let result = self.try_steps(pod, class, &mut failed, fuel);
        self.classes[class].failed_steps = failed;
        match result {
            Relaxation::Placed => Some(true),
            Relaxation::OutOfFuel => None,
            Relaxation::Failed { may_recover, shape } => {
                let stamp = stamps[usize::from(may_recover)];
                self.classes[class].failure = Some(Failure { stamp, may_recover, shape });
                Some(false)
            }
        }
    }

    /// Tries the steps that are not known to fail, and adds those that fail now.
    fn try_steps(
        &mut self,
        pod: PodId,
        class: usize,
        failed: &mut FailedSteps,
        fuel: &mut Fuel<'_>,
    ) -> Relaxation {
        let chain = self.classes[class].chain;
        let step_count = self.chains.all[chain].steps.len();
        let depends_on_candidates = self.depends_on_candidates(class);
        let mut may_recover = depends_on_candidates || failed.placed.is_some();
        let mut last: Option<Arc<PodShape>> = None;
        let mut step = failed.count;
        while let Some(shape) = self.shape(class, step) {
            if !fuel.may_continue() {
                return Relaxation::OutOfFuel;
            }
            // A step that changes nothing ends as the one before.
            if !last.as_ref().is_some_and(|last| last.same_as(&shape)) {
                match self.attempt(pod, class, &shape) {
                    Ok(()) => return Relaxation::Placed,
                    Err(CandidateRejection::Deferred) => {
                        return Relaxation::Failed { may_recover: true, shape: Some(shape) };
                    }
                    Err(CandidateRejection::NoDomain) => {
                        let groups = self.groups_without_domain(&shape);
                        let (next, cause) =
                            self.chains.step_after_failed_groups(chain, step, &groups);
                        failed.depend_on(cause.into_iter(), &self.topology);
                        step = next;
                        failed.count = step.min(step_count);
                        last = Some(shape);
                        continue;
                    }
                    Err(no) => {
                        if depends_on_candidates
                            || no == CandidateRejection::PickedDomainUnfit
                            || self.store.requires_custom_label(shape.all.set)
                        {
                            may_recover = true;
                            failed.placed = Some(self.placed_count);
                        }
                        let over_labels = shape.label_groups.iter().map(|over| over.group);
                        let over_hosts = shape.host_groups.iter().map(|over| over.group);
                        failed.depend_on(over_labels.chain(over_hosts), &self.topology);
                        last = Some(shape);
                    }
                }
            }
            step += 1;
            failed.count = step.min(step_count);
        }
        Relaxation::Failed { may_recover, shape: last }
    }

    /// Returns whether another pod may make a candidate suitable, whatever the step.
    fn depends_on_candidates(&self, class: usize) -> bool {
        let PodClass { devices, volume_topologies, .. } = &self.classes[class];
        self.uses_reserved
            || !devices.is_empty()
            || volume_topologies.iter().any(|it| self.store.requires_custom_label(it.set))
    }

    /// Returns a number that grows with every change that may help a class.
    ///
    /// Nodes and NodeClaims only fill up and narrow, so a rejection is final, unless a group that
    /// the class depends on counts differently. The exception is a rejection that depends on the
    /// candidate (`may_recover`): by the domain that a group picks for it, reservations, devices,
    /// and labels that only a pod defines. There another pod may make a candidate suitable.
    fn stamp(&self, class: usize, may_recover: bool) -> u64 {
        let watched = &self.chains.all[self.classes[class].chain].relevant_groups;
        let groups: u64 = watched.iter().map(|&group| self.topology.group(group).epoch).sum();
        groups + if may_recover { self.placed_count } else { 0 }
    }

    /// Returns the shape of a class after `step` relaxations.
    ///
    /// Groups that this creates count the pods that were placed before (spec 20 Q3).
    pub(super) fn shape(&mut self, class: usize, step: usize) -> Option<Arc<PodShape>> {
        let chain = self.classes[class].chain;
        let request_number = self.topology.request_number();
        let (of, reached) = self.chains.all[chain].reached;
        let reached = if of == request_number { reached } else { 0 };
        if step < reached
            && let Some(kept) = self.chains.kept_shape(chain, step)
        {
            return Some(kept);
        }
        // All other steps have groups of earlier ones, so they can be skipped.
        let skipped = (reached..step)
            .filter(|&step| self.chains.all[chain].steps.may_add_groups(step))
            .collect::<SmallVec<[usize; 4]>>();
        for earlier in skipped {
            self.reach_step(chain, earlier)?;
        }
        let shape = self.reach_step(chain, step)?;
        self.chains.all[chain].reached = (request_number, reached.max(step + 1));
        Some(shape)
    }

    /// Returns the shape of a step, with its groups in the request.
    fn reach_step(&mut self, chain: usize, step: usize) -> Option<Arc<PodShape>> {
        let (chains, mut context) = self.shape_context();
        let shape = chains.shape(chain, step, &mut context)?;
        if self.chains.all[chain].steps.may_add_groups(step) {
            // A new toleration opens new domains to the inverse groups as well (Q9).
            let inverse_groups = self.chains.all[chain].inverse_groups.clone();
            self.activate_groups(&inverse_groups, &shape.owned, &shape.tolerations);
        }
        Some(shape)
    }
}
