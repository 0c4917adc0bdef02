//! Tests of reading manifests: the dialect, the limits and broken input.

mod rewriting;

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A ConfigMap around one value, read back.
#[track_caller]
fn value_of(yaml: &str) -> Value {
    let text = format!("apiVersion: v1\nkind: ConfigMap\nvalue: {yaml}\n");
    let manifests = read_text("x.yaml", &text);
    let problems: Vec<_> = manifests.problems.iter().map(|p| p.diagnostic.to_string()).collect();
    assert_eq!(problems, [""; 0], "{yaml}");
    manifests.objects[0].value["value"].clone()
}

#[test]
fn scalars_are_read_as_kubectl_reads_them() {
    #[rustfmt::skip]
    let cases = [
        ("yes", json!(true)), ("No", json!(false)), ("on", json!(true)), ("OFF", json!(false)), ("y", json!(true)),
        ("'yes'", json!("yes")), ("\"on\"", json!("on")),
        ("0777", json!(511)), ("0o17", json!(15)), ("0x1F", json!(31)), ("1_000", json!(1000)),
        ("1e3", json!(1000)), ("1.0", json!(1)), ("-2.0", json!(-2)), ("1.5", json!(1.5)),
        ("18446744073709551615", json!(u64::MAX)), ("18446744073709551616", json!(18_446_744_073_709_551_616.0)),
        ("12:30", json!("12:30")), ("2024-01-02", json!("2024-01-02")), ("1.2.3", json!("1.2.3")),
        ("~", json!(null)), ("", json!(null)), ("'null'", json!("null")),
        ("{a: [1, b], <<: {c: 2}}", json!({ "a": [1, "b"], "c": 2 })),
        ("|\n  a\n  b\n", json!("a\nb\n")), (">-\n  a\n  b\n", json!("a b")),
        ("\"\\u00e9\\ud83d\\ude00\"", json!("é😀")),
    ];
    for (yaml, value) in cases {
        assert_eq!(value_of(yaml), value, "{yaml}");
    }
}

#[test]
fn aliases_merge_keys_and_byte_order_marks_are_read() {
    let text = "\u{feff}# a comment\r\napiVersion: v1\r\nkind: ConfigMap # another\r\nbase: &b {x: 1, y: 2}\r\nmine:\r\n  <<: *b\r\n  y: 3\r\n";
    let manifests = read_text("x.yaml", text);
    assert!(manifests.problems.is_empty(), "{:?}", manifests.problems);
    assert_eq!(manifests.objects[0].value["mine"], json!({ "x": 1, "y": 3 }));
}

#[test]
fn every_document_and_list_item_is_an_object() {
    let text = "
apiVersion: v1
kind: A
---
# nothing here
---
null
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: B}
- apiVersion: example.com/v1
  kind: CList
  items:
  - metadata: {name: c}
- apiVersion: v1
  kind: List
  items: []
...
apiVersion: v1
kind: D
";
    let manifests = read_text("x.yaml", text);
    assert!(manifests.problems.is_empty(), "{:?}", manifests.problems);
    let found: Vec<_> = manifests
        .objects
        .iter()
        .map(|object| {
            let place = manifests.location(&object.origin, &FieldPath::parse("kind"));
            format!("{} {place}", object.value["kind"].as_str().unwrap())
        })
        .collect();
    assert_eq!(found, ["A x.yaml:3", "B x.yaml:12", "C x.yaml:16", "D x.yaml:22"]);
    assert_eq!(manifests.objects[2].value["apiVersion"], "example.com/v1");
}

