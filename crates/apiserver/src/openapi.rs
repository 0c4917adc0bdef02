//! OpenAPI publishes the schemas for `kubectl explain`, validation and three-way merges of `kubectl
//! apply`.
//!
//! ```text
//! /openapi/v3                      where the document of each group version is
//! /openapi/v3/apis/{group}/{v}     paths and schemas of one of them
//! /openapi/v2                      all of them in the older form
//! ```
//!
//! The schemas of built-in kinds come from the type model, with fields, types and merge rules of
//! lists; descriptions of fields are left out. Custom kinds publish their own schema. Documents are
//! JSON: a client that accepts only protobuf gets an error and continues without OpenAPI.

mod paths;
mod schemas;
#[cfg(test)]
mod tests;
mod v2;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};

use self::schemas::Schemas;
use crate::api::{ApiResponse, Body};
use crate::registry::{Registry, ServedResource};
use crate::status::StatusError;

const INFO_VERSION: &str = "1.36";

pub(crate) fn handle(
    registry: &Registry,
    path: &str,
    accept: &str,
) -> Result<ApiResponse, StatusError> {
    if !accepts_json(accept) {
        return Err(StatusError::not_acceptable(
            "only the following media types are accepted: application/json",
        ));
    }
    match path.strip_prefix("/openapi/").ok_or_else(StatusError::no_such_path)? {
        "v3" => {
            let index = Bytes::from(index(registry).to_string());
            Ok(ApiResponse::new(StatusCode::OK, Body::Bytes("text/plain; charset=utf-8", index)))
        }
        "v2" => Ok(ApiResponse::ok(v2::document(&document(registry.iter().collect())))),
        path => {
            let path = path.strip_prefix("v3/").ok_or_else(StatusError::no_such_path)?;
            let versions = resources_by_version(registry);
            let served = versions.get(path).ok_or_else(StatusError::no_such_path)?;
            Ok(ApiResponse::ok(document(served.clone())))
        }
    }
}

fn accepts_json(accept: &str) -> bool {
    let is_json = |wish: &str| {
        let media = wish.split(';').next().unwrap_or_default().trim();
        matches!(media, "application/json" | "application/*" | "*/*")
    };
    accept.trim().is_empty() || accept.split(',').any(is_json)
}

/// Returns the served resources by `api/v1` and `apis/{group}/{version}`.
fn resources_by_version(registry: &Registry) -> BTreeMap<String, Vec<&Arc<ServedResource>>> {
    let mut versions: BTreeMap<String, Vec<&Arc<ServedResource>>> = BTreeMap::new();
    for served in registry.iter() {
        versions.entry(paths::group_version_path(served)[1..].to_owned()).or_default().push(served);
    }
    versions
}

fn index(registry: &Registry) -> Value {
    let paths: Map<String, Value> = resources_by_version(registry)
        .into_iter()
        .map(|(path, served)| {
            let url = format!("/openapi/v3/{path}?hash={}", hash(&served));
            (path, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

/// Another number for another document: clients keep documents by it. FNV-1a over what a document
/// is made from, so that the document itself need not be made.
fn hash(served: &[&Arc<ServedResource>]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for served in served {
        let mut text = format!("{} {:?}", served.type_meta, served.resource.subresources);
        let _ = write!(text, " {} {}", served.resource.namespaced, served.schema);
        for byte in text.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:016X}")
}

/// The document of one group version, or of all.
fn document(served: Vec<&Arc<ServedResource>>) -> Value {
    let mut schemas = Schemas::default();
    let mut all_paths = BTreeMap::new();
    for served in served {
        schemas.add(served);
        paths::add_resource_paths(&mut all_paths, served);
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": INFO_VERSION},
        "paths": all_paths,
        "components": {"schemas": schemas.finish()},
    })
}
