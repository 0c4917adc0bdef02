//! Schema fragments that several kinds share (spec 10 §1): patterns, conditions, taints,
//! requirement lists and the CEL rules on label keys.
//!
//! Everything here is JSON that ends up in a CustomResourceDefinition; `crate::crds` renders it.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::{labels, taints};

/// Requirement keys, taint keys and taint values: an optional DNS prefix, a slash, a name.
pub const KEY_PATTERN: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// Label values; the empty text is one.
pub const LABEL_VALUE_PATTERN: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// Durations of whole seconds, minutes and hours.
pub const DURATION_PATTERN: &str = "^([0-9]+(s|m|h))+$";
/// The same, or `Never`.
pub const NILLABLE_DURATION_PATTERN: &str = "^(([0-9]+(s|m|h))+|Never)$";

const CONDITION_TYPE_PATTERN: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// CEL rules as `x-kubernetes-validations` wants them: pairs of a rule and its message.
pub fn rules(rules: &[(&str, &str)]) -> Value {
    rules.iter().map(|(rule, message)| json!({"rule": rule, "message": message})).collect()
}

/// A string that may not be empty, said by CEL so that the message is a sentence.
pub fn not_empty(field: &str) -> Value {
    json!([{"rule": "self != ''", "message": format!("{field} cannot be empty")}])
}

/// `status.conditions` of a kind whose list is merged by type.
pub fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = plain_conditions(generator);
    schema.insert("x-kubernetes-list-type".into(), json!("map"));
    schema.insert("x-kubernetes-list-map-keys".into(), json!(["type"]));
    schema
}

/// `status.conditions` of the node classes, whose list has no merge markers.
pub fn plain_conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": condition(
            json!({"type": "string", "minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"}),
            &["lastTransitionTime", "message", "reason", "status", "type"],
        ),
    })
}

/// `status.conditions` of NodeClaim: conditions that old releases wrote without a reason or a
/// message stay valid.
pub fn lenient_conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": condition(
            json!({"type": "string", "maxLength": 1024, "pattern": "^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$"}),
            &["lastTransitionTime", "status", "type"],
        ),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

fn condition(mut reason: Value, required: &[&str]) -> Value {
    let described = |mut schema: Value, text: &str| {
        schema["description"] = json!(text);
        schema
    };
    reason = described(reason, "Why the condition has this status, as one CamelCase word.");
    json!({
        "type": "object",
        "description": "One observed aspect of the object's state.",
        "required": required,
        "properties": {
            "type": described(json!({"type": "string", "maxLength": 316, "pattern": CONDITION_TYPE_PATTERN}), "Name of the condition."),
            "status": described(json!({"type": "string", "enum": ["True", "False", "Unknown"]}), "Whether the condition holds."),
            "reason": reason,
            "message": described(json!({"type": "string", "maxLength": 32768}), "Details for people; may be empty."),
            "lastTransitionTime": described(json!({"type": "string", "format": "date-time"}), "When the status last changed."),
            "observedGeneration": described(json!({"type": "integer", "format": "int64", "minimum": 0}), "Generation of the object that the condition was set for."),
        },
    })
}

/// `taints` and `startupTaints`.
pub fn taint_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "description": "A taint that keeps away pods without a matching toleration.",
            "required": ["effect", "key"],
            "properties": {
                "key": {"type": "string", "minLength": 1, "pattern": KEY_PATTERN, "description": "Key of the taint."},
                "value": {"type": "string", "pattern": KEY_PATTERN, "description": "Value of the taint."},
                "effect": {
                    "type": "string",
                    "enum": taints::EFFECTS,
                    "description": "What happens to pods that do not tolerate the taint.",
                },
                "timeAdded": {"type": "string", "format": "date-time", "description": "When the taint was added to the node."},
            },
        },
    })
}

/// `minValues`: a Go `int`, so without a format.
pub fn min_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 1, "maximum": 50})
}

/// A `requirements` list of items `T`, with CEL rules on each key and on the whole list.
pub fn requirements<T: JsonSchema>(
    generator: &mut SchemaGenerator,
    key_rules: &Value,
    list_rules: &Value,
) -> Schema {
    let mut item = T::json_schema(generator);
    if let Some(key) = item.pointer_mut("/properties/key") {
        key["x-kubernetes-validations"] = key_rules.clone();
    }
    json_schema!({
        "type": "array",
        "items": item,
        "maxItems": 100,
        "x-kubernetes-list-type": "atomic",
        "x-kubernetes-validations": list_rules,
    })
}

