//! Applies the scheduler's filters to bound pods: may they be on their nodes?

use k8s_openapi::api::core::v1::Node as WireNode;
use karpenter_core::pod::AffinityTerm;
use karpenter_core::selector::Labels;

use super::cache::NodeInfo;
use super::fit_error::RejectionReason;
use super::pod_classes::Verdict;
use super::pod_info::PodInfo;
use super::topology::{MatchTarget, Matcher};

/// Returns why a node's labels or taints reject a pod; ignores its pods.
pub(crate) fn label_or_taint_rejection(pod: &PodInfo, node: &WireNode) -> Option<RejectionReason> {
    let verdict = Verdict::of(&pod.requirements.node, &NodeInfo::read(node));
    match () {
        () if verdict.is_cordoned => Some(RejectionReason::Unschedulable),
        () if verdict.is_tainted => Some(RejectionReason::Taint),
        () if verdict.is_affinity_mismatch => Some(RejectionReason::NodeAffinity),
        () => None,
    }
}

/// Returns resources that pods request beyond a node's: name, requested, allocatable.
pub(crate) fn overcommitted_resources(
    node: &WireNode,
    pods: &[&PodInfo],
) -> Vec<(String, i64, i64)> {
    let mut node = NodeInfo::read(node);
    for pod in pods {
        node.add(pod);
    }
    let (used, has) = (&node.used, &node.allocatable);
    let known = [
        ("pods", node.pod_count, node.allowed_pods),
        ("cpu", used.cpu_millis, has.cpu_millis),
        ("memory", used.memory, has.memory),
        ("ephemeral-storage", used.ephemeral_storage, has.ephemeral_storage),
    ];
    let known = known.into_iter().map(|(name, used, has)| (name.to_owned(), used, has));
    let others = used.others.iter().map(|(name, used)| (name.clone(), *used, has.other(name)));
    known.chain(others).filter(|(_, used, has)| used > has).collect()
}

/// Returns whether an affinity term of one pod matches another pod.
/// `namespace` are the labels of the other pod's namespace.
pub(crate) fn affinity_term_matches(
    term: &AffinityTerm,
    of: &PodInfo,
    other: &PodInfo,
    namespace: &Labels,
) -> bool {
    Matcher::of_term(term, &of.key.namespace).matches(MatchTarget {
        namespace: &other.key.namespace,
        namespace_labels: namespace,
        labels: &other.labels,
        is_terminating: other.is_terminating,
    })
}
