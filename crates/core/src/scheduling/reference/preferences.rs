//! Drops the preferences of a pod, one step at a time (spec 20 §3.15).

use crate::pod::{PodSpec, WeightedTerm};
use crate::taint::Toleration;

/// Relaxes the spec by the first step that applies. Returns false if no step is left.
pub(crate) fn relax(spec: &mut PodSpec, tolerate_prefer_no_schedule: bool) -> bool {
    drop_required_term(spec)
        || drop_heaviest(&mut spec.preferred_pod_affinity)
        || drop_heaviest(&mut spec.preferred_pod_anti_affinity)
        || drop_heaviest(&mut spec.preferred_node_affinity)
        || drop_spread(spec)
        || (tolerate_prefer_no_schedule && tolerate(spec))
}

/// Drops the first required term. The last term always stays.
fn drop_required_term(spec: &mut PodSpec) -> bool {
    let applies = spec.node_affinity.len() > 1;
    if applies {
        spec.node_affinity.remove(0);
    }
    applies
}

fn drop_heaviest<T>(preferences: &mut Vec<WeightedTerm<T>>) -> bool {
    preferences.sort_by_key(|preference| std::cmp::Reverse(preference.weight));
    let applies = !preferences.is_empty();
    if applies {
        preferences.remove(0);
    }
    applies
}

/// Drops the first constraint that is not required; the last one takes its slot.
fn drop_spread(spec: &mut PodSpec) -> bool {
    let position = spec.topology_spread.iter().position(|constraint| !constraint.is_required);
    if let Some(position) = position {
        spec.topology_spread.swap_remove(position);
    }
    position.is_some()
}

fn tolerate(spec: &mut PodSpec) -> bool {
    let toleration = Toleration::prefer_no_schedule();
    let applies = !spec.tolerations.contains(&toleration);
    if applies {
        spec.tolerations.push(toleration);
    }
    applies
}
