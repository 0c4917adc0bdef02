//! Paths of fields, in the form of the API server's own messages.

use std::fmt;

use serde_json::Value;

/// Where a value sits in an object: `spec.requirements[2].key`, `metadata.labels[karpenter.sh/x]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldPath(Vec<Step>);

/// One step into a mapping or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

impl FieldPath {
    /// Parses a path such as `spec.requirements[2].key`.
    pub(crate) fn parse(text: &str) -> Self {
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some((inside, after)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
                steps.push(inside.parse().map_or(Step::Key(inside.to_owned()), Step::Index));
                rest = after.strip_prefix('.').unwrap_or(after);
            } else {
                // A key has at least one character, whatever that is.
                let mut marks = rest.char_indices().skip(1);
                let end =
                    marks.find(|(_, c)| matches!(c, '.' | '[')).map_or(rest.len(), |mark| mark.0);
                steps.push(Step::Key(rest[..end].to_owned()));
                rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
            }
        }
        Self(steps)
    }

    /// Parses a path into `value`, whose keys may contain dots.
    pub(crate) fn parse_in_object(text: &str, value: &Value) -> Self {
        let mut steps = Vec::new();
        let (mut rest, mut here) = (text, value);
        while let Value::Object(fields) = here {
            let continues = |after: &str| after.is_empty() || after.starts_with(['.', '[']);
            let leads = |key: &&String| rest.strip_prefix(key.as_str()).is_some_and(continues);
            let Some(key) = fields.keys().filter(leads).max_by_key(|key| key.len()) else { break };
            steps.push(Step::Key(key.clone()));
            here = &fields[key];
            rest = &rest[key.len()..];
            while let (Value::Array(items), Some((index, after))) =
                (here, rest.strip_prefix('[').and_then(|rest| rest.split_once(']')))
                && let Some((index, item)) =
                    index.parse().ok().and_then(|index: usize| Some((index, items.get(index)?)))
            {
                steps.push(Step::Index(index));
                (here, rest) = (item, after);
            }
            rest = rest.strip_prefix('.').unwrap_or(rest);
        }
        Self(steps).join(&Self::parse(rest))
    }

    pub(crate) fn key(&self, key: &str) -> Self {
        self.with_step(Step::Key(key.to_owned()))
    }

    pub(crate) fn index(&self, index: usize) -> Self {
        self.with_step(Step::Index(index))
    }

    fn with_step(&self, step: Step) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }

    /// The path of `inner`, which is relative to this one.
    pub(crate) fn join(&self, inner: &Self) -> Self {
        Self(self.0.iter().chain(&inner.0).cloned().collect())
    }

    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if !is_plain(key) => write!(f, "[{key}]")?,
                Step::Key(key) if position == 0 => write!(f, "{key}")?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Whether a key can stand after a dot without looking like two keys.
fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Describes a value for messages: texts are quoted and cut, collections only named.
pub(crate) fn describe_value(value: &Value) -> String {
    /// Long enough to recognise a value, short enough to stay on the line.
    const SHOWN: usize = 40;
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
        Value::String(text) if text.chars().count() > SHOWN => {
            format!("{:?}…", text.chars().take(SHOWN).collect::<String>())
        }
        Value::String(text) => format!("{text:?}"),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn field_paths_are_written_as_by_the_api_server() {
        let path = FieldPath::parse("spec.requirements").index(2).key("key");
        assert_eq!(path.to_string(), "spec.requirements[2].key");
        let label = FieldPath::parse("metadata.labels").key("karpenter.sh/x");
        assert_eq!(label.to_string(), "metadata.labels[karpenter.sh/x]");
        for path in [&path, &label] {
            assert_eq!(FieldPath::parse(&path.to_string()), *path);
        }
        assert_eq!(
            FieldPath::parse("items").index(0).join(&path).to_string(),
            "items[0].spec.requirements[2].key"
        );
    }

    #[test]
    fn keys_with_dots_are_found_in_their_object() {
        let object = json!({"spec": {"limits": {"a.b/c": 1}, "list": [[{"x": 1}]]}});
        for (text, wanted) in [
            ("spec.limits.a.b/c", "spec.limits[a.b/c]"),
            ("spec.limits.other", "spec.limits.other"),
            ("spec.list[0][0].x", "spec.list[0][0].x"),
            ("spec.list[7].x", "spec.list[7].x"),
            ("é.b", "[é].b"),
        ] {
            assert_eq!(FieldPath::parse_in_object(text, &object).to_string(), wanted);
        }
    }

    #[test]
    fn values_are_described_in_a_few_words() {
        assert_eq!(describe_value(&json!("abc")), "\"abc\"");
        assert_eq!(describe_value(&json!(1.5)), "1.5");
        assert_eq!(describe_value(&json!({"a": 1})), "a mapping");
        assert_eq!(describe_value(&json!("x".repeat(50))).chars().count(), 43);
    }
}
