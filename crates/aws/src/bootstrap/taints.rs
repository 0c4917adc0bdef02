//! Taints that the kubelet registers.

use k8s_openapi::api::core::v1::Taint;
use karpenter_api::taints;

/// Returns the taints that the kubelet registers (spec 50 §3.2).
///
/// They are the NodeClaim's taints, its startup taints, and `karpenter.sh/unregistered` unless one
/// of these has that key and effect.
pub fn node_taints(taints: &[Taint], startup_taints: &[Taint]) -> Vec<Taint> {
    let mut all: Vec<_> = taints.iter().chain(startup_taints).cloned().collect();
    let unregistered = taints::unregistered();
    let is_same = |t: &Taint| t.key == unregistered.key && t.effect == unregistered.effect;
    if !all.iter().any(is_same) {
        all.push(unregistered);
    }
    all
}
