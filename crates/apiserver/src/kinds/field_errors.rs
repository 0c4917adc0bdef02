//! Collects the field errors of an object, with the checks that many kinds share.

use karpenter_cel::go_text;
use karpenter_grammar::Amount;
use karpenter_grammar::names;
use serde_json::{Map, Value};

use super::json_access::{at, entries, list, text};
use crate::admission::{FieldError, FieldErrorKind};

pub(super) const FIELD_IS_IMMUTABLE: &str = "field is immutable";
const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Collects errors in the order in which they are found.
#[derive(Debug, Default)]
pub(super) struct FieldErrorList(Vec<FieldError>);

impl FieldErrorList {
    pub(super) fn into_errors(self) -> Vec<FieldError> {
        self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn extend(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        self.0.extend(errors);
    }

    pub(super) fn required(&mut self, path: impl Into<String>, detail: &str) {
        self.0.push(FieldError::required(path, detail));
    }

    pub(super) fn invalid(
        &mut self,
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) {
        self.0.push(FieldError::invalid(path, value, detail));
    }

    pub(super) fn forbidden(&mut self, path: impl Into<String>, detail: &str) {
        self.0.push(FieldError::forbidden(path, detail));
    }

    pub(super) fn duplicate(&mut self, path: impl Into<String>, value: impl Into<Value>) {
        self.0.push(FieldError::duplicate(path, Some(value.into())));
    }

    /// Adds an error about a Go struct, which the API server prints whole.
    ///
    /// The struct is printed with its own field names, in order.
    pub(super) fn error_for_go_struct(
        &mut self,
        path: impl Into<String>,
        kind: FieldErrorKind,
        fields: &[(&str, Value)],
        detail: &str,
    ) {
        let fields: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{}:{}", go_text::quote(name), go_text::json(value)))
            .collect();
        let mut text = format!("{{{}}}", fields.join(","));
        if !detail.is_empty() {
            text.push_str(": ");
            text.push_str(detail);
        }
        self.0.push(FieldError::new(path, kind, None, text));
    }

    pub(super) fn not_found(&mut self, path: impl Into<String>, value: &str, detail: &str) {
        self.0.push(FieldError::new(path, FieldErrorKind::NotFound, Some(value.into()), detail));
    }

    pub(super) fn not_supported(&mut self, path: impl Into<String>, value: &str, known: &[&str]) {
        let known: Vec<Value> = known.iter().map(|&known| known.into()).collect();
        self.0.push(FieldError::not_supported(path, value.into(), &known));
    }

    /// Checks that a value is one of the known ones; empty counts as missing.
    pub(super) fn check_one_of(&mut self, path: &str, value: &str, known: &[&str]) {
        if value.is_empty() {
            self.required(path, "");
        } else if !known.contains(&value) {
            self.not_supported(path, value, known);
        }
    }

    /// Adds one `Invalid` error for each problem of a text.
    pub(super) fn invalid_each(&mut self, path: &str, value: &str, problems: Vec<String>) {
        for problem in problems {
            self.invalid(path, value, problem);
        }
    }

    pub(super) fn check_dns_label(&mut self, path: &str, value: &str) {
        self.invalid_each(path, value, names::dns_label_errors(value));
    }

    pub(super) fn check_dns_subdomain(&mut self, path: &str, value: &str) {
        self.invalid_each(path, value, names::dns_subdomain_errors(value));
    }

    /// Checks the key of a label, or another qualified name.
    pub(super) fn check_qualified_name(&mut self, path: &str, value: &str) {
        self.invalid_each(path, value, names::qualified_name_errors(value));
    }

    pub(super) fn check_labels(&mut self, path: &str, labels: &Map<String, Value>) {
        for (key, value) in labels {
            self.check_qualified_name(path, key);
            let value = value.as_str().unwrap_or_default();
            self.invalid_each(path, value, names::label_value_errors(value));
        }
    }

    /// Checks that the number in a field, if present, is not below 0.
    pub(super) fn check_not_negative(&mut self, object: &Value, pointer: &str, path: &str) {
        if let Some(number) = at(object, pointer).as_i64().filter(|number| *number < 0) {
            self.invalid(path, number, NOT_NEGATIVE);
        }
    }

    pub(super) fn check_positive(&mut self, number: i64, path: &str) {
        if number <= 0 {
            self.invalid(path, number, "must be greater than zero");
        }
    }

    pub(super) fn check_port(&mut self, number: i64, path: &str) {
        if !(1..=65535).contains(&number) {
            self.invalid(path, number, "must be between 1 and 65535, inclusive");
        }
    }

    pub(super) fn check_port_name(&mut self, name: &str, path: &str) {
        self.invalid_each(path, name, port_name_problems(name));
    }

    pub(super) fn check_port_or_name(&mut self, port: &Value, path: &str) {
        match port {
            Value::String(name) => self.check_port_name(name, path),
            other => self.check_port(other.as_i64().unwrap_or_default(), path),
        }
    }

    /// Checks a label selector.
    pub(super) fn check_label_selector(&mut self, selector: &Value, path: &str) {
        self.check_labels(&format!("{path}.matchLabels"), entries(selector, "/matchLabels"));
        for (index, expression) in list(selector, "/matchExpressions").iter().enumerate() {
            let path = format!("{path}.matchExpressions[{index}]");
            let values = list(expression, "/values");
            match text(expression, "/operator") {
                "In" | "NotIn" if values.is_empty() => self.required(
                    format!("{path}.values"),
                    "must be specified when `operator` is 'In' or 'NotIn'",
                ),
                "Exists" | "DoesNotExist" if !values.is_empty() => self.forbidden(
                    format!("{path}.values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                ),
                "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
                other => {
                    self.invalid(
                        format!("{path}.operator"),
                        other,
                        "not a valid selector operator",
                    );
                }
            }
            self.check_qualified_name(&format!("{path}.key"), text(expression, "/key"));
            self.check_label_values(values, &format!("{path}.values"));
        }
    }

    pub(super) fn check_label_values(&mut self, values: &[Value], path: &str) {
        for (index, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            self.invalid_each(&format!("{path}[{index}]"), value, names::label_value_errors(value));
        }
    }

    /// Checks that an update leaves a part unchanged.
    pub(super) fn check_immutable(&mut self, new: &Value, old: &Value, pointer: &str, path: &str) {
        let value = at(new, pointer);
        if value != at(old, pointer) {
            self.invalid(path, value.clone(), FIELD_IS_IMMUTABLE);
        }
    }

    /// Checks the amount of a resource.
    pub(super) fn check_resource_quantity(&mut self, name: &str, quantity: &Value, path: &str) {
        let text = quantity.as_str().unwrap_or_default();
        let Ok(amount) = Amount::parse(text) else { return };
        if amount.as_nanos() < 0 {
            self.invalid(path, text, NOT_NEGATIVE);
        }
        if is_integer_resource(name) && !amount.is_integer() {
            self.invalid(path, text, "must be an integer");
        }
    }

    /// Checks that a number or percentage is well-formed and not below 0.
    pub(super) fn check_int_or_percent(&mut self, value: &Value, path: &str) {
        match value {
            Value::String(text) if parse_percent(text).is_none() => {
                self.invalid(
                    path,
                    text.as_str(),
                    "a valid percent string must be a numeric string followed by an ending '%' \
                     (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                );
            }
            Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
                self.invalid(path, number.as_i64().unwrap_or_default(), NOT_NEGATIVE);
            }
            _ => {}
        }
    }

    pub(super) fn check_at_most_100_percent(&mut self, value: &Value, path: &str) {
        if value.as_str().and_then(parse_percent).is_some_and(|percent| percent > 100) {
            self.invalid(path, value.clone(), "must not be greater than 100%");
        }
    }
}

/// Returns the number of a percentage, such as 25 of `25%`.
pub(super) fn parse_percent(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Returns whether a valid selector selects these labels.
pub(super) fn selector_matches(selector: &Value, labels: &Map<String, Value>) -> bool {
    let exact =
        entries(selector, "/matchLabels").iter().all(|(key, value)| labels.get(key) == Some(value));
    exact
        && list(selector, "/matchExpressions").iter().all(|expression| {
            let found = labels.get(text(expression, "/key"));
            let listed = found.is_some_and(|found| list(expression, "/values").contains(found));
            match text(expression, "/operator") {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

pub(super) fn is_native_resource(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub(super) fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether there may be more promised than there is.
pub(super) fn is_overcommit_allowed(name: &str) -> bool {
    is_native_resource(name) && !is_huge_page(name)
}

pub(super) fn is_extended_resource(name: &str) -> bool {
    !is_native_resource(name)
        && !name.starts_with("requests.")
        && names::qualified_name_errors(&format!("requests.{name}")).is_empty()
}

pub(super) fn is_integer_resource(name: &str) -> bool {
    const COUNTED: &[&str] = &[
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ];
    COUNTED.contains(&name) || is_extended_resource(name)
}

pub(super) fn port_name_problems(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 15 {
        problems.push("must be no more than 15 characters".to_owned());
    }
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.bytes().all(known) || name.is_empty() {
        problems.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        problems.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        problems.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        problems.push("must not begin or end with a hyphen".to_owned());
    }
    problems
}

/// A name that is one part of a path.
pub(super) fn path_segment_problems(name: &str) -> Vec<String> {
    match name {
        "." | ".." => vec![format!("may not be '{name}'")],
        _ => ["/", "%"]
            .into_iter()
            .filter(|part| name.contains(part))
            .map(|part| format!("may not contain '{part}'"))
            .collect(),
    }
}

/// The key of a config map or secret, which is also a file name.
pub(super) fn config_key_problems(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if key.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    let known = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if key.is_empty() || !key.chars().all(known) {
        problems.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
             'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is \
             '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    match key {
        "." => problems.push("must not be '.'".to_owned()),
        ".." => problems.push("must not be '..'".to_owned()),
        key if key.starts_with("..") => problems.push("must not start with '..'".to_owned()),
        _ => {}
    }
    problems
}

/// Returns the difference between two parts, for messages that end in one.
///
/// The real server prints its own Go values here, on which clients cannot rely.
pub(super) fn object_diff(new: &Value, old: &Value) -> String {
    let mut lines = Vec::new();
    let empty = Map::new();
    let (new, old) = (new.as_object().unwrap_or(&empty), old.as_object().unwrap_or(&empty));
    for (name, value) in old {
        if new.get(name) != Some(value) {
            lines.push(format!("- {name}: {}", go_text::json(value)));
        }
    }
    for (name, value) in new {
        if old.get(name) != Some(value) {
            lines.push(format!("+ {name}: {}", go_text::json(value)));
        }
    }
    lines.join("\n")
}
