//! Volumes, claims and their classes.

use karpenter_grammar::Amount;
use serde_json::Value;

use super::super::field_errors::{FieldErrorList, object_diff};
use super::super::json_access::{at, copy_field, entries, has, list, text};
use super::super::pod_spec::validate_node_selector;
use crate::admission::{FieldError, FieldErrorKind};

const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(in super::super) fn validate_persistent_volume_claim(claim: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    validate_persistent_volume_claim_spec(&mut problems, at(claim, "/spec"), "spec");
    problems.into_errors()
}

fn validate_access_modes(problems: &mut FieldErrorList, spec: &Value, path: &str, detail: &str) {
    let modes: Vec<&str> = list(spec, "/accessModes").iter().filter_map(Value::as_str).collect();
    if modes.is_empty() {
        problems.required(path, detail);
    }
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        problems.not_supported(path, mode, &ACCESS_MODES);
    }
    let single = |mode: &&str| *mode == "ReadWriteOncePod";
    if modes.iter().any(single)
        && modes.iter().any(|mode| !single(mode) && ACCESS_MODES.contains(mode))
    {
        problems.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn check_positive_quantity(problems: &mut FieldErrorList, quantity: &Value, path: &str) {
    let shown = quantity.as_str().unwrap_or_default();
    if Amount::parse(shown).is_ok_and(|amount| amount.as_nanos() <= 0) {
        problems.invalid(path, shown, "must be greater than zero");
    }
}

pub(in super::super) fn validate_persistent_volume_claim_spec(
    problems: &mut FieldErrorList,
    spec: &Value,
    path: &str,
) {
    let sub = |name: &str| format!("{path}.{name}");
    // The message about a missing mode comes before those about the selector.
    let modes = sub("accessModes");
    validate_access_modes(problems, spec, &modes, "at least 1 access mode is required");
    problems.check_label_selector(at(spec, "/selector"), &sub("selector"));
    let storage = sub("resources[storage]");
    match entries(spec, "/resources/requests").get("storage") {
        None => problems.required(storage, ""),
        Some(quantity) => check_positive_quantity(problems, quantity, &storage),
    }
    let class = text(spec, "/storageClassName");
    if !class.is_empty() {
        problems.check_dns_subdomain(&sub("storageClassName"), class);
    }
    let mode = text(spec, "/volumeMode");
    if !mode.is_empty() && !["Block", "Filesystem"].contains(&mode) {
        problems.not_supported(sub("volumeMode"), mode, &["Block", "Filesystem"]);
    }
}

pub(in super::super) fn validate_persistent_volume_claim_update(
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.extend(validate_persistent_volume_claim(new));
    let (mut munged, mut before) = (at(new, "/spec").clone(), at(old, "/spec").clone());
    if text(&before, "/volumeName").is_empty() {
        let now = munged.clone();
        copy_field(&mut before, &now, "volumeName");
    }
    if !has(&before, "/storageClassName") {
        copy_field(&mut munged, &before, "storageClassName");
    }
    let bound = text(new, "/status/phase") == "Bound";
    if bound {
        let storage = at(&before, "/resources/requests/storage").clone();
        if let Some(Value::Object(requests)) = munged.pointer_mut("/resources/requests") {
            requests.insert("storage".to_owned(), storage);
        }
        copy_field(&mut munged, &before, "volumeAttributesClassName");
    }
    if munged != before {
        let detail = format!(
            "spec is immutable after creation except resources.requests and \
             volumeAttributesClassName for bound claims\n{}",
            object_diff(&munged, &before)
        );
        problems.forbidden("spec", &detail);
    }
    let size = |object: &Value, pointer: &str| {
        Amount::parse(text(object, pointer)).map_or(0, Amount::as_nanos)
    };
    let now = size(new, "/spec/resources/requests/storage");
    if now < size(old, "/spec/resources/requests/storage")
        && now <= size(old, "/status/capacity/storage")
    {
        problems.forbidden(
            "spec.resources.requests.storage",
            "field can not be less than status.capacity",
        );
    }
    problems.check_immutable(new, old, "/spec/volumeMode", "volumeMode");
    problems.into_errors()
}

/// Returns the fields of a volume that are sources.
fn volume_sources(spec: &Value) -> Vec<(&String, &Value)> {
    const OTHER_FIELDS: &[&str] = &[
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ];
    let fields = spec.as_object().into_iter().flatten();
    let mut found: Vec<(&String, &Value)> =
        fields.filter(|(name, _)| !OTHER_FIELDS.contains(&name.as_str())).collect();
    // The real server checks host paths first and CSI last.
    found.sort_by_key(|(name, _)| (name.as_str() == "csi", name.as_str() != "hostPath", *name));
    found
}

pub(in super::super) fn validate_persistent_volume(volume: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let spec = at(volume, "/spec");
    validate_access_modes(&mut problems, spec, "spec.accessModes", "");
    let capacity = entries(spec, "/capacity");
    if capacity.is_empty() {
        problems.required("spec.capacity", "");
    }
    if capacity.len() != 1 || !capacity.contains_key("storage") {
        let value = if capacity.is_empty() { Value::Null } else { capacity.clone().into() };
        problems.extend([FieldError::not_supported("spec.capacity", value, &["storage".into()])]);
    }
    for (name, quantity) in capacity {
        check_positive_quantity(&mut problems, quantity, &format!("spec.capacity[{name}]"));
    }
    let policy = text(spec, "/persistentVolumeReclaimPolicy");
    let policies = ["Delete", "Recycle", "Retain"];
    problems.check_one_of("spec.persistentVolumeReclaimPolicy", policy, &policies);
    let required = at(spec, "/nodeAffinity/required");
    if !required.is_null() {
        validate_node_selector(&mut problems, required, "spec.nodeAffinity.required");
    } else if has(spec, "/nodeAffinity") {
        problems.required("spec.nodeAffinity.required", "must specify required node constraints");
    }
    let sources = volume_sources(spec);
    if sources.is_empty() {
        problems.required("spec", "must specify a volume type");
    }
    for (name, _) in sources.iter().skip(1) {
        problems.forbidden(format!("spec.{name}"), "may not specify more than 1 volume type");
    }
    if has(spec, "/local") && !has(spec, "/nodeAffinity") {
        problems.required("spec.nodeAffinity", "Local volume requires node affinity");
    }
    if has(spec, "/csi") {
        for name in ["driver", "volumeHandle"] {
            if text(spec, &format!("/csi/{name}")).is_empty() {
                problems.required(format!("spec.csi.{name}"), "");
            }
        }
    }
    let mode = text(spec, "/volumeMode");
    if !["Block", "Filesystem"].contains(&mode) {
        problems.not_supported("spec.volumeMode", mode, &["Block", "Filesystem"]);
    }
    problems.into_errors()
}

pub(in super::super) fn validate_persistent_volume_update(
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.extend(validate_persistent_volume(new));
    let (now, before) = (volume_sources(at(new, "/spec")), volume_sources(at(old, "/spec")));
    let same = now.len() == before.len()
        && now.iter().all(|(name, value)| old["spec"].get(*name) == Some(*value));
    if !same {
        let detail = format!(
            "spec.persistentvolumesource is immutable after creation\n{}",
            object_diff(at(new, "/spec"), at(old, "/spec"))
        );
        problems.forbidden("spec.persistentvolumesource", &detail);
    }
    problems.check_immutable(new, old, "/spec/volumeMode", "volumeMode");
    if has(old, "/spec/nodeAffinity")
        && at(new, "/spec/nodeAffinity") != at(old, "/spec/nodeAffinity")
    {
        // The real server prints its own Go value here, with its own names.
        let value = at(new, "/spec/nodeAffinity").clone();
        let detail = "field is immutable, except for updating from beta label to GA";
        problems.invalid("nodeAffinity", value, detail);
    }
    problems.into_errors()
}

pub(in super::super) fn validate_storage_class(class: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let provisioner = text(class, "/provisioner");
    if provisioner.is_empty() {
        problems.required("provisioner", "");
    } else {
        problems.check_qualified_name("provisioner", &provisioner.to_lowercase());
    }
    let policy = text(class, "/reclaimPolicy");
    let policies = ["Delete", "Retain"];
    if !policies.contains(&policy) {
        problems.not_supported("reclaimPolicy", policy, &policies);
    }
    let mode = text(class, "/volumeBindingMode");
    let modes = ["Immediate", "WaitForFirstConsumer"];
    if !modes.contains(&mode) {
        problems.not_supported("volumeBindingMode", mode, &modes);
    }
    for (index, term) in list(class, "/allowedTopologies").iter().enumerate() {
        for (place, expression) in list(term, "/matchLabelExpressions").iter().enumerate() {
            let path = format!("allowedTopologies[{index}].matchLabelExpressions[{place}]");
            if list(expression, "/values").is_empty() {
                problems.required(format!("{path}.values"), "");
            }
            problems.check_qualified_name(&format!("{path}.key"), text(expression, "/key"));
        }
    }
    problems.into_errors()
}

pub(in super::super) fn validate_storage_class_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.extend(validate_storage_class(new));
    for name in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        problems.check_immutable(new, old, &format!("/{name}"), name);
    }
    problems.into_errors()
}

