//! Places pods on NodeClaims: on in-flight ones, else on a new one.
//!
//! In-flight NodeClaims are tried by number of pods, fewest first. A new NodeClaim comes from the
//! first template that can take the pod.

use std::collections::VecDeque;

use super::amounts::{Amounts, fits_within, widen};
use super::attempt::{AttemptView, CandidateRejection};
use super::claim_fit::{ClaimCandidate, ClaimFit};
use super::claim_order::{ClaimRun, JoiningClaim, Position};
use super::claims::InFlightClaim;
use super::requirement_store::{SetId, UndefinedLabels};
use super::{PlacementTarget, Solver};
use crate::id::PodId;

impl Solver<'_> {
    pub(super) fn place_in_flight(
        &mut self,
        pod: PodId,
        class: usize,
        view: &mut AttemptView,
    ) -> bool {
        // Taken out for the search, since checking a NodeClaim needs the whole solver.
        let mut buckets = self.order.take();
        let found = self.first_in_flight(&mut buckets, class, view);
        self.order.put_back(buckets);
        let Some((position, index, fit)) = found else { return false };
        self.add_pod_to_claim(pod, class, index, fit);
        let claim = &self.claims[index];
        let count = |group| self.topology.group(group).count(claim.host);
        let InFlightClaim { set, remaining, .. } = claim;
        let joining = JoiningClaim { claim: super::id(index), set: *set, remaining, count: &count };
        self.order.grow(&joining, position);
        true
    }

    fn first_in_flight(
        &mut self,
        buckets: &mut [VecDeque<ClaimRun>],
        class: usize,
        view: &mut AttemptView,
    ) -> Option<(Position, usize, ClaimFit)> {
        let need = self.classes[class].requests.clone();
        for (bucket, runs) in buckets.iter_mut().enumerate() {
            for (at, run) in runs.iter_mut().enumerate() {
                if let Some((member, fit)) = self.first_of_run(run, &need, class, view) {
                    let position = Position { bucket, run: at, member };
                    return Some((position, run.claims[member] as usize, fit));
                }
            }
        }
        None
    }

    fn first_of_run(
        &mut self,
        run: &mut ClaimRun,
        need: &Amounts,
        class: usize,
        view: &mut AttemptView,
    ) -> Option<(usize, ClaimFit)> {
        let mut over_hosts = view.shape.host_groups.iter();
        if !run.may_fit(need)
            || over_hosts.any(|over| over.limit.is_some_and(|limit| run.exceeds(over.group, limit)))
            || run
                .sets()
                .is_some_and(|sets| !sets.iter().any(|&set| self.requirements_may_fit(set, view)))
        {
            return None;
        }
        let mut has_capacity = false;
        for member in 0..run.claims.len() {
            let index = run.claims[member] as usize;
            let claim = &self.claims[index];
            if !fits_within(need, &claim.remaining) {
                continue;
            }
            has_capacity = true;
            if view.shape.tolerates[claim.template]
                && self.hosts_allow(view, Some(claim.host))
                && self.requirements_may_fit(claim.set, view)
                && let Ok(fit) = self.fit_claim(&ClaimCandidate::InFlight(index), class, view)
            {
                return Some((member, fit));
            }
        }
        self.tighten_run_bounds(run, has_capacity, view);
        None
    }

    /// Returns whether a NodeClaim with these requirements may take the pod.
    ///
    /// Only labels and topology are checked.
    fn requirements_may_fit(&mut self, set: SetId, view: &mut AttemptView) -> bool {
        if let Some(known) = view.known.get(&set) {
            return *known;
        }
        let answer = self.store.compatible(set, view.shape.strict.set, UndefinedLabels::WellKnown)
            && self.store.narrow(set, view.shape.all.set).is_some_and(|narrowed| {
                view.shape.label_groups.iter().zip(&view.feasible).all(|(over, feasible)| {
                    let domains = &mut self.topology.domains[over.domains];
                    let own = domains.allowed(self.store.find(narrowed, domains.key), &self.store);
                    feasible.domains.intersects(&own)
                        || feasible.bootstrap.as_ref().is_some_and(|start| start.intersects(&own))
                })
            });
        view.known.insert(set, answer);
        answer
    }

    /// Tightens the bounds of a run that took no pod.
    fn tighten_run_bounds(&self, run: &mut ClaimRun, has_capacity: bool, view: &AttemptView) {
        let claim = |&index: &u32| &self.claims[index as usize];
        if !has_capacity {
            run.remaining.fill(i128::MIN);
            run.claims
                .iter()
                .map(claim)
                .for_each(|claim| widen(&mut run.remaining, &claim.remaining));
            return;
        }
        run.learn_sets(|index| claim(&index).set);
        for over in &view.shape.host_groups {
            let Some(limit) = over.limit else { continue };
            let group = self.topology.group(over.group);
            let least = run.claims.iter().map(|index| group.count(claim(index).host)).min();
            if let Some(least) = least.filter(|&least| i64::from(least) > limit) {
                run.learn(over.group, least);
            }
        }
    }

    /// Opens a NodeClaim from the first template that can take the pod.
    pub(super) fn place_on_new(
        &mut self,
        pod: PodId,
        class: usize,
        view: &AttemptView,
    ) -> Result<(), CandidateRejection> {
        for template in 0..self.templates.len() {
            match self.fits_template(template, class, view) {
                Ok(fit) => {
                    self.open_claim(pod, class, template, fit);
                    return Ok(());
                }
                Err(CandidateRejection::Deferred) => return Err(CandidateRejection::Deferred),
                Err(
                    CandidateRejection::Unfit
                    | CandidateRejection::PickedDomainUnfit
                    | CandidateRejection::NoDomain,
                ) => {}
            }
        }
        Err(CandidateRejection::Unfit)
    }

    fn fits_template(
        &mut self,
        template: usize,
        class: usize,
        view: &AttemptView,
    ) -> Result<ClaimFit, CandidateRejection> {
        if !view.shape.tolerates[template] || !self.hosts_allow(view, None) {
            return Err(CandidateRejection::Unfit);
        }
        let types = &self.types[self.templates[template].types];
        let Ok(variants) = self.templates[template].within_limits(types) else {
            return Err(CandidateRejection::Unfit);
        };
        self.fit_claim(&ClaimCandidate::New { template, variants }, class, view)
    }

    fn open_claim(&mut self, pod: PodId, class: usize, template: usize, fit: ClaimFit) {
        let index = self.claims.len();
        let host = self.topology.host(&placeholder_hostname(index));
        let set = self.templates[template].set;
        self.claims.push(InFlightClaim::new(template, set, host, self.columns.zero()));
        let types = &self.types[self.templates[template].types];
        self.templates[template].reserve_limits(&fit.variants, types);
        self.claims[index].min_values_relaxed = fit.min_values_relaxed;
        self.add_pod_to_claim(pod, class, index, fit);
        let claim = &self.claims[index];
        let count = |group| self.topology.group(group).count(claim.host);
        let InFlightClaim { set, remaining, .. } = claim;
        let joining = JoiningClaim { claim: super::id(index), set: *set, remaining, count: &count };
        self.order.open(&joining);
    }

    /// Adds a pod to a NodeClaim that fits it.
    fn add_pod_to_claim(&mut self, pod: PodId, class_id: usize, index: usize, fit: ClaimFit) {
        let class = &self.classes[class_id];
        let claim = &mut self.claims[index];
        let before = claim.has_devices.then(|| claim.variants.clone());
        claim.take(pod, &class.requests, fit.set, fit.variants);
        claim.ports.extend_from_slice(class.ports);
        for (driver, claims) in &class.attachments {
            claim.attached.entry(driver.clone()).or_default().extend(claims.iter().cloned());
        }
        let template = &self.templates[claim.template];
        claim.update_remaining(template, &self.types[template.types]);
        if self.uses_reserved {
            self.reservations.hold(index, fit.reserved);
        }
        if let Some(devices) = fit.devices {
            self.hold_on_claim(index, devices);
        }
        if let Some(before) = before {
            self.release_devices(index, &before);
        }
        self.record(class_id, PlacementTarget::Claim(index));
    }
}

/// Returns the hostname that stands for a NodeClaim without a node.
pub(super) fn placeholder_hostname(index: usize) -> String {
    format!("hostname-placeholder-{:04}", index + 1)
}
