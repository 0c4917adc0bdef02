//! Every kind as a CustomResourceDefinition, for the chart, `karpenter crds` and tests.
//!
//! The schemas come from the types; this module adds the parts of all kinds (the three root
//! properties), what depends on the provider (rules D4 and D5 of spec 10 §1.6), and removes what a
//! Rust `Option` says too much (`nullable`).

use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::capacity_buffer::CapacityBuffer;
use crate::ec2_nodeclass::Ec2NodeClass;
use crate::kwok_nodeclass::KwokNodeClass;
use crate::labels;
use crate::nodeclaim::NodeClaim;
use crate::nodeoverlay::NodeOverlay;
use crate::nodepool::NodePool;
use crate::schema::RestrictedDomain;

/// Which provider's CRDs: the core kinds carry rules on the provider's label domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrdSet {
    /// The core kinds alone, without rules of a provider.
    Core,
    /// The AWS provider.
    Aws,
    /// The KWOK provider.
    Kwok,
}

/// The CRDs of a provider, sorted by name.
pub fn crds(set: CrdSet) -> Vec<Value> {
    let node_class = match set {
        CrdSet::Core => None,
        CrdSet::Aws => Some(optional_spec(crd::<Ec2NodeClass>())),
        CrdSet::Kwok => Some(optional_spec(crd::<KwokNodeClass>())),
    };
    let mut crds = vec![
        crd::<CapacityBuffer>(),
        restrict_provider_domain(crd::<NodeClaim>(), set, "/spec/properties"),
        restrict_provider_domain(crd::<NodeOverlay>(), set, "/spec/properties"),
        restrict_provider_domain(
            crd::<NodePool>(),
            set,
            "/spec/properties/template/properties/spec/properties",
        ),
    ];
    crds.extend(node_class);
    crds.sort_by(|a, b| name(a).cmp(name(b)));
    crds
}

fn name(crd: &Value) -> &str {
    crd["metadata"]["name"].as_str().unwrap_or_default()
}

const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";

fn crd<K: CustomResourceExt>() -> Value {
    let mut crd = serde_json::to_value(K::crd()).expect("a CRD is plain data");
    let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
    crd["spec"]["names"]["listKind"] = json!(format!("{kind}List"));
    simplify(&mut crd);

    let schema =
        crd.pointer_mut(SCHEMA).and_then(Value::as_object_mut).expect("a CRD has a schema");
    schema.shift_remove("title");
    let own = schema.shift_remove("properties").unwrap_or_default();
    let mut all = json!({
        "apiVersion": {"type": "string", "description": "Group and version of the schema that this object follows."},
        "kind": {"type": "string", "description": "Kind of this object."},
        "metadata": {"type": "object"},
    });
    if let (Value::Object(all), Value::Object(own)) = (&mut all, own) {
        all.extend(own);
    }
    schema.insert("properties".to_owned(), all);
    crd
}

/// Drops `nullable`, which the API has nowhere, and empty lists; writes whole numbers as integers;
/// says again what `x-kubernetes-int-or-string` stands for, which the derive leaves out.
fn simplify(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| {
                key != "nullable"
                    && !(matches!(key.as_str(), "shortNames" | "categories")
                        && value.as_array().is_some_and(Vec::is_empty))
            });
            map.values_mut().for_each(simplify);
            if map.contains_key("x-kubernetes-int-or-string") {
                map.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
            }
        }
        Value::Array(list) => list.iter_mut().for_each(simplify),
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|_| number.is_f64())
                && float.fract() == 0.0
                && float.abs() < 9e15
            {
                // Bounds of a schema: small whole numbers, exact in both types.
                #[expect(clippy::cast_possible_truncation, reason = "checked above")]
                let whole = float as i64;
                *value = json!(whole);
            }
        }
        _ => {}
    }
}

/// Node classes may be created without a spec.
fn optional_spec(mut crd: Value) -> Value {
    if let Some(Value::Object(root)) = crd.pointer_mut(SCHEMA) {
        root.shift_remove("required");
    }
    crd
}

/// Rules D4 and D5 of spec 10 §1.6, appended to those that the kinds bring along. `parent` is
/// where `requirements` is.
fn restrict_provider_domain(mut crd: Value, set: CrdSet, parent: &str) -> Value {
    let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
    let (domain, except) = match (set, kind.as_str()) {
        (CrdSet::Aws, "NodeOverlay") => (labels::aws::GROUP, aws_keys_of_overlays()),
        (CrdSet::Aws, _) => (labels::aws::GROUP, aws_keys()),
        (CrdSet::Core, _) | (CrdSet::Kwok, "NodeOverlay") => return crd,
        (CrdSet::Kwok, _) => (labels::kwok::GROUP, kwok_keys()),
    };
    let domain = RestrictedDomain { domain, except: &except };
    push_rule(&mut crd, &format!("{parent}/requirements/items/properties/key"), domain.key_rule());
    if set == CrdSet::Aws && kind == "NodePool" {
        let labels = "/spec/properties/template/properties/metadata/properties/labels";
        push_rule(&mut crd, labels, domain.label_map_rule());
    }
    crd
}

/// Keys of the AWS domain that users may use: the well-known ones and the node class.
fn aws_keys() -> Vec<&'static str> {
    let well_known = labels::aws::WELL_KNOWN.into_iter();
    well_known
        .filter(|key| labels::domain(key) == labels::aws::GROUP)
        .chain([labels::aws::EC2_NODE_CLASS])
        .collect()
}

/// An overlay is about instance types, so keys that only a launch decides are not for it.
fn aws_keys_of_overlays() -> Vec<&'static str> {
    let decided_at_launch = [
        labels::aws::INSTANCE_TENANCY,
        labels::aws::CAPACITY_RESERVATION_ID,
        labels::aws::CAPACITY_RESERVATION_TYPE,
        labels::aws::CAPACITY_RESERVATION_INTERRUPTIBLE,
        labels::aws::PLACEMENT_GROUP_ID,
        labels::aws::PLACEMENT_GROUP_PARTITION,
    ];
    aws_keys().into_iter().filter(|key| !decided_at_launch.contains(key)).collect()
}

fn kwok_keys() -> Vec<&'static str> {
    labels::kwok::WELL_KNOWN.into_iter().chain([labels::kwok::KWOK_NODE_CLASS]).collect()
}

fn push_rule(crd: &mut Value, node: &str, rule: Value) {
    let rules = crd
        .pointer_mut(&format!("{SCHEMA}/properties{node}/x-kubernetes-validations"))
        .and_then(Value::as_array_mut)
        .expect("the node exists and has rules already");
    rules.push(rule);
}
