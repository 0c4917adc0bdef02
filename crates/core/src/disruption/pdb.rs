//! Evaluates PodDisruptionBudgets for disruption (spec 30 §3.4).

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::pod::drain_state::tolerates_disruption;
use crate::pod::{OwnerKind, Pod, PodSpec};
use crate::selector::Labels;
use crate::snapshot::{PodDisruptionBudget, Snapshot};

/// The PodDisruptionBudgets of a cluster, by namespace.
/// Replicas mostly share their labels and specs, so the results for them are cached.
pub(super) struct PdbIndex<'a> {
    by_namespace: BTreeMap<&'a str, Vec<&'a PodDisruptionBudget>>,
    /// Matching budgets by namespace and labels.
    /// The keys are addresses of labels that the snapshot keeps alive.
    by_labels: FxHashMap<(&'a str, *const Labels), SmallVec<[&'a PodDisruptionBudget; 2]>>,
    disruption_tolerated: FxHashMap<*const PodSpec, bool>,
}

/// Why a pod cannot be evicted.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum EvictionBlocker<'a> {
    /// Several PodDisruptionBudgets match, so Kubernetes refuses every eviction.
    MultiplePdbs(Vec<&'a PodDisruptionBudget>),
    /// The PodDisruptionBudget allows no disruption now.
    PdbExhausted(&'a PodDisruptionBudget),
}

impl<'a> PdbIndex<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let mut by_namespace: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for budget in snapshot.disruption_budgets.iter() {
            by_namespace.entry(&budget.namespace).or_default().push(budget);
        }
        for budgets in by_namespace.values_mut() {
            budgets.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Self {
            by_namespace,
            by_labels: FxHashMap::default(),
            disruption_tolerated: FxHashMap::default(),
        }
    }

    /// Returns why the pod cannot be evicted now, if it cannot.
    pub(super) fn eviction_blocker(&mut self, pod: &'a Pod) -> Option<EvictionBlocker<'a>> {
        match &self.matching_pdbs(pod)[..] {
            [] => None,
            [budget] => {
                let is_free = budget.always_evicts_unhealthy && pod.is_unready;
                (budget.disruptions_allowed == 0 && !is_free)
                    .then_some(EvictionBlocker::PdbExhausted(budget))
            }
            several => Some(EvictionBlocker::MultiplePdbs(several.to_vec())),
        }
    }

    /// Whether the pod's PodDisruptionBudgets never allow its eviction.
    pub(super) fn is_never_evictable(&mut self, pod: &'a Pod) -> bool {
        match &self.matching_pdbs(pod)[..] {
            [] => false,
            [budget] => budget.blocks_all && !(budget.always_evicts_unhealthy && pod.is_unready),
            _ => true,
        }
    }

    /// Returns the PodDisruptionBudgets that apply to the pod.
    /// None apply to pods that a drain does not evict.
    fn matching_pdbs(&mut self, pod: &'a Pod) -> SmallVec<[&'a PodDisruptionBudget; 2]> {
        let Some(budgets) = self.by_namespace.get(pod.namespace.as_str()) else {
            return SmallVec::new();
        };
        let is_evictable = pod.is_active() && pod.owner != OwnerKind::Node && !pod.do_not_disrupt;
        if !is_evictable || is_disruption_tolerated(&mut self.disruption_tolerated, &pod.spec) {
            return SmallVec::new();
        }
        let key = (pod.namespace.as_str(), Arc::as_ptr(&pod.labels));
        let matching = || budgets.iter().filter(|budget| budget.selector.matches(&pod.labels));
        self.by_labels.entry(key).or_insert_with(|| matching().copied().collect()).clone()
    }
}

fn is_disruption_tolerated(
    known: &mut FxHashMap<*const PodSpec, bool>,
    spec: &Arc<PodSpec>,
) -> bool {
    *known.entry(Arc::as_ptr(spec)).or_insert_with(|| tolerates_disruption(&spec.tolerations))
}
