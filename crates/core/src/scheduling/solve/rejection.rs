//! Reports why pods are rejected, in upstream's words (spec 20 §3.9, §3.10).
//!
//! Attempts only detect *that* a candidate rejects a pod. At the end, the solver checks the new
//! NodeClaim of each template once more for each class that failed, in the order of upstream's
//! checks and on plain values, to report why. Every rejected pod was tried after the last pod that
//! was placed, so its last attempt had the same state; unless the fuel was used up, when a pod may
//! be rejected that would fit by now.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Solver;
use super::attempt::AttemptView;
use super::claim_placement::placeholder_hostname;
use super::devices::NO_TYPE;
use super::requirement_store::SplitRequirements;
use super::shape::PodShape;
use crate::bit_set::BitSet;
use crate::id::PodId;
use crate::labels::HOSTNAME;
use crate::rejection::{
    Explanation, PodRejection, PoolRejection, RejectionReason, VolumeLimitExceeded,
};
use crate::requirement::{Requirement, Requirements};
use crate::scheduling::Fuel;
use crate::taint::untolerated_taints;

/// Rejections by pod.
type Rejections = BTreeMap<PodId, Arc<PodRejection>>;

/// The most pod classes that get a reason after the fuel is used up.
///
/// Users of a plan that was cut short need some reasons.
const MAX_REASONS_AFTER_DEADLINE: usize = 64;

/// The types of a template that limits and volumes leave.
struct RemainingTypes {
    /// Types within the limits.
    within: BitSet,
    /// Types within the limits that can attach the pod's volumes.
    variants: BitSet,
}

