//! A served resource applies the rules of its kind at each step of a write.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{api_version, copy_field, copy_managed_fields, remove_field};
use crate::admission::{CustomKind, FieldError, metadata};
use crate::kinds::{self, AdmissionContext, KindDefinition, Resource, Subresource};
use crate::server_side_apply::{ApiEndpoint, OwnableFields};
use crate::status::{StatusDetails, StatusError};
use crate::store::{ResourceId, StringPairs};
use crate::type_model::{self, Types};

/// A resource that the API serves, with its types and rules.
#[derive(Debug)]
pub(crate) struct ServedResource {
    pub(crate) resource: Resource,
    types: TypeSource,
    pub(crate) id: ResourceId,
    /// `"apiVersion":"v1","kind":"Pod"`: objects are stored without it.
    pub(crate) type_meta: String,
    /// The columns that `kubectl get` shows of a custom kind.
    pub(crate) printer_columns: Vec<Value>,
    /// The `openAPIV3Schema` of a custom kind, for the published OpenAPI.
    pub(crate) schema: Value,
    /// The custom fields that a field selector may name.
    pub(crate) selectable_fields: Vec<String>,
    /// Whether this is `events.k8s.io`, whose objects are stored in the form of core events.
    is_events_group: bool,
    /// All versions in which the kind is served: `apps/v1`.
    pub(crate) api_versions: Vec<String>,
    /// An empty object of the kind, with the fields that the server always writes.
    empty: Value,
    /// `subresources.scale` of a custom kind: the paths of replicas and selector.
    pub(crate) scale_paths: Value,
}

/// The source of the types: shared by all built-in kinds, or of one custom kind.
#[derive(Debug, Clone)]
enum TypeSource {
    BuiltIn,
    Custom(Arc<Types>),
}

/// The fields that a write to the object can own: all but the status.
const OWNABLE_BY_OBJECT_WRITE: OwnableFields<'static> = OwnableFields::AllExcept(&[&["status"]]);
const OWNABLE_WITHOUT_STATUS_SUBRESOURCE: OwnableFields<'static> = OwnableFields::AllExcept(&[]);
/// The fields that a write to the status can own: all but the spec.
const OWNABLE_BY_STATUS_WRITE: OwnableFields<'static> = OwnableFields::AllExcept(&[&["spec"]]);
const OWNABLE_BY_CUSTOM_STATUS_WRITE: OwnableFields<'static> =
    OwnableFields::AllExcept(&[&["spec"], &["metadata"]]);

impl ServedResource {
    pub(crate) fn from_built_in(resource: Resource) -> Self {
        let empty = type_model::zero_value(kinds::types(), resource.type_id);
        Self::new(resource, TypeSource::BuiltIn, empty)
    }

    pub(crate) fn from_custom_kind(resource: Resource, types: Types) -> Self {
        Self::new(resource, TypeSource::Custom(Arc::new(types)), json!({}))
    }

    fn new(resource: Resource, types: TypeSource, mut empty: Value) -> Self {
        empty["apiVersion"] = api_version(&resource.group, &resource.version).into();
        empty["kind"] = (*resource.kind).into();
        let is_events_group = is_events_group_event(&resource);
        // Events are stored once, and served in two groups.
        let group = if is_events_group { "" } else { &*resource.group };
        let id = ResourceId::new(group, &resource.plural);
        let version = json!(api_version(&resource.group, &resource.version));
        let type_meta = format!("\"kind\":{},\"apiVersion\":{version}", json!(&*resource.kind));
        Self {
            api_versions: if is_events_group || is_core_event(&resource) {
                vec!["v1".to_owned(), "events.k8s.io/v1".to_owned()]
            } else {
                vec![api_version(&resource.group, &resource.version)]
            },
            is_events_group,
            resource,
            types,
            id,
            type_meta,
            empty,
            printer_columns: Vec::new(),
            schema: Value::Null,
            selectable_fields: Vec::new(),
            scale_paths: Value::Null,
        }
    }

    pub(crate) fn types(&self) -> &Types {
        match &self.types {
            TypeSource::BuiltIn => kinds::types(),
            TypeSource::Custom(types) => types,
        }
    }

