//! Why a pod has no place, in upstream's words (spec 20 §3.9, §3.10).
//!
//! Attempts only find out *that* a candidate does not take a pod. At the end, the new NodeClaim of
//! each template is looked at once more for each class that failed, in the order of upstream's
//! checks and on plain values, to say why. Every pod that is left was tried after the last one that
//! found a place, so this is what its last attempt saw; unless the fuel ran out, when a pod may be
//! left that would have a place by now.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use super::Solver;
use super::attempt::View;
use super::devices::NO_TYPE;
use super::existing::sum;
use super::groups::{Feasible, GroupId, Place};
use super::on_claims::placeholder;
use super::shape::Shape;
use super::store::{HOSTNAME, SetId, Split};
use crate::bits::Bits;
use crate::id::PodId;
use crate::reason::{
    Explanation, PoolRefusal, Refusal, TopologyRefusal, TypeFlags, TypesRefusal, VolumeLimit, Why,
};
use crate::requirement::{Requirement, Requirements};
use crate::resources::Resources;
use crate::scheduling::MinValuesPolicy;
use crate::scheduling::min_values;
use crate::taint::untolerated;

/// Refusals by pod.
type Refused = BTreeMap<PodId, Arc<Refusal>>;

/// How many domains a text names.
const DOMAINS_SHOWN: usize = 25;

