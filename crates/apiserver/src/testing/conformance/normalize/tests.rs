//! Tests of the stable names for versions, uids, times and generated names.

use http::HeaderMap;
use serde_json::json;

use super::*;

fn normalized_texts(answers: &[Value]) -> Vec<String> {
    let named = |answer: &Value| {
        let mut answer = answer.clone();
        name_list_version(&mut answer);
        answer
    };
    let note = |answer: &Value| StepRecord {
        title: "GET".to_owned(),
        response: Ok(StepResponse::new(
            StatusCode::OK,
            &HeaderMap::new(),
            Some(Content::Json(named(answer))),
        )),
    };
    let texts = normalize_steps(answers.iter().map(note).collect(), "own");
    texts.iter().map(|text| text.replace("> GET\n< 200\n", "")).collect()
}

#[test]
fn versions_are_named_by_rank_and_uids_by_first_occurrence() {
    let uid = |n: u8| format!("{n:08}-0000-0000-0000-000000000000");
    let answers = [
        json!({"metadata": {"resourceVersion": "90", "uid": uid(7)}}),
        json!({"metadata": {"resourceVersion": "70", "uid": uid(3)}}),
        json!({"metadata": {"resourceVersion": "90", "uid": uid(7)}}),
        json!({"message": format!("uid {} at resource version: 90 (95)", uid(3))}),
    ];
    let expected = [
        "metadata: {resourceVersion: <rv-2>, uid: <uid-1>}",
        "metadata: {resourceVersion: <rv-1>, uid: <uid-2>}",
        "metadata: {resourceVersion: <rv-2>, uid: <uid-1>}",
        r#"message: "uid <uid-2> at resource version: <rv-2> (<rv>)""#,
    ];
    assert_eq!(normalized_texts(&answers), expected.map(|text| format!("{{{text}}}")));
}

#[test]
fn a_list_may_not_be_older_than_its_items() {
    let list = |version: &str| json!({"items": [{"metadata": {"resourceVersion": "20"}}], "metadata": {"resourceVersion": version}});
    let item = "{items: [{metadata: {resourceVersion: <rv-1>}}], metadata: {resourceVersion: ";
    let texts = normalized_texts(&[list("20"), list("99"), list("19")]);
    assert_eq!(texts[0], format!("{item}<list-rv>}}}}"));
    assert_eq!(texts[1], texts[0]);
    assert!(texts[2].contains("<list-rv, older than its items>"), "{}", texts[2]);
}

#[test]
fn times_generated_names_and_ages_are_normalized() {
    let answers = [
        json!({"generateName": "a-", "name": "a-x2b4z", "t": "2026-01-02T03:04:05Z", "u": "2020-01-02T03:04:05Z"}),
        json!({"cells": ["a-x2b4z", "5m3s", 5], "m": "2026-01-02T03:04:05.123456Z", "ns": "own"}),
    ];
    let texts = normalized_texts(&answers);
    assert_eq!(
        texts[0],
        r#"{generateName: a-, name: "a-<gen-1, 5 characters>", t: <time>, u: 2020-01-02T03:04:05Z}"#
    );
    assert_eq!(
        texts[1],
        r#"{cells: ["a-<gen-1, 5 characters>", <age>, 5], m: <micro-time>, ns: "$id"}"#
    );
}

#[test]
fn causes_are_sorted_in_details_and_message() {
    let status = |first: &str, second: &str| {
        let cause = |field: &str| json!({"field": field, "message": "no"});
        json!({
            "kind": "Status",
            "details": {"causes": [cause(first), cause(second), cause(second)]},
            "message": format!("invalid: [{first}: no, {second}: no]"),
        })
    };
    let (one, other) =
        (normalized_texts(&[status("a", "b")]), normalized_texts(&[status("b", "a")]));
    let message = |texts: &[String]| texts[0].lines().last().map(str::to_owned);
    assert_eq!(message(&one), message(&other));
    assert!(one[0].contains("[a: no, b: no]"), "{}", one[0]);
}
