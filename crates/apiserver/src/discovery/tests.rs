//! Tests of discovery against the recorded responses of a real kube-apiserver 1.36.
//! `tests/recorded.txt` has one line per resource. The embedded API gives the same lines in the
//! same order, except for resources that it does not serve.

use serde_json::Value;

use super::*;
use crate::builtin_controllers::served_versions;

const RECORDED: &str = include_str!("tests/recorded.txt");
const WIDGETS: &str = include_str!("../table/tests/widgets.yaml");

fn registry() -> Registry {
    let mut registry = Registry::new();
    for served in served_versions(&serde_saphyr::from_str(WIDGETS).unwrap()) {
        registry.add(served);
    }
    registry
}

#[track_caller]
fn get(path: &str, accept: &str) -> (&'static str, Value) {
    match handle(&registry(), path, accept).expect(path).expect(path).body {
        Body::Value(value) => ("application/json", value),
        Body::Bytes(media, bytes) => (media, serde_json::from_slice(&bytes).unwrap()),
        other => panic!("{other:?}"),
    }
}

fn words(value: &Value) -> String {
    let words: Vec<&str> =
        value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    words.join(",")
}

fn kind(value: &Value) -> String {
    let part = |field: &str| value[field].as_str().unwrap_or_default();
    format!("{}/{}/{}", part("group"), part("version"), part("kind"))
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns one line per resource and subresource of an aggregated document.
fn aggregated_lines(document: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for group in items(&document["items"]) {
        for version in items(&group["versions"]) {
            let head =
                format!("{}/{}", text(&group["metadata"]["name"]), text(&version["version"]));
            for resource in items(&version["resources"]) {
                let name = text(&resource["resource"]);
                let line = [
                    format!("aggregated {head} {name} {}", kind(&resource["responseKind"])),
                    text(&resource["scope"]),
                    text(&resource["singularResource"]),
                    words(&resource["verbs"]),
                    words(&resource["shortNames"]),
                    words(&resource["categories"]),
                ];
                lines.push(line.join(" ").trim_end().to_owned());
                for sub in items(&resource["subresources"]) {
                    let (sub_name, verbs) = (text(&sub["subresource"]), words(&sub["verbs"]));
                    let kind = kind(&sub["responseKind"]);
                    lines.push(format!("aggregated {head} {name}/{sub_name} {kind} {verbs}"));
                }
            }
        }
    }
    lines
}

/// Returns one line per resource and subresource of an unaggregated document.
fn unaggregated_lines(document: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |resource: &Value| {
        let line = [
            format!("classic {} {}", text(&document["groupVersion"]), text(&resource["name"])),
            kind(resource),
            if resource["namespaced"] == true { "Namespaced" } else { "Cluster" }.to_owned(),
            text(&resource["singularName"]),
            words(&resource["verbs"]),
            words(&resource["shortNames"]),
            words(&resource["categories"]),
        ];
        line.join(" ").trim_end().to_owned()
    };
    items(&document["resources"]).iter().map(line).collect()
}

#[track_caller]
fn assert_recorded(found: &[String]) {
    assert!(!found.is_empty());
    let mut recorded = RECORDED.lines();
    for line in found {
        assert!(recorded.any(|recorded| recorded == line), "not recorded here:\n{line}");
    }
}

#[test]
fn aggregated_discovery_matches_the_recorded_api_server() {
    let accept = format!("{AGGREGATED_MEDIA_TYPE},application/json");
    for path in ["/api", "/apis"] {
        let (media, document) = get(path, &accept);
        assert_eq!(media, AGGREGATED_MEDIA_TYPE);
        assert_recorded(&aggregated_lines(&document));
    }
}

#[test]
fn api_resource_lists_match_the_recorded_api_server() {
    for path in ["/api/v1", "/apis/apps/v1", "/apis/example.com/v1"] {
        assert_recorded(&unaggregated_lines(&get(path, "application/json").1));
    }
}

#[test]
fn api_group_lists_match_the_recorded_api_server() {
    let (_, document) = get("/apis", "");
    let groups = items(&document["groups"]).iter().map(|group| {
        let versions: Vec<&str> = items(&group["versions"])
            .iter()
            .filter_map(|version| version["version"].as_str())
            .collect();
        let preferred = group["preferredVersion"]["groupVersion"].as_str().unwrap();
        format!("group {} {} {preferred}", group["name"].as_str().unwrap(), versions.join(","))
    });
    assert_recorded(&groups.collect::<Vec<_>>());
    let (_, widgets) = get("/apis/example.com", "");
    assert_eq!(widgets["kind"], "APIGroup");
    assert_eq!(
        widgets["versions"],
        document["groups"].as_array().unwrap().last().unwrap()["versions"]
    );
}

#[test]
fn discovery_uses_the_first_accepted_format() {
    let beta = AGGREGATED_MEDIA_TYPE.replace("v=v2", "v=v2beta1");
    let no_peer = format!("{AGGREGATED_MEDIA_TYPE};profile=nopeer");
    for (accept, has_aggregated, expected) in [
        ("", true, Some(DiscoveryFormat::Unaggregated)),
        ("application/json", true, Some(DiscoveryFormat::Unaggregated)),
        ("*/*", true, Some(DiscoveryFormat::Unaggregated)),
        (AGGREGATED_MEDIA_TYPE, true, Some(DiscoveryFormat::Aggregated)),
        (&no_peer, true, Some(DiscoveryFormat::Aggregated)),
        (&format!("{beta},application/json"), true, Some(DiscoveryFormat::Unaggregated)),
        (&beta, true, None),
        (AGGREGATED_MEDIA_TYPE, false, None),
        (
            &format!("{AGGREGATED_MEDIA_TYPE},application/json"),
            false,
            Some(DiscoveryFormat::Unaggregated),
        ),
        ("text/html", true, None),
    ] {
        assert_eq!(DiscoveryFormat::negotiate(accept, has_aggregated), expected, "{accept}");
    }
}

#[test]
fn discovery_ignores_other_paths() {
    for path in
        ["/", "/api/v2", "/apis/none", "/apis/apps/v9", "/apis/apps/v1/deployments", "/apis/"]
    {
        assert!(handle(&registry(), path, "").is_none(), "{path}");
    }
}
