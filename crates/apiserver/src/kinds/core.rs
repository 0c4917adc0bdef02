//! Kinds of the core group, and near it, that have few rules of their own.

use serde_json::{Map, Value};

use super::access::{items, part, text};
use super::built_in::{BASE, BuiltIn, Generation, Status};
use super::checks;
use crate::admission::names;

pub(super) static CONFIG_MAP: BuiltIn = BuiltIn {
    model: "io.k8s.api.core.v1.ConfigMap",
    validate: checks::config_map,
    validate_update: checks::config_map_update,
    ..BASE
};

pub(super) static SECRET: BuiltIn = BuiltIn {
    model: "io.k8s.api.core.v1.Secret",
    validate: checks::secret,
    validate_update: checks::secret_update,
    fields: |secret| vec![("type", text(secret, "/type").to_owned())],
    ..BASE
};

pub(super) static ENDPOINTS: BuiltIn =
    BuiltIn { model: "io.k8s.api.core.v1.Endpoints", creates_on_update: true, ..BASE };

pub(super) static ENDPOINT_SLICE: BuiltIn =
    BuiltIn { model: "io.k8s.api.discovery.v1.EndpointSlice", generation: Generation::One, ..BASE };

pub(super) static LIMIT_RANGE: BuiltIn =
    BuiltIn { model: "io.k8s.api.core.v1.LimitRange", creates_on_update: true, ..BASE };

pub(super) static RESOURCE_QUOTA: BuiltIn =
    BuiltIn { model: "io.k8s.api.core.v1.ResourceQuota", status: Status::Own, ..BASE };

pub(super) static POD_TEMPLATE: BuiltIn = BuiltIn {
    model: "io.k8s.api.core.v1.PodTemplate",
    generation: Generation::One,
    validate: checks::pod_template,
    validate_update: |new, _| checks::pod_template(new),
    ..BASE
};

pub(super) static SERVICE_ACCOUNT: BuiltIn = BuiltIn {
    model: "io.k8s.api.core.v1.ServiceAccount",
    create: |account| only_names(account),
    update: |account, _| only_names(account),
    ..BASE
};

pub(super) static NAMESPACE: BuiltIn = BuiltIn {
    model: "io.k8s.api.core.v1.Namespace",
    status: Status::Own,
    name: names::label_problems,
    create: create_namespace,
    update: update_namespace,
    validate_status: checks::namespace_status,
    fields: |namespace| {
        vec![
            ("status.phase", text(namespace, "/status/phase").to_owned()),
            ("name", text(namespace, "/metadata/name").to_owned()),
        ]
    },
    ..BASE
};

pub(super) static LEASE: BuiltIn = BuiltIn {
    model: "io.k8s.api.coordination.v1.Lease",
    validate: checks::lease,
    validate_update: |new, _| checks::lease(new),
    creates_on_update: true,
    updates_unconditionally: false,
    ..BASE
};

fn create_namespace(namespace: &mut Value) {
    const FINALIZER: &str = "kubernetes";
    let finalizers = items(part(namespace, "spec"), "finalizers");
    if finalizers.iter().all(|finalizer| finalizer != FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    part(namespace, "status").insert("phase".to_owned(), "Active".into());
}

fn update_namespace(new: &mut Value, old: &Value) {
    let spec = part(new, "spec");
    match old.pointer("/spec/finalizers") {
        Some(finalizers) => spec.insert("finalizers".to_owned(), finalizers.clone()),
        None => spec.shift_remove("finalizers"),
    };
}

/// Of the secrets of a service account only the names are kept.
fn only_names(account: &mut Value) {
    let secrets = account.get_mut("secrets").and_then(Value::as_array_mut);
    for secret in secrets.into_iter().flatten().filter_map(Value::as_object_mut) {
        secret.retain(|name, _| name == "name");
    }
}

/// Plain text becomes data, and is not kept.
/// Texts are written into the data, and gone.
pub(super) fn merge_string_data(secret: &mut Map<String, Value>) {
    let Some(Value::Object(texts)) = secret.shift_remove("stringData") else { return };
    let data = secret.entry("data").or_insert_with(|| Map::new().into());
    let Some(data) = data.as_object_mut() else { return };
    for (name, text) in texts {
        let bytes = text.as_str().unwrap_or_default().as_bytes();
        data.insert(name, base64(bytes).into());
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place)) & 63;
            let is_padding = place > chunk.len();
            out.push(if is_padding { '=' } else { char::from(DIGITS[digit as usize]) });
        }
    }
    out
}
