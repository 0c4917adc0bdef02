//! Checks whether a NodeClaim can take a pod, and how that changes it (spec 20 §3.9, §3.10).

use std::collections::BTreeSet;

use super::Solver;
use super::amounts::{Amounts, sum};
use super::attempt::{AttemptView, CandidateRejection};
use super::claim_placement::placeholder_hostname;
use super::devices::DeviceAllocation;
use super::requirement_store::{SetId, SplitRequirements, UndefinedLabels};
use crate::bit_set::BitSet;
use crate::scheduling::MinValuesPolicy;

/// The new state of a NodeClaim that takes the pod.
pub(super) struct ClaimFit {
    pub(super) set: SetId,
    pub(super) variants: BitSet,
    pub(super) reserved: BTreeSet<String>,
    pub(super) min_values_relaxed: bool,
    pub(super) devices: Option<DeviceAllocation>,
}

/// A NodeClaim that may take a pod: in flight or new.
pub(super) enum ClaimCandidate {
    InFlight(usize),
    New { template: usize, variants: BitSet },
}

impl Solver<'_> {
    /// Returns how a NodeClaim changes with the pod, or why it rejects the pod.
    pub(super) fn fit_claim(
        &mut self,
        candidate: &ClaimCandidate,
        class_id: usize,
        view: &AttemptView,
    ) -> Result<ClaimFit, CandidateRejection> {
        let (template, set, claim, mut variants) = match candidate {
            ClaimCandidate::InFlight(index) => {
                let claim = &self.claims[*index];
                (claim.template, claim.set, Some(*index), claim.variants.clone())
            }
            ClaimCandidate::New { template, variants } => {
                (*template, self.templates[*template].set, None, variants.clone())
            }
        };
        let class = &self.classes[class_id];
        if !hostname_allows(self, view.shape.all, claim) {
            return Err(CandidateRejection::Unfit);
        }
        // A preference that contradicts a requirement must not make the label look unwanted.
        let strict = view.shape.strict.set;
        if !self.store.compatible(set, strict, UndefinedLabels::WellKnown) {
            return Err(CandidateRejection::Unfit);
        }
        let base = self.store.narrow(set, view.shape.all.set).ok_or(CandidateRejection::Unfit)?;
        let before = variants.clone();
        let need = match claim {
            Some(index) => sum(&self.claims[index].total, &class.requests),
            None => class.requests.clone(),
        };
        if !class.attachments.is_empty() {
            self.keep_attachable(&mut variants, template, class_id, claim);
        }
        self.keep_large_enough(&mut variants, template, class_id, claim, &need);
        if variants.is_empty() {
            return Err(CandidateRejection::Unfit);
        }
        let mut last = CandidateRejection::Unfit;
        let count = self.classes[class_id].volume_topologies.len().max(1);
        for alternative in 0..count {
            let narrowed = match self.classes[class_id].volume_topologies.get(alternative).copied()
            {
                None => Some(base),
                Some(split) if !hostname_allows(self, split, claim) => None,
                Some(split) => self.store.narrow(base, split.set),
            };
            let Some(narrowed) = narrowed else {
                last = CandidateRejection::Unfit;
                continue;
            };
            let fit = if self.classes[class_id].devices.is_empty() {
                self.fits_alternative(narrowed, &variants, template, claim, view)
            } else {
                let before = (set, &before);
                self.fits_with_devices(
                    narrowed,
                    before,
                    &variants,
                    (template, claim),
                    class_id,
                    view,
                )
            };
            match fit {
                Ok(fit) => return Ok(fit),
                Err(no) => last = no,
            }
        }
        Err(last)
    }

    /// Checks a NodeClaim for a pod with ResourceClaims.
    ///
    /// Devices may narrow where the NodeClaim can be, and leave fewer types.
    fn fits_with_devices(
        &mut self,
        narrowed: SetId,
        before: (SetId, &BitSet),
        large_enough: &BitSet,
        (template, claim): (usize, Option<usize>),
        class: usize,
        view: &AttemptView,
    ) -> Result<ClaimFit, CandidateRejection> {
        let devices = self
            .devices_on_claim(claim, before, template, class)
            .map_err(|_| CandidateRejection::Unfit)?;
        let required = self.store.split(&devices.allocation.requirements);
        if !hostname_allows(self, required, claim) {
            return Err(CandidateRejection::Unfit);
        }
        let narrowed =
            self.store.narrow(narrowed, required.set).ok_or(CandidateRejection::Unfit)?;
        let mut variants = large_enough.clone();
        self.keep_with_devices(&mut variants, &devices, template);
        let fit = self.fits_alternative(narrowed, &variants, template, claim, view)?;
        Ok(ClaimFit { devices: Some(devices), ..fit })
    }

    fn fits_alternative(
        &mut self,
        set: SetId,
        large_enough: &BitSet,
        template: usize,
        claim: Option<usize>,
        view: &AttemptView,
    ) -> Result<ClaimFit, CandidateRejection> {
        let mut variants = large_enough.clone();
        let types = &mut self.types[self.templates[template].types];
        // Without the topology first: what fails here fails whatever domain is picked.
        variants.intersect_with(&types.compatible_types(set, &mut self.store).variants);
        if variants.is_empty() {
            return Err(CandidateRejection::Unfit);
        }
        let mut set = set;
        if !view.shape.label_groups.is_empty() {
            let narrowed = self
                .narrow_by_topology(set, &variants, template, view)
                .ok_or(CandidateRejection::Unfit)?;
            if narrowed != set {
                set = narrowed;
                let types = &mut self.types[self.templates[template].types];
                variants.intersect_with(&types.compatible_types(set, &mut self.store).variants);
                if variants.is_empty() {
                    return Err(CandidateRejection::Unfit);
                }
            }
        }
        let relaxes =
            claim.is_none() && self.input.options.min_values == MinValuesPolicy::BestEffort;
        let mut min_values_relaxed = false;
        if self.templates[template].has_min_values {
            match self.lacking_min_values(set, &variants, template) {
                lacking if lacking.is_empty() => {}
                lacking if relaxes => {
                    set = self.relax_min_values(set, lacking);
                    min_values_relaxed = true;
                }
                _ => return Err(CandidateRejection::Unfit),
            }
        }
        let reserved = if self.uses_reserved {
            self.reservable(set, &variants, template, claim).map_err(|rejection| {
                if rejection.defers_pod() {
                    CandidateRejection::Deferred
                } else {
                    CandidateRejection::Unfit
                }
            })?
        } else {
            BTreeSet::new()
        };
        Ok(ClaimFit { set, variants, reserved, min_values_relaxed, devices: None })
    }
}