#[test]
fn fields_are_located_by_line() {
    let yaml = "# top\n---\napiVersion: v1\nkind: X\nspec:\n  labels:\n    karpenter.sh/x: y\n  list:\n  - a: 1\n  - a: 2\n    b: 3\n";
    let json = "\n{\"apiVersion\": \"v1\", \"kind\": \"X\",\n \"spec\": {\n  \"list\": [1,\n 2]}}\n{\"apiVersion\": \"v1\",\n \"kind\": \"Y\"}";
    #[rustfmt::skip]
    let cases = [
        (yaml, 0, "", 3), (yaml, 0, "spec", 5), (yaml, 0, "spec.labels[karpenter.sh/x]", 7), (yaml, 0, "spec.list[1]", 10),
        (yaml, 0, "spec.list[1].b", 11), (yaml, 0, "spec.list[7].b", 8), (yaml, 0, "spec.missing.deep", 5), (yaml, 0, "nothing", 3),
        (json, 0, "spec.list[1]", 5), (json, 0, "kind", 2), (json, 1, "kind", 7), (json, 1, "", 6),
    ];
    for (text, object, field, line) in cases {
        let manifests = read_text("x", text);
        let place = manifests.location(&manifests.objects[object].origin, &FieldPath::parse(field));
        assert_eq!(place, Location::file("x").line(line), "{field}");
    }
}

/// Returns a document whose aliases stand for a list of `values` values, `copies` times.
fn aliased_document(name: &str, values: &str, copies: usize) -> String {
    let aliases = vec!["*a"; copies].join(",");
    // The parser refuses 100 aliases of one anchor.
    let anchors: Vec<_> = (0..=copies / 10).map(|n| format!("&b{n} x")).collect();
    format!(
        "apiVersion: v1\nkind: X\nmetadata: {{name: {name}}}\nanchors: [{}]\na: &a {values}\nb: [{aliases}]\n",
        anchors.join(",")
    )
}

#[test]
fn aliases_have_one_budget_for_all_documents() {
    let list = format!("[{}]", vec!["1"; 1000].join(","));
    let text = "x".repeat(100_000);
    for (values, copies, expected) in [
        (list, 60, "error: aliases stand for more than 200000 values\n where: x.yaml:"),
        (text, 60, "error: aliases stand for more than 16 MiB of text\n where: x.yaml:"),
    ] {
        let document = |name: &str| aliased_document(name, &values, copies);
        let two = [document("a"), document("b")].join("---\n");
        assert_eq!(read_text("x.yaml", &two).objects.len(), 2, "{expected}");
        let ten: Vec<_> = (0..10).map(|number| document(&format!("a{number}"))).collect();
        let manifests = read_text("x.yaml", &ten.join("---\n"));
        assert!(manifests.objects.len() < 5, "{} of 10 documents", manifests.objects.len());
        let message = manifests.problems[0].diagnostic.to_string();
        assert!(message.starts_with(expected), "{message}");
    }
}

/// Returns mappings nested this many levels deep.
fn nested_mappings(levels: usize) -> String {
    let levels: Vec<_> = (0..levels).map(|level| " ".repeat(level) + "x:\n").collect();
    levels.concat()
}

