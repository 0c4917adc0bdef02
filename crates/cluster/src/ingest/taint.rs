//! Taints and tolerations.

use k8s_openapi::api::core::v1::{Taint as WireTaint, Toleration as WireToleration};
use karpenter_core::taint::{Taint, TaintEffect, Toleration};

use super::text;

/// The taints of a list. An effect that does not exist counts as NoSchedule, which is the careful
/// reading, and is a problem.
pub(super) fn taints(wire: Option<&Vec<WireTaint>>, problems: &mut Vec<String>) -> Vec<Taint> {
    let read = |taint: &WireTaint| Taint {
        key: taint.key.clone(),
        value: taint.value.clone().unwrap_or_default(),
        effect: effect(&taint.effect).unwrap_or_else(|| {
            let WireTaint { key, effect, .. } = taint;
            problems.push(format!("taint {key} has an unknown effect {effect:?}"));
            TaintEffect::NoSchedule
        }),
    };
    wire.into_iter().flatten().map(read).collect()
}

/// The tolerations of a pod. One for an effect that does not exist covers no taint and is left out.
pub(super) fn tolerations(wire: Option<&Vec<WireToleration>>) -> Vec<Toleration> {
    wire.into_iter().flatten().filter_map(toleration).collect()
}

fn toleration(wire: &WireToleration) -> Option<Toleration> {
    let effect = match text(wire.effect.as_ref()) {
        "" => None,
        name => Some(effect(name)?),
    };
    Some(Toleration {
        key: wire.key.clone().unwrap_or_default(),
        operator: wire.operator.clone().unwrap_or_default(),
        value: wire.value.clone().unwrap_or_default(),
        effect,
    })
}

fn effect(name: &str) -> Option<TaintEffect> {
    match name {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}
