//! Converts EC2NodeClass v1beta1 to v1 (spec 10 §16.7).

use karpenter_api::annotations::compatibility;
use serde_json::{Map, Value, json};

use super::class_fields;
use super::fields::Section;
use super::notes::{Note, Notes};
use super::selectors;

const FIELDS: [&str; 14] = [
    "amiFamily",
    "amiSelectorTerms",
    "subnetSelectorTerms",
    "securityGroupSelectorTerms",
    "role",
    "instanceProfile",
    "tags",
    "blockDeviceMappings",
    "instanceStorePolicy",
    "metadataOptions",
    "detailedMonitoring",
    "associatePublicIPAddress",
    "context",
    "userData",
];

/// The v1 spec of a v1beta1 EC2NodeClass.
pub(super) fn convert(object: &Section<'_>, notes: &mut Notes) -> Value {
    let from = object.section("spec", notes);
    from.report_unknown_fields(&FIELDS, notes);
    let mut spec = Map::new();
    set_ami_fields(&from, alias_version(object, notes), &mut spec, notes);
    for key in ["subnetSelectorTerms", "securityGroupSelectorTerms"] {
        let terms = selectors::split_terms(key, &from, notes);
        if terms.is_empty() {
            notes.add(&from.path.key(key), Note::SelectorMissing);
        }
        spec.insert(key.into(), terms.into());
    }
    set_role_or_profile(&from, &mut spec, notes);
    class_fields::copy_tags(&from, &mut spec, notes);
    class_fields::copy_block_devices(&from, &mut spec, notes);
    from.copy_fields(&["instanceStorePolicy"], &mut spec);
    set_metadata_options(&from, &mut spec, notes);
    let copied = ["detailedMonitoring", "associatePublicIPAddress", "context", "userData"];
    from.copy_fields(&copied, &mut spec);
    spec.into()
}

/// The version that the conversion webhook of v1.0 took from an alias, if it ever saw one.
fn alias_version<'a>(object: &Section<'a>, notes: &mut Notes) -> Option<&'a str> {
    let annotations = object.section("metadata", notes).section("annotations", notes);
    let version = annotations.string(compatibility::V1_ALIAS_VERSION, notes)?;
    notes.add(&annotations.path.key(compatibility::V1_ALIAS_VERSION), Note::AnnotationConsumed);
    Some(version)
}

fn set_ami_fields(
    from: &Section<'_>,
    version: Option<&str>,
    spec: &mut Map<String, Value>,
    notes: &mut Notes,
) {
    let family = from.string("amiFamily", notes).unwrap_or("Custom");
    let at = from.path.key("amiFamily");
    match family {
        "Custom" => notes.add(&at, Note::CustomUserData),
        "AL2023" => notes.add(&at, Note::Al2023Changes),
        _ => {}
    }
    let terms = from.list("amiSelectorTerms", notes);
    if terms.is_empty() {
        match family {
            "Custom" => notes.add(&at, Note::CustomWithoutAmis),
            "Ubuntu" => notes.add(&at, Note::UbuntuWithoutAmis),
            _ => {
                let version = version.unwrap_or("latest");
                class_fields::set_ami_alias(family, version, &at, spec, notes);
                if version == "latest" {
                    notes.add(&at, Note::LatestAlias);
                }
            }
        }
        return;
    }
    for term in &terms {
        let Some(fields) = term.section(notes) else { continue };
        if fields.has("id") && ["name", "owner", "tags"].iter().any(|key| fields.has(key)) {
            notes.add(&term.path, Note::IdWithOtherFilters);
        }
    }
    class_fields::set_ami_family(family, &at, spec, notes);
    let terms: Vec<_> = terms.iter().map(|term| term.value.clone()).collect();
    spec.insert("amiSelectorTerms".into(), terms.into());
}

fn set_role_or_profile(from: &Section<'_>, spec: &mut Map<String, Value>, notes: &mut Notes) {
    let mut given = Vec::new();
    for key in ["role", "instanceProfile"] {
        if let Some(value) = from.string(key, notes).filter(|value| !value.is_empty()) {
            given.push((key, value));
        }
    }
    match given[..] {
        [(key, value)] => {
            spec.insert(key.into(), value.into());
        }
        _ => notes.add(&from.path, Note::RoleOrProfile),
    }
}

/// Sets the metadata options with v1beta1's default hop limit of 2; v1's is 1.
/// The other three defaults are the same.
fn set_metadata_options(from: &Section<'_>, spec: &mut Map<String, Value>, notes: &mut Notes) {
    let given = from.section("metadataOptions", notes);
    given.report_unknown_fields(&class_fields::METADATA_OPTIONS, notes);
    let mut options = Map::new();
    given.copy_fields(&class_fields::METADATA_OPTIONS, &mut options);
    if !given.has("httpPutResponseHopLimit") {
        notes.add(&given.path, Note::MetadataOptionsWrittenOut);
        options.insert("httpPutResponseHopLimit".into(), json!(2));
    }
    spec.insert("metadataOptions".into(), options.into());
}