#[test]
fn invalid_documents_give_short_diagnostics() {
    let levels: Vec<_> = (1..10)
        .map(|level| {
            let aliases = vec![format!("*l{}", level - 1); 9].join(",");
            format!("l{level}: &l{level} [{aliases}]")
        })
        .collect();
    let bomb = format!("l0: &l0 [x,x,x,x,x,x,x,x,x]\n{}\n", levels.join("\n"));
    let deep = "- ".repeat(100_000);
    let flow = "[".repeat(100_000);
    let nested = nested_mappings(200);
    #[rustfmt::skip]
    let cases = [
        ("a:\n\tb: 2\n", "error: not valid YAML: tabs disallowed within this context (block indentation)\n where: x.yaml:2:2\n   fix: indent with spaces"),
        ("a: [1\n", "error: not valid YAML: unclosed bracket '['\n where: x.yaml:1:4\n   fix: check the indentation, quotes and brackets of this line and the ones above it"),
        ("apiVersion: v1\nkind: X\n---\na:\n  b: 1\n c: 1\n", "error: not valid YAML: while parsing a block mapping, did not find expected key\n where: x.yaml:6:2\n   fix: check"),
        ("{{- if .Values.on }}\na: 1\n", "error: not valid YAML: \"-\" is only valid inside a block\n where: x.yaml:1:3\n   fix: this looks like a template: render it first"),
        ("a: 1\nb: 1\na: 2\n", "error: `a` is given twice in one mapping\n where: x.yaml:3:1\n   fix: keep one of the two"),
        ("a: *b\n", "error: alias (`*name`) without its anchor (`&name`)\n where: x.yaml:1:4\n   fix: define the anchor"),
        ("a: &a\n  b: *a\n", "error: alias (`*name`) inside its own anchor (`&name`)\n where: x.yaml:2:6\n   fix: write the value out"),
        ("a: .inf\n", "error: not a number that JSON can hold\n where: x.yaml:1:4\n   fix: put it in quotes"),
        ("a: 1e999\n", "error: not a number that JSON can hold\n where: x.yaml:1:4"),
        ("? [a]\n: b\n", "error: not valid YAML: expected string scalar\n where: x.yaml:1:3"),
        ("a: \u{1}\n", "error: not valid YAML: unexpected character: `\\u{1}'\n where: x.yaml:1:4"),
        (&deep, "error: nested deeper than 64 levels\n where: x.yaml:1:"),
        (&flow, "error: nested deeper than 64 levels\n where: x.yaml:1:"),
        (&nested, "error: nested deeper than 64 levels\n where: x.yaml:65:"),
        (&bomb, "error: aliases stand for more than 200000 values\n where: x.yaml:"),
        ("just text\n", "error: not a Kubernetes object\n where: x.yaml:1\n found: \"just text\"\n   fix: each document must be a mapping"),
        ("- a\n- b\n", "error: not a Kubernetes object\n where: x.yaml:1\n found: a list"),
        ("apiVersion: v1\nmetadata: {}\n", "error: not a Kubernetes object: `kind` is missing\n where: x.yaml:1\n found: a mapping without it"),
        ("apiVersion: v1\nkind: 5\n", "error: `kind` of a Kubernetes object must be a text\n where: x.yaml:1\n found: 5"),
        ("apiVersion: v1\nkind: List\nitems:\n- 1\n", "error: not a Kubernetes object\n where: x.yaml:4  items[0]\n found: 1"),
        ("{\"apiVersion\": \"v1\", \"kind\": \"A\"}\n{\"apiVersion\": ]", "error: not valid JSON: expected value\n where: x.yaml:2:16"),
    ];
    for (text, expected) in cases {
        let manifests = read_text("x.yaml", text);
        let messages: Vec<_> =
            manifests.problems.iter().map(|p| p.diagnostic.to_string()).collect();
        let head: String = text.chars().take(40).collect();
        assert!(
            messages.len() == 1 && messages[0].starts_with(expected),
            "{head:?}: {messages:#?}"
        );
    }
}

#[test]
fn the_deepest_allowed_document_fits_into_the_stack() {
    let inner = DEPTH_MAX - 1;
    let texts =
        [nested_mappings(DEPTH_MAX), format!("x: {}{}\n", "[".repeat(inner), "]".repeat(inner))];
    let read = move || {
        for text in texts {
            let manifests = read_text("x.yaml", &format!("apiVersion: v1\nkind: X\n{text}"));
            assert!(manifests.problems.is_empty(), "{:?}", manifests.problems);
            let object = &manifests.objects[0];
            assert_eq!(manifests.location(&object.origin, &FieldPath::parse("x")).line, Some(3));
            let again = parse_single_document(&write::yaml(&object.value)).unwrap();
            assert_eq!(again.as_ref(), Some(&object.value));
        }
    };
    // Half of what a main thread has; without optimisation a level takes 20 KiB.
    let thread = std::thread::Builder::new().stack_size(4 << 20);
    thread.spawn(read).unwrap().join().unwrap();
}

