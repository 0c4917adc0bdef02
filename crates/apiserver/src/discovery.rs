//! What the API serves: groups, versions, resources (`kubectl api-resources`, REST mappers).
//!
//! Two forms: the classic one, a request per group version; and the aggregated one, everything in
//! two answers, for clients that accept it. Order is that of the real server: built-in groups by
//! priority, then custom ones by name; versions by maturity.
//!
//! Left out: entity tags.

mod aggregated;
mod classic;
mod versions;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use self::versions::Version;
use crate::api::{Answer, Body};
use crate::kinds::Subresource;
use crate::registry::{Registry, Served};
use crate::status::Failure;

/// The version of Kubernetes that this API behaves like.
const GIT_VERSION: &str = "v1.36.3";

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The order of the built-in groups.
const GROUPS: [&str; 20] = [
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

/// The answer to a request for a path of discovery; `None` when it is none, or there is no such
/// group or version.
pub(crate) fn answer(
    registry: &Registry,
    path: &str,
    accept: &str,
) -> Option<Result<Answer, Failure>> {
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    // Most requests are for resources, and are done here.
    if !matches!(parts.as_slice(), ["api" | "apis"] | ["api" | "apis", _] | ["apis", _, _]) {
        return None;
    }
    let groups = Groups::of(registry);
    let classic = match parts.as_slice() {
        ["api"] => classic::core_versions(&groups),
        ["apis"] => classic::groups(&groups),
        ["apis", group] => classic::group_named(&groups, group)?,
        ["api", version] => classic::resources(&groups, "", version)?,
        ["apis", group, version] => classic::resources(&groups, group, version)?,
        _ => return None,
    };
    Some(match Form::wanted(accept, parts.len() == 1) {
        Some(Form::Aggregated) => {
            let list = aggregated::list(&groups, path == "/api");
            let body = Bytes::from(list.to_string());
            Ok(Answer::new(StatusCode::OK, Body::Bytes(AGGREGATED, body)))
        }
        Some(Form::Classic) => Ok(Answer::value(classic)),
        None => Err(Failure::not_acceptable(
            "only the following media types are accepted: application/json, application/yaml, \
             application/vnd.kubernetes.protobuf",
        )),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Classic,
    Aggregated,
}

impl Form {
    /// The first of the client's wishes that can be met.
    fn wanted(accept: &str, has_aggregated: bool) -> Option<Self> {
        if accept.trim().is_empty() {
            return Some(Self::Classic);
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
                None => Some(Self::Classic),
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

/// What is served, in the order in which it is told.
struct Groups<'a> {
    groups: Vec<Group<'a>>,
}

type Versions<'a> = BTreeMap<Version<'a>, Vec<&'a Arc<Served>>>;

struct Group<'a> {
    name: &'a str,
    versions: Vec<(&'a str, Vec<&'a Arc<Served>>)>,
}

impl<'a> Groups<'a> {
    fn of(registry: &'a Registry) -> Self {
        let mut groups: BTreeMap<(usize, &str), Versions<'_>> = BTreeMap::new();
        for served in registry.iter() {
            let (group, version) = (&*served.resource.group, &*served.resource.version);
            let priority = GROUPS.iter().position(|known| *known == group);
            let group = groups.entry((priority.unwrap_or(GROUPS.len()), group)).or_default();
            group.entry(Version::parse(version)).or_default().push(served);
        }
        let group = |((_, name), versions): ((usize, &'a str), Versions<'a>)| Group {
            name,
            versions: versions.into_iter().map(|(version, all)| (version.text(), all)).collect(),
        };
        Self { groups: groups.into_iter().map(group).collect() }
    }

    /// The group of that name; the core group has none.
    fn get(&self, name: &str) -> Option<&Group<'a>> {
        self.groups.iter().find(|group| group.name == name)
    }

    fn named(&self) -> impl Iterator<Item = &Group<'a>> {
        self.groups.iter().filter(|group| !group.name.is_empty())
    }
}

fn verbs(served: &Served) -> &'static [&'static str] {
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
fn subresources(served: &Served) -> Vec<Subresource> {
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
