//! The options that a query carries, checked as the API server checks them.

use serde_json::Value;

use crate::admission::FieldError;
use crate::request::Query;
use crate::status::{StatusDetails, StatusError};

/// The meaning of `resourceVersion`: exactly this version, or not older.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

pub(crate) fn version_match(query: &Query) -> Option<VersionMatch> {
    match query.get("resourceVersionMatch") {
        "Exact" => Some(VersionMatch::Exact),
        "NotOlderThan" => Some(VersionMatch::NotOlderThan),
        _ => None,
    }
}

/// Parses the resource version of a query; 0 for none. The error is a message for the client.
fn parse_version(query: &Query) -> Result<u64, String> {
    match query.get("resourceVersion") {
        "" => Ok(0),
        text => text.parse().map_err(|_| {
            let detail = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
            FieldError::invalid("resourceVersion", text, detail).to_string()
        }),
    }
}

/// The version of a read or a watch.
pub(crate) fn version(query: &Query) -> Result<u64, StatusError> {
    parse_version(query)
        .map_err(|problem| StatusError::new(http::StatusCode::INTERNAL_SERVER_ERROR, "", problem))
}

/// The version of a list.
pub(crate) fn list_version(query: &Query) -> Result<u64, StatusError> {
    parse_version(query)
        .map_err(|problem| StatusError::bad_request(format!("invalid resource version: {problem}")))
}

/// Rejects a version that the store has not reached yet.
pub(crate) fn check_version_reached(wanted: u64, newest: u64) -> Result<(), StatusError> {
    if wanted > newest {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {newest}");
        let failure = StatusError::new(http::StatusCode::GATEWAY_TIMEOUT, "Timeout", message);
        return Err(failure
            .with_cause("ResourceVersionTooLarge", "Too large resource version", "")
            .with_retry_after(1));
    }
    Ok(())
}

const MATCH: &str = "resourceVersionMatch";

/// Refuses combinations that mean nothing for a list.
pub(crate) fn check_list(query: &Query) -> Result<(), StatusError> {
    let (wanted, how) = (query.get("resourceVersion"), query.get(MATCH));
    let mut errors = Vec::new();
    if !how.is_empty() {
        if wanted.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(MATCH, why));
        }
        check_continue(query, &mut errors);
        if !matches!(how, "Exact" | "NotOlderThan") {
            errors.push(unsupported(MATCH, how, &["Exact", "NotOlderThan", ""]));
        }
        if how == "Exact" && wanted == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(MATCH, why));
        }
    }
    if query.has("sendInitialEvents") {
        let why = "sendInitialEvents is forbidden for list";
        errors.push(FieldError::forbidden("sendInitialEvents", why));
    }
    reject_if_any(&errors)
}

/// Refuses combinations that mean nothing for a watch.
pub(crate) fn check_watch(query: &Query) -> Result<(), StatusError> {
    let how = query.get(MATCH);
    let has_initial = query.has("sendInitialEvents");
    let mut errors = Vec::new();
    if has_initial && how != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(MATCH, why));
    }
    if !how.is_empty() {
        if !has_initial {
            let why =
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(MATCH, why));
        }
        if how != "NotOlderThan" {
            errors.push(unsupported(MATCH, how, &["NotOlderThan"]));
        }
        check_continue(query, &mut errors);
    }
    reject_if_any(&errors)
}

fn check_continue(query: &Query, errors: &mut Vec<FieldError>) {
    if !query.get("continue").is_empty() {
        let why = "resourceVersionMatch is forbidden when continue is provided";
        errors.push(FieldError::forbidden(MATCH, why));
    }
}

fn reject_if_any(errors: &[FieldError]) -> Result<(), StatusError> {
    if errors.is_empty() {
        return Ok(());
    }
    let about = StatusDetails { group: "meta.k8s.io", kind: "ListOptions", name: "" };
    Err(StatusError::invalid(about, errors))
}

/// How strictly fields are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// What create, update and patch have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
}

impl WriteOptions {
    /// `kind` is that of the options: `CreateOptions`.
    pub(crate) fn parse(query: &Query, kind: &str) -> Result<Self, StatusError> {
        let mut errors = dry_run_errors(query.all("dryRun"));
        let manager = query.get("fieldManager");
        if manager.chars().count() > 128 {
            errors.push(FieldError::too_long("fieldManager", 128));
        }
        let field_validation = match query.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                errors.push(unsupported(
                    "fieldValidation",
                    other,
                    &["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Warn
            }
        };
        if !errors.is_empty() {
            let about = StatusDetails { group: "meta.k8s.io", kind, name: "" };
            return Err(StatusError::invalid(about, &errors));
        }
        Ok(Self { dry_run: query.is_dry_run(), field_validation })
    }
}

fn dry_run_errors<'a>(values: impl Iterator<Item = &'a str>) -> Vec<FieldError> {
    let bad = values.filter(|value| *value != "All").map(str::to_owned).collect::<Vec<_>>();
    if bad.is_empty() {
        return Vec::new();
    }
    vec![unsupported("dryRun", bad, &["All"])]
}

fn unsupported(field: &str, found: impl Into<Value>, supported: &[&str]) -> FieldError {
    let supported: Vec<Value> = supported.iter().map(|value| Value::from(*value)).collect();
    FieldError::not_supported(field, found.into(), &supported)
}

/// What happens to those that name the object as their owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// `DeleteOptions`, from the body or the query.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    pub(crate) grace_period: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

impl DeleteOptions {
    pub(crate) fn parse(query: &Query, body: Option<&Value>) -> Result<Self, StatusError> {
        let empty = Value::Null;
        let body = body.unwrap_or(&empty);
        let text = |field: &str| match body[field].as_str() {
            Some(text) => text.to_owned(),
            None => query.get(field).to_owned(),
        };
        let listed = body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let dry_runs: Vec<&str> = listed.chain(query.all("dryRun")).collect();
        let mut errors = dry_run_errors(dry_runs.iter().copied());
        let orphan = match &body["orphanDependents"] {
            Value::Bool(orphan) => Some(*orphan),
            _ => query.has("orphanDependents").then(|| query.flag("orphanDependents")),
        };
        let policy = text("propagationPolicy");
        let propagation = match policy.as_str() {
            "" => orphan
                .map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background }),
            "Background" => Some(Propagation::Background),
            "Foreground" => Some(Propagation::Foreground),
            "Orphan" => Some(Propagation::Orphan),
            other => {
                errors.push(unsupported(
                    "propagationPolicy",
                    other,
                    &["Foreground", "Background", "Orphan", "nil"],
                ));
                None
            }
        };
        if orphan.is_some() && !policy.is_empty() {
            errors.push(FieldError::invalid(
                "propagationPolicy",
                policy.as_str(),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        if !errors.is_empty() {
            let about = StatusDetails { group: "meta.k8s.io", kind: "DeleteOptions", name: "" };
            return Err(StatusError::invalid(about, &errors));
        }
        let own = |value: &Value| value.as_str().map(str::to_owned);
        let grace_period = match body["gracePeriodSeconds"].as_i64() {
            Some(seconds) => Some(seconds),
            None => query.number("gracePeriodSeconds")?,
        };
        Ok(Self {
            dry_run: dry_runs.contains(&"All"),
            grace_period,
            propagation,
            uid: own(&body["preconditions"]["uid"]),
            resource_version: own(&body["preconditions"]["resourceVersion"]),
        })
    }
}