impl Solver<'_> {
    /// Returns why pods are rejected, with explanations for the pods named in the options.
    pub(super) fn rejections(
        &mut self,
        fuel: &mut Fuel<'_>,
    ) -> (Rejections, BTreeMap<PodId, Explanation>) {
        let mut reasons_left = MAX_REASONS_AFTER_DEADLINE;
        let mut by_class: BTreeMap<usize, Arc<PodRejection>> = BTreeMap::new();
        let (mut rejected, mut explanations) = (Rejections::new(), BTreeMap::new());
        for pod in std::mem::take(&mut self.rejected) {
            let class = self.class_of(pod);
            let shape = self.classes[class].failure.as_ref().and_then(|last| last.shape.clone());
            let rejection = if let Some(known) = by_class.get(&class) {
                known.clone()
            } else {
                let may_explain = fuel.may_continue() || reasons_left > 0;
                reasons_left = reasons_left.saturating_sub(usize::from(fuel.is_used_up()));
                let rejection = if may_explain {
                    self.class_rejection(class, shape.as_ref())
                } else {
                    Arc::new(PodRejection::SolveCutShort)
                };
                by_class.insert(class, rejection.clone());
                rejection
            };
            if let Some(shape) = shape.filter(|_| self.input.options.explain.contains(&pod)) {
                explanations.insert(pod, self.explain(class, &shape, &rejection));
            }
            rejected.insert(pod, rejection);
        }
        (rejected, explanations)
    }

    fn class_rejection(
        &mut self,
        class: usize,
        shape: Option<&Arc<PodShape>>,
    ) -> Arc<PodRejection> {
        match (&self.classes[class].rejection, shape) {
            (Some(rejection), _) => rejection.clone(),
            (None, Some(shape)) => Arc::new(self.pool_rejections(class, shape)),
            (None, None) => Arc::new(PodRejection::NoUsablePool),
        }
    }

    /// Returns why no template takes the pods of a class in their last shape.
    fn pool_rejections(&mut self, class: usize, shape: &Arc<PodShape>) -> PodRejection {
        if self.templates.is_empty() {
            return PodRejection::NoUsablePool;
        }
        let view = self.view(shape);
        let mut rejections = Vec::new();
        for template in 0..self.templates.len() {
            let Err(why) = self.check_template(template, class, &view) else { continue };
            let defers =
                matches!(&why, RejectionReason::Reserved(rejection) if rejection.defers_pod());
            let pool = self.templates[template].pool;
            let pool_id = self.templates[template].pool_id;
            rejections.push(PoolRejection { pool: pool_id, name: pool.name.clone(), reason: why });
            if defers {
                break;
            }
        }
        if rejections.is_empty() {
            PodRejection::SolveCutShort
        } else {
            PodRejection::Pools(rejections)
        }
    }

    fn check_template(
        &mut self,
        template: usize,
        class: usize,
        view: &AttemptView,
    ) -> Result<(), RejectionReason> {
        let types = &self.types[self.templates[template].types];
        let within =
            self.templates[template].within_limits(types).map_err(RejectionReason::Limits)?;
        let pool = self.templates[template].pool;
        let missing = untolerated_taints(&pool.taints, &view.shape.tolerations);
        if !missing.is_empty() {
            return Err(RejectionReason::Taints(missing.into_iter().cloned().collect()));
        }
        let variants = self.attachable(&within, template, class)?;
        let left = RemainingTypes { within, variants };
        let host = placeholder_hostname(self.claims.len());
        let mut base = self.store.plain(self.templates[template].set);
        base.add(Requirement::in_values(HOSTNAME, [host.as_str()]));
        let required = self.store.plain_split(view.shape.all);
        let strict = self.store.plain_split(view.shape.strict);
        for required in [&required, &strict] {
            base.compatible(required, self.store.well_known())
                .map_err(RejectionReason::Requirements)?;
        }
        base.extend(required.iter().cloned());
        let alternatives = self.classes[class].volume_topologies.clone();
        if alternatives.is_empty() {
            return self.check_topology_and_types(&base, template, &left, class, view);
        }
        let mut result = Ok(());
        for place in alternatives {
            result = self.check_volume_topology(&base, place, template, &left, class, view);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn check_volume_topology(
        &mut self,
        base: &Requirements,
        place: SplitRequirements,
        template: usize,
        left: &RemainingTypes,
        class: usize,
        view: &AttemptView,
    ) -> Result<(), RejectionReason> {
        let required = self.store.plain_split(place);
        base.compatible(&required, self.store.well_known())
            .map_err(RejectionReason::VolumeTopology)?;
        let mut narrowed = base.clone();
        narrowed.extend(required.iter().cloned());
        self.check_topology_and_types(&narrowed, template, left, class, view)
    }

    /// Checks topology, devices, instance types and reservations.
    fn check_topology_and_types(
        &mut self,
        requirements: &Requirements,
        template: usize,
        left: &RemainingTypes,
        class: usize,
        view: &AttemptView,
    ) -> Result<(), RejectionReason> {
        let variants = &left.variants;
        let mut devices = None;
        let mut with_devices = requirements.clone();
        if !self.classes[class].devices.is_empty() {
            let before = (self.templates[template].set, &left.within);
            let found = self
                .devices_on_claim(None, before, template, class)
                .map_err(RejectionReason::DynamicResources)?;
            let required = &found.allocation.requirements;
            requirements.compatible(required, self.store.well_known()).map_err(|why| {
                RejectionReason::DynamicResources(format!(
                    "incompatible dynamic resource requirements, {why}"
                ))
            })?;
            with_devices.extend(required.iter().cloned());
            devices = Some(found);
        }
        let requirements = &with_devices;
        let set = self.store.split(requirements).set;
        let narrowed =
            self.check_topology_groups(requirements, set, template, variants, class, view)?;
        let well_known = self.store.well_known();
        requirements
            .compatible_with_domains(&narrowed, well_known)
            .map_err(RejectionReason::TopologyResult)?;
        let set = self.store.split(&narrowed).set;
        let mut kept = self.types_left(set, template, variants, class)?;
        if let Some(devices) = devices {
            self.keep_with_devices(&mut kept, &devices, template);
            if kept.is_empty() {
                return Err(RejectionReason::DynamicResources(NO_TYPE.to_owned()));
            }
        }
        if self.uses_reserved {
            self.reservable(set, &kept, template, None).map_err(RejectionReason::Reserved)?;
        }
        Ok(())
    }

    /// Returns the types that can attach the pod's volumes.
    fn attachable(
        &self,
        within: &BitSet,
        template: usize,
        class: usize,
    ) -> Result<BitSet, RejectionReason> {
        let mut variants = within.clone();
        let attachments = &self.classes[class].attachments;
        if attachments.is_empty() {
            return Ok(variants);
        }
        let types = &self.types[self.templates[template].types];
        let limit = |variant: usize, driver: &str| {
            types.instance_type(&types.variants[variant]).volume_limits.get(driver).copied()
        };
        let exceeds = |variant: usize, driver: &str, count: usize| {
            limit(variant, driver).is_some_and(|limit| count > limit as usize)
        };
        for variant in within.iter() {
            if attachments.iter().any(|(driver, claims)| exceeds(variant, driver, claims.len())) {
                variants.remove(variant);
            }
        }
        if !variants.is_empty() {
            return Ok(variants);
        }
        let culprit = attachments.iter().find(|(driver, claims)| {
            within.iter().all(|variant| exceeds(variant, driver, claims.len()))
        });
        Err(RejectionReason::VolumeLimit(culprit.map(|(driver, claims)| VolumeLimitExceeded {
            driver: driver.clone(),
            count: claims.len(),
            limit: within.iter().filter_map(|variant| limit(variant, driver)).max().unwrap_or(0),
        })))
    }
}
