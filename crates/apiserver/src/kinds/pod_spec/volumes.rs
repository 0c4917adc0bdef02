//! The volumes of a pod.

use karpenter_grammar::Amount;
use serde_json::Value;

use super::super::field_errors::{FieldErrorList, config_key_problems};
use super::super::json_access::{at, entries, has, list, number, text};

/// The sources in the order in which the real server checks them.
const VOLUME_SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Validates the volumes and returns the valid ones, which containers may mount.
pub(super) fn validate_volumes<'a>(
    problems: &mut FieldErrorList,
    spec: &'a Value,
    metadata: &Value,
    path: &str,
) -> Vec<&'a Value> {
    let volumes = list(spec, "/volumes");
    let pod = text(metadata, "/name");
    let created: Vec<String> = volumes
        .iter()
        .filter(|volume| has(volume, "/ephemeral") && !pod.is_empty())
        .map(|volume| format!("{pod}-{}", text(volume, "/name")))
        .collect();
    let mut good: Vec<&Value> = Vec::new();
    for (index, volume) in volumes.iter().enumerate() {
        let at = format!("{path}[{index}]");
        let name = text(volume, "/name");
        let mut own = FieldErrorList::default();
        validate_volume_source(&mut own, volume, &at);
        if name.is_empty() {
            own.required(format!("{at}.name"), "");
        } else {
            own.check_dns_label(&format!("{at}.name"), name);
        }
        if good.iter().any(|volume| text(volume, "/name") == name) {
            own.duplicate(format!("{at}.name"), name);
        }
        if own.is_empty() {
            good.push(volume);
        } else {
            problems.extend(own.into_errors());
        }
        let claim = text(volume, "/persistentVolumeClaim/claimName");
        if created.iter().any(|created| created == claim) {
            problems.invalid(
                format!("{at}.persistentVolumeClaim.claimName"),
                claim,
                "must not reference a PVC that gets created for an ephemeral volume",
            );
        }
    }
    good
}

fn validate_volume_source(problems: &mut FieldErrorList, volume: &Value, path: &str) {
    let mut found = 0;
    for name in VOLUME_SOURCES.iter().copied().filter(|name| has(volume, &format!("/{name}"))) {
        let at = format!("{path}.{name}");
        found += 1;
        if found > 1 {
            problems.forbidden(at, "may not specify more than 1 volume type");
            continue;
        }
        validate_source_fields(problems, name, &volume[name], &at);
    }
    if found == 0 {
        problems.required(path, "must specify a volume type");
    }
}

fn validate_source_fields(problems: &mut FieldErrorList, name: &str, source: &Value, path: &str) {
    let need = |problems: &mut FieldErrorList, field: &str| {
        if text(source, &format!("/{field}")).is_empty() {
            problems.required(format!("{path}.{field}"), "");
        }
    };
    match name {
        "emptyDir" => {
            let limit = text(source, "/sizeLimit");
            if Amount::parse(limit).is_ok_and(|limit| limit.as_nanos() < 0) {
                problems.forbidden(
                    format!("{path}.sizeLimit"),
                    "SizeLimit field must be a valid resource quantity",
                );
            }
        }
        "hostPath" => {
            need(problems, "path");
            if text(source, "/path").split('/').any(|part| part == "..") {
                problems.invalid(
                    format!("{path}.path"),
                    text(source, "/path"),
                    "must not contain '..'",
                );
            }
        }
        "secret" => {
            need(problems, "secretName");
            validate_file_items(problems, source, path);
        }
        "configMap" => {
            need(problems, "name");
            validate_file_items(problems, source, path);
        }
        "persistentVolumeClaim" => need(problems, "claimName"),
        "nfs" => {
            need(problems, "server");
            need(problems, "path");
        }
        "awsElasticBlockStore" => need(problems, "volumeID"),
        "csi" => need(problems, "driver"),
        "projected" => validate_projected_volume(problems, source, path),
        "ephemeral" => {
            if has(source, "/volumeClaimTemplate") {
                let spec = at(source, "/volumeClaimTemplate/spec");
                let path = format!("{path}.volumeClaimTemplate.spec");
                super::super::validation::validate_persistent_volume_claim_spec(
                    problems, spec, &path,
                );
            } else {
                problems.required(format!("{path}.volumeClaimTemplate"), "");
            }
        }
        _ => {}
    }
}

fn validate_file_items(problems: &mut FieldErrorList, source: &Value, path: &str) {
    validate_default_mode(problems, source, path);
    for (index, item) in list(source, "/items").iter().enumerate() {
        let at = format!("{path}.items[{index}]");
        for name in ["key", "path"] {
            if text(item, &format!("/{name}")).is_empty() {
                problems.required(format!("{at}.{name}"), "");
            }
        }
    }
}

fn validate_default_mode(problems: &mut FieldErrorList, source: &Value, path: &str) {
    let mode = number(source, "/defaultMode");
    if !(0..=0o777).contains(&mode) {
        problems.invalid(
            format!("{path}.defaultMode"),
            mode,
            "must be a number between 0 and 0777 (octal), both inclusive",
        );
    }
}

fn validate_projected_volume(problems: &mut FieldErrorList, source: &Value, path: &str) {
    validate_default_mode(problems, source, path);
    for (index, projection) in list(source, "/sources").iter().enumerate() {
        let at = format!("{path}.sources[{index}]");
        if text(projection, "/serviceAccountToken/path").is_empty()
            && has(projection, "/serviceAccountToken")
        {
            problems.required(format!("{at}.path"), "");
        }
        for kind in ["secret", "configMap"] {
            if has(projection, &format!("/{kind}"))
                && text(projection, &format!("/{kind}/name")).is_empty()
            {
                problems.required(format!("{at}.{kind}.name"), "");
            }
        }
    }
}

/// Validates the keys of a config map or secret.
///
/// Returns the size of the values.
pub(in super::super) fn validate_data_keys(
    problems: &mut FieldErrorList,
    object: &Value,
    field: &str,
) -> usize {
    let mut size = 0;
    for (key, value) in entries(object, &format!("/{field}")) {
        problems.invalid_each(&format!("{field}[{key}]"), key, config_key_problems(key));
        size += value.as_str().map_or(0, str::len);
    }
    size
}
