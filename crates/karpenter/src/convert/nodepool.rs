//! Converts NodePool v1beta1 to v1 (spec 10 §16.6).

use karpenter_api::labels::aws;
use serde_json::{Map, Value, json};

use super::EC2_NODE_CLASS;
use super::fields::Section;
use super::kubelet::{self, Kubelet};
use super::notes::{Note, Notes};
use super::template;

/// The v1 spec of a v1beta1 NodePool, and the kubelet block that its node class gets.
pub(super) fn convert(object: &Section<'_>, notes: &mut Notes) -> (Value, Option<Kubelet>) {
    let from = object.section("spec", notes);
    from.report_unknown_fields(&["template", "disruption", "limits", "weight"], notes);
    let from_template = from.section("template", notes);
    from_template.report_unknown_fields(&["metadata", "spec"], notes);
    let from_node = from_template.section("spec", notes);
    from_node.report_unknown_fields(
        &["taints", "startupTaints", "requirements", "resources", "kubelet", "nodeClassRef"],
        notes,
    );
    let from_disruption = from.section("disruption", notes);
    from_disruption.report_unknown_fields(
        &["consolidationPolicy", "consolidateAfter", "expireAfter", "budgets"],
        notes,
    );

    let mut node = Map::new();
    if let Some(reference) = node_class_ref(&from_node, notes) {
        node.insert("nodeClassRef".into(), reference);
    }
    template::copy_taints(&from_node, &mut node, notes);
    node.insert("requirements".into(), template::copy_requirements(&from_node, notes).into());
    node.insert("expireAfter".into(), expire_after(&from_disruption, notes).into());
    if from_node.has("resources") {
        notes.add(&from_node.path.key("resources"), Note::ResourcesDropped);
    }

    let mut template = Map::new();
    let from_metadata = from_template.section("metadata", notes);
    from_metadata.report_unknown_fields(&["labels", "annotations"], notes);
    if let Some(metadata) = template::metadata(&from_metadata, notes) {
        template.insert("metadata".into(), metadata);
    }
    template.insert("spec".into(), node.into());

    let mut spec = Map::new();
    spec.insert("template".into(), template.into());
    spec.insert("disruption".into(), disruption(&from_disruption, notes));
    if let Some(limits) = template::limits(&from.section("limits", notes), notes) {
        spec.insert("limits".into(), limits);
    }
    if let Some(weight) = from.integer("weight", notes) {
        spec.insert("weight".into(), weight.into());
    }
    let kubelet = kubelet::read(&from_node.section("kubelet", notes), notes);
    (spec.into(), kubelet)
}

fn node_class_ref(from: &Section<'_>, notes: &mut Notes) -> Option<Value> {
    let reference = from.section("nodeClassRef", notes);
    let Some(name) = reference.string("name", notes).filter(|name| !name.is_empty()) else {
        notes.add(&reference.path, Note::NodeClassMissing);
        return None;
    };
    let api_version = reference.string("apiVersion", notes).unwrap_or(aws::GROUP);
    let group = api_version.split('/').next().unwrap_or_default();
    let kind = reference.string("kind", notes).unwrap_or(EC2_NODE_CLASS);
    if group != aws::GROUP || kind != EC2_NODE_CLASS {
        let (group, kind) = (group.to_owned(), kind.to_owned());
        notes.add(&reference.path, Note::NodeClassUnsupported { group, kind });
        return None;
    }
    Some(json!({ "group": group, "kind": kind, "name": name }))
}

/// The text stays as it was written. Absent meant 720h, which is written out.
fn expire_after<'a>(from: &Section<'a>, notes: &mut Notes) -> &'a str {
    let text = from.string("expireAfter", notes).unwrap_or("720h");
    if text != "Never" {
        notes.add(&from.path.key("expireAfter"), Note::ForcefulExpiration);
    }
    text
}

fn disruption(from: &Section<'_>, notes: &mut Notes) -> Value {
    let policy = from.string("consolidationPolicy", notes).unwrap_or("WhenUnderutilized");
    let after = from.string("consolidateAfter", notes);
    let at = from.path.key("consolidateAfter");
    let (policy, after) = match (policy, after) {
        ("WhenUnderutilized", after) => {
            if after == Some("Never") {
                notes.add(&at, Note::ConsolidateAfterNeverKept);
            }
            ("WhenEmptyOrUnderutilized", after.unwrap_or("0s"))
        }
        (policy, after) => {
            if policy == "WhenEmpty" && after.is_none() {
                notes.add(&at, Note::ConsolidateAfterMissing);
            }
            (policy, after.unwrap_or("0s"))
        }
    };
    let mut disruption = Map::new();
    disruption.insert("consolidationPolicy".into(), policy.into());
    disruption.insert("consolidateAfter".into(), after.into());
    from.copy_fields(&["budgets"], &mut disruption);
    disruption.into()
}
