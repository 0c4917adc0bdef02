//! What an API server does with an object of a custom kind between reading and storing it.
//!
//! ```text
//! decoded object ─▶ prune ─▶ apply_defaults ─▶ validate_create / validate_update ─▶ stored
//!                     │                          │
//!                     └ unknown fields           └ FieldErrors, in the words of the API server
//! ```
//!
//! [`CustomKind`] is compiled from a CustomResourceDefinition once; after that nothing fails, and
//! an object is data of any shape: what does not fit becomes a [`FieldError`].
//!
//! The model is kube-apiserver 1.36, including its ratcheting: an update is not blamed for what
//! it leaves as it was. Errors come in a fixed order (that of the schema, then of the object),
//! where the API server's order changes from call to call.
//!
//! Absent on purpose: admission plugins and webhooks, conversion between versions, and what
//! belongs to requests rather than objects (resource versions, generations, managed fields).
//! Values are as deep as a JSON parser lets them be (128 levels for `serde_json`), and so is
//! every recursion here.

mod correlation;
mod defaulting;
mod field_error;
mod format;
mod list_type;
pub(crate) mod metadata;
mod pruning;
mod rule_validation;
mod scale;
mod schema;
mod schema_validation;
mod validation_rule;

#[cfg(test)]
mod tests;

use karpenter_cel::go_text;
use serde_json::Value;

use self::correlation::CorrelatedPair;
pub use self::field_error::{FieldError, FieldErrorKind, invalid_message};
use self::scale::ScalePaths;
use self::schema::Schema;

/// Why a CustomResourceDefinition cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CrdError {
    #[error("{0}: is required")]
    MissingField(&'static str),
    #[error("spec.versions: no version {0}")]
    VersionNotFound(String),
    /// A part of the schema does not compile; `path` leads to it.
    #[error("{path}: {problem}")]
    Schema { path: String, problem: String },
}

impl CrdError {
    fn schema(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Schema { path: path.into(), problem: problem.into() }
    }
}

/// One version of a custom kind, ready to admit objects.
#[derive(Debug)]
pub struct CustomKind {
    group: String,
    version: String,
    kind: String,
    namespaced: bool,
    has_status: bool,
    scale: Option<ScalePaths>,
    schema: Schema,
}

impl CustomKind {
    /// Compiles the version that a CustomResourceDefinition stores.
    pub fn from_crd(crd: &Value) -> Result<Self, CrdError> {
        let is_stored = |version: &&Value| version["storage"] == true;
        let version = versions(crd)?
            .iter()
            .find(is_stored)
            .ok_or_else(|| CrdError::VersionNotFound("that is stored".to_owned()))?;
        Self::compile_version(crd, version)
    }

    /// Compiles the version of that name.
    pub fn from_crd_version(crd: &Value, name: &str) -> Result<Self, CrdError> {
        let version = versions(crd)?
            .iter()
            .find(|version| version["name"] == name)
            .ok_or_else(|| CrdError::VersionNotFound(name.to_owned()))?;
        Self::compile_version(crd, version)
    }

    fn compile_version(crd: &Value, version: &Value) -> Result<Self, CrdError> {
        let text = |value: &Value, field| match value.as_str() {
            Some(text) if !text.is_empty() => Ok(text.to_owned()),
            _ => Err(CrdError::MissingField(field)),
        };
        let name = text(&version["name"], "spec.versions[].name")?;
        let path = format!("spec.versions[{name}].schema.openAPIV3Schema");
        let subresources = &version["subresources"];
        let custom = Self {
            group: text(&crd["spec"]["group"], "spec.group")?,
            kind: text(&crd["spec"]["names"]["kind"], "spec.names.kind")?,
            namespaced: text(&crd["spec"]["scope"], "spec.scope")? == "Namespaced",
            has_status: subresources["status"].is_object(),
            scale: ScalePaths::from_subresource(&subresources["scale"]),
            schema: Schema::compile(&version["schema"]["openAPIV3Schema"], &path)?,
            version: name,
        };
        defaulting::validate_defaults(&custom.schema, &path)?;
        Ok(custom)
    }

    pub fn group(&self) -> &str {
        &self.group
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn kind(&self) -> &str {
        &self.kind
    }

    pub fn is_namespaced(&self) -> bool {
        self.namespaced
    }

    /// Whether the status is a subresource: then neither create nor update may write it.
    pub fn has_status(&self) -> bool {
        self.has_status
    }

    /// Removes the fields that the schema does not have, and returns their paths.
    ///
    /// With strict field validation, callers reject them with
    /// [`CustomKind::strict_decoding_message`].
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        pruning::prune(object, &self.schema)
    }