    /// Calls `then` with the endpoint of this resource or subresource.
    pub(crate) fn with_endpoint<T>(
        &self,
        subresource: Option<Subresource>,
        then: impl FnOnce(ApiEndpoint<'_>) -> T,
    ) -> T {
        let api_version = self.api_version();
        let api_versions: Vec<&str> = self.api_versions.iter().map(String::as_str).collect();
        let ownable = match (subresource, self.has_subresource(Subresource::Status)) {
            (Some(Subresource::Status), _) if self.custom().is_some() => {
                OWNABLE_BY_CUSTOM_STATUS_WRITE
            }
            (Some(Subresource::Status), _) => OWNABLE_BY_STATUS_WRITE,
            (_, true) => OWNABLE_BY_OBJECT_WRITE,
            (_, false) => OWNABLE_WITHOUT_STATUS_SUBRESOURCE,
        };
        then(ApiEndpoint {
            types: self.types(),
            root: self.resource.type_id,
            api_version: &api_version,
            kind: &self.resource.kind,
            api_versions: &api_versions,
            subresource: subresource.map_or("", crate::subresources::name),
            ownable,
            empty: &self.empty,
        })
    }

    pub(crate) fn api_version(&self) -> String {
        api_version(&self.resource.group, &self.resource.version)
    }

    pub(crate) fn has_subresource(&self, subresource: Subresource) -> bool {
        self.resource.subresources.contains(&subresource)
    }

    /// Returns the `details` of a status error about an object of this resource.
    pub(crate) fn status_details<'a>(&'a self, name: &'a str) -> StatusDetails<'a> {
        StatusDetails { group: &self.resource.group, kind: &self.resource.plural, name }
    }

    /// As [`ServedResource::status_details`], for errors that name the kind.
    pub(crate) fn status_details_of_kind<'a>(&'a self, name: &'a str) -> StatusDetails<'a> {
        StatusDetails { group: &self.id.group, kind: &self.resource.kind, name }
    }

    /// Returns whether objects are stored in another form.
    pub(crate) fn converts_for_storage(&self) -> bool {
        self.is_events_group
    }

    /// Converts an object to the form in which it is stored.
    pub(crate) fn convert_to_storage(&self, object: &mut Value) {
        if self.is_events_group {
            kinds::convert_event(object, "");
        }
    }

    /// Converts a stored object to the form of this resource.
    pub(crate) fn convert_from_storage(&self, object: &mut Value) {
        if self.is_events_group {
            kinds::convert_event(object, &self.resource.group);
            type_model::encode(self.types(), self.resource.type_id, object);
        }
    }

    /// Returns the warnings for a client that creates an accepted object.
    pub(crate) fn warnings(&self, object: &Value) -> Vec<String> {
        match &self.resource.definition {
            KindDefinition::BuiltIn(_) => kinds::warnings(&self.resource, object),
            KindDefinition::Custom(_) => Vec::new(),
        }
    }

    pub(crate) fn custom(&self) -> Option<&CustomKind> {
        match &self.resource.definition {
            KindDefinition::Custom(kind) => Some(kind),
            KindDefinition::BuiltIn(_) => None,
        }
    }

    /// Decodes a body into the form in which objects are kept, with defaults. Returns the paths of
    /// the unknown fields.
    pub(crate) fn decode(&self, object: &mut Value) -> Result<Vec<String>, StatusError> {
        match &self.resource.definition {
            KindDefinition::BuiltIn(rules) => {
                let unknown = type_model::decode(self.types(), self.resource.type_id, object)?;
                rules.set_defaults(object);
                Ok(unknown)
            }
            KindDefinition::Custom(kind) => {
                let mut unknown = decode_metadata(object)?;
                unknown.extend(kind.prune(object));
                kind.apply_defaults(object);
                Ok(unknown)
            }
        }
    }

    /// The form in which an object is stored.
    pub(crate) fn encode(&self, object: &mut Value) {
        if self.custom().is_none() {
            type_model::encode(self.types(), self.resource.type_id, object);
        }
    }

    /// What admission plugins add or refuse.
    pub(crate) fn admit_create(
        &self,
        object: &mut Value,
        around: AdmissionContext<'_>,
    ) -> Result<(), StatusError> {
        match &self.resource.definition {
            KindDefinition::BuiltIn(rules) => rules.admit_create(object, around),
            KindDefinition::Custom(_) => Ok(()),
        }
    }

    pub(crate) fn admit_update(
        &self,
        new: &mut Value,
        old: &Value,
        subresource: Option<Subresource>,
        around: AdmissionContext<'_>,
    ) -> Result<(), StatusError> {
        match &self.resource.definition {
            KindDefinition::BuiltIn(rules) if subresource == Some(Subresource::Status) => {
                rules.admit_status_update(new, old, around);
                Ok(())
            }
            KindDefinition::BuiltIn(rules) => rules.admit_update(new, old, around),
            KindDefinition::Custom(_) => Ok(()),
        }
    }

    pub(crate) fn prepare_for_create(&self, object: &mut Value) {
        match &self.resource.definition {
            KindDefinition::BuiltIn(rules) => rules.prepare_for_create(object),
            KindDefinition::Custom(kind) => {
                if kind.has_status() {
                    remove_field(object, "status");
                    // What the schema says of an object without a status, which the real server
                    // fills in whenever it reads one.
                    kind.apply_defaults(object);
                }
                object["metadata"]["generation"] = 1.into();
            }
        }
    }

    pub(crate) fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        match &self.resource.definition {
            KindDefinition::BuiltIn(rules) => rules.prepare_for_update(new, old),
            KindDefinition::Custom(kind) => {
                if kind.has_status() {
                    copy_field(new, old, "status");
                }
                let generation = old["metadata"]["generation"].as_i64().unwrap_or(1);
                let changed = !equal_but_metadata(new, old);
                new["metadata"]["generation"] = (generation + i64::from(changed)).into();
            }
        }
    }