fn hostname_allows(solver: &Solver<'_>, split: SplitRequirements, claim: Option<usize>) -> bool {
    split.host.is_none_or(|host| {
        let index = claim.unwrap_or(solver.claims.len());
        solver.store.get(host).has(&placeholder_hostname(index))
    })
}

impl Solver<'_> {
    /// Keeps the types that can attach the volumes of NodeClaim and pod (spec 45 §11.2).
    fn keep_attachable(
        &self,
        variants: &mut BitSet,
        template: usize,
        class: usize,
        claim: Option<usize>,
    ) {
        let class = &self.classes[class];
        let mut counts = std::collections::BTreeMap::new();
        let empty = crate::volume::Attachments::new();
        let own = claim.map_or(&empty, |index| &self.claims[index].attached);
        for (driver, claims) in own.iter().chain(&class.attachments) {
            counts.entry(driver).or_insert_with(BTreeSet::new).extend(claims);
        }
        let types = &self.types[self.templates[template].types];
        for variant in variants.clone().iter() {
            let limits = &types.instance_type(&types.variants[variant]).volume_limits;
            let exceeds = |(driver, claims): (&&String, &BTreeSet<&String>)| {
                limits.get(*driver).is_some_and(|&limit| claims.len() > limit as usize)
            };
            if counts.iter().any(exceeds) {
                variants.remove(variant);
            }
        }
    }

    /// Keeps the types that are large enough, daemons included, and whose daemons leave the pod's
    /// host ports free.
    pub(super) fn keep_large_enough(
        &self,
        variants: &mut BitSet,
        template: usize,
        class: usize,
        claim: Option<usize>,
        need: &Amounts,
    ) {
        let class = &self.classes[class];
        let template = &self.templates[template];
        let types = &self.types[template.types];
        let taken = claim.map_or(&[][..], |index| &self.claims[index].ports);
        let collides = |ports: &[crate::host_port::HostPort]| {
            class.ports.iter().any(|port| ports.iter().any(|other| port.conflicts_with(other)))
        };
        if collides(taken) {
            *variants = types.none();
            return;
        }
        if let [only] = template.groups.as_slice() {
            if collides(&only.ports) {
                *variants = types.none();
            } else if only.overhead.is_some() {
                types.keep_fitting(variants, &sum(need, &only.amounts));
            } else {
                types.keep_fitting(variants, need);
            }
            return;
        }
        let mut kept = types.none();
        for group in template.groups.iter().filter(|group| !collides(&group.ports)) {
            let mut own = variants.clone();
            own.intersect_with(&group.variants);
            types.keep_fitting(&mut own, &sum(need, &group.amounts));
            kept.union_with(&own);
        }
        *variants = kept;
    }
}
