//! Answers reviews (`kubectl auth can-i`, `kubectl auth whoami`): a client creates one as a
//! question, and it is never stored. Every user is an administrator here, and may do everything.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::{ApiResponse, Body, ResourceRequest, State};
use crate::status::{StatusDetails, StatusError};
use crate::verbs::body::{self, ExpectedKind};
use crate::verbs::options::WriteOptions;

/// The user of every request.
pub(crate) const USER: &str = "kubernetes-admin";
const GROUPS: [&str; 2] = ["system:masters", "system:authenticated"];

pub(crate) fn review(state: &State, call: &ResourceRequest) -> Result<ApiResponse, StatusError> {
    let served = &call.served;
    let is_placed = !served.resource.namespaced || !call.target.namespace.is_empty();
    if call.request.method != Method::POST || !call.target.name.is_empty() || !is_placed {
        return Err(StatusError::method_not_allowed());
    }
    let options = WriteOptions::parse(&call.request.query, "CreateOptions")?;
    let object = body::read_object(&call.request, ExpectedKind::of_resource(served))?;
    let (mut object, warnings) = body::decode(served, object, options.field_validation)?;
    body::check_namespace(call, &mut object)?;
    let errors = served.validate_review(&object);
    if !errors.is_empty() {
        // The real one has forgotten the kind by then.
        let about = StatusDetails { group: &served.resource.group, kind: "", name: "" };
        return Err(StatusError::invalid(about, &errors));
    }
    match &*served.resource.kind {
        "SelfSubjectReview" => {
            object["metadata"] = json!({"creationTimestamp": state.now()});
            object["status"] = json!({"userInfo": {"username": USER, "groups": GROUPS}});
        }
        "SelfSubjectRulesReview" => {
            if object["spec"]["namespace"].as_str().is_none_or(str::is_empty) {
                return Err(StatusError::bad_request("no namespace on request"));
            }
            object["metadata"] = json!({});
            object["spec"] = json!({});
            object["status"] = all_rules();
        }
        _ => {
            let manager = call.request.field_manager();
            let now = state.now();
            served
                .with_endpoint(None, |endpoint| endpoint.update(None, &mut object, &manager, &now));
            object["status"] = json!({"allowed": true});
        }
    }
    served.encode(&mut object);
    let body = Body::Object(served.clone(), object);
    ApiResponse::with_warnings(Ok(ApiResponse::new(StatusCode::CREATED, body)), warnings)
}

/// Returns the rules of an administrator, which allow everything.
fn all_rules() -> Value {
    json!({
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": false,
    })
}
