//! Collects objects that a decision does not read but that explain it: autoscalers, which set the
//! replicas in the end, and NodeClasses.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_api::node_class_ref::NodeClassRef;
use serde_json::Value;

use super::expand::ExpandedWorkload;
use super::rejection_text;

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    /// The targets of HorizontalPodAutoscalers: kind, namespace and name.
    autoscaled: BTreeSet<(String, String, String)>,
    /// NodeClasses by group and kind, and then by name.
    node_classes: BTreeMap<(String, String), BTreeMap<String, Value>>,
}

impl Hints {
    /// Records an object of a kind that a decision does not read.
    pub(super) fn observe(&mut self, object: &Value) {
        let text = |pointer: &str| {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (version, kind) = (text("/apiVersion"), text("/kind"));
        let group = version.split_once('/').map_or("", |(group, _)| group);
        match (group, kind.as_str()) {
            ("autoscaling", "HorizontalPodAutoscaler") => {
                let namespace = Some(text("/metadata/namespace")).filter(|name| !name.is_empty());
                self.autoscaled.insert((
                    text("/spec/scaleTargetRef/kind"),
                    namespace.unwrap_or_else(|| "default".to_owned()),
                    text("/spec/scaleTargetRef/name"),
                ));
            }
            (_, kind) if kind.ends_with("NodeClass") => {
                let key = (group.to_owned(), kind.to_owned());
                let name = text("/metadata/name");
                self.node_classes.entry(key).or_default().insert(name, object.clone());
            }
            _ => {}
        }
    }

    /// Returns a note about expanded workloads that autoscalers scale.
    pub(crate) fn autoscaler_note(&self, expanded: &[ExpandedWorkload]) -> Option<String> {
        let is_scaled = |workload: &&ExpandedWorkload| {
            let ExpandedWorkload { kind, namespace, name, .. } = workload;
            self.autoscaled.contains(&((*kind).to_owned(), namespace.clone(), name.clone()))
        };
        let scaled: Vec<_> = expanded
            .iter()
            .filter(is_scaled)
            .map(|ExpandedWorkload { kind, namespace, name, .. }| {
                format!("{kind} {namespace}/{name}")
            })
            .collect();
        (!scaled.is_empty()).then(|| {
            let names = rejection_text::join_first(scaled.iter().map(String::as_str), scaled.len());
            format!(
                "a HorizontalPodAutoscaler decides about the replicas of {names}; planned with \
                 those of the manifest"
            )
        })
    }

    /// Returns the NodeClass of a reference, if it is among the objects.
    pub(super) fn node_class(&self, reference: &NodeClassRef) -> Option<&Value> {
        let kind = (reference.group.clone(), reference.kind.clone());
        self.node_classes.get(&kind)?.get(&reference.name)
    }

    /// Returns the fix of a missing class, if others of its kind exist.
    pub(super) fn missing_class_fix(&self, group: &str, kind: &str, name: &str) -> Option<String> {
        let known = self.node_classes.get(&(group.to_owned(), kind.to_owned()))?;
        (!known.contains_key(name)).then(|| {
            let names = rejection_text::join_first(known.keys().map(String::as_str), known.len());
            format!("add it, or use one that is: {names}")
        })
    }
}
