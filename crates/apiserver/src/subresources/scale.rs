//! `scale`: reads and writes the number of replicas of an object.

use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use crate::admission::FieldError;
use crate::api::{ApiResponse, Body, ResourceRequest, State};
use crate::kinds;
use crate::patch;
use crate::server_side_apply::{ApiEndpoint, OwnableFields, ScaleFields};
use crate::status::StatusError;
use crate::verbs::body::{self, ExpectedKind};
use crate::verbs::options::WriteOptions;
use crate::verbs::patch::{PatchType, patch_type, read_patch};
use crate::verbs::update::{ObjectUpdate, check_name};

pub(super) fn scale(state: &mut State, call: &ResourceRequest) -> Result<ApiResponse, StatusError> {
    let served = &call.served;
    let key = call.key();
    let stored = call.stored_object(state)?;
    let old = State::object(served, &stored);
    let current = scale_of(&call.served.scale_paths, &old);
    let (wanted, options) = match call.request.method {
        Method::GET => return Ok(ApiResponse::ok(current)),
        Method::PUT => (
            body::read_object(&call.request, ExpectedKind::built_in("autoscaling", "v1", "Scale"))?
                .value,
            WriteOptions::parse(&call.request.query, "UpdateOptions")?,
        ),
        Method::PATCH => {
            let options = WriteOptions::parse(&call.request.query, "PatchOptions")?;
            let kind = patch_type(&call.request, served.custom().is_some())?;
            let change = read_patch(&call.request, kind)?;
            let patched = match kind {
                PatchType::Json => patch::apply_json_patch(&current, &change)?,
                // A scale has no lists, so both kinds of merge are the same.
                PatchType::Merge | PatchType::Strategic | PatchType::Apply => {
                    patch::apply_merge_patch(&current, &change)?
                }
            };
            (patched, options)
        }
        _ => return Err(StatusError::method_not_allowed()),
    };

    check_name(call, &wanted)?;
    let replicas = validated_replicas(&wanted, call)?;
    let mut new = old.clone();
    let replicas_path = path(&call.served.scale_paths, "specReplicasPath", "spec.replicas");
    set(&mut new, &replicas_path, replicas.into());
    let write = ObjectUpdate {
        served,
        key: &key,
        stored: &stored,
        old: &old,
        subresource: call.subresource,
        dry_run: options.dry_run,
    };
    let mut claimed = new.clone();
    claimed["metadata"] = wanted["metadata"].clone();
    write.check_preconditions(&claimed)?;
    let paths = ReplicasPath { api_version: served.api_version(), path: &replicas_path };
    paths.update_managed_fields(
        &old,
        &mut new,
        &current,
        replicas,
        &call.request.field_manager(),
        &state.now(),
    );
    let answer = write.commit(state, new)?;
    let object = match &answer.body {
        Body::Stored(_, stored) => State::object(served, stored),
        Body::Object(_, object) => object.clone(),
        _ => old,
    };
    Ok(ApiResponse::new(StatusCode::OK, Body::Value(scale_of(&call.served.scale_paths, &object))))
}

/// The path of the replicas in the object, with its API version.
struct ReplicasPath<'a> {
    api_version: String,
    path: &'a [String],
}

impl ReplicasPath<'_> {
    /// Records the manager that wrote the scale in the object's managed fields.
    fn update_managed_fields(
        &self,
        old: &Value,
        new: &mut Value,
        current: &Value,
        replicas: i64,
        manager: &str,
        now: &str,
    ) {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let fields =
            ScaleFields { api_version: &self.api_version, replicas: &[(&self.api_version, &path)] };
        let entries = old["metadata"].get("managedFields");
        let Ok(scaled) = fields.to_scale(entries) else { return };
        let mut before = current.clone();
        if let Some(scaled) = scaled {
            before["metadata"]["managedFields"] = scaled;
        }
        let mut after = before.clone();
        after["spec"]["replicas"] = replicas.into();
        let types = kinds::types();
        let Some(root) = types.find_by_name("io.k8s.api.autoscaling.v1.Scale") else { return };
        let endpoint = ApiEndpoint {
            types,
            root,
            api_version: "autoscaling/v1",
            kind: "Scale",
            api_versions: &["autoscaling/v1"],
            subresource: "scale",
            ownable: OwnableFields::AllExcept(&[]),
            empty: &json!({"apiVersion": "autoscaling/v1", "kind": "Scale"}),
        };
        endpoint.update(Some(&before), &mut after, manager, now);
        if let Ok(Some(entries)) = fields.to_object(entries, after["metadata"].get("managedFields"))
        {
            new["metadata"]["managedFields"] = entries;
        }
    }
}

fn validated_replicas(wanted: &Value, call: &ResourceRequest) -> Result<i64, StatusError> {
    let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or_default();
    if replicas < 0 {
        if call.served.custom().is_some() {
            let path = call.served.scale_paths["specReplicasPath"].as_str().unwrap_or_default();
            let why = "should be a non-negative integer";
            let error = FieldError::invalid(path, replicas, why);
            return Err(StatusError::invalid(
                call.served.status_details_of_kind(&call.target.name),
                &[error],
            ));
        }
        let error =
            FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
        let about = crate::status::StatusDetails {
            group: "autoscaling",
            kind: "Scale",
            name: &call.target.name,
        };
        return Err(StatusError::invalid(about, &[error]));
    }
    Ok(replicas)
}

/// `paths` is `subresources.scale` of a custom kind; built-in ones have the usual places.
fn scale_of(paths: &Value, object: &Value) -> Value {
    let number =
        |name: &str, usual: &str| get(object, &path(paths, name, usual)).and_then(Value::as_i64);
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let mut spec = Map::new();
    if let Some(replicas) = number("specReplicasPath", "spec.replicas").filter(|count| *count != 0)
    {
        spec.insert("replicas".to_owned(), replicas.into());
    }
    let replicas = number("statusReplicasPath", "status.replicas").unwrap_or_default();
    let mut status = json!({"replicas": replicas});
    let selector = if paths.is_object() {
        let found = paths["labelSelectorPath"].as_str().and_then(|path| get(object, &parts(path)));
        found.and_then(Value::as_str).unwrap_or_default().to_owned()
    } else {
        selector_text(&object["spec"]["selector"])
    };
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    })
}

/// `a=b,c in (d,e)`, sorted by key.
fn selector_text(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut terms: Vec<(String, String)> =
        labels.map(|(key, value)| (key.clone(), format!("{key}={}", text(value)))).collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = text(&expression["key"]);
        let mut values: Vec<String> =
            expression["values"].as_array().into_iter().flatten().map(text).collect();
        values.sort();
        let values = values.join(",");
        let term = match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("Exists") => key.clone(),
            _ => format!("!{key}"),
        };
        terms.push((key, term));
    }
    terms.sort();
    let terms: Vec<String> = terms.into_iter().map(|(_, term)| term).collect();
    terms.join(",")
}

fn path(paths: &Value, name: &str, usual: &str) -> Vec<String> {
    parts(paths[name].as_str().unwrap_or(usual))
}

fn parts(path: &str) -> Vec<String> {
    path.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn get<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, part| value.get(part))
}

fn set(object: &mut Value, path: &[String], value: Value) {
    let mut place = object;
    for part in path {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[part.as_str()];
    }
    *place = value;
}