impl Solver<'_> {
    /// Why pods have no place, and the whole trees for those that were named in the options.
    pub(super) fn refusals(&mut self) -> (Refused, BTreeMap<PodId, Explanation>) {
        let mut by_class: BTreeMap<usize, Arc<Refusal>> = BTreeMap::new();
        let (mut refused, mut explanations) = (Refused::new(), BTreeMap::new());
        for pod in std::mem::take(&mut self.refused) {
            let class = self.class_of[pod.index()] as usize;
            let shape = self.classes[class].failure.as_ref().and_then(|last| last.shape.clone());
            let refusal = if let Some(known) = by_class.get(&class) {
                known.clone()
            } else {
                let refusal = self.why(class, shape.as_ref());
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

    fn why(&mut self, class: usize, shape: Option<&Rc<Shape>>) -> Arc<Refusal> {
        match (&self.classes[class].refusal, shape) {
            (Some(refusal), _) => refusal.clone(),
            (None, Some(shape)) => Arc::new(self.refusal(class, shape)),
            (None, None) => Arc::new(Refusal::NoUsablePool),
        }
    }

    /// Why no template takes the pods of a class in their last shape.
    fn refusal(&mut self, class: usize, shape: &Rc<Shape>) -> Refusal {
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
            return self.look_at_place(&base, template, &variants, class, view);
        }
        let mut result = Ok(());
        for place in alternatives {
            result = self.look_at_volumes(&base, place, template, &variants, class, view);
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
        variants: &Bits,
        class: usize,
        view: &View,
    ) -> Result<(), Why> {
        let asked = self.store.plain_split(place);
        base.compatible(&asked, self.store.well_known()).map_err(Why::VolumeTopology)?;
        let mut narrowed = base.clone();
        narrowed.extend(asked.iter().cloned());
        self.look_at_place(&narrowed, template, variants, class, view)
    }

    /// Topology, instance types and reservations.
    fn look_at_place(
        &mut self,
        requirements: &Requirements,
        template: usize,
        variants: &Bits,
        class: usize,
        view: &View,
    ) -> Result<(), Why> {
        let mut devices = None;
        let mut with_devices = requirements.clone();
        if !self.classes[class].devices.is_empty() {
            let before = (self.templates[template].set, variants);
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

    /// The requirements with what each group leaves, own ones first.
    fn topology_of(
        &mut self,
        requirements: &Requirements,
        set: SetId,
        template: usize,
        variants: &Bits,
        class: usize,
        view: &View,
    ) -> Result<Requirements, Why> {
        let shape = &view.shape;
        let mut large_enough = variants.clone();
        let need = self.classes[class].requests.clone();
        self.keep_large_enough(&mut large_enough, template, class, None, &need);
        let types = &mut self.types[self.templates[template].types];
        large_enough.keep(&types.answer(set, &mut self.store).variants);
        let mut others: Vec<GroupId> = shape
            .over_labels
            .iter()
            .map(|over| over.group)
            .chain(shape.over_hosts.iter().map(|over| over.group))
            .filter(|group| !shape.owned.contains(group))
            .collect();
        // In an order that does not depend on which pod came first.
        others.sort_by_cached_key(|&group| {
            let identity = &self.topology.group(group).identity;
            (identity.key.clone(), identity.namespaces.clone(), identity.selector.clone())
        });
        let mut narrowed = requirements.clone();
        for group in shape.owned.iter().copied().chain(others) {
            let key = self.topology.group(group).identity.key.clone();
            let node = requirements.get(&key).cloned();
            let left = match self.topology.group(group).place {
                Place::Host => host_left(group, view).then(|| node.clone()).flatten(),
                Place::Label(position) => {
                    self.domain_left(group, position, view, set, &large_enough, template)
                }
            };
            let Some(left) = left else {
                let strict = self.store.plain_split(shape.strict);
                return Err(Why::Topology(Box::new(self.topology_refusal(group, &strict, node))));
            };
            narrowed.add(left);
        }
        Ok(narrowed)
    }

    fn domain_left(
        &mut self,
        group: GroupId,
        position: usize,
        view: &View,
        set: SetId,
        variants: &Bits,
        template: usize,
    ) -> Option<Requirement> {
        let index = view.shape.over_labels.iter().position(|over| over.group == group)?;
        let feasible: &Feasible = &view.feasible[index];
        if let Some(pick) = self.pick(group, position, feasible, set, variants, template) {
            return Some(self.store.get(pick).clone());
        }
        // The first of an affinity is offered a domain that the pod allows even if the candidate
        // does not: it is then the candidate that refuses.
        let start = feasible.bootstrap.as_ref()?;
        let key = self.topology.domains[position].key;
        let own = self.store.find(set, key).map(|own| self.store.get(own));
        let has_values = own.is_some_and(|own| !own.is_complement() && !own.is_empty());
        if !has_values || !feasible.domains.is_empty() || start.is_empty() {
            return None;
        }
        let tied = start.iter().collect();
        let chosen = self.break_tie(position, tied, set, variants, template);
        let chosen = self.topology.domains[position].exactly(&chosen, &mut self.store);
        Some(self.store.get(chosen).clone())
    }

    fn topology_refusal(
        &self,
        id: GroupId,
        strict: &Requirements,
        node: Option<Requirement>,
    ) -> TopologyRefusal {
        let group = self.topology.group(id);
        let key = &group.identity.key;
        let mut counts: Vec<(String, u32)> = match group.place {
            Place::Label(position) => {
                let domains = &self.topology.domains[position];
                (0..domains.len())
                    .filter(|&domain| group.is_known(domain))
                    .map(|domain| (domains.name(domain).to_owned(), group.count(domain)))
                    .collect()
            }
            Place::Host => {
                let nodes = self.existing.nodes.iter().map(|node| node.host);
                let claims = self.claims.iter().map(|claim| claim.host);
                let hosts: BTreeSet<usize> = nodes.chain(claims).chain(group.occupied()).collect();
                hosts
                    .into_iter()
                    .map(|host| (self.topology.host_name(host).to_owned(), group.count(host)))
                    .collect()
            }
        };
        counts.sort();
        let more = counts.len().saturating_sub(DOMAINS_SHOWN);
        counts.truncate(DOMAINS_SHOWN);
        TopologyRefusal {
            kind: group.identity.kind,
            key: key.clone(),
            counts,
            more,
            pod_domains: strict.get(key).cloned().unwrap_or_else(|| Requirement::exists(key)),
            node_domains: node.unwrap_or_else(|| Requirement::exists(key)),
        }
    }

    /// The instance types that are left, or which checks they failed.
    fn types_left(
        &mut self,
        set: SetId,
        template: usize,
        candidates: &Bits,
        class: usize,
    ) -> Result<Bits, Why> {
        let list = self.templates[template].types;
        let answer = self.types[list].answer(set, &mut self.store);
        let compatible = self.types[list].meeting_all(set, &mut self.store);
        let (types, class) = (&self.types[list], &self.classes[class]);
        let mut flags = TypeFlags::default();
        let mut overhead: Option<(Resources, Resources)> = None;
        let mut kept = types.none();
        for group in &self.templates[template].groups {
            let collides = |port: &_| group.ports.iter().any(|other| other.collides(port));
            if class.ports.iter().any(collides) {
                continue;
            }
            if let Some(own) = &group.overhead {
                overhead = Some(match overhead {
                    None => (own.clone(), own.clone()),
                    Some((least, largest)) => {
                        (Resources::min([&least, own]), Resources::max([&largest, own]))
                    }
                });
            }
            let mut own = candidates.clone();
            own.keep(&group.variants);
            let mut large_enough = own.clone();
            types.keep_fitting(&mut large_enough, &sum(&class.requests, &group.amounts));
            let own: Vec<usize> = own.iter().collect();
            let type_of = |variant: usize| types.variants[variant].instance_type;
            for of_type in own.chunk_by(|&a, &b| type_of(a) == type_of(b)) {
                let (mut is_compatible, mut offers, mut fits) = (false, false, false);
                for &variant in of_type {
                    is_compatible |= compatible.has(variant);
                    let suitable = types.variants[variant]
                        .offerings
                        .iter()
                        .any(|(_, offering)| answer.offerings.has(*offering));
                    offers |= suitable;
                    fits |= suitable && large_enough.has(variant);
                    if compatible.has(variant) && suitable && large_enough.has(variant) {
                        kept.insert(variant);
                    }
                }
                flags.requirements |= is_compatible;
                flags.offering |= offers;
                flags.fits |= fits;
                flags.requirements_and_fits |= is_compatible && fits && !offers;
                flags.requirements_and_offering |= is_compatible && offers && !fits;
                flags.fits_and_offering |= fits && offers && !is_compatible;
            }
        }
        let requirements = self.store.plain(set);
        let mut unmet = None;
        if requirements.has_min_values() && self.world.options.min_values == MinValuesPolicy::Strict
        {
            let offered = types
                .types_of(&kept)
                .into_iter()
                .map(|position| &types.list[position as usize].requirements);
            unmet = min_values::needed(&requirements, offered).err();
        }
        if !kept.is_empty() && unmet.is_none() {
            return Ok(kept);
        }
        Err(Why::InstanceTypes(Box::new(TypesRefusal {
            min_values: unmet,
            flags,
            requirements,
            requests: class.plain_requests.clone(),
            overhead,
        })))
    }
}

/// Whether a group over hosts lets a pod go to a new one.
fn host_left(group: GroupId, view: &View) -> bool {
    let hosts = view.shape.over_hosts.iter().zip(&view.may_start);
    hosts.filter(|(over, _)| over.group == group).all(|(over, may_start)| match over.limit {
        Some(limit) => limit >= 0,
        None => *may_start,
    })
}
