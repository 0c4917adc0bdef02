//! Scripts of conformance checks, as their YAML files describe them.
//!
//! ```yaml
//! vars:                       # values for `$name`, in every check of the file
//!   cm: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
//! checks:
//! - name: a stale version is a conflict
//!   steps:
//!   - {POST: $core/configmaps, body: $cm, save: {old: .}}
//!   - {PUT: $core/configmaps/a, body: $old, with: {data: {k: v}}}
//!   - {PUT: $core/configmaps/a, body: $old, with: {data: {k: w}}}
//! ```
//!
//! A step sends a request (`GET`, `POST`, `PUT`, `PATCH`, `DELETE`), opens a watch (`WATCH`, kept
//! under the name `as`), reads `events` from it (`READ`), reads it to its end (`END`) or closes it
//! (`CLOSE`).
//!
//! - `$ns` is the check's own namespace, created first if a step names it; `$core` the path of the
//!   core group's objects in it, `$id` a name that no other check has. `save` gives names to parts
//!   of a response (dotted paths, `.` for all). A text that is one variable becomes its value.
//! - `body` is sent as JSON, or as protobuf if that is the `type`, changed by the merge patch
//!   `with`; `text` is sent as it is, and `base64` as the decoded bytes.
//! - `type` and `accept` are media types, or short for one (see [`media_type`]).
//! - `until` repeats a step until the response has these values at these paths (`null`: no value;
//!   `code`: the status code). The transcript shows only the last response.
//! - `show` restricts the transcript: `code`, `shape` (types of values), or a list of paths. `only`
//!   keeps from the lists at these paths the items that have one of `values` at `key`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};

/// A file of checks.
#[derive(Debug, Clone)]
pub struct Area {
    pub name: String,
    pub checks: Vec<Check>,
    pub(super) vars: Map<String, Value>,
}

/// Steps that belong together.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The claim in a few words.
    pub name: String,
    /// Why the embedded API answers differently, and may.
    pub differs: Option<String>,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Step {
    #[serde(rename = "GET")]
    get: Option<String>,
    #[serde(rename = "POST")]
    post: Option<String>,
    #[serde(rename = "PUT")]
    put: Option<String>,
    #[serde(rename = "PATCH")]
    patch: Option<String>,
    #[serde(rename = "DELETE")]
    delete: Option<String>,
    #[serde(rename = "WATCH")]
    watch: Option<String>,
    #[serde(rename = "READ")]
    read: Option<String>,
    #[serde(rename = "END")]
    end: Option<String>,
    #[serde(rename = "CLOSE")]
    close: Option<String>,
    pub(super) body: Option<Value>,
    pub(super) with: Option<Value>,
    pub(super) text: Option<String>,
    pub(super) base64: Option<String>,
    #[serde(rename = "type")]
    pub(super) content_type: Option<String>,
    pub(super) accept: Option<String>,
    /// The user agent: gives the field manager if the request names none.
    pub(super) agent: Option<String>,
    #[serde(rename = "as")]
    pub(super) stream: Option<String>,
    pub(super) events: Option<usize>,
    pub(super) save: BTreeMap<String, String>,
    pub(super) until: Option<BTreeMap<String, Value>>,
    pub(super) show: Option<ShownParts>,
    pub(super) only: BTreeMap<String, ItemFilter>,
}

/// The parts of a response that the transcript shows.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum ShownParts {
    /// `code` or `shape`.
    Keyword(String),
    Paths(Vec<String>),
}

/// A filter for the items of a list: those with one of `values` at `key`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ItemFilter {
    pub(super) key: String,
    pub(super) values: Vec<String>,
}

