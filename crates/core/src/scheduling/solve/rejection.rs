//! Why a pod has no place, in upstream's words (spec 20 §3.9, §3.10).
//!
//! Attempts only find out *that* a candidate does not take a pod. At the end, the new NodeClaim of
//! each template is looked at once more for each class that failed, in the order of upstream's
//! checks and on plain values, to say why. Every pod that is left was tried after the last one that
//! found a place, so this is what its last attempt saw; unless the fuel ran out, when a pod may be
//! left that would have a place by now.

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

/// Refusals by pod.
type Rejections = BTreeMap<PodId, Arc<PodRejection>>;

/// How many classes of pods get a reason although the time is over: those who look at a solve that
/// was cut short need some to go by.
const MAX_REASONS_AFTER_DEADLINE: usize = 64;

/// The types of a template within its limits, and those that can attach the pod's volumes too.
struct RemainingTypes {
    within: BitSet,
    variants: BitSet,
}

impl Solver<'_> {
    /// Why pods have no place, and the whole trees for those that were named in the options.
    pub(super) fn rejections(
        &mut self,
        fuel: &mut Fuel<'_>,
    ) -> (Rejections, BTreeMap<PodId, Explanation>) {
        let mut left_when_dry = MAX_REASONS_AFTER_DEADLINE;
        let mut by_class: BTreeMap<usize, Arc<PodRejection>> = BTreeMap::new();
        let (mut refused, mut explanations) = (Rejections::new(), BTreeMap::new());
        for pod in std::mem::take(&mut self.rejected) {
            let class = self.class_of(pod);
            let shape = self.classes[class].failure.as_ref().and_then(|last| last.shape.clone());
            let refusal = if let Some(known) = by_class.get(&class) {
                known.clone()
            } else {
                let may_go_on = fuel.may_continue() || left_when_dry > 0;
                left_when_dry = left_when_dry.saturating_sub(usize::from(fuel.is_used_up()));
                let refusal = if may_go_on {
                    self.class_rejection(class, shape.as_ref())
                } else {
                    Arc::new(PodRejection::SolveCutShort)
                };
                by_class.insert(class, refusal.clone());
                refusal
            };
            if let Some(shape) = shape.filter(|_| self.input.options.explain.contains(&pod)) {
                explanations.insert(pod, self.explain(class, &shape, &refusal));
            }
            refused.insert(pod, refusal);
        }
        (refused, explanations)
    }

    fn class_rejection(
        &mut self,
        class: usize,
        shape: Option<&Arc<PodShape>>,
    ) -> Arc<PodRejection> {
        match (&self.classes[class].rejection, shape) {
            (Some(refusal), _) => refusal.clone(),
            (None, Some(shape)) => Arc::new(self.pool_rejections(class, shape)),
            (None, None) => Arc::new(PodRejection::NoUsablePool),
        }
    }

    /// Why no template takes the pods of a class in their last shape.
    fn pool_rejections(&mut self, class: usize, shape: &Arc<PodShape>) -> PodRejection {
        if self.templates.is_empty() {
            return PodRejection::NoUsablePool;
        }
        let view = self.view(shape);
        let mut refusals = Vec::new();
        for template in 0..self.templates.len() {
            let Err(why) = self.check_template(template, class, &view) else { continue };
            let defers = matches!(&why, RejectionReason::Reserved(refusal) if refusal.defers_pod());
            let pool = self.templates[template].pool;
            let pool_id = self.templates[template].pool_id;
            refusals.push(PoolRejection { pool: pool_id, name: pool.name.clone(), reason: why });
            if defers {
                break;
            }
        }
        if refusals.is_empty() {
            PodRejection::SolveCutShort
        } else {
            PodRejection::Pools(refusals)
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

    /// Topology, instance types and reservations.
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

    /// The types that can attach the pod's volumes.
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
