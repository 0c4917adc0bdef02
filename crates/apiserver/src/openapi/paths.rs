//! Builds the OpenAPI paths and operations: kinds, parameters and schemas of each.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::schemas::{self, group_version_kind, reference};
use crate::discovery;
use crate::kinds::Subresource;
use crate::registry::{ServedResource, api_version};
use crate::subresources;

const DRY_RUN: (&str, &str) = ("dryRun", "string");
const FIELD_MANAGER: (&str, &str) = ("fieldManager", "string");
const FIELD_VALIDATION: (&str, &str) = ("fieldValidation", "string");
const FORCE: (&str, &str) = ("force", "boolean");
const WRITE_PARAMETERS: &[(&str, &str)] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
const PATCH_PARAMETERS: &[(&str, &str)] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
const LIST_PARAMETERS: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const DELETE_COLLECTION_PARAMETERS: &[(&str, &str)] = &[
    ("continue", "string"),
    DRY_RUN,
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
];
const DELETE_PARAMETERS: &[(&str, &str)] = &[
    DRY_RUN,
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

/// Returns `/api/v1` or `/apis/{group}/{version}`.
pub(super) fn group_version_path(served: &ServedResource) -> String {
    let resource = &served.resource;
    let root = if resource.group.is_empty() { "/api" } else { "/apis" };
    format!("{root}/{}", api_version(&resource.group, &resource.version))
}

/// Adds the paths of a resource with their operations.
pub(super) fn add_resource_paths(paths: &mut BTreeMap<String, Value>, served: &ServedResource) {
    let resource = &served.resource;
    let (prefix, plural) = (group_version_path(served), &resource.plural);
    let kind = OperationTarget::for_resource(served);
    if served.is_review() {
        let place = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
        let post = kind.operation("post", WRITE_PARAMETERS, Some(&kind.schema), &kind.schema);
        let path = path_item(resource.namespaced, vec![("post", post)]);
        paths.insert(format!("{prefix}{place}/{plural}"), path);
        return;
    }
    let list = format!("{}List", kind.schema);
    let all = format!("{prefix}/{plural}");
    let collection = if resource.namespaced {
        paths.insert(
            all,
            path_item(false, vec![("get", kind.operation("list", LIST_PARAMETERS, None, &list))]),
        );
        format!("{prefix}/namespaces/{{namespace}}/{plural}")
    } else {
        all
    };
    let parameters = resource.namespaced;
    let mut operations = vec![
        ("get", kind.operation("list", LIST_PARAMETERS, None, &list)),
        ("post", kind.operation("post", WRITE_PARAMETERS, Some(&kind.schema), &kind.schema)),
    ];
    if (&*resource.group, &**plural) != ("", "namespaces") {
        let options = Some(schemas::DELETE_OPTIONS);
        operations.push((
            "delete",
            kind.operation(
                "deletecollection",
                DELETE_COLLECTION_PARAMETERS,
                options,
                schemas::STATUS,
            ),
        ));
    }
    paths.insert(collection.clone(), path_item(parameters, operations));
    let object = format!("{collection}/{{name}}");
    let options = Some(schemas::DELETE_OPTIONS);
    let mut operations = kind.get_put_patch(served);
    operations
        .push(("delete", kind.operation("delete", DELETE_PARAMETERS, options, schemas::STATUS)));
    paths.insert(object.clone(), object_path_item(parameters, operations));
    for subresource in &resource.subresources {
        let mut other =
            discovery::subresource_kind(*subresource).map(OperationTarget::for_group_version_kind);
        if let Some(other) = &mut other
            && served.custom().is_some()
        {
            // The scale of a custom kind goes by the name of that kind.
            other.group_version_kind = kind.group_version_kind.clone();
        }
        let kind = other.as_ref().unwrap_or(&kind);
        let operations = match subresource {
            Subresource::Binding | Subresource::Eviction | Subresource::Token => {
                vec![(
                    "post",
                    kind.operation("post", WRITE_PARAMETERS, Some(&kind.schema), &kind.schema),
                )]
            }
            Subresource::Finalize => {
                vec![(
                    "put",
                    kind.operation("put", WRITE_PARAMETERS, Some(&kind.schema), &kind.schema),
                )]
            }
            Subresource::Log => vec![("get", kind.operation("get", &[], None, &kind.schema))],
            _ => kind.get_put_patch(served),
        };
        let path = format!("{object}/{}", subresources::name(*subresource));
        paths.insert(path, object_path_item(parameters, operations));
    }
}

/// The kind that an operation reads or writes, with its schema.
struct OperationTarget {
    schema: String,
    group_version_kind: Value,
}

impl OperationTarget {
    fn for_resource(served: &ServedResource) -> Self {
        let resource = &served.resource;
        Self {
            schema: schemas::schema_name(served),
            group_version_kind: group_version_kind(
                &resource.group,
                &resource.version,
                &resource.kind,
            ),
        }
    }

    fn for_group_version_kind((group, version, kind): (&str, &str, &str)) -> Self {
        Self {
            schema: schemas::subresource_schema_name(group, version, kind),
            group_version_kind: group_version_kind(group, version, kind),
        }
    }

    fn get_put_patch(&self, served: &ServedResource) -> Vec<(&'static str, Value)> {
        let mut patch = self.operation("patch", PATCH_PARAMETERS, None, &self.schema);
        let is_built_in = served.custom().is_none();
        let strategic = is_built_in.then_some("application/strategic-merge-patch+json");
        let content: Map<String, Value> = [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
        ]
        .into_iter()
        .chain(strategic)
        .map(|media| (media.to_owned(), json!({"schema": reference(schemas::PATCH)})))
        .collect();
        patch["requestBody"] = json!({"content": content, "required": true});
        vec![
            ("get", self.operation("get", &[], None, &self.schema)),
            ("put", self.operation("put", WRITE_PARAMETERS, Some(&self.schema), &self.schema)),
            ("patch", patch),
        ]
    }

    fn operation(
        &self,
        action: &str,
        parameters: &[(&str, &str)],
        body: Option<&str>,
        answer: &str,
    ) -> Value {
        let content = |schema: &str| json!({"application/json": {"schema": reference(schema)}});
        let mut operation = Map::new();
        if !parameters.is_empty() {
            let parameter = |(name, kind): &(&str, &str)| json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}});
            operation.insert("parameters".to_owned(), parameters.iter().map(parameter).collect());
        }
        if let Some(schema) = body {
            operation.insert("requestBody".to_owned(), json!({"content": content(schema)}));
        }
        let answer = json!({"200": {"description": "OK", "content": content(answer)}});
        operation.insert("responses".to_owned(), answer);
        operation.insert("x-kubernetes-action".to_owned(), action.into());
        operation
            .insert("x-kubernetes-group-version-kind".to_owned(), self.group_version_kind.clone());
        operation.into()
    }
}

fn path_item(namespaced: bool, operations: Vec<(&str, Value)>) -> Value {
    let mut path: Map<String, Value> =
        operations.into_iter().map(|(method, operation)| (method.to_owned(), operation)).collect();
    if namespaced {
        path.insert("parameters".to_owned(), json!([path_parameter("namespace")]));
    }
    path.into()
}

fn object_path_item(namespaced: bool, operations: Vec<(&str, Value)>) -> Value {
    let mut path = path_item(namespaced, operations);
    let mut parameters = vec![path_parameter("name")];
    if namespaced {
        parameters.push(path_parameter("namespace"));
    }
    path["parameters"] = parameters.into();
    path
}

fn path_parameter(name: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}})
}
