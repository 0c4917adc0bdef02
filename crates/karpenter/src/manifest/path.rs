//! Paths of fields, in the spelling that the API server uses in its own messages.

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
    /// The path that a text names, such as `spec.requirements[2].key`.
    pub(crate) fn of(text: &str) -> Self {
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

    pub(crate) fn key(&self, key: &str) -> Self {
        self.with(Step::Key(key.to_owned()))
    }

    pub(crate) fn index(&self, index: usize) -> Self {
        self.with(Step::Index(index))
    }

    fn with(&self, step: Step) -> Self {
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

/// A value in a few words, for messages: texts are quoted and cut, collections only named.
pub(crate) fn describe(value: &Value) -> String {
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
    fn paths_read_as_the_api_server_writes_them() {
        let path = FieldPath::of("spec.requirements").index(2).key("key");
        assert_eq!(path.to_string(), "spec.requirements[2].key");
        let label = FieldPath::of("metadata.labels").key("karpenter.sh/x");
        assert_eq!(label.to_string(), "metadata.labels[karpenter.sh/x]");
        for path in [&path, &label] {
            assert_eq!(FieldPath::of(&path.to_string()), *path);
        }
        assert_eq!(
            FieldPath::of("items").index(0).join(&path).to_string(),
            "items[0].spec.requirements[2].key"
        );
    }

    #[test]
    fn values_are_described_in_a_few_words() {
        assert_eq!(describe(&json!("abc")), "\"abc\"");
        assert_eq!(describe(&json!(1.5)), "1.5");
        assert_eq!(describe(&json!({"a": 1})), "a mapping");
        assert_eq!(describe(&json!("x".repeat(50))).chars().count(), 43);
    }
}
