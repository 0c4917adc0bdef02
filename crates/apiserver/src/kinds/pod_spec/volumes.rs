//! The volumes of a pod.

use serde_json::Value;

use super::super::access::{at, entries, has, list, number, text};
use super::super::problems::{Problems, config_key_problems};
use crate::shape::Amount;

/// The sources in the order in which the real server looks at them.
const SOURCES: &[&str] = &[
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

/// Returns the volumes that are good, which containers may mount.
pub(super) fn check<'a>(
    problems: &mut Problems,
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
        let mut own = Problems::default();
        source(&mut own, volume, &at);
        if name.is_empty() {
            own.required(format!("{at}.name"), "");
        } else {
            own.label(&format!("{at}.name"), name);
        }
        if good.iter().any(|volume| text(volume, "/name") == name) {
            own.duplicate(format!("{at}.name"), name);
        }
        if own.is_empty() {
            good.push(volume);
        } else {
            problems.extend(own.done());
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

fn source(problems: &mut Problems, volume: &Value, path: &str) {
    let mut found = 0;
    for name in SOURCES.iter().copied().filter(|name| has(volume, &format!("/{name}"))) {
        let at = format!("{path}.{name}");
        found += 1;
        if found > 1 {
            problems.forbidden(at, "may not specify more than 1 volume type");
            continue;
        }
        one_source(problems, name, &volume[name], &at);
    }
    if found == 0 {
        problems.required(path, "must specify a volume type");
    }
}

fn one_source(problems: &mut Problems, name: &str, source: &Value, path: &str) {
    let need = |problems: &mut Problems, field: &str| {
        if text(source, &format!("/{field}")).is_empty() {
            problems.required(format!("{path}.{field}"), "");
        }
    };
    match name {
        "emptyDir" => {
            let limit = text(source, "/sizeLimit");
            if Amount::parse(limit).is_ok_and(|limit| limit.nanos() < 0) {
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
            files(problems, source, path);
        }
        "configMap" => {
            need(problems, "name");
            files(problems, source, path);
        }
        "persistentVolumeClaim" => need(problems, "claimName"),
        "nfs" => {
            need(problems, "server");
            need(problems, "path");
        }
        "awsElasticBlockStore" => need(problems, "volumeID"),
        "csi" => need(problems, "driver"),
        "projected" => projected(problems, source, path),
        "ephemeral" => {
            if has(source, "/volumeClaimTemplate") {
                let spec = at(source, "/volumeClaimTemplate/spec");
                let path = format!("{path}.volumeClaimTemplate.spec");
                super::super::checks::claim_spec(problems, spec, &path);
            } else {
                problems.required(format!("{path}.volumeClaimTemplate"), "");
            }
        }
        _ => {}
    }
}

fn files(problems: &mut Problems, source: &Value, path: &str) {
    mode(problems, source, path);
    for (index, item) in list(source, "/items").iter().enumerate() {
        let at = format!("{path}.items[{index}]");
        for name in ["key", "path"] {
            if text(item, &format!("/{name}")).is_empty() {
                problems.required(format!("{at}.{name}"), "");
            }
        }
    }
}

fn mode(problems: &mut Problems, source: &Value, path: &str) {
    let mode = number(source, "/defaultMode");
    if !(0..=0o777).contains(&mode) {
        problems.invalid(
            format!("{path}.defaultMode"),
            mode,
            "must be a number between 0 and 0777 (octal), both inclusive",
        );
    }
}

fn projected(problems: &mut Problems, source: &Value, path: &str) {
    mode(problems, source, path);
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

/// The keys of a config map or secret.
pub(in super::super) fn data_keys(problems: &mut Problems, object: &Value, field: &str) -> usize {
    let mut size = 0;
    for (key, value) in entries(object, &format!("/{field}")) {
        problems.each(&format!("{field}[{key}]"), key, config_key_problems(key));
        size += value.as_str().map_or(0, str::len);
    }
    size
}
