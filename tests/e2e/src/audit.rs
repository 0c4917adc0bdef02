//! Reads the product's requests from the audit log of the API server.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// A request with its response code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedRequest {
    /// Such as `get`, `create` or `patch`.
    pub verb: String,
    /// Such as `nodes` or `nodeclaims/status`; empty for a path without a resource.
    pub resource: String,
    pub name: String,
    pub code: u64,
}

impl AuditedRequest {
    /// Whether it was to change something.
    pub fn is_write(&self) -> bool {
        !["get", "list", "watch"].contains(&self.verb.as_str())
    }
}

pub(crate) fn read_audit_log(log: &Path) -> Result<Vec<AuditedRequest>> {
    let log = fs::read_to_string(log).context("cannot read the audit log")?;
    // The last line may still be written.
    Ok(log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .map(|e| audited_request(&e))
        .collect())
}

fn audited_request(event: &Value) -> AuditedRequest {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (resource, part) = (text("/objectRef/resource"), text("/objectRef/subresource"));
    AuditedRequest {
        verb: text("/verb").to_owned(),
        resource: [resource, part].join("/").trim_end_matches('/').to_owned(),
        name: text("/objectRef/name").to_owned(),
        code: event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn audited_requests_are_parsed_from_audit_events() {
        let event = json!({
            "verb": "patch",
            "objectRef": {"resource": "nodeclaims", "subresource": "status", "name": "a"},
            "responseStatus": {"code": 409},
        });
        let (verb, resource) = ("patch".to_owned(), "nodeclaims/status".to_owned());
        let found = audited_request(&event);
        assert_eq!(found, AuditedRequest { verb, resource, name: "a".to_owned(), code: 409 });
        assert!(found.is_write());
    }
}