/// The action of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepAction<'a> {
    Request(&'static str, &'a str),
    Watch(&'a str),
    Read(&'a str),
    End(&'a str),
    Close(&'a str),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptFile {
    #[serde(default)]
    vars: Map<String, Value>,
    checks: Vec<Check>,
}

impl Area {
    /// Parses a script. An invalid script is a mistake in the test, so this panics with its
    /// position.
    #[track_caller]
    pub fn parse(name: &str, yaml: &str) -> Self {
        // Otherwise `y` and `n` are no texts.
        let options = serde_saphyr::options! { strict_booleans: true };
        let file: ScriptFile = serde_saphyr::from_str_with_options(yaml, options)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let area = Self { name: name.to_owned(), checks: file.checks, vars: file.vars };
        let mut ids = BTreeSet::new();
        for check in &area.checks {
            let place = format!("{name}: {}", check.name);
            assert!(ids.insert(area.id(check)), "{place}: its id is another check's, too");
            assert!(!check.steps.is_empty(), "{place}: no steps");
            for (index, step) in check.steps.iter().enumerate() {
                assert!(step.is_valid(), "{place}: step {}: one act, and what fits it", index + 1);
            }
        }
        area
    }

    /// A name for the check's objects that no other check of any area has.
    pub(super) fn id(&self, check: &Check) -> String {
        let mut id = String::new();
        for c in format!("{}-{}", self.name, check.name).chars() {
            match c {
                'a'..='z' | '0'..='9' => id.push(c),
                'A'..='Z' => id.push(c.to_ascii_lowercase()),
                _ if !id.ends_with('-') => id.push('-'),
                _ => {}
            }
        }
        id.truncate(45);
        id.trim_end_matches('-').to_owned()
    }
}

impl Step {
    fn actions(&self) -> Vec<StepAction<'_>> {
        let requests = [
            ("GET", &self.get),
            ("POST", &self.post),
            ("PUT", &self.put),
            ("PATCH", &self.patch),
            ("DELETE", &self.delete),
        ];
        let requests = requests
            .into_iter()
            .filter_map(|(method, path)| Some(StepAction::Request(method, path.as_deref()?)));
        let others = [
            self.watch.as_deref().map(StepAction::Watch),
            self.read.as_deref().map(StepAction::Read),
            self.end.as_deref().map(StepAction::End),
            self.close.as_deref().map(StepAction::Close),
        ];
        requests.chain(others.into_iter().flatten()).collect()
    }

    /// Returns whether the step has one action, and no field that the action ignores.
    fn is_valid(&self) -> bool {
        let [act] = self.actions()[..] else { return false };
        let is_request = matches!(act, StepAction::Request(..));
        let bodies = [self.body.is_some(), self.text.is_some(), self.base64.is_some()];
        let bodies = bodies.into_iter().filter(|given| *given).count();
        let has_body = bodies > 0 || self.with.is_some();
        matches!(act, StepAction::Watch(_)) == self.stream.is_some()
            && matches!(act, StepAction::Read(_)) == self.events.is_some()
            && (is_request || !(has_body || self.until.is_some()))
            && bodies <= 1
            && (self.with.is_none() || self.body.is_some())
    }

    pub(super) fn action(&self) -> StepAction<'_> {
        self.actions()[0]
    }

    /// Returns whether the path or the body of the step mentions this variable.
    pub(super) fn mentions_variable(&self, variable: &str) -> bool {
        let path = match self.action() {
            StepAction::Request(_, path) | StepAction::Watch(path) => path,
            StepAction::Read(_) | StepAction::End(_) | StepAction::Close(_) => "",
        };
        let bodies = [&self.body, &self.with].into_iter().flatten().map(Value::to_string);
        path.contains(variable) || bodies.into_iter().any(|body| body.contains(variable))
    }
}

pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Media types that are written often.
pub(super) fn media_type(name: &str) -> &str {
    match name {
        "json" => "application/json",
        "yaml" => "application/yaml",
        "protobuf" => PROTOBUF,
        "json-patch" => "application/json-patch+json",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        "table" => "application/json;as=Table;v=v1;g=meta.k8s.io",
        "partial" => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "partial-list" => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "discovery" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::{Area, Step};

    #[test]
    fn check_ids_are_valid_namespace_names() {
        let script = "checks: [{name: 'A stale `version`, of a very long name that is cut somewhere', steps: [{GET: /}]}]";
        let area = Area::parse("x", script);
        assert_eq!(area.id(&area.checks[0]), "x-a-stale-version-of-a-very-long-name-that-is");
    }

    #[test]
    fn a_step_has_one_action_and_no_ignored_fields() {
        let cases = [
            ("{GET: /}", true),
            ("{POST: /, body: {}, with: {a: b}}", true),
            ("{WATCH: /, as: w}", true),
            ("{READ: w, events: 1}", true),
            ("{}", false),
            ("{GET: /, POST: /}", false),
            ("{WATCH: /}", false),
            ("{GET: /, as: w}", false),
            ("{READ: w}", false),
            ("{END: w, events: 1}", false),
            ("{CLOSE: w, until: {code: 1}}", false),
            ("{POST: /, body: {}, text: x}", false),
            ("{POST: /, text: x, base64: eA==}", false),
            ("{POST: /, with: {}}", false),
        ];
        for (yaml, sound) in cases {
            let step: Step = serde_saphyr::from_str(yaml).unwrap();
            assert_eq!(step.is_valid(), sound, "{yaml}");
        }
    }
}
