//! The YAML of a NodeConfig.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_saphyr::DuplicateKeyPolicy;

/// Returns the value as YAML, keys sorted, ending in a line break.
///
/// The layout is upstream's, byte for byte for all that Karpenter itself writes. Readers of YAML
/// 1.1 and 1.2 read the same: texts that either would take for a number, a boolean or nothing are
/// quoted.
pub(super) fn write(value: &Value) -> String {
    let mut yaml = String::new();
    write_block(&mut yaml, value, 0);
    yaml
}

/// Writes the lines of a value; the first one continues the current line.
///
/// Items of a list stand below the first letter of their key.
fn write_block(yaml: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let sorted: BTreeMap<_, _> = fields.iter().collect();
            for (index, (key, value)) in sorted.into_iter().enumerate() {
                yaml.push_str(&margin(if index == 0 { 0 } else { indent }));
                yaml.push_str(&text_scalar(key));
                let indent = match value {
                    Value::Object(inner) if !inner.is_empty() => indent + 2,
                    Value::Array(items) if !items.is_empty() => indent,
                    _ => {
                        yaml.push_str(": ");
                        write_block(yaml, value, indent);
                        continue;
                    }
                };
                yaml.push_str(":\n");
                yaml.push_str(&margin(indent));
                write_block(yaml, value, indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                yaml.push_str(&margin(if index == 0 { 0 } else { indent }));
                yaml.push_str("- ");
                write_block(yaml, item, indent + 2);
            }
        }
        Value::String(text) => yaml.push_str(&(text_scalar(text) + "\n")),
        // As JSON writes them, empty ones included.
        other => yaml.push_str(&(other.to_string() + "\n")),
    }
}

fn margin(indent: usize) -> String {
    " ".repeat(indent)
}

/// Returns a text on one line, quoted where a reader could take it for something else.
fn text_scalar(text: &str) -> String {
    // The serializer quotes addresses for their digits. No reader takes one for a number.
    if text.parse::<Ipv4Addr>().is_ok() {
        return text.to_owned();
    }
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let scalar = serde_saphyr::to_string_with_options(&text, options)
        .expect("writing a text to memory cannot fail");
    scalar.trim_end_matches('\n').to_owned()
}

/// Whether the first document is a mapping, or there is no content but comments.
pub(super) fn is_mapping_or_empty(text: &str) -> bool {
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        with_snippet: false,
    };
    let mut bytes = text.as_bytes();
    let mut documents = serde_saphyr::read_with_options::<_, Mapping>(&mut bytes, options);
    documents.next().is_none_or(|first| first.is_ok())
}

/// A YAML mapping with any content.
struct Mapping;

impl<'de> Deserialize<'de> for Mapping {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MappingVisitor)
    }
}

struct MappingVisitor;

impl<'de> Visitor<'de> for MappingVisitor {
    type Value = Mapping;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Mapping, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Mapping)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_mappings_and_comments_are_node_configs() {
        #[rustfmt::skip]
        let cases = [
            ("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n", true),
            ("#cloud-config\npackages: [jq]\n",                  true),
            ("# nothing but a comment\n",                         true),
            ("\n",                                                true),
            ("a: 1\na: 2\n",                                      true),
            ("a: 1\n---\necho two\n",                             true), // the first document counts
            ("1: a\ntrue: b\n",                                   true),
            ("{}",                                                true),
            ("#!/bin/bash\necho \"plain script\"\n",              false),
            ("#!/bin/bash\necho hi: there\n",                     true), // reads as a mapping
            ("#!/bin/bash\nset -e\nfoo() {\n  echo hi\n}\n",      false),
            ("- a\n- b\n",                                        false),
            ("text",                                              false),
            ("a: [\n",                                            false),
        ];
        for (text, want) in cases {
            assert_eq!(is_mapping_or_empty(text), want, "50/B12: {text:?}");
        }
    }

    #[test]
    fn keys_are_sorted_and_ambiguous_texts_quoted() {
        let value = json!({
            "b": "true", "e": ["10.0.0.10", "1", 1, null, 0.5, ""], "f": { "g": [[1, [2]], {}, []] },
            "a": { "d": ["x", { "z": 1, "w": ["5%", { "k": "a: b" }] }], "c": {} },
        });
        let want = r#"a:
  c: {}
  d:
  - x
  - w:
    - 5%
    - k: "a: b"
    z: 1
b: "true"
e:
- 10.0.0.10
- "1"
- 1
- null
- 0.5
- ""
f:
  g:
  - - 1
    - - 2
  - {}
  - []
"#;
        let yaml = write(&value);
        let parsed: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(parsed, value, "{yaml}");
        assert_eq!(yaml.replace('\'', "\""), want);
    }
}
