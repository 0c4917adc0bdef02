//! The older form, made from the newer one.

use serde_json::{Map, Value, json};

/// `/openapi/v2`
pub(super) fn document(newer: &Value) -> Value {
    let definitions: Map<String, Value> = newer["components"]["schemas"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, found)| (name.clone(), schema(found)))
        .collect();
    let paths: Map<String, Value> = newer["paths"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, found)| (name.clone(), path(found)))
        .collect();
    json!({
        "swagger": "2.0",
        "info": newer["info"],
        "paths": paths,
        "definitions": definitions,
    })
}

fn path(newer: &Value) -> Value {
    let part = |(name, value): (&String, &Value)| match name.as_str() {
        "parameters" => {
            (name.clone(), value.as_array().into_iter().flatten().map(parameter).collect())
        }
        _ => (name.clone(), operation(value)),
    };
    newer.as_object().into_iter().flatten().map(part).collect::<Map<_, _>>().into()
}

/// The type of a parameter stands beside its name.
fn parameter(newer: &Value) -> Value {
    let mut older = newer.clone();
    if let (Some(older), Value::Object(schema)) = (older.as_object_mut(), &newer["schema"]) {
        older.shift_remove("schema");
        older.extend(schema.clone());
    }
    older
}

/// The body is one of the parameters.
fn operation(newer: &Value) -> Value {
    let mut older = newer.clone();
    let mut parameters: Vec<Value> =
        newer["parameters"].as_array().into_iter().flatten().map(parameter).collect();
    if let Some(content) = newer["requestBody"]["content"].as_object() {
        let media: Vec<&String> = content.keys().collect();
        older["consumes"] = json!(media);
        if let Some(body) = content.values().next() {
            let body = schema(&body["schema"]);
            parameters
                .push(json!({"name": "body", "in": "body", "required": true, "schema": body}));
        }
    }
    if let Some(older) = older.as_object_mut() {
        older.shift_remove("requestBody");
    }
    if !parameters.is_empty() {
        older["parameters"] = parameters.into();
    }
    older["produces"] = json!(["application/json"]);
    let answer = schema(&newer["responses"]["200"]["content"]["application/json"]["schema"]);
    older["responses"] = json!({"200": {"description": "OK", "schema": answer}});
    older
}

/// Without what the older form does not know. Depth is that of the schema.
fn schema(newer: &Value) -> Value {
    let Some(newer) = newer.as_object() else {
        return json!({});
    };
    // Fields without a type accept any value, and so do fields that accept one of several types.
    if newer.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        let kept = [
            "description",
            "x-kubernetes-group-version-kind",
            "x-kubernetes-preserve-unknown-fields",
        ];
        let kept = newer.iter().filter(|(name, _)| kept.contains(&name.as_str()));
        let mut older: Map<String, Value> =
            kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        if newer.get("type") == Some(&"object".into()) {
            older.insert("type".to_owned(), "object".into());
        }
        return older.into();
    }
    let mut older = Map::new();
    for (name, value) in newer {
        match (name.as_str(), value) {
            ("oneOf" | "anyOf" | "not" | "nullable" | "x-kubernetes-validations", _) => {}
            ("allOf", Value::Array(parts)) => {
                if let Some(reference) = parts.first().and_then(|part| part.get("$ref")) {
                    older.insert("$ref".to_owned(), definition_reference(reference));
                }
            }
            ("$ref", reference) => {
                older.insert("$ref".to_owned(), definition_reference(reference));
            }
            ("items" | "additionalProperties", Value::Object(_)) => {
                older.insert(name.clone(), schema(value));
            }
            ("properties", Value::Object(properties)) => {
                let properties: Map<String, Value> =
                    properties.iter().map(|(name, value)| (name.clone(), schema(value))).collect();
                older.insert(name.clone(), properties.into());
            }
            _ => {
                older.insert(name.clone(), value.clone());
            }
        }
    }
    if newer.contains_key("oneOf") {
        older.insert("type".to_owned(), "string".into());
    }
    older.into()
}

fn definition_reference(reference: &Value) -> Value {
    let reference = reference.as_str().unwrap_or_default();
    reference.replace("#/components/schemas/", "#/definitions/").into()
}
