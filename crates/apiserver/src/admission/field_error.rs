//! The error of one field, as a value, and the text that the API server gives for it.

use std::collections::HashSet;
use std::fmt;

use karpenter_cel::go_text;
use serde_json::Value;

/// One problem of an object: where, of which kind, with which value, and why.
///
/// `Display` is the line of the API server, `path: kind: value: detail`.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// The path as the API server writes it, `spec.template.taints[0].key`. It is `<nil>` for
    /// what it cannot blame on one field.
    pub path: String,
    pub kind: FieldErrorKind,
    /// The offending value; `None` where the message shows none.
    pub value: Option<Value>,
    pub detail: String,
}

/// The kinds of the API server, each with its reason in `details.causes` of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TypeInvalid,
}

impl FieldErrorKind {
    /// The reason of a cause in a status: `FieldValueInvalid` and so on.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }

    /// Returns whether the API server skips CEL rules after such an error.
    ///
    /// Rules may rely on the types, sizes and required fields that the schema promises them.
    pub(crate) fn blocks_cel_rules(self) -> bool {
        matches!(
            self,
            Self::NotSupported | Self::Required | Self::TooLong | Self::TooMany | Self::TypeInvalid
        )
    }
}

impl FieldError {
    pub(crate) fn required(path: impl Into<String>, detail: &str) -> Self {
        Self::new(path, FieldErrorKind::Required, None, detail)
    }

    pub(crate) fn forbidden(path: impl Into<String>, detail: &str) -> Self {
        Self::new(path, FieldErrorKind::Forbidden, None, detail)
    }

    pub(crate) fn duplicate(path: impl Into<String>, value: Option<Value>) -> Self {
        Self::new(path, FieldErrorKind::Duplicate, value, "")
    }

    pub(crate) fn invalid(
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(path, FieldErrorKind::Invalid, Some(value.into()), detail)
    }

    /// As [`FieldError::invalid`], for a value that is shown as it is written here.
    pub(crate) fn invalid_text(path: impl Into<String>, value: &str, detail: &str) -> Self {
        Self::new(path, FieldErrorKind::Invalid, None, format!("{value}: {detail}"))
    }

    pub(crate) fn too_long(path: impl Into<String>, max: i64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {unit}");
        Self::new(path, FieldErrorKind::TooLong, None, detail)
    }

    pub(crate) fn too_many(path: impl Into<String>, actual: usize, max: i64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {unit}");
        Self::new(path, FieldErrorKind::TooMany, Some(actual.into()), detail)
    }

    pub(crate) fn not_supported(
        path: impl Into<String>,
        value: Value,
        supported: &[Value],
    ) -> Self {
        let names: Vec<String> = supported
            .iter()
            .map(|allowed| match allowed {
                Value::String(text) => go_text::quote(text),
                other => go_text::quote(&go_text::json(other)),
            })
            .collect();
        let detail = format!("supported values: {}", names.join(", "));
        Self::new(path, FieldErrorKind::NotSupported, Some(value), detail)
    }

    pub(crate) fn new(
        path: impl Into<String>,
        kind: FieldErrorKind,
        value: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), kind, value, detail: detail.into() }
    }

    /// Returns the text without the path: the message of a cause in a status.
    pub fn cause_message(&self) -> String {
        use FieldErrorKind as Kind;
        let mut text = self.kind.text().to_owned();
        let shows_value = !matches!(self.kind, Kind::Required | Kind::Forbidden | Kind::TooLong);
        if let (true, Some(value)) = (shows_value, &self.value) {
            text.push_str(": ");
            text.push_str(&match value {
                Value::String(string) => go_text::quote(string),
                Value::Number(number) => go_text::number(number),
                other => go_text::json(other),
            });
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.cause_message())
    }
}

/// Returns the message of the status `Invalid`, with each distinct error once.
///
/// It is `Widget.example.com "x" is invalid: [first, second]`, without brackets for a single error.
pub fn invalid_message(qualified_kind: &str, name: &str, errors: &[FieldError]) -> String {
    let mut seen = HashSet::new();
    let lines: Vec<String> =
        errors.iter().map(ToString::to_string).filter(|line| seen.insert(line.clone())).collect();
    let name = go_text::quote(name);
    match lines.as_slice() {
        [] => format!("{qualified_kind} {name} is invalid"),
        [line] => format!("{qualified_kind} {name} is invalid: {line}"),
        lines => format!("{qualified_kind} {name} is invalid: [{}]", lines.join(", ")),
    }
}

