//! The filters turned around: whether pods that are on a node may be there.

use k8s_openapi::api::core::v1::Node as WireNode;
use karpenter_core::pod::AffinityTerm;
use karpenter_core::selector::Labels;

use super::ask::Pod;
use super::classes::Verdict;
use super::topology::{Matcher, Seen};
use super::unfit::Reason;
use super::world::Node;

/// Why labels or taints of a node forbid a pod, whatever else runs there.
pub(crate) fn forbidden(pod: &Pod, node: &WireNode) -> Option<Reason> {
    let verdict = Verdict::of(&pod.ask.nodes, &Node::read(node));
    match () {
        () if verdict.is_cordoned => Some(Reason::Unschedulable),
        () if verdict.is_tainted => Some(Reason::Taint),
        () if verdict.is_elsewhere => Some(Reason::NodeAffinity),
        () => None,
    }
}

/// What the pods use more of than the node has: the resource, what they use, and what there is.
pub(crate) fn overdrawn(node: &WireNode, pods: &[&Pod]) -> Vec<(String, i64, i64)> {
    let mut node = Node::read(node);
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
pub(crate) fn means(term: &AffinityTerm, of: &Pod, other: &Pod, namespace: &Labels) -> bool {
    Matcher::of_term(term, &of.key.namespace).matches(Seen {
        namespace: &other.key.namespace,
        namespace_labels: namespace,
        labels: &other.labels,
        is_terminating: other.is_terminating,
    })
}
