//! Offerings without capacity: marked unavailable in the catalog, avoided by launches.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_api::labels;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_api::requirement::Requirement;
use karpenter_core::catalog::{InstanceType, InstanceTypes, Offering};
use karpenter_operator::cloud::{CloudError, CloudResult, ProviderLabels, nodeclaim};

use super::price::{self, PriceChange};

/// Offerings that there is nothing left of, for a while. Texts are patterns in which `*` stands for
/// anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    pub instance_type: String,
    pub zone: String,
    pub capacity_type: String,
    /// Since the faults were turned on.
    pub from: Duration,
    /// Since the faults were turned on; as long as they are if it does not say.
    pub until: Option<Duration>,
}

/// Everything, for as long as the faults are on.
impl Default for Shortage {
    fn default() -> Self {
        let anything = || "*".to_owned();
        Self {
            instance_type: anything(),
            zone: anything(),
            capacity_type: anything(),
            from: Duration::ZERO,
            until: None,
        }
    }
}

impl Shortage {
    pub(super) fn is_on(&self, passed: Duration) -> bool {
        self.from <= passed && self.until.is_none_or(|until| passed < until)
    }

    fn covers(&self, instance_type: &str, offering: &Offering) -> bool {
        let patterns = [&*self.instance_type, &*self.zone, &*self.capacity_type];
        offering_matches(patterns, instance_type, offering)
    }
}

/// Returns whether the type, zone and capacity type patterns match an offering.
/// An offering that leaves a zone or capacity type open matches every pattern of it.
pub(super) fn offering_matches(
    patterns: [&str; 3],
    instance_type: &str,
    offering: &Offering,
) -> bool {
    let [of_type, zone, capacity_type] = patterns;
    let matches = |key: &str, pattern: &str| {
        let requirement = offering.requirements.get(key).filter(|r| !r.is_complement());
        requirement.is_none_or(|r| r.values().iter().any(|value| glob(pattern, value)))
    };
    glob(of_type, instance_type)
        && matches(labels::ZONE, zone)
        && matches(labels::CAPACITY_TYPE, capacity_type)
}

fn is_short(short: &[Shortage], instance_type: &InstanceType, offering: &Offering) -> bool {
    short.iter().any(|shortage| shortage.covers(&instance_type.name, offering))
}

/// Whether the text is of the pattern, in which `*` stands for anything.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        // The first place leaves the most for what follows.
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(end)
}

/// Instance types with current prices and short offerings marked unavailable.
#[derive(Debug)]
pub(super) struct AdjustedTypes {
    source: InstanceTypes,
    short: Vec<Shortage>,
    prices: Vec<PriceChange>,
    pub(super) types: InstanceTypes,
}

impl AdjustedTypes {
    pub(super) fn new(
        source: InstanceTypes,
        short: Vec<Shortage>,
        prices: Vec<PriceChange>,
    ) -> Self {
        let mark = |known: &Arc<InstanceType>| {
            if !known.offerings.iter().any(|o| o.available && is_short(&short, known, o)) {
                return Arc::clone(known);
            }
            let mark = |offering: &Offering| Offering {
                available: offering.available && !is_short(&short, known, offering),
                ..offering.clone()
            };
            Arc::new(known.with_offerings(known.offerings.iter().map(mark).collect::<Vec<_>>()))
        };
        let types =
            price::apply_price_changes(Arc::clone(&source), &prices).iter().map(mark).collect();
        Self { source, short, prices, types }
    }

    pub(super) fn is_current(
        &self,
        types: &InstanceTypes,
        short: &[Shortage],
        prices: &[PriceChange],
    ) -> bool {
        Arc::ptr_eq(&self.source, types) && self.short == short && self.prices == prices
    }
}