#[test]
fn a_broken_document_does_not_hide_the_others() {
    let manifests =
        read_text("x.yaml", "apiVersion: v1\nkind: A\n---\na: [\n---\napiVersion: v1\nkind: B\n");
    assert_eq!(manifests.problems.len(), 1);
    assert_eq!(manifests.objects.len(), 2);
}

#[test]
fn too_many_documents_are_rejected() {
    let manifests = read_text("x.yaml", &"---\n".repeat(InputLimits::MANIFESTS.documents + 1));
    let messages = manifests.problems[0].diagnostic.to_string();
    assert!(messages.starts_with("error: more than 100000 documents in one file"), "{messages}");
}

#[test]
fn strings_that_yaml_reads_as_other_types_are_quoted() {
    let texts = [
        "yes",
        "on",
        "n",
        "0o7",
        "0777",
        "1e3",
        "12:30",
        "~",
        "null",
        "",
        "2024-01-02",
        "1_000",
        ".inf",
        "<<",
        "=",
        "- a",
        "a: b",
        "#c",
        " a",
    ];
    for text in texts {
        let yaml = write::yaml(&json!({ "key": text, text: 1 }));
        assert!(yaml.starts_with("key: \""), "{yaml}");
        assert!(yaml.lines().nth(1).unwrap().starts_with('"'), "{yaml}");
    }
}

#[test]
fn a_text_that_begins_with_a_tab_is_quoted() {
    assert_eq!(write::yaml(&json!({ "a": "\n\tb\nc" })), "a: \"\\n\\tb\\nc\"\n");
}

#[test]
fn user_data_keeps_its_lines() {
    let nested = json!([{ "a": "b\n\nc", "d": "e\n  \nf" }]);
    let object = json!({ "spec": { "userData": "#!/bin/sh\n\necho  \n  x\n", "list": [nested] } });
    insta::assert_snapshot!(write::yaml(&object).replace(' ', "·"), @r"
    spec:
    ··userData:·|
    ····#!/bin/sh

    ····echo··
    ······x
    ··list:
    ··-·-·a:·|-
    ········b

    ········c
    ······d:·|-
    ········e
    ··········
    ········f
    ");
}

fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        any::<String>(),
        "[ a-c:#\\-|>'\"{}\\[\\],&*!%@`~?0-9.eExo_+\n\t]{0,12}",
        "([ ]{0,3}[a|:\\-]{0,3}\n){0,4}[ ]{0,2}",
    ];
    let scalar =
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(|float| Value::from(
                if float.is_finite() && float.fract() != 0.0 { float } else { 0.5 }
            )),
            text.clone().prop_map(Value::from),
        ];
    scalar.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(text.clone(), inner, 0..4)
                .prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_yaml_reads_back_unchanged(value in any_json()) {
        let object = json!({ "value": value, "list": [value] });
        let text = write::yaml(&object);
        let read = parse_single_document(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        prop_assert_eq!(read.as_ref(), Some(&object), "{}", text);
        prop_assert!(text.ends_with('\n') && !text.contains("\n---"));
    }

    #[test]
    fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(text) = input::decode_utf8(bytes, Location::file("x.yaml")) {
            read_text("x.yaml", &text);
        }
    }

    #[test]
    fn any_text_can_be_read(text in any::<String>()) {
        read_text("x.yaml", &text);
    }

    #[test]
    fn any_text_of_yaml_signs_can_be_read(text in "([ \t]{0,3}[a-c&*!|>'\"{}\\[\\]:,?#%@~.\\-]{0,6}\r?\n?){0,12}") {
        let manifests = read_text("x.yaml", &text);
        // The segments of a text are all of it, whatever it holds.
        let source = &manifests.sources[0];
        if source.format == Format::Yaml {
            let keep = vec![replace::Replacement::Keep; source.document_count()];
            prop_assert_eq!(replace::replaced_text(source, &keep), text);
        }
    }
}
