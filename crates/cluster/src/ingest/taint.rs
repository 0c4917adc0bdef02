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

/// The tolerations of a pod. One for an effect or with an operator that does not exist covers no
/// taint, is left out, and is a problem.
pub(super) fn tolerations(
    wire: Option<&Vec<WireToleration>>,
    problems: &mut Vec<String>,
) -> Vec<Toleration> {
    wire.into_iter().flatten().filter_map(|wire| toleration(wire, problems)).collect()
}

fn toleration(wire: &WireToleration, problems: &mut Vec<String>) -> Option<Toleration> {
    let mut refuse = |field: &str, found: &str, known: &str| {
        let key = text(wire.key.as_ref());
        problems.push(format!("toleration of {key:?}: {field} must be {known}, is {found:?}"));
    };
    let operator = text(wire.operator.as_ref());
    if !["", "Equal", "Exists", "Lt", "Gt"].contains(&operator) {
        refuse("operator", operator, "Exists or Equal");
        return None;
    }
    let effect = match text(wire.effect.as_ref()) {
        "" => None,
        name => {
            let known = effect(name);
            if known.is_none() {
                refuse("effect", name, "NoSchedule, PreferNoSchedule or NoExecute");
            }
            Some(known?)
        }
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
