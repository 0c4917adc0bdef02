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
use super::attempt::View;
use super::devices::NO_TYPE;
use super::on_claims::placeholder;
use super::shape::Shape;
use super::store::Split;
use crate::bits::Bits;
use crate::id::PodId;
use crate::labels::HOSTNAME;
use crate::reason::{Explanation, PoolRefusal, Refusal, VolumeLimit, Why};
use crate::requirement::{Requirement, Requirements};
use crate::scheduling::Fuel;
use crate::taint::untolerated;

/// Refusals by pod.
type Refused = BTreeMap<PodId, Arc<Refusal>>;

/// How many classes of pods get a reason although the time is over: those who look at a solve that
/// was cut short need some to go by.
const REASONS_WHEN_DRY: usize = 64;

/// The types of a template within its limits, and those that can attach the pod's volumes too.
struct Left {
    within: Bits,
    variants: Bits,
}

impl Solver<'_> {
    /// Why pods have no place, and the whole trees for those that were named in the options.
    pub(super) fn refusals(
        &mut self,
        fuel: &mut Fuel<'_>,
    ) -> (Refused, BTreeMap<PodId, Explanation>) {
        let mut left_when_dry = REASONS_WHEN_DRY;
        let mut by_class: BTreeMap<usize, Arc<Refusal>> = BTreeMap::new();
        let (mut refused, mut explanations) = (Refused::new(), BTreeMap::new());
        for pod in std::mem::take(&mut self.refused) {
            let class = self.class_of(pod);
            let shape = self.classes[class].failure.as_ref().and_then(|last| last.shape.clone());
            let refusal = if let Some(known) = by_class.get(&class) {
                known.clone()
            } else {
                let may_go_on = fuel.may_go_on() || left_when_dry > 0;
                left_when_dry = left_when_dry.saturating_sub(usize::from(fuel.is_dry()));
                let refusal = if may_go_on {
                    self.why(class, shape.as_ref())
                } else {
                    Arc::new(Refusal::NotTriedAgain)
                };
                by_class.insert(class, refusal.clone());
                refusal
            };
            if let Some(shape) = shape.filter(|_| self.world.options.explain.contains(&pod)) {
                explanations.insert(pod, self.explain(class, &shape, &refusal));
            }
            refused.insert(pod, refusal);
        }
        (refused, explanations)
    }

    fn why(&mut self, class: usize, shape: Option<&Arc<Shape>>) -> Arc<Refusal> {
        match (&self.classes[class].refusal, shape) {
            (Some(refusal), _) => refusal.clone(),
            (None, Some(shape)) => Arc::new(self.refusal(class, shape)),
            (None, None) => Arc::new(Refusal::NoUsablePool),
        }
    }

    /// Why no template takes the pods of a class in their last shape.
    fn refusal(&mut self, class: usize, shape: &Arc<Shape>) -> Refusal {
        if self.templates.is_empty() {
            return Refusal::NoUsablePool;
        }
        let view = self.view(shape);
        let mut refusals = Vec::new();
        for template in 0..self.templates.len() {
            let Err(why) = self.look_at(template, class, &view) else { continue };
            let defers = matches!(&why, Why::Reserved(refusal) if refusal.defers());
            let pool = self.templates[template].pool;
            let pool_id = self.templates[template].pool_id;
            refusals.push(PoolRefusal { pool: pool_id, name: pool.name.clone(), why });
            if defers {
                break;
            }
        }
        if refusals.is_empty() { Refusal::NotTriedAgain } else { Refusal::Pools(refusals) }
    }

    fn look_at(&mut self, template: usize, class: usize, view: &View) -> Result<(), Why> {
        let types = &self.types[self.templates[template].types];
        let within = self.templates[template].within_limits(types).map_err(Why::Limits)?;
        let pool = self.templates[template].pool;
        let missing = untolerated(&pool.taints, &view.shape.tolerations);
        if !missing.is_empty() {
            return Err(Why::Taints(missing.into_iter().cloned().collect()));
        }
        let variants = self.attachable(&within, template, class)?;
        let left = Left { within, variants };
        let host = placeholder(self.claims.len());
        let mut base = self.store.plain(self.templates[template].set);
        base.add(Requirement::in_values(HOSTNAME, [host.as_str()]));
        let asked = self.store.plain_split(view.shape.all);
        let strict = self.store.plain_split(view.shape.strict);
        for asked in [&asked, &strict] {
            base.compatible(asked, self.store.well_known()).map_err(Why::Requirements)?;
        }
        base.extend(asked.iter().cloned());
        let alternatives = self.classes[class].alternatives.clone();
        if alternatives.is_empty() {
            return self.look_at_place(&base, template, &left, class, view);
        }
        let mut result = Ok(());
        for place in alternatives {
            result = self.look_at_volumes(&base, place, template, &left, class, view);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn look_at_volumes(
        &mut self,
        base: &Requirements,
        place: Split,
        template: usize,
        left: &Left,
        class: usize,
        view: &View,
    ) -> Result<(), Why> {
        let asked = self.store.plain_split(place);
        base.compatible(&asked, self.store.well_known()).map_err(Why::VolumeTopology)?;
        let mut narrowed = base.clone();
        narrowed.extend(asked.iter().cloned());
        self.look_at_place(&narrowed, template, left, class, view)
    }

    /// Topology, instance types and reservations.
    fn look_at_place(
        &mut self,
        requirements: &Requirements,
        template: usize,
        left: &Left,
        class: usize,
        view: &View,
    ) -> Result<(), Why> {
        let variants = &left.variants;
        let mut devices = None;
        let mut with_devices = requirements.clone();
        if !self.classes[class].devices.is_empty() {
            let before = (self.templates[template].set, &left.within);
            let found = self
                .devices_on_claim(None, before, template, class)
                .map_err(Why::DynamicResources)?;
            let asked = &found.allocation.requirements;
            requirements.compatible(asked, self.store.well_known()).map_err(|why| {
                Why::DynamicResources(format!("incompatible dynamic resource requirements, {why}"))
            })?;
            with_devices.extend(asked.iter().cloned());
            devices = Some(found);
        }
        let requirements = &with_devices;
        let set = self.store.split(requirements).set;
        let narrowed = self.topology_of(requirements, set, template, variants, class, view)?;
        let well_known = self.store.well_known();
        requirements.takes_domains(&narrowed, well_known).map_err(Why::TopologyResult)?;
        let set = self.store.split(&narrowed).set;
        let mut kept = self.types_left(set, template, variants, class)?;
        if let Some(devices) = devices {
            self.keep_with_devices(&mut kept, &devices, template);
            if kept.is_empty() {
                return Err(Why::DynamicResources(NO_TYPE.to_owned()));
            }
        }
        if self.uses_reserved {
            self.reservable(set, &kept, template, None).map_err(Why::Reserved)?;
        }
        Ok(())
    }

    /// The types that can attach the pod's volumes.
    fn attachable(&self, within: &Bits, template: usize, class: usize) -> Result<Bits, Why> {
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
        Err(Why::VolumeLimit(culprit.map(|(driver, claims)| VolumeLimit {
            driver: driver.clone(),
            count: claims.len(),
            limit: within.iter().filter_map(|variant| limit(variant, driver)).max().unwrap_or(0),
        })))
    }
}