/// The path of a field in an object.
///
/// It is a list of borrowed links, so that a path costs nothing until an error needs its text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldPath<'a> {
    Root,
    Field(&'a FieldPath<'a>, &'a str),
    Key(&'a FieldPath<'a>, &'a str),
    Index(&'a FieldPath<'a>, usize),
}

impl<'a> FieldPath<'a> {
    pub(crate) fn field(&'a self, name: &'a str) -> FieldPath<'a> {
        FieldPath::Field(self, name)
    }

    pub(crate) fn key(&'a self, key: &'a str) -> FieldPath<'a> {
        FieldPath::Key(self, key)
    }

    pub(crate) fn index(&'a self, index: usize) -> FieldPath<'a> {
        FieldPath::Index(self, index)
    }

    /// The path of the schema validator, which writes a map key as a field: `metadata.labels.app`.
    pub(crate) fn format_dotted(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, true);
        out
    }

    /// The path of everything else, which puts a map key in brackets: `metadata.labels[app]`.
    pub(crate) fn format_bracketed(&self) -> String {
        if matches!(self, FieldPath::Root) {
            return "<nil>".to_owned();
        }
        let mut out = String::new();
        self.write(&mut out, false);
        out
    }

    fn write(&self, out: &mut String, key_as_field: bool) {
        match self {
            FieldPath::Root => {}
            FieldPath::Field(parent, name) => {
                parent.write(out, key_as_field);
                if !matches!(parent, FieldPath::Root) {
                    out.push('.');
                }
                out.push_str(name);
            }
            FieldPath::Key(parent, key) => {
                parent.write(out, key_as_field);
                if key_as_field {
                    out.push('.');
                    out.push_str(key);
                } else {
                    out.push('[');
                    out.push_str(key);
                    out.push(']');
                }
            }
            FieldPath::Index(parent, index) => {
                parent.write(out, key_as_field);
                out.push('[');
                out.push_str(&index.to_string());
                out.push(']');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn field_errors_have_the_text_of_the_api_server() {
        #[rustfmt::skip]
        let cases = [
            (FieldError::required("spec.x", ""),                 "spec.x: Required value"),
            (FieldError::required("spec.x", "set it"),           "spec.x: Required value: set it"),
            (FieldError::forbidden("spec.x", "not now"),         "spec.x: Forbidden: not now"),
            (FieldError::duplicate("a[1]", Some(json!({"b": 1, "a": "x"}))),
                                                                 r#"a[1]: Duplicate value: {"a":"x","b":1}"#),
            (FieldError::duplicate("a", None),                   "a: Duplicate value"),
            (FieldError::invalid("a", "b", "no"),                r#"a: Invalid value: "b": no"#),
            (FieldError::invalid("a", 1.5, "no"),                "a: Invalid value: 1.5: no"),
            (FieldError::invalid("<nil>", Value::Null, "no"),    "<nil>: Invalid value: null: no"),
            (FieldError::too_long("a", 1),                       "a: Too long: may not be more than 1 byte"),
            (FieldError::too_long("a", 63),                      "a: Too long: may not be more than 63 bytes"),
            (FieldError::too_many("a", 3, 1),                    "a: Too many: 3: must have at most 1 item"),
            (FieldError::too_many("a", 101, 100),                "a: Too many: 101: must have at most 100 items"),
            (FieldError::not_supported("a", json!("x"), &[json!("In"), json!(1)]),
                                                                 r#"a: Unsupported value: "x": supported values: "In", "1""#),
            (FieldError::new("a", FieldErrorKind::Invalid, None, "no"), "a: Invalid value: no"),
        ];
        for (error, expected) in cases {
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn invalid_message_lists_each_error_once() {
        let a = FieldError::required("a", "");
        let b = FieldError::required("b", "");
        let text = |errors: &[FieldError]| invalid_message("Widget.example.com", "x", errors);
        assert_eq!(text(&[]), r#"Widget.example.com "x" is invalid"#);
        assert_eq!(
            text(&[a.clone(), a.clone()]),
            r#"Widget.example.com "x" is invalid: a: Required value"#
        );
        assert_eq!(
            text(&[a, b]),
            r#"Widget.example.com "x" is invalid: [a: Required value, b: Required value]"#
        );
    }

    #[test]
    fn map_keys_are_dotted_in_schema_paths_and_bracketed_in_others() {
        let root = FieldPath::Root;
        let spec = root.field("spec");
        let labels = spec.field("labels");
        let key = labels.key("a/b");
        let item = key.index(2);
        assert_eq!(item.format_dotted(), "spec.labels.a/b[2]");
        assert_eq!(item.format_bracketed(), "spec.labels[a/b][2]");
        assert_eq!(root.format_dotted(), "");
        assert_eq!(root.format_bracketed(), "<nil>");
    }
}
