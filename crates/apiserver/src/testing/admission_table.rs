//! Tables of admission cases: an object, the requests with it, and the expected result.
//!
//! Each table describes its format in its head. A table becomes a flat list of [`Row`]s, one per
//! checked request; a runner sends them to an API and passes the response to
//! [`Row::find_mismatch`].

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::admission::{CustomKind, FieldError};

/// One request to judge.
#[derive(Clone, Debug)]
pub struct Row {
    /// Case of the specification, for example `10/NP-D1`.
    pub id: String,
    /// The claim that this row checks, in a few words.
    pub claim: String,
    /// What to create; if a further step follows, this has to be accepted.
    pub object: Value,
    /// The request that follows the creation of the object.
    pub follow_up: FollowUp,
    expected: ExpectedOutcome,
}

/// The request that follows the creation of a row's object.
#[derive(Clone, Debug)]
pub enum FollowUp {
    /// No request: the creation itself is checked.
    CreateOnly,
    /// An update with this merge patch applied to the stored object.
    Update(Value),
    /// An update of the status subresource with this merge patch applied.
    UpdateStatus(Value),
}

#[derive(Clone, Debug)]
enum ExpectedOutcome {
    Accepted { stored: Option<Value>, absent: Vec<String> },
    Rejected(String),
}

/// The rows of an admission table, and the set of CRDs that it tests.
#[derive(Clone, Debug)]
pub struct AdmissionTable {
    /// Name of the set of CRDs.
    pub crds: String,
    /// One row for every case and patch.
    pub rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    crds: String,
    bases: BTreeMap<String, Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    #[serde(rename = "says")]
    claim: String,
    base: String,
    create: Option<Value>,
    each: Option<Vec<Value>>,
    update: Option<Value>,
    status: Option<Value>,
    accepts: Option<bool>,
    stored: Option<Value>,
    #[serde(default)]
    absent: Vec<String>,
    rejects: Option<String>,
}

/// Reads a table. An invalid table is a mistake in the test, so this panics with its position.
#[track_caller]
pub fn parse(yaml: &str) -> AdmissionTable {
    let file: TableFile = serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{error}"));
    let bases = &file.bases;
    let rows = file.cases.into_iter().flat_map(|case| rows(case, bases)).collect();
    AdmissionTable { crds: file.crds, rows }
}

#[track_caller]
fn rows(case: Case, bases: &BTreeMap<String, Value>) -> Vec<Row> {
    let (id, claim) = (&case.id, &case.claim);
    let base = bases.get(&case.base).unwrap_or_else(|| panic!("{id}: no base {}", case.base));
    let expect = match (case.accepts, case.stored, case.rejects) {
        (Some(true), None, None) => ExpectedOutcome::Accepted { stored: None, absent: case.absent },
        (None, Some(stored), None) => {
            ExpectedOutcome::Accepted { stored: Some(expand(&stored)), absent: case.absent }
        }
        (None, None, Some(message)) if case.absent.is_empty() => ExpectedOutcome::Rejected(message),
        _ => panic!("{id}: {claim}: give one of accepts: true, stored and rejects"),
    };
    let then = match (&case.update, &case.status) {
        (None, None) => FollowUp::CreateOnly,
        (Some(patch), None) => FollowUp::Update(expand(patch)),
        (None, Some(patch)) => FollowUp::UpdateStatus(expand(patch)),
        _ => panic!("{id}: {claim}: update and status exclude each other"),
    };
    let patches = match (case.create, case.each) {
        (None, None) => vec![json!({})],
        (Some(patch), None) => vec![patch],
        (None, Some(patches)) => patches,
        _ => panic!("{id}: {claim}: create and each exclude each other"),
    };
    let row = |patch| Row {
        id: id.clone(),
        claim: claim.clone(),
        object: patched(base, &expand(&patch)),
        follow_up: then.clone(),
        expected: expect.clone(),
    };
    patches.into_iter().map(row).collect()
}

/// `object` with a JSON merge patch applied.
pub fn patched(object: &Value, patch: &Value) -> Value {
    crate::patch::apply_merge_patch(object, patch).expect("a patch of the table is an object")
}

/// Replaces the generators `$repeat`, `$chars` and `$concat` by what they stand for.
pub(super) fn expand(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(expand).collect(),
        Value::Object(map) => generated(map).unwrap_or_else(|| {
            map.iter().map(|(key, value)| (key.clone(), expand(value))).collect()
        }),
        other => other.clone(),
    }
}

fn generated(map: &Map<String, Value>) -> Option<Value> {
    let count = |key: &str| map.get(key).and_then(Value::as_u64);
    if let Some(parts) = map.get("$concat").and_then(Value::as_array) {
        let texts = parts.iter().map(|part| match expand(part) {
            Value::String(text) => text,
            other => panic!("$concat joins texts, found {other}"),
        });
        return Some(Value::String(texts.collect()));
    }
    let of = map.get("of")?;
    if let Some(count) = count("$repeat") {
        return Some((0..count).map(|index| numbered(&expand(of), index)).collect());
    }
    let count = usize::try_from(count("$chars")?).ok()?;
    Some(Value::String(of.as_str()?.repeat(count)))
}

/// `item` with `%d` in every text replaced by `index`.
fn numbered(item: &Value, index: u64) -> Value {
    match item {
        Value::String(text) => Value::String(text.replace("%d", &index.to_string())),
        Value::Array(list) => list.iter().map(|item| numbered(item, index)).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), numbered(value, index))).collect()
        }
        other => other.clone(),
    }
}

