//! Requests to the API server, as metrics.

use std::sync::Arc;

use http::Method;

use super::Metrics;
use super::labels::{ApiAnswer, ApiHostAnswer, ApiRequest};
use crate::client::{CompletedRequest, RequestObserver};

impl Metrics {
    /// Returns an observer that records requests to this server (host and port).
    pub fn request_observer(&self, host: &str) -> RequestObserver {
        let (metrics, host) = (self.clone(), host.to_owned());
        Arc::new(move |done| metrics.record_request(&host, done))
    }

    fn record_request(&self, host: &str, done: &CompletedRequest<'_>) {
        let target = RequestTarget::parse(done.uri.path());
        let verb = match (done.method, target.has_name) {
            (&Method::POST, _) => "CREATE",
            (&Method::GET, false) => "LIST",
            (&Method::PUT, _) => "UPDATE",
            (method, _) => method.as_str(),
        };
        let labels = ApiRequest {
            verb,
            group: target.group,
            version: target.version,
            kind: target.resource,
            subresource: target.subresource,
        };
        self.client_go_request_duration.observe(&labels, done.duration.as_secs_f64());
        let code = done.status.map_or_else(|| "<error>".to_owned(), |s| s.as_u16().to_string());
        let (code, method) = (code.as_str(), done.method.as_str());
        self.client_go_requests.inc(&ApiAnswer { code, method });
        self.rest_client_requests.inc(&ApiHostAnswer { code, method, host });
    }
}

/// The API resource that a request path names.
#[derive(Debug, Default, PartialEq, Eq)]
struct RequestTarget<'a> {
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    subresource: &'a str,
    has_name: bool,
}

impl<'a> RequestTarget<'a> {
    fn parse(path: &'a str) -> Self {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let group = match parts.next() {
            Some("api") => "",
            Some("apis") => parts.next().unwrap_or_default(),
            _ => return Self::default(),
        };
        let version = parts.next().unwrap_or_default();
        let rest: Vec<&str> = parts.collect();
        // A namespace is part of the path, unless it is the requested object.
        let rest = match rest.as_slice() {
            ["namespaces", _, resource @ ..]
                if !resource.is_empty() && !is_namespace_subresource(resource) =>
            {
                resource
            }
            all => all,
        };
        let part = |index: usize| rest.get(index).copied().unwrap_or_default();
        Self { group, version, resource: part(0), subresource: part(2), has_name: rest.len() > 1 }
    }
}

/// Whether it is a subresource of the namespace itself.
fn is_namespace_subresource(resource: &[&str]) -> bool {
    matches!(resource, ["status" | "finalize"])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::SystemClock;
    use crate::metrics::MetricsConfig;

    #[test]
    fn a_request_path_is_parsed_into_group_version_and_resource() {
        let cases = [
            ("/api/v1/nodes", ["", "v1", "nodes", ""], false),
            ("/api/v1/nodes/a", ["", "v1", "nodes", ""], true),
            ("/api/v1/namespaces/x/pods/a/eviction", ["", "v1", "pods", "eviction"], true),
            ("/api/v1/namespaces/x", ["", "v1", "namespaces", ""], true),
            ("/api/v1/namespaces/x/status", ["", "v1", "namespaces", "status"], true),
            (
                "/apis/karpenter.sh/v1/nodeclaims/a/status",
                ["karpenter.sh", "v1", "nodeclaims", "status"],
                true,
            ),
            ("/version", ["", "", "", ""], false),
        ];
        for (path, [group, version, resource, subresource], has_name) in cases {
            let expected = RequestTarget { group, version, resource, subresource, has_name };
            assert_eq!(RequestTarget::parse(path), expected, "{path}");
        }
    }

    #[test]
    fn a_response_is_counted_by_method_code_and_host() {
        let metrics = Metrics::new(Arc::new(SystemClock), &MetricsConfig::default());
        let uri = http::Uri::from_static("/api/v1/nodes/a");
        for status in [Some(http::StatusCode::CONFLICT), None] {
            let (method, took) = (&Method::PUT, Duration::from_millis(3));
            metrics.request_observer("10.0.0.1:443")(&CompletedRequest {
                method,
                uri: &uri,
                status,
                duration: took,
            });
        }
        let value = |name, labels: &[_]| metrics.registry().value(name, labels);
        for code in ["409", "<error>"] {
            let answer = [("code", code), ("method", "PUT")];
            assert_eq!(value("client_go_request_total", &answer), Some(1.0), "{code}");
            let of_host = [answer[0], answer[1], ("host", "10.0.0.1:443")];
            assert_eq!(value("rest_client_requests_total", &of_host), Some(1.0), "{code}");
        }
        let request = [
            ("verb", "UPDATE"),
            ("group", ""),
            ("version", "v1"),
            ("kind", "nodes"),
            ("subresource", ""),
        ];
        assert_eq!(value("client_go_request_duration_seconds", &request), Some(2.0));
    }
}
