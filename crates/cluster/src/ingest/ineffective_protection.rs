//! Annotations `karpenter.sh/do-not-disrupt` that protect nothing, though somebody wrote them for it.

use karpenter_api::annotations::DO_NOT_DISRUPT;
use karpenter_core::disruption::do_not_disrupt::{InvalidAnnotation, PodProtection, blocks_node};

/// What somebody may write to say that there is no protection, which is how it is read.
const NO_PROTECTION: &str = "false";

/// What there is to say about the annotation of a pod.
pub(super) fn pod_note(protection: &PodProtection) -> Option<String> {
    let PodProtection::Invalid(invalid) = protection else { return None };
    let (InvalidAnnotation::NotADuration { text, .. } | InvalidAnnotation::NotPositive { text }) =
        invalid;
    ineffective_annotation(text, "\"true\" or a positive duration such as 1h30m")
}

/// The same for a node.
pub(super) fn node_note(annotation: Option<&str>) -> Option<String> {
    let text = annotation.filter(|_| !blocks_node(annotation))?;
    ineffective_annotation(text, "\"true\"; durations are for pods")
}

fn ineffective_annotation(text: &str, allowed: &str) -> Option<String> {
    (text != NO_PROTECTION).then(|| {
        format!("annotation {DO_NOT_DISRUPT} is {text:?}, which protects nothing; write {allowed}")
    })
}
