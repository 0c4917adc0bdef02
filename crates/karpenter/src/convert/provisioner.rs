//! Converts Provisioner v1alpha5 to NodePool v1 (spec 10 §16.4).

use karpenter_api::labels::aws;
use serde_json::{Map, Value, json};

use super::fields::Section;
use super::kubelet::{self, Kubelet};
use super::notes::{Note, Notes};
use super::{EC2_NODE_CLASS, Options, node_template, template};

const FIELDS: [&str; 13] = [
    "labels",
    "annotations",
    "taints",
    "startupTaints",
    "requirements",
    "kubeletConfiguration",
    "provider",
    "providerRef",
    "ttlSecondsAfterEmpty",
    "ttlSecondsUntilExpired",
    "limits",
    "weight",
    "consolidation",
];

/// The parts of the NodePool that a Provisioner is converted to.
pub(super) struct ConvertedPool {
    pub(super) spec: Value,
    pub(super) kubelet: Option<Kubelet>,
    /// The spec of the node class that it described inline, with its findings.
    pub(super) inline_class: Option<(Value, Notes)>,
}

/// The v1 spec of a Provisioner.
pub(super) fn convert(object: &Section<'_>, options: &Options, notes: &mut Notes) -> ConvertedPool {
    let from = object.section("spec", notes);
    from.report_unknown_fields(&FIELDS, notes);
    let name = object.section("metadata", notes).string("name", notes).unwrap_or_default();

    let mut node = Map::new();
    if let Some(reference) = node_class_ref(&from, name, notes) {
        node.insert("nodeClassRef".into(), reference);
    }
    let inline_class = from.has("provider").then(|| {
        let mut class_notes = notes.empty_for_same_object();
        let provider = from.section("provider", &mut class_notes);
        (node_template::convert_inline_provider(&provider, options, &mut class_notes), class_notes)
    });
    template::copy_taints(&from, &mut node, notes);
    let mut requirements = template::copy_requirements(&from, notes);
    if !options.ignore_defaults {
        template::add_default_requirements(
            &mut requirements,
            &from.path.key("requirements"),
            notes,
        );
    }
    node.insert("requirements".into(), requirements.into());
    node.insert("expireAfter".into(), expire_after(&from, notes).into());

    let mut template = Map::new();
    if let Some(metadata) = template::metadata(&from, notes) {
        template.insert("metadata".into(), metadata);
    }
    template.insert("spec".into(), node.into());

    let mut spec = Map::new();
    spec.insert("template".into(), template.into());
    spec.insert("disruption".into(), disruption(&from, notes));
    let limits = from.section("limits", notes);
    limits.report_unknown_fields(&["resources"], notes);
    if let Some(limits) = template::limits(&limits.section("resources", notes), notes) {
        spec.insert("limits".into(), limits);
    }
    if let Some(weight) = from.integer("weight", notes) {
        spec.insert("weight".into(), weight.into());
    }
    let kubelet = kubelet::read(&from.section("kubeletConfiguration", notes), notes);
    ConvertedPool { spec: spec.into(), kubelet, inline_class }
}

/// A reference to the class that is named, or that is made from the inline provider.
fn node_class_ref(from: &Section<'_>, name: &str, notes: &mut Notes) -> Option<Value> {
    let reference = from.section("providerRef", notes);
    let class = match (from.has("provider"), from.has("providerRef")) {
        (true, true) => {
            notes.add(&from.path, Note::NodeClassDuplicate);
            return None;
        }
        (true, false) => name,
        (false, _) => reference.string("name", notes).unwrap_or_default(),
    };
    if class.is_empty() {
        notes.add(&from.path, Note::NodeClassMissing);
        return None;
    }
    let kind = reference.string("kind", notes).unwrap_or_default();
    let api_version = reference.string("apiVersion", notes).unwrap_or(aws::GROUP);
    let group = api_version.split('/').next().unwrap_or_default();
    if !matches!(kind, "" | "AWSNodeTemplate") || group != aws::GROUP {
        let (group, kind) = (group.to_owned(), kind.to_owned());
        notes.add(&reference.path, Note::NodeClassUnsupported { group, kind });
        return None;
    }
    Some(json!({ "group": aws::GROUP, "kind": EC2_NODE_CLASS, "name": class }))
}

/// Absent meant that nodes never expire; v1 would default to 720h.
fn expire_after(from: &Section<'_>, notes: &mut Notes) -> String {
    let text = duration("ttlSecondsUntilExpired", from, notes);
    if text.is_some() {
        notes.add(&from.path.key("ttlSecondsUntilExpired"), Note::ForcefulExpiration);
    }
    text.unwrap_or_else(|| "Never".to_owned())
}

fn disruption(from: &Section<'_>, notes: &mut Notes) -> Value {
    notes.add(&from.path, Note::DefaultBudget);
    let consolidation = from.section("consolidation", notes);
    consolidation.report_unknown_fields(&["enabled"], notes);
    let consolidates = consolidation.boolean("enabled", notes).unwrap_or_default();
    let after_empty = duration("ttlSecondsAfterEmpty", from, notes);
    let (policy, after) = match (consolidates, after_empty) {
        (true, after_empty) => {
            if after_empty.is_some() {
                notes.add(&from.path, Note::EmptinessWithConsolidation);
            }
            ("WhenEmptyOrUnderutilized", "0s".to_owned())
        }
        (false, Some(after)) => ("WhenEmpty", after),
        // Left out, v1 would turn consolidation on.
        (false, None) => {
            notes.add(&from.path, Note::ConsolidationDisabled);
            ("WhenEmpty", "Never".to_owned())
        }
    };
    json!({ "consolidationPolicy": policy, "consolidateAfter": after })
}

/// A number of seconds as the shortest exact duration: `720h`, `90m`, `45s`.
fn duration(key: &str, from: &Section<'_>, notes: &mut Notes) -> Option<String> {
    /// Durations are nanoseconds in 64 bits (spec 10 §15.1).
    const SECONDS_MAX: i64 = i64::MAX / 1_000_000_000;
    let seconds = from.integer(key, notes)?;
    if seconds < 0 {
        notes.add(&from.path.key(key), Note::NegativeValue);
        return None;
    }
    if seconds > SECONDS_MAX {
        return from
            .get(key)?
            .report_unexpected_type("at most 9223372036 seconds (292 years)", notes);
    }
    Some(match seconds {
        0 => "0s".to_owned(),
        _ if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        _ if seconds % 60 == 0 => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    })
}
