//! Drops the preferences of a pod, one step at a time (spec 20 §3.15).

use std::cmp::Reverse;

use crate::pod::{PodSpec, WeightedTerm};
use crate::taint::Toleration;

/// Relaxes the spec by the first step that applies. Returns whether there was one.
pub(super) fn relax(spec: &mut PodSpec, tolerate_prefer_no_schedule: bool) -> bool {
    if spec.node_affinity.len() > 1 {
        spec.node_affinity.remove(0);
        return true;
    }
    if drop_heaviest(&mut spec.preferred_pod_affinity)
        || drop_heaviest(&mut spec.preferred_pod_anti_affinity)
        || drop_heaviest(&mut spec.preferred_node_affinity)
    {
        return true;
    }
    if let Some(position) =
        spec.topology_spread.iter().position(|constraint| !constraint.is_required)
    {
        spec.topology_spread.swap_remove(position);
        return true;
    }
    let toleration = Toleration::prefer_no_schedule();
    if tolerate_prefer_no_schedule && !spec.tolerations.contains(&toleration) {
        spec.tolerations.push(toleration);
        return true;
    }
    false
}

fn drop_heaviest<T>(terms: &mut Vec<WeightedTerm<T>>) -> bool {
    terms.sort_by_key(|preference| Reverse(preference.weight));
    if terms.is_empty() {
        return false;
    }
    terms.remove(0);
    true
}