/// A point in time.
pub fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// Rules on a whole `requirements` list of NodePool and NodeClaim (RQ1 to RQ3 of spec 10 §1.4).
///
/// `has(r.values)` comes first so that an absent list is refused with the message instead of a
/// CEL evaluation error.
pub fn requirement_rules() -> Value {
    rules(&[
        (
            "self.all(r, r.operator != 'In' || (has(r.values) && size(r.values) > 0))",
            "requirements with operator 'In' must have a value defined",
        ),
        (
            NUMERIC_RULE,
            "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
        ),
        (
            "self.all(r, r.operator != 'In' || !has(r.minValues) || (has(r.values) && size(r.values) >= r.minValues))",
            "requirements with 'minValues' must have at least that many values specified in the 'values' field",
        ),
    ])
}

/// Rules on a whole `requirements` list of NodeOverlay (RQ4, RQ1, RQ2o of spec 10 §1.4).
pub fn overlay_requirement_rules() -> Value {
    rules(&[
        (
            "self.all(r, r.operator != 'NotIn' || (has(r.values) && size(r.values) > 0))",
            "requirements with operator 'NotIn' must have a value defined",
        ),
        (
            "self.all(r, r.operator != 'In' || (has(r.values) && size(r.values) > 0))",
            "requirements with operator 'In' must have a value defined",
        ),
        (
            NUMERIC_RULE,
            "requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value",
        ),
    ])
}

/// `int` fails on a text that is not a number; that evaluation error rejects the object too.
const NUMERIC_RULE: &str = "self.all(r, !(r.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(r.values) && size(r.values) == 1 && int(r.values[0]) >= 0))";

/// Which label keys a restricted domain still allows.
#[derive(Clone, Copy, Debug)]
pub struct RestrictedDomain<'a> {
    /// The domain, for example `karpenter.sh`.
    pub domain: &'a str,
    /// Full keys of it that users may set.
    pub except: &'a [&'a str],
}

/// Rule D1 of spec 10 §1.6.
pub const CORE_DOMAIN: RestrictedDomain<'static> =
    RestrictedDomain { domain: labels::GROUP, except: &[labels::CAPACITY_TYPE, labels::NODEPOOL] };

impl RestrictedDomain<'_> {
    fn message(self) -> String {
        format!("label domain \"{}\" is restricted", self.domain)
    }

    /// Whether `key` (a CEL variable) may be used. The domain is the text before the first slash,
    /// or the whole key; a plain suffix test, so `notkarpenter.sh/x` is refused as well.
    fn allows(self, key: &str) -> String {
        let except =
            self.except.iter().map(|key| format!("'{key}'")).collect::<Vec<_>>().join(", ");
        format!("{key} in [{except}] || !{key}.split('/')[0].endsWith('{}')", self.domain)
    }

    /// Returns the CEL rule for a schema node that is one key.
    pub fn key_rule(self) -> Value {
        json!({"rule": self.allows("self"), "message": self.message()})
    }

    /// Returns the CEL rule for a schema node that is a map of labels.
    pub fn label_map_rule(self) -> Value {
        json!({"rule": format!("self.all(k, {})", self.allows("k")), "message": self.message()})
    }
}

/// Rules D1 to D3 for one key; D2 (the pool's own label) only where `nodepool` says so.
pub fn key_rules(nodepool: bool) -> Value {
    let mut rules = vec![CORE_DOMAIN.key_rule()];
    rules.extend(
        forbidden_keys(nodepool)
            .map(|(key, message)| json!({"rule": format!("self != '{key}'"), "message": message})),
    );
    Value::Array(rules)
}

/// Rules D1 to D3 for the keys of a map of labels.
pub fn label_map_rules() -> Value {
    let mut rules = vec![CORE_DOMAIN.label_map_rule()];
    rules.extend(
        forbidden_keys(true).map(
            |(key, message)| json!({"rule": format!("!('{key}' in self)"), "message": message}),
        ),
    );
    Value::Array(rules)
}

fn forbidden_keys(nodepool: bool) -> impl Iterator<Item = (&'static str, String)> {
    nodepool
        .then_some(labels::NODEPOOL)
        .into_iter()
        .chain([labels::HOSTNAME])
        .map(|key| (key, format!("label \"{key}\" is restricted")))
}
