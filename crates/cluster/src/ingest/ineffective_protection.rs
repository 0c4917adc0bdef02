//! Detects `karpenter.sh/do-not-disrupt` annotations whose value protects nothing.

use karpenter_api::annotations::DO_NOT_DISRUPT;
use karpenter_core::disruption::do_not_disrupt::{InvalidAnnotation, PodProtection, blocks_node};

/// The value that disables the protection on purpose.
const NO_PROTECTION: &str = "false";

/// Returns a note if the annotation of a pod protects nothing.
pub(super) fn pod_note(protection: &PodProtection) -> Option<String> {
    let PodProtection::Invalid(invalid) = protection else { return None };
    let (InvalidAnnotation::NotADuration { text, .. } | InvalidAnnotation::NotPositive { text }) =
        invalid;
    ineffective_annotation(text, "\"true\" or a positive duration such as 1h30m")
}

/// Returns a note if the annotation of a node protects nothing.
pub(super) fn node_note(annotation: Option<&str>) -> Option<String> {
    let text = annotation.filter(|_| !blocks_node(annotation))?;
    ineffective_annotation(text, "\"true\"; durations are for pods")
}

fn ineffective_annotation(text: &str, allowed: &str) -> Option<String> {
    (text != NO_PROTECTION).then(|| {
        format!("annotation {DO_NOT_DISRUPT} is {text:?}, which protects nothing; write {allowed}")
    })
}