    /// Returns the validation errors of a pod after a resize.
    pub(crate) fn validate_resize(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = metadata::validate_update(new, old);
        if let KindDefinition::BuiltIn(rules) = &self.resource.definition {
            errors.extend(rules.validate_create(new));
        }
        errors
    }

    pub(crate) fn prepare_for_status_update(&self, new: &mut Value, old: &Value) {
        match &self.resource.definition {
            KindDefinition::BuiltIn(rules) => rules.prepare_for_status_update(new, old),
            KindDefinition::Custom(_) => {
                let mut kept = old.clone();
                copy_field(&mut kept, new, "status");
                copy_managed_fields(&mut kept, new);
                kept["metadata"]["resourceVersion"] = new["metadata"]["resourceVersion"].clone();
                *new = kept;
            }
        }
    }

    /// Whether it is a question, which is answered and not kept.
    pub(crate) fn is_review(&self) -> bool {
        let group = &*self.resource.group;
        self.custom().is_none() && matches!(group, "authentication.k8s.io" | "authorization.k8s.io")
    }

    /// Returns the validation errors of a review, except those about its name.
    pub(crate) fn validate_review(&self, object: &Value) -> Vec<FieldError> {
        match &self.resource.definition {
            KindDefinition::BuiltIn(rules) => rules.validate_create(object),
            KindDefinition::Custom(_) => Vec::new(),
        }
    }

    /// Returns whether finalizers need a domain. CRDs do not: in Kubernetes a separate API server
    /// serves them.
    fn requires_qualified_finalizers(&self) -> bool {
        &*self.resource.group != "apiextensions.k8s.io"
    }