    /// Fills in defaults, and drops each null that is neither allowed nor defaulted.
    pub fn apply_defaults(&self, object: &mut Value) {
        defaulting::apply(object, &self.schema);
    }

    /// The errors of an object that is to be created, after pruning and defaults.
    pub fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = self.check_kind_and_api_version(object);
        if !errors.is_empty() {
            return errors;
        }
        errors.extend(metadata::validate_create(object, self.namespaced));
        errors.extend(schema_validation::validate(object, &self.schema, None, None));
        errors.extend(self.scale.iter().flat_map(|scale| scale.validate(object)));
        errors.extend(metadata::validate_embedded(object, &self.schema));
        errors.extend(list_type::validate(object, &self.schema));
        self.add_rule_errors(&mut errors, object, None);
        errors
    }

    /// The errors of an object that is to replace `old`. Both carry the status that is to stay.
    pub fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.check_kind_and_api_version(new);
        if !errors.is_empty() {
            return errors;
        }
        let pair = CorrelatedPair { new, old, schema: &self.schema };
        errors.extend(metadata::validate_update(new, old));
        errors.extend(schema_validation::validate(new, &self.schema, Some(pair), None));
        errors.extend(self.scale.iter().flat_map(|scale| scale.validate(new)));
        errors.extend(metadata::validate_embedded(new, &self.schema));
        self.add_new_duplicate_errors(&mut errors, new, old);
        self.add_rule_errors(&mut errors, new, Some(old));
        errors
    }

    /// Validates an object that differs from `old` in its status only.
    ///
    /// The schema applies to the status, the rules to the whole object.
    pub fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = self.check_kind_and_api_version(new);
        if !errors.is_empty() {
            return errors;
        }
        errors.extend(metadata::validate_update(new, old));
        if let (Some(status), Some(schema)) = (new.get("status"), self.schema.child("status")) {
            let old = old.get("status").unwrap_or(&Value::Null);
            let pair = CorrelatedPair { new: status, old, schema };
            errors.extend(schema_validation::validate(status, schema, Some(pair), Some("status")));
        }
        errors.extend(self.scale.iter().flat_map(|scale| scale.validate_status(new)));
        self.add_new_duplicate_errors(&mut errors, new, old);
        self.add_rule_errors(&mut errors, new, Some(old));
        errors
    }

    /// The message of the status `Invalid` for an object of this kind.
    pub fn invalid_message(&self, name: &str, errors: &[FieldError]) -> String {
        invalid_message(&format!("{}.{}", self.kind, self.group), name, errors)
    }

    /// Returns the message for an object with unknown fields.
    ///
    /// It belongs to the status `BadRequest`, when the client asked for strict field validation.
    pub fn strict_decoding_message(&self, unknown_fields: &[String]) -> String {
        let fields: Vec<String> =
            unknown_fields.iter().map(|path| format!("unknown field \"{path}\"")).collect();
        format!(
            "{kind} in version {version} cannot be handled as a {kind}: strict decoding error: {}",
            fields.join(", "),
            kind = self.kind,
            version = go_text::quote(&self.version),
        )
    }

    fn check_kind_and_api_version(&self, object: &Value) -> Vec<FieldError> {
        let api_version = format!("{}/{}", self.group, self.version);
        let expected = [("kind", self.kind.as_str()), ("apiVersion", &api_version)];
        expected
            .into_iter()
            .filter_map(|(field, expected)| {
                let found = object.get(field).and_then(Value::as_str).unwrap_or_default();
                (found != expected)
                    .then(|| FieldError::invalid(field, found, format!("must be {expected}")))
            })
            .collect()
    }

    /// Adds errors for duplicate list items that the update introduces.
    fn add_new_duplicate_errors(&self, errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
        if list_type::validate(old, &self.schema).is_empty() {
            errors.extend(list_type::validate(new, &self.schema));
        }
    }

    /// Runs the CEL rules and adds their errors.
    ///
    /// Rules rely on the types that the schema promises, so they do not run on an object of other
    /// types.
    fn add_rule_errors(&self, errors: &mut Vec<FieldError>, object: &Value, old: Option<&Value>) {
        if !self.schema.contains_rules {
            return;
        }
        if errors.iter().any(|error| error.kind.blocks_cel_rules()) {
            errors.push(FieldError::invalid(
                "<nil>",
                Value::Null,
                "some validation rules were not checked because the object was invalid; \
                 correct the existing errors to complete validation",
            ));
            return;
        }
        errors.extend(rule_validation::validate(object, &self.schema, old));
    }
}

fn versions(crd: &Value) -> Result<&[Value], CrdError> {
    let versions = crd["spec"]["versions"].as_array();
    versions.map(Vec::as_slice).ok_or(CrdError::MissingField("spec.versions"))
}
