//! Patches with what the libraries of Kubernetes 1.36 made of them.
//!
//! Recorded by `tests/e2e/tools/kubernetes/patches` from random patches, of which a few with every
//! feature are kept.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::patch;
use crate::type_model::{Field, ListKind, ObjectType, PatchStrategy, Scalar, Type, TypeId, Types};

const RECORDED: &str = include_str!("recorded.jsonl");

#[test]
fn recorded_patches_match_kubernetes() {
    for (line, recorded) in RECORDED.lines().enumerate() {
        let recorded: Value = serde_json::from_str(recorded).expect("a line is JSON");
        for (step, operation) in recorded["ops"].as_array().expect("a list").iter().enumerate() {
            let got = run(operation);
            assert_eq!(got, recorded["want"][step], "line {}: {operation}", line + 1);
        }
    }
}

fn run(operation: &Value) -> Value {
    let (object, body) = (&operation["doc"], &operation["body"]);
    let failed = |_| json!({"failed": true});
    match operation["op"].as_str() {
        Some("json") => patch::apply_json_patch(object, body).unwrap_or_else(failed),
        Some("merge") => patch::apply_merge_patch(object, body).unwrap_or_else(failed),
        _ => {
            let outcome =
                patch::apply_strategic_patch(&RECORDED_TYPE.0, RECORDED_TYPE.1, object, body);
            outcome.unwrap_or_else(|failure| json!({"error": failure.message}))
        }
    }
}

/// The types and the root type of the objects that the recorder patches.
static RECORDED_TYPE: LazyLock<(Types, TypeId)> = LazyLock::new(|| {
    let mut types = Types::default();
    let text = types.add(Type::Scalar(Scalar::Text));
    let number = types.add(Type::Scalar(Scalar::Integer));
    let texts = types.add(Type::List { items: text, kind: ListKind::Set });
    let numbers = types.add(Type::List { items: number, kind: ListKind::Set });
    let sub = types.add(object(&[("x", text, None), ("y", text, None)]));
    let item = types.add(Type::Any);
    let items = types.add(Type::List { items: item, kind: ListKind::Atomic });
    let fields = [
        ("name", text, None),
        ("v", text, None),
        ("sub", sub, None),
        ("tags", texts, Some("")),
        ("subs", items, Some("name")),
    ];
    types.define(item, object(&fields));
    let map = types.add(Type::Map { values: text, atomic: false });
    let subs = types.add(Type::Map { values: sub, atomic: false });
    let mut root = object(&[
        ("a", text, None),
        ("n", number, None),
        ("map", map, None),
        ("sub", sub, None),
        ("whole", sub, None),
        ("items", items, Some("name")),
        ("plain", items, None),
        ("set", texts, Some("")),
        ("nums", numbers, Some("")),
        ("bad", items, Some("")),
        ("things", subs, None),
    ]);
    if let Type::Object(root) = &mut root
        && let Some(whole) = root.fields.get_mut("whole")
    {
        whole.strategy.replaces = true;
    }
    let root = types.add(root);
    types.set_name("main.Thing", root);
    (types, root)
});

fn object(fields: &[(&str, TypeId, Option<&str>)]) -> Type {
    let fields: BTreeMap<Box<str>, Field> = fields
        .iter()
        .map(|(name, shape, merge_key)| {
            let merge_key = merge_key.map(Into::into);
            let strategy = PatchStrategy { merge_key, ..PatchStrategy::default() };
            let field = Field { type_id: *shape, required: false, default: None, strategy };
            ((*name).into(), field)
        })
        .collect();
    Type::Object(ObjectType { fields, ..ObjectType::default() })
}
