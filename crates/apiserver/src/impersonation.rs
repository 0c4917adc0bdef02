//! Rejects impersonation headers (`kubectl --as`).
//!
//! Every client is the administrator, and the API has no other users. If it ignored the headers, a
//! request that should run with fewer permissions would run with all of them.

use http::HeaderMap;

use crate::status::{StatusDetails, StatusError};
use crate::verbs::review::USER;

/// The prefix of `Impersonate-User`, `-Group`, `-Uid` and `-Extra-…`.
const HEADER_PREFIX: &str = "impersonate-";

/// Returns the error for a request that asks to act as another user.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), StatusError> {
    let Some(header) = headers.keys().find(|name| name.as_str().starts_with(HEADER_PREFIX)) else {
        return Ok(());
    };
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let (kind, name) = match (value("impersonate-user"), value("impersonate-group")) {
        (Some(user), _) => ("users", user),
        (None, Some(group)) => ("groups", group),
        (None, None) => (header.as_str(), ""),
    };
    let why = format!(
        "User \"{USER}\" cannot impersonate resource \"{kind}\" in API group \"\" at the cluster scope"
    );
    Err(StatusError::forbidden(StatusDetails { group: "", kind, name }, &why))
}
