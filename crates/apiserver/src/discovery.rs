//! Discovery lists what the API serves: groups, versions, resources (`kubectl api-resources`, REST
//! mappers).
//!
//! There are two forms: unaggregated discovery, with a request per group version; and aggregated
//! discovery, everything in two responses, for clients that accept it. The order is that of the
//! real server: built-in groups by priority, then custom ones by name; versions by maturity.
//!
//! Left out: entity tags.

mod aggregated;
mod unaggregated;
mod versions;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use self::versions::Version;
use crate::api::{ApiResponse, Body};
use crate::kinds::Subresource;
use crate::registry::{Registry, ServedResource};
use crate::status::StatusError;

/// The version of Kubernetes that this API behaves like.
const GIT_VERSION: &str = "v1.36.3";

const AGGREGATED_MEDIA_TYPE: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The built-in groups in the order in which discovery lists them.
const GROUP_PRIORITY: [&str; 20] = [
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// `/version`
pub(crate) fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": "linux/amd64",
    })
}

/// Returns the response to a discovery path; `None` for other paths and unknown groups.
pub(crate) fn handle(
    registry: &Registry,
    path: &str,
    accept: &str,
) -> Option<Result<ApiResponse, StatusError>> {
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    // Most requests are for resources, and are done here.
    if !matches!(parts.as_slice(), ["api" | "apis"] | ["api" | "apis", _] | ["apis", _, _]) {
        return None;
    }
    let groups = ApiGroups::from_registry(registry);
    let classic = match parts.as_slice() {
        ["api"] => unaggregated::core_versions(&groups),
        ["apis"] => unaggregated::groups(&groups),
        ["apis", group] => unaggregated::group_named(&groups, group)?,
        ["api", version] => unaggregated::resources(&groups, "", version)?,
        ["apis", group, version] => unaggregated::resources(&groups, group, version)?,
        _ => return None,
    };
    Some(match DiscoveryFormat::negotiate(accept, parts.len() == 1) {
        Some(DiscoveryFormat::Aggregated) => {
            let list = aggregated::api_group_discovery_list(&groups, path == "/api");
            let body = Bytes::from(list.to_string());
            Ok(ApiResponse::new(StatusCode::OK, Body::Bytes(AGGREGATED_MEDIA_TYPE, body)))
        }
        Some(DiscoveryFormat::Unaggregated) => Ok(ApiResponse::ok(classic)),
        None => Err(StatusError::not_acceptable(
            "only the following media types are accepted: application/json, application/yaml, \
             application/vnd.kubernetes.protobuf",
        )),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiscoveryFormat {
    Unaggregated,
    Aggregated,
}

impl DiscoveryFormat {
    /// Returns the first form of the Accept header that the server supports.
    fn negotiate(accept: &str, has_aggregated: bool) -> Option<Self> {
        if accept.trim().is_empty() {
            return Some(Self::Unaggregated);
        }
        accept.split(',').find_map(|wish| {
            let mut parts = wish.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            if !matches!(media, "application/json" | "application/*" | "*/*") {
                return None;
            }
            let parameters: BTreeMap<&str, &str> =
                parts.filter_map(|part| part.split_once('=')).collect();
            match parameters.get("as") {
                None => Some(Self::Unaggregated),
                Some(&"APIGroupDiscoveryList") => {
                    let is_known = parameters.get("g") == Some(&"apidiscovery.k8s.io")
                        && parameters.get("v") == Some(&"v2");
                    (has_aggregated && is_known).then_some(Self::Aggregated)
                }
                Some(_) => None,
            }
        })
    }
}

/// The served groups, in the order in which discovery lists them.
struct ApiGroups<'a> {
    groups: Vec<ApiGroup<'a>>,
}

type ResourcesByVersion<'a> = BTreeMap<Version<'a>, Vec<&'a Arc<ServedResource>>>;

struct ApiGroup<'a> {
    name: &'a str,
    versions: Vec<(&'a str, Vec<&'a Arc<ServedResource>>)>,
}

impl<'a> ApiGroups<'a> {
    fn from_registry(registry: &'a Registry) -> Self {
        let mut groups: BTreeMap<(usize, &str), ResourcesByVersion<'_>> = BTreeMap::new();
        for served in registry.iter() {
            let (group, version) = (&*served.resource.group, &*served.resource.version);
            let priority = GROUP_PRIORITY.iter().position(|known| *known == group);
            let group =
                groups.entry((priority.unwrap_or(GROUP_PRIORITY.len()), group)).or_default();
            group.entry(Version::parse(version)).or_default().push(served);
        }
        let group = |((_, name), versions): ((usize, &'a str), ResourcesByVersion<'a>)| ApiGroup {
            name,
            versions: versions.into_iter().map(|(version, all)| (version.text(), all)).collect(),
        };
        Self { groups: groups.into_iter().map(group).collect() }
    }

    /// The group of that name; the core group has none.
    fn get(&self, name: &str) -> Option<&ApiGroup<'a>> {
        self.groups.iter().find(|group| group.name == name)
    }

    fn non_core(&self) -> impl Iterator<Item = &ApiGroup<'a>> {
        self.groups.iter().filter(|group| !group.name.is_empty())
    }
}

fn verbs(served: &ServedResource) -> &'static [&'static str] {
    if served.custom().is_some() {
        return &[
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "create",
            "update",
            "watch",
        ];
    }
    if served.is_review() {
        return &["create"];
    }
    match (&*served.resource.group, &*served.resource.plural) {
        ("", "namespaces") => &["create", "delete", "get", "list", "patch", "update", "watch"],
        _ => &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    }
}

/// The subresources of a resource: by name for built-in ones.
fn subresources(served: &ServedResource) -> Vec<Subresource> {
    let mut all = served.resource.subresources.clone();
    if served.custom().is_none() {
        all.sort_by_key(|subresource| crate::subresources::name(*subresource));
    }
    all
}

fn subresource_verbs(subresource: Subresource) -> &'static [&'static str] {
    match subresource {
        Subresource::Status
        | Subresource::Scale
        | Subresource::Resize
        | Subresource::EphemeralContainers => &["get", "patch", "update"],
        Subresource::Binding | Subresource::Eviction | Subresource::Token => &["create"],
        Subresource::Finalize => &["update"],
        Subresource::Log => &["get"],
    }
}

/// Group, version and kind of what a subresource takes and gives, where it is another than the
/// resource's.
pub(crate) fn subresource_kind(
    subresource: Subresource,
) -> Option<(&'static str, &'static str, &'static str)> {
    match subresource {
        Subresource::Scale => Some(("autoscaling", "v1", "Scale")),
        Subresource::Eviction => Some(("policy", "v1", "Eviction")),
        Subresource::Token => Some(("authentication.k8s.io", "v1", "TokenRequest")),
        Subresource::Binding => Some(("", "v1", "Binding")),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