impl Row {
    /// Returns the result of this crate's admission for the row's last request.
    #[track_caller]
    pub fn admit(&self, kind: &CustomKind) -> Result<Value, String> {
        let created = create(kind, self.object.clone());
        let (patch, kept) = match &self.follow_up {
            FollowUp::CreateOnly => return created,
            FollowUp::Update(patch) => (patch, "status"),
            FollowUp::UpdateStatus(patch) => (patch, "spec"),
        };
        let old = created.unwrap_or_else(|refusal| panic!("{} {}: {refusal}", self.id, self.claim));
        let mut new = patched(&old, patch);
        copy(&old, &mut new, kept);
        prepare(kind, &mut new);
        let errors = match &self.follow_up {
            FollowUp::UpdateStatus(_) => kind.validate_status_update(&new, &old),
            _ => kind.validate_update(&new, &old),
        };
        admission_result(kind, &errors, new)
    }

    /// Returns the difference between the response and the expected result. The response is the
    /// stored object, or the message of a rejection.
    pub fn find_mismatch(&self, answer: Result<&Value, &str>) -> Option<String> {
        match (&self.expected, answer) {
            (ExpectedOutcome::Accepted { stored, absent }, Ok(object)) => {
                let missing = stored.as_ref().filter(|wanted| !contains(object, wanted));
                let unwanted = absent.iter().find(|path| at(object, path).is_some());
                match (missing, unwanted) {
                    (None, None) => None,
                    (Some(wanted), _) => Some(format!("stored {object}, which lacks {wanted}")),
                    (None, Some(path)) => Some(format!("stored {object}, which has {path}")),
                }
            }
            (ExpectedOutcome::Rejected(message), Err(text)) if text.contains(message) => None,
            (ExpectedOutcome::Rejected(message), Err(text)) => {
                Some(format!("refused with {text:?}, not with {message:?}"))
            }
            (ExpectedOutcome::Rejected(message), Ok(_)) => {
                Some(format!("accepted, not refused: {message:?}"))
            }
            (ExpectedOutcome::Accepted { .. }, Err(text)) => Some(format!("refused: {text}")),
        }
    }
}

fn create(kind: &CustomKind, mut object: Value) -> Result<Value, String> {
    if kind.has_status()
        && let Value::Object(object) = &mut object
    {
        object.shift_remove("status");
    }
    prepare(kind, &mut object);
    admission_result(kind, &kind.validate_create(&object), object)
}

fn prepare(kind: &CustomKind, object: &mut Value) {
    if kind.is_namespaced() && object["metadata"].get("namespace").is_none() {
        object["metadata"]["namespace"] = "default".into();
    }
    kind.prune(object);
    kind.apply_defaults(object);
}

/// A request to one subresource leaves the part of the other as it was.
fn copy(from: &Value, to: &mut Value, part: &str) {
    match (from.get(part), to) {
        (Some(value), Value::Object(to)) => drop(to.insert(part.to_owned(), value.clone())),
        (None, Value::Object(to)) => drop(to.shift_remove(part)),
        _ => {}
    }
}

fn admission_result(
    kind: &CustomKind,
    errors: &[FieldError],
    object: Value,
) -> Result<Value, String> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if errors.is_empty() { Ok(object) } else { Err(kind.invalid_message(name, errors)) }
}

/// Maps may have more keys than wanted; lists are compared whole.
fn contains(object: &Value, wanted: &Value) -> bool {
    match (object, wanted) {
        (Value::Object(object), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| object.get(key).is_some_and(|value| contains(value, wanted))),
        _ => object == wanted,
    }
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, key| value.get(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
crds: test
bases: {x: {kind: X, metadata: {name: x}, spec: {a: 1, b: 2}}}
cases:
- {id: 0/1, says: patches, base: x, each: [{spec: {a: null}}, {spec: {b: 3}}], stored: {spec: {b: 2}}, absent: [spec.a]}
- {id: 0/2, says: generators, base: x, create: {spec: {l: {$repeat: 2, of: {n: "i%d"}}, t: {$concat: [a, {$chars: 3, of: b}]}}}, rejects: no}
"#;

    #[test]
    fn a_case_becomes_a_row_for_each_patch() {
        let rows = parse(TABLE).rows;
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0].object["spec"], json!({"b": 2}));
        assert_eq!(rows[2].object["spec"]["l"], json!([{"n": "i0"}, {"n": "i1"}]));
        assert_eq!(rows[2].object["spec"]["t"], "abbb");
    }

    #[test]
    fn rows_detect_mismatched_outcomes() {
        let rows = parse(TABLE).rows;
        assert_eq!(rows[0].find_mismatch(Ok(&rows[0].object)), None);
        assert!(
            rows[0].find_mismatch(Ok(&json!({"spec": {"a": 1, "b": 2}}))).is_some(),
            "has an absent path"
        );
        assert!(rows[1].find_mismatch(Ok(&rows[1].object)).is_some(), "b is 3");
        assert!(rows[0].find_mismatch(Err("no")).is_some());
        assert_eq!(rows[2].find_mismatch(Err("oh no!")), None);
        assert!(rows[2].find_mismatch(Err("yes")).is_some());
        assert!(rows[2].find_mismatch(Ok(&json!({}))).is_some());
    }
}
