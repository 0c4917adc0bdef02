//! The filters turned around: whether pods that are on a node may be there.

use k8s_openapi::api::core::v1::Node as WireNode;
use karpenter_core::pod::AffinityTerm;
use karpenter_core::selector::Labels;

use super::cache::NodeInfo;
use super::fit_error::RejectionReason;
use super::pod_classes::Verdict;
use super::pod_info::PodInfo;
use super::topology::{MatchTarget, Matcher};

/// Why labels or taints of a node forbid a pod, whatever else runs there.
pub(crate) fn label_or_taint_rejection(pod: &PodInfo, node: &WireNode) -> Option<RejectionReason> {
    let verdict = Verdict::of(&pod.requirements.node, &NodeInfo::read(node));
    match () {
        () if verdict.is_cordoned => Some(RejectionReason::Unschedulable),
        () if verdict.is_tainted => Some(RejectionReason::Taint),
        () if verdict.is_affinity_mismatch => Some(RejectionReason::NodeAffinity),
        () => None,
    }
}

/// What the pods use more of than the node has: the resource, what they use, and what there is.
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

/// Whether a term of one pod means another one, in a namespace with these labels.
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