pub(in super::super) fn validate_volume_attachment(attachment: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let attacher = text(attachment, "/spec/attacher");
    if attacher.is_empty() {
        problems.required("spec.attacher", "");
    } else if attacher.len() > 63 {
        problems.invalid("spec.attacher", attacher, "must be 63 characters or less");
    } else {
        problems.check_dns_subdomain("spec.attacher", &attacher.to_lowercase());
    }
    let (inline, name) = (
        has(attachment, "/spec/source/inlineVolumeSpec"),
        at(attachment, "/spec/source/persistentVolumeName").as_str(),
    );
    match (inline, name) {
        (false, None) => problems.required(
            "spec.source",
            "must specify exactly one of inlineVolumeSpec and persistentVolumeName",
        ),
        (true, Some(_)) => problems.forbidden(
            "spec.source",
            "must specify exactly one of inlineVolumeSpec and persistentVolumeName",
        ),
        (false, Some("")) => {
            problems.required(
                "spec.source.persistentVolumeName",
                "must specify non empty persistentVolumeName",
            );
        }
        (false, Some(name)) => {
            problems.check_dns_subdomain("spec.source.persistentVolumeName", name);
        }
        (true, None) => {}
    }
    let node = text(attachment, "/spec/nodeName");
    problems.check_dns_subdomain("spec.nodeName", node);
    problems.into_errors()
}

