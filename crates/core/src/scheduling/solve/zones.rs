//! The zone that the constraints of pending pods leave, for a metric (spec 20 §4.9).

use std::collections::{BTreeMap, BTreeSet};

use super::Solver;
use super::requirement_store::{RequirementStore, SplitRequirements};
use crate::labels::ZONE;
use crate::pod::Phase;
use crate::rejection::TopologyKind;
use crate::requirement::{Operator, Requirement};

impl Solver<'_> {
    /// Counts pending pods by a zone, `flexible` or `none`. Pods of a class have the same zone.
    pub(super) fn count_effective_zones(&mut self) {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for pod in &self.requested_pods {
            if self.input.snapshot.pod(*pod).phase == Phase::Pending {
                *counts.entry(self.class_of(*pod)).or_default() += 1;
            }
        }
        for (class, pods) in counts {
            let zone = self.effective_zone(class);
            *self.effective_zones.entry(zone).or_default() += pods;
        }
    }

    fn effective_zone(&mut self, class: usize) -> String {
        let none = || "none".to_owned();
        let Some(by_topology) = self.zones_by_topology(class) else { return none() };
        let strict = self.shape(class, 0).map(|shape| shape.strict.set);
        let key = self.store.key(ZONE);
        let own = strict.and_then(|set| self.store.find(set, key)).map(|id| self.store.get(id));
        let by_volumes = zones_by_volumes(&self.classes[class].volume_topologies, key, &self.store);
        let candidates = match (own, &by_volumes) {
            (Some(own), _) if own.operator() == Operator::In => own.values().clone(),
            (_, Some(zones)) => zones.clone(),
            _ if !by_topology.is_empty() => by_topology.clone(),
            _ => return "flexible".to_owned(),
        };
        let mut left = candidates.into_iter().filter(|zone| {
            own.is_none_or(|own| own.has(zone))
                && by_volumes.as_ref().is_none_or(|zones| zones.contains(zone))
                && (by_topology.is_empty() || by_topology.contains(zone))
        });
        match (left.next(), left.next()) {
            (Some(zone), None) => zone,
            (Some(_), Some(_)) => "flexible".to_owned(),
            (None, _) => none(),
        }
    }

    /// Returns the zones that all own groups allow; empty allows any.
    ///
    /// None if some group allows no zone. Here preferences restrict where the pod may be.
    fn zones_by_topology(&mut self, class: usize) -> Option<BTreeSet<String>> {
        let Some(shape) = self.shape(class, 0) else { return Some(BTreeSet::new()) };
        let key = self.store.key(ZONE);
        let pod = self.store.find(shape.all.set, key);
        let mut common: Option<BTreeSet<String>> = None;
        let own = shape.label_groups.iter().filter(|over| shape.owned.contains(&over.group));
        for over in own {
            if self.topology.domains[over.domains].key != key {
                continue;
            }
            let feasible =
                self.topology.feasible(over.group, over.selects_pod, pod, &self.store)?;
            let domains = &self.topology.domains[over.domains];
            let names = |bits: &crate::bit_set::BitSet| -> BTreeSet<String> {
                bits.iter().map(|domain| domains.name(domain).to_owned()).collect()
            };
            let mut valid = names(&feasible.domains);
            if self.topology.group(over.group).identity.kind == TopologyKind::Affinity
                && valid.is_empty()
                && let Some(start) = &feasible.bootstrap
            {
                valid = names(start).into_iter().take(1).collect();
            }
            if valid.is_empty() {
                return None;
            }
            common = Some(common.map_or_else(|| valid.clone(), |common| &common & &valid));
        }
        Some(common.unwrap_or_default())
    }
}

/// Returns the zones of all topologies of the volumes.
///
/// None if one of them does not restrict zones.
fn zones_by_volumes(
    alternatives: &[SplitRequirements],
    key: super::requirement_store::KeyId,
    store: &RequirementStore<'_>,
) -> Option<BTreeSet<String>> {
    let zones = |split: &SplitRequirements| -> Option<&Requirement> {
        let zones = store.get(store.find(split.set, key)?);
        (zones.operator() == Operator::In).then_some(zones)
    };
    let all: Option<Vec<_>> = alternatives.iter().map(zones).collect();
    let all = all.filter(|all| !all.is_empty())?;
    Some(all.into_iter().flat_map(|zones| zones.values().iter().cloned()).collect())
}