/// As much of the claim's pool as a provider needs to say what it can launch.
pub(super) fn pool_of(node_claim: &NodeClaim) -> NodePool {
    let labels = node_claim.metadata.labels.as_ref();
    let name = labels.and_then(|labels| labels.get(labels::NODEPOOL)).cloned();
    let mut pool =
        NodePool { metadata: ObjectMeta { name, ..ObjectMeta::default() }, ..NodePool::default() };
    pool.spec.template.spec.node_class_ref = node_claim.spec.node_class_ref.clone();
    pool
}

/// The claim, narrowed to the cheapest offering that suits it and is not short. None if no offering
/// that suits it is short and prices are as usual: then the choice is the provider's. An error if
/// all are.
pub(super) fn narrow(
    node_claim: &NodeClaim,
    types: &InstanceTypes,
    vocabulary: &ProviderLabels,
    short: &[Shortage],
    is_priced_anew: bool,
) -> CloudResult<Option<NodeClaim>> {
    let requirements = nodeclaim::requirements(node_claim, &vocabulary.aliases)?;
    let requests = nodeclaim::requests(node_claim)?;
    let well_known = &vocabulary.well_known;
    let mut is_touched = is_priced_anew;
    let mut best: Option<(&InstanceType, &Offering)> = None;
    for instance_type in types.iter() {
        let suits = requirements.compatible(&instance_type.requirements, well_known).is_ok()
            && requests.fits_in(&instance_type.allocatable());
        let offerings = instance_type.offerings.iter().filter(|o| suits && o.is_launchable());
        for offering in offerings {
            if requirements.compatible(&offering.requirements, well_known).is_err() {
                continue;
            }
            if is_short(short, instance_type, offering) {
                is_touched = true;
            } else if best.is_none_or(|(_, so_far)| offering.price < so_far.price) {
                best = Some((instance_type, offering));
            }
        }
    }
    match best {
        _ if !is_touched => Ok(None),
        Some((instance_type, offering)) => Ok(Some(pinned(node_claim, instance_type, offering))),
        None => {
            let text = "there is nothing left of any offering that suits the claim";
            Err(CloudError::insufficient_capacity(text))
        }
    }
}

fn pinned(node_claim: &NodeClaim, of_type: &InstanceType, offering: &Offering) -> NodeClaim {
    let mut pinned = node_claim.clone();
    let single = |key: &str| {
        let requirement = offering.requirements.get(key).filter(|r| !r.is_complement())?;
        requirement.values().first().cloned()
    };
    let wanted = [
        (labels::INSTANCE_TYPE, Some(of_type.name.clone())),
        (labels::ZONE, single(labels::ZONE)),
        (labels::CAPACITY_TYPE, single(labels::CAPACITY_TYPE)),
    ];
    for (key, value) in wanted {
        let Some(value) = value else { continue };
        // Providers read the first requirement of a key, so it is replaced and not added.
        pinned.spec.requirements.retain(|requirement| requirement.key != key);
        pinned.spec.requirements.push(Requirement {
            key: key.to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![value]),
            ..Requirement::default()
        });
    }
    pinned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "c-4x", true),
            ("c-*", "c-4x", true),
            ("c-*", "m-4x", false),
            ("c-4x", "c-4x", true),
            ("c-4x", "c-4x-amd64", false),
            ("*-amd64-*", "c-4x-amd64-linux", true),
            ("*-linux", "c-4x-amd64-linux", true),
            ("a*a", "a", false),
            ("a*b*a", "aba", true),
            ("a*b*b", "ab", false),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_shortage_is_on_from_its_begin_to_its_end() {
        let of = |from, until: Option<u64>| Shortage {
            from: Duration::from_secs(from),
            until: until.map(Duration::from_secs),
            ..Shortage::default()
        };
        for (shortage, at, expected) in [
            (of(0, None), 0, true),
            (of(5, None), 4, false),
            (of(5, None), 5, true),
            (of(5, Some(9)), 8, true),
            (of(5, Some(9)), 9, false),
        ] {
            assert_eq!(shortage.is_on(Duration::from_secs(at)), expected, "{shortage:?} {at}");
        }
    }
}
