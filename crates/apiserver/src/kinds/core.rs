//! Kinds of the core group, and near it, that have few rules of their own.

use karpenter_grammar::names;
use serde_json::{Map, Value};

use super::built_in_kind::{BASE_KIND, BuiltInKind, GenerationPolicy, StatusPolicy};
use super::json_access::{ensure_list, ensure_object, text};
use super::validation;

pub(super) static CONFIG_MAP: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.core.v1.ConfigMap",
    validate: validation::validate_config_map,
    validate_update: validation::validate_config_map_update,
    ..BASE_KIND
};

pub(super) static SECRET: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.core.v1.Secret",
    validate: validation::validate_secret,
    validate_update: validation::validate_secret_update,
    selectable_fields: |secret| vec![("type", text(secret, "/type").to_owned())],
    ..BASE_KIND
};

pub(super) static ENDPOINTS: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.core.v1.Endpoints",
    allows_create_on_update: true,
    ..BASE_KIND
};

pub(super) static ENDPOINT_SLICE: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.discovery.v1.EndpointSlice",
    generation_policy: GenerationPolicy::Constant,
    ..BASE_KIND
};

pub(super) static LIMIT_RANGE: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.core.v1.LimitRange",
    allows_create_on_update: true,
    ..BASE_KIND
};

pub(super) static RESOURCE_QUOTA: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.core.v1.ResourceQuota",
    status_policy: StatusPolicy::Subresource,
    ..BASE_KIND
};

pub(super) static POD_TEMPLATE: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.core.v1.PodTemplate",
    generation_policy: GenerationPolicy::Constant,
    validate: validation::validate_pod_template,
    validate_update: |new, _| validation::validate_pod_template(new),
    ..BASE_KIND
};

pub(super) static SERVICE_ACCOUNT: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.core.v1.ServiceAccount",
    prepare_for_create: |account| strip_secret_references(account),
    prepare_for_update: |account, _| strip_secret_references(account),
    ..BASE_KIND
};

pub(super) static NAMESPACE: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.core.v1.Namespace",
    status_policy: StatusPolicy::Subresource,
    validate_name: names::dns_label_errors,
    prepare_for_create: initialize_namespace,
    prepare_for_update: keep_namespace_finalizers,
    validate_status_update: validation::validate_namespace_status,
    selectable_fields: |namespace| {
        vec![
            ("status.phase", text(namespace, "/status/phase").to_owned()),
            ("name", text(namespace, "/metadata/name").to_owned()),
        ]
    },
    ..BASE_KIND
};

pub(super) static LEASE: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.coordination.v1.Lease",
    validate: validation::validate_lease,
    validate_update: |new, _| validation::validate_lease(new),
    allows_create_on_update: true,
    allows_unconditional_update: false,
    ..BASE_KIND
};

fn initialize_namespace(namespace: &mut Value) {
    const FINALIZER: &str = "kubernetes";
    let finalizers = ensure_list(ensure_object(namespace, "spec"), "finalizers");
    if finalizers.iter().all(|finalizer| finalizer != FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    ensure_object(namespace, "status").insert("phase".to_owned(), "Active".into());
}

fn keep_namespace_finalizers(new: &mut Value, old: &Value) {
    let spec = ensure_object(new, "spec");
    match old.pointer("/spec/finalizers") {
        Some(finalizers) => spec.insert("finalizers".to_owned(), finalizers.clone()),
        None => spec.shift_remove("finalizers"),
    };
}

/// Removes all but the names from the secrets of a ServiceAccount.
fn strip_secret_references(account: &mut Value) {
    let secrets = account.get_mut("secrets").and_then(Value::as_array_mut);
    for secret in secrets.into_iter().flatten().filter_map(Value::as_object_mut) {
        secret.retain(|name, _| name == "name");
    }
}

/// Moves `stringData` of a secret into `data`.
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