pub(in super::super) fn validate_volume_attachment_update(
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.extend(validate_volume_attachment(new));
    if at(new, "/spec") != at(old, "/spec") {
        // Written in the order of the Go struct, which is not that of the alphabet.
        let source = format!(
            "{{\"PersistentVolumeName\":{},\"InlineVolumeSpec\":{}}}",
            at(new, "/spec/source/persistentVolumeName"),
            at(new, "/spec/source/inlineVolumeSpec")
        );
        let text = format!(
            "{{\"Attacher\":{},\"Source\":{source},\"NodeName\":{}}}: field is immutable",
            at(new, "/spec/attacher"),
            at(new, "/spec/nodeName")
        );
        problems.extend([FieldError::new("spec", FieldErrorKind::Invalid, None, text)]);
    }
    problems.into_errors()
}

pub(in super::super) fn validate_csi_node(node: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    let drivers = list(node, "/spec/drivers");
    for (index, driver) in drivers.iter().enumerate() {
        let path = format!("spec.drivers[{index}]");
        let name = text(driver, "/name");
        if name.is_empty() {
            problems.required(format!("{path}.name"), "");
        } else if name.len() > 63 {
            let detail = "must be no more than 63 characters";
            problems.invalid(format!("{path}.name"), name, detail);
        } else {
            problems.check_dns_subdomain(&format!("{path}.name"), &name.to_lowercase());
        }
        if text(driver, "/nodeID").is_empty() {
            problems.required(format!("{path}.nodeID"), "");
        }
        let count = format!("{path}.allocatable.count");
        problems.check_not_negative(driver, "/allocatable/count", &count);
        if drivers[..index].iter().any(|other| text(other, "/name") == name) {
            problems.duplicate(format!("{path}.name"), name);
        }
        let keys = list(driver, "/topologyKeys");
        for (place, key) in keys.iter().enumerate() {
            let shown = key.as_str().unwrap_or_default();
            if shown.is_empty() {
                problems.required(&*path, "");
            }
            if keys[..place].contains(key) {
                problems.duplicate(&*path, shown);
            }
            problems.check_qualified_name(&path, shown);
        }
    }
    problems.into_errors()
}

pub(in super::super) fn validate_csi_node_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut problems = FieldErrorList::default();
    problems.extend(validate_csi_node(new));
    for before in list(old, "/spec/drivers") {
        let mut now = list(new, "/spec/drivers").iter();
        let Some(now) = now.find(|now| text(now, "/name") == text(before, "/name")) else {
            continue;
        };
        let without = |driver: &Value| {
            let mut driver = driver.clone();
            copy_field(&mut driver, &Value::Null, "allocatable");
            driver
        };
        if without(now) != without(before) {
            let own = |name: &str| now.get(name).cloned().unwrap_or_default();
            problems.error_for_go_struct(
                "spec.drivers",
                FieldErrorKind::Invalid,
                &[
                    ("Name", own("name")),
                    ("NodeID", own("nodeID")),
                    ("TopologyKeys", own("topologyKeys")),
                    ("Allocatable", Value::Null),
                ],
                "field is immutable",
            );
        }
    }
    problems.into_errors()
}
