//! Lists objects, in pages if the client requests them.

use std::sync::Arc;

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine as _};
use http::StatusCode;
use serde_json::{Value, json};

use crate::api::{ApiResponse, Body, ResourceRequest, State};
use crate::registry::ServedResource;
use crate::request::Projection;
use crate::selectors::ObjectSelector;
use crate::status::StatusError;
use crate::store::{ObjectKey, StoredObject};
use crate::verbs::body;
use crate::verbs::options::{self, VersionMatch};

/// The objects of one resource at one version.
#[derive(Debug)]
pub(crate) struct ObjectList {
    pub(crate) served: Arc<ServedResource>,
    pub(crate) items: Vec<Arc<StoredObject>>,
    /// `metadata` of the list.
    pub(crate) metadata: Value,
}

pub(crate) fn list(state: &mut State, call: &ResourceRequest) -> Result<ApiResponse, StatusError> {
    if call.projection == Projection::Metadata {
        let kind = &call.served.resource.list_kind;
        return Err(StatusError::not_acceptable(format!(
            "you requested PartialObjectMetadata, but the requested object is a list (*{}.{kind})",
            body::go_package(&call.served.resource.group)
        )));
    }
    let selection = parse_selector(call)?;
    let page = Page::parse(call, state.store.version())?;
    let newest = state.store.version();
    let namespace = call.target.namespace.as_str();
    let table = state.store.table(&call.served.id);

    // An old version is put together from the newest and the history.
    let old;
    let objects: Box<dyn Iterator<Item = (&ObjectKey, &Arc<StoredObject>)>> = match page.version {
        Some(version) if version < newest => {
            let (after, all) = (page.after.as_ref(), usize::MAX);
            old = table
                .range_at_version(version, namespace, after, all)
                .map_err(|_| page.expired())?;
            Box::new(old.iter().map(|(key, stored)| (key, stored)))
        }
        _ => Box::new(table.range(namespace, page.after.as_ref())),
    };
    let selects = |key: &ObjectKey, stored: &StoredObject| {
        selection.is_empty() || selection.matches(key, stored)
    };
    let version = page.version.unwrap_or(newest);
    let mut metadata = json!({"resourceVersion": version.to_string()});
    let Some(limit) = page.limit else {
        let items = objects.filter(|(key, stored)| selects(key, stored));
        let items = items.map(|(_, stored)| stored.clone()).collect();
        return Ok(list_response(call, items, metadata));
    };

    let mut items = Vec::new();
    let mut last = None;
    // As the real server, this does not check whether any of the remaining objects is selected.
    let mut left = 0;
    for (key, stored) in objects {
        if items.len() == limit {
            left += 1;
        } else if selects(key, stored) {
            items.push(stored.clone());
            last = Some(key.clone());
        }
    }
    if let Some(last) = last
        && left > 0
    {
        metadata["continue"] = Page::token(version, &last).into();
        // With a selector, counting the remaining objects would mean to check all of them.
        if selection.is_empty() {
            metadata["remainingItemCount"] = left.into();
        }
    }
    Ok(list_response(call, items, metadata))
}

/// Parses the label and field selectors of the query.
pub(crate) fn parse_selector(call: &ResourceRequest) -> Result<ObjectSelector, StatusError> {
    let query = &call.request.query;
    let check = |field: &str| call.served.check_selectable_field(field);
    let selection =
        ObjectSelector::parse(query.get("labelSelector"), query.get("fieldSelector"), check)?;
    Ok(if call.target.watch { selection.with_name(&call.target.name) } else { selection })
}

fn list_response(
    call: &ResourceRequest,
    items: Vec<Arc<StoredObject>>,
    metadata: Value,
) -> ApiResponse {
    let list = ObjectList { served: call.served.clone(), items, metadata };
    ApiResponse::new(StatusCode::OK, Body::List(list))
}

/// Where a list starts and ends, and at which version.
struct Page {
    limit: Option<usize>,
    after: Option<ObjectKey>,
    /// `None`: the newest.
    version: Option<u64>,
    is_continuation: bool,
}

impl Page {
    fn parse(call: &ResourceRequest, newest: u64) -> Result<Self, StatusError> {
        let query = &call.request.query;
        options::check_list(query)?;
        query.number("timeoutSeconds")?;
        let limit = query.number("limit")?.filter(|limit| *limit > 0);
        let limit = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let token = query.get("continue");
        if !token.is_empty() {
            if !matches!(query.get("resourceVersion"), "" | "0") {
                return Err(StatusError::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let (version, after) = parse_token(token)?;
            return Ok(Self { limit, after: Some(after), version, is_continuation: true });
        }
        options::check_version_reached(options::list_version(query)?, newest)?;
        let exact = match options::version_match(query) {
            Some(VersionMatch::Exact) => true,
            Some(VersionMatch::NotOlderThan) => false,
            // Asked for one page of a version, a client gets that version.
            None => limit.is_some() && !matches!(query.get("resourceVersion"), "" | "0"),
        };
        let version = if exact { query.get("resourceVersion").parse().ok() } else { None };
        Ok(Self { limit, after: None, version, is_continuation: false })
    }

    fn token(version: u64, last: &ObjectKey) -> String {
        let token = json!({"v": "meta.k8s.io/v1", "rv": version, "start": last.as_str()});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    /// The version is no longer there. A page that was to follow another may go on with the
    /// newest objects, if the client wants that.
    fn expired(&self) -> StatusError {
        if !self.is_continuation {
            let version = self.version.unwrap_or_default();
            return StatusError::expired(format!(
                "The resourceVersion for the provided list is too old: {version}"
            ));
        }
        StatusError::expired(
            "The provided continue parameter is too old to display a consistent list result. You \
             can start a new list without the continue parameter, or use the continue token in \
             this response to retrieve the remainder of the results. Continuing with the provided \
             token results in an inconsistent list - objects that were created, modified, or \
             deleted between the time the first chunk was returned and now may show up in the list.",
        )
    }
}

fn parse_token(token: &str) -> Result<(Option<u64>, ObjectKey), StatusError> {
    let invalid = || {
        StatusError::bad_request(
            "invalid continue token: continue key is not valid: unexpected token",
        )
    };
    let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).map_err(|error| {
        let at = match error {
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
            DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => 0,
        };
        StatusError::bad_request(format!(
            "invalid continue token: continue key is not valid: illegal base64 data at input byte {at}"
        ))
    })?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|_| invalid())?;
    if value["v"] != "meta.k8s.io/v1" {
        return Err(StatusError::bad_request(
            "invalid continue token: continue key is not valid: server does not recognize this \
             encoded version ",
        ));
    }
    let start = value["start"].as_str().ok_or_else(invalid)?;
    let version = value["rv"].as_i64().and_then(|version| u64::try_from(version).ok());
    Ok((version.filter(|version| *version > 0), ObjectKey::from_text(start)))
}