    pub(crate) fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        match &self.resource.definition {
            KindDefinition::BuiltIn(rules) => {
                let problems = |name: &str| rules.name_problems(name);
                let mut errors = metadata::validate_create_with_name_rule(
                    object,
                    self.resource.namespaced,
                    problems,
                );
                if self.requires_qualified_finalizers() {
                    errors.extend(metadata::validate_built_in_finalizers(object));
                }
                errors.extend(rules.validate_create(object));
                errors
            }
            KindDefinition::Custom(kind) => kind.validate_create(object),
        }
    }

    pub(crate) fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        match &self.resource.definition {
            KindDefinition::BuiltIn(rules) => {
                // The checks of all kinds and those of this kind both validate metadata: errors
                // occur twice.
                let mut errors = metadata::validate_update(new, old);
                errors.extend_from_within(..);
                if self.requires_qualified_finalizers() {
                    errors.extend(metadata::validate_built_in_finalizers(new));
                }
                errors.extend(rules.validate_update(new, old));
                errors
            }
            KindDefinition::Custom(kind) => kind.validate_update(new, old),
        }
    }

    pub(crate) fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        match &self.resource.definition {
            KindDefinition::BuiltIn(rules) => {
                let mut errors = metadata::validate_update(new, old);
                errors.extend_from_within(..);
                errors.extend(rules.validate_status_update(new, old));
                errors
            }
            KindDefinition::Custom(kind) => kind.validate_status_update(new, old),
        }
    }

    /// How long the object lives on after a delete.
    pub(crate) fn grace_period(&self, object: &Value, requested: Option<i64>) -> Option<i64> {
        match &self.resource.definition {
            KindDefinition::BuiltIn(rules) => rules.grace_period(object, requested),
            KindDefinition::Custom(_) => None,
        }
    }

    /// Returns whether a PUT creates an object that does not exist.
    pub(crate) fn allows_create_on_update(&self) -> bool {
        match &self.resource.definition {
            KindDefinition::BuiltIn(rules) => rules.allows_create_on_update(),
            KindDefinition::Custom(_) => false,
        }
    }

    /// Returns whether a PUT may omit the resource version.
    pub(crate) fn allows_unconditional_update(&self) -> bool {
        match &self.resource.definition {
            KindDefinition::BuiltIn(rules) => rules.allows_unconditional_update(),
            KindDefinition::Custom(_) => false,
        }
    }

    /// Returns an error if a field selector may not name the field.
    pub(crate) fn check_selectable_field(&self, field: &str) -> Result<(), String> {
        let (has_any, has_this) = match &self.resource.definition {
            KindDefinition::BuiltIn(rules) => {
                let fields = rules.selectable_fields(&Value::Null);
                (!fields.is_empty(), fields.iter().any(|(name, _)| *name == field))
            }
            KindDefinition::Custom(_) => {
                (true, self.selectable_fields.iter().any(|name| name == field))
            }
        };
        let (group, kind) = (&*self.resource.group, &self.resource.kind);
        match () {
            () if has_this => Ok(()),
            () if !has_any => Err(format!(
                "{field:?} is not a known field selector: only \"metadata.name\", \
                 \"metadata.namespace\""
            )),
            () if group == "resource.k8s.io" => Err(format!(
                "field label not supported for {}, Kind={kind}: {field}",
                self.api_version()
            )),
            () => Err(format!("field label not supported: {field}")),
        }
    }

    /// Returns the values that field selectors compare, from the stored form.
    pub(crate) fn selectable_values(&self, object: &Value) -> StringPairs {
        match &self.resource.definition {
            KindDefinition::BuiltIn(rules) => {
                let is_event = self.is_events_group || is_core_event(&self.resource);
                let fields = if is_event {
                    kinds::selectable_event_fields(object)
                } else {
                    rules.selectable_fields(object)
                };
                fields.into_iter().collect()
            }
            KindDefinition::Custom(_) => {
                let value = |path: &String| {
                    let pointer = format!("/{}", path.replace('.', "/"));
                    match object.pointer(&pointer) {
                        Some(Value::String(text)) => text.clone(),
                        Some(Value::Null) | None => String::new(),
                        Some(value) => value.to_string(),
                    }
                };
                self.selectable_fields.iter().map(|path| (path, value(path))).collect()
            }
        }
    }
}

/// Metadata of custom kinds has the form that it has everywhere.
fn decode_metadata(object: &mut Value) -> Result<Vec<String>, StatusError> {
    const NAME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let types = kinds::types();
    let (Some(id), Some(metadata)) = (types.find_by_name(NAME), object.get_mut("metadata")) else {
        return Ok(Vec::new());
    };
    let unknown = type_model::decode(types, id, metadata)?;
    Ok(unknown.into_iter().map(|path| format!("metadata.{path}")).collect())
}

fn is_core_event(resource: &Resource) -> bool {
    (&*resource.group, &*resource.kind) == ("", "Event")
}

fn is_events_group_event(resource: &Resource) -> bool {
    (&*resource.group, &*resource.kind) == ("events.k8s.io", "Event")
}

fn equal_but_metadata(a: &Value, b: &Value) -> bool {
    let rest = |value: &Value| {
        let mut value = value.clone();
        remove_field(&mut value, "metadata");
        value
    };
    rest(a) == rest(b)
}
