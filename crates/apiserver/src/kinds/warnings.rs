//! Returns the warnings that the API server sends for accepted pods and templates.
//!
//! Kept to what can be seen in the object alone and is met in practice: labels of nodes that have
//! newer names, an annotation without effect, and variables that hide others.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Resource;
use super::json_access::{entries, list, text};

/// Deprecated labels of nodes, with the version of deprecation and the replacement.
const DEPRECATED_NODE_LABELS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
];

const CRITICAL_POD_ANNOTATION: &str = "scheduler.alpha.kubernetes.io/critical-pod";

/// The warnings about a new object of a built-in kind.
pub fn warnings(resource: &Resource, object: &Value) -> Vec<String> {
    let (pointer, path) = match (&*resource.group, &*resource.kind) {
        ("", "Pod") => ("", ""),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") | ("batch", "Job") => {
            ("/spec/template", "spec.template.")
        }
        ("batch", "CronJob") => {
            ("/spec/jobTemplate/spec/template", "spec.jobTemplate.spec.template.")
        }
        _ => return Vec::new(),
    };
    object.pointer(pointer).map(|template| template_warnings(template, path)).unwrap_or_default()
}

fn template_warnings(template: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let selector = entries(template, "/spec/nodeSelector");
    for (label, since, newer) in DEPRECATED_NODE_LABELS {
        if selector.contains_key(label) {
            warnings.push(format!(
                "{path}spec.nodeSelector[{label}]: deprecated since {since}; use {newer:?} instead"
            ));
        }
    }
    if entries(template, "/metadata/annotations").contains_key(CRITICAL_POD_ANNOTATION) {
        warnings.push(format!(
            "{path}metadata.annotations[{CRITICAL_POD_ANNOTATION}]: non-functional in v1.16+; use the \
             \"priorityClassName\" field instead"
        ));
    }
    for kind in ["initContainers", "containers"] {
        for (index, container) in list(template, &format!("/spec/{kind}")).iter().enumerate() {
            warn_about_duplicate_variables(
                &mut warnings,
                container,
                &format!("{path}spec.{kind}[{index}]"),
            );
        }
    }
    warnings
}

fn warn_about_duplicate_variables(warnings: &mut Vec<String>, container: &Value, path: &str) {
    let mut seen = BTreeSet::new();
    for (index, variable) in list(container, "/env").iter().enumerate() {
        let name = text(variable, "/name");
        if !seen.insert(name) {
            warnings.push(format!(
                "{path}.env[{index}]: hides previous definition of {name:?}, which may be dropped \
                 when using apply"
            ));
        }
    }
}
