//! Converts an AWSNodeTemplate v1alpha1, or the inline provider of a Provisioner, to an
//! EC2NodeClass v1 (spec 10 §16.5).

use serde_json::{Map, Value, json};

use super::Options;
use super::class_fields;
use super::fields::Section;
use super::notes::{Note, Notes};
use super::selectors;

/// Stands where the operator has to put the name of the node role.
pub(super) const ROLE_PLACEHOLDER: &str = "$KARPENTER_NODE_ROLE";

/// Fields of an inline provider; an AWSNodeTemplate has a few more.
const PROVIDER_FIELDS: [&str; 9] = [
    "amiFamily",
    "subnetSelector",
    "securityGroupSelector",
    "instanceProfile",
    "tags",
    "launchTemplate",
    "metadataOptions",
    "blockDeviceMappings",
    "context",
];
const TEMPLATE_FIELDS: [&str; 3] = ["userData", "amiSelector", "detailedMonitoring"];
/// The type fields of an inline provider, which have no effect.
const TYPE_FIELDS: [&str; 2] = ["apiVersion", "kind"];

/// Returns the node class spec that `spec.provider` describes.
pub(super) fn convert_inline_provider(
    from: &Section<'_>,
    options: &Options,
    notes: &mut Notes,
) -> Value {
    from.report_unknown_fields(&[&PROVIDER_FIELDS[..], &TYPE_FIELDS].concat(), notes);
    let no_template_fields = Section::root(&Value::Null);
    class_spec(from, &no_template_fields, options, notes)
}

/// The spec of the node class that an AWSNodeTemplate describes.
pub(super) fn convert(object: &Section<'_>, options: &Options, notes: &mut Notes) -> Value {
    let from = object.section("spec", notes);
    from.report_unknown_fields(&[&PROVIDER_FIELDS[..], &TEMPLATE_FIELDS].concat(), notes);
    class_spec(&from, &from, options, notes)
}

/// Returns the class spec; `template` has the fields an inline provider lacks.
fn class_spec(
    from: &Section<'_>,
    template: &Section<'_>,
    options: &Options,
    notes: &mut Notes,
) -> Value {
    if from.has("launchTemplate") {
        notes.add(&from.path.key("launchTemplate"), Note::LaunchTemplateUnsupported);
    }
    let mut spec = Map::new();
    set_ami_fields(from, template, &mut spec, notes);
    for (old, new) in [
        ("subnetSelector", "subnetSelectorTerms"),
        ("securityGroupSelector", "securityGroupSelectorTerms"),
    ] {
        let selector = from.section(old, notes);
        if let Some(terms) = selectors::selector_terms(&selector, notes) {
            spec.insert(new.into(), terms.into());
        }
    }
    set_role_or_profile(from, options, &mut spec, notes);
    class_fields::copy_tags(from, &mut spec, notes);
    class_fields::copy_block_devices(from, &mut spec, notes);
    spec.insert("metadataOptions".into(), metadata_options(from, notes));
    template.copy_fields(&["detailedMonitoring"], &mut spec);
    if options.private_subnets {
        spec.insert("associatePublicIPAddress".into(), false.into());
        notes.add(&from.path, Note::NoPublicAddress);
    }
    from.copy_fields(&["context"], &mut spec);
    template.copy_fields(&["userData"], &mut spec);
    spec.into()
}

fn set_ami_fields(
    from: &Section<'_>,
    template: &Section<'_>,
    spec: &mut Map<String, Value>,
    notes: &mut Notes,
) {
    let family = from.string("amiFamily", notes).unwrap_or("AL2");
    let at = from.path.key("amiFamily");
    let selector = template.section("amiSelector", notes);
    if family == "Custom" {
        notes.add(&at, Note::CustomUserData);
    }
    if selector.is_empty() {
        match family {
            "Custom" => notes.add(&at, Note::CustomWithoutAmis),
            "Ubuntu" => notes.add(&at, Note::UbuntuWithoutAmis),
            _ => class_fields::set_ami_alias(family, "latest", &at, spec, notes),
        }
        return;
    }
    class_fields::set_ami_family(family, &at, spec, notes);
    if let Some(terms) = selectors::ami_terms(&selector, notes) {
        spec.insert("amiSelectorTerms".into(), terms.into());
    }
}

/// Sets the role or profile; old releases had one per installation, v1 has one per class.
fn set_role_or_profile(
    from: &Section<'_>,
    options: &Options,
    spec: &mut Map<String, Value>,
    notes: &mut Notes,
) {
    let profile = from.string("instanceProfile", notes).filter(|profile| !profile.is_empty());
    match (&options.role, profile) {
        (Some(role), _) => spec.insert("role".into(), role.as_str().into()),
        (None, Some(profile)) => spec.insert("instanceProfile".into(), profile.into()),
        (None, None) => {
            notes.add(&from.path.key("instanceProfile"), Note::RolePlaceholder);
            spec.insert("role".into(), ROLE_PLACEHOLDER.into())
        }
    };
}

/// Writes out what was in effect before: v1 defaults to a hop limit of 1 and to required tokens.
fn metadata_options(from: &Section<'_>, notes: &mut Notes) -> Value {
    let path = from.path.key("metadataOptions");
    if !from.has("metadataOptions") {
        notes.add(&path, Note::MetadataOptionsWrittenOut);
        return json!({
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": 2,
            "httpTokens": "required",
        });
    }
    let given = from.section("metadataOptions", notes);
    given.report_unknown_fields(&class_fields::METADATA_OPTIONS, notes);
    if !given.has("httpTokens") {
        notes.add(&path, Note::MetadataOptionsWrittenOut);
    }
    // What EC2 filled in for a launch template that left them out.
    let mut options = Map::from_iter([
        ("httpEndpoint".to_owned(), json!("enabled")),
        ("httpProtocolIPv6".to_owned(), json!("disabled")),
        ("httpPutResponseHopLimit".to_owned(), json!(1)),
        ("httpTokens".to_owned(), json!("optional")),
    ]);
    given.copy_fields(&class_fields::METADATA_OPTIONS, &mut options);
    options.into()
}
