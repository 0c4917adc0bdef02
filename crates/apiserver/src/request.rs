//! Parses a request: its path and query, and the projection that the client wants.

use std::borrow::Cow;

use http::{HeaderMap, Method, header};

use crate::status::StatusError;
use crate::table::IncludeObject;

/// A path below `/api` or `/apis`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    /// The plural; empty for the discovery of a group version.
    pub(crate) resource: String,
    /// Empty for cluster-scoped objects, and for lists over all namespaces.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    /// Whether the path itself asks for a watch.
    pub(crate) watch: bool,
}

impl Target {
    /// Takes a path apart; `None` when it is not that of a resource.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        // As in the real one, a slash is a slash however it is written.
        let decoded = percent_decoded(path);
        let parts: Vec<&str> = decoded.trim_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        // The old way to ask for a watch.
        let (watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        // A namespace has objects in it and is an object itself.
        let (namespace, rest) = match rest {
            ["namespaces", _, "status" | "finalize"] | ["namespaces"] | ["namespaces", _] => {
                ("", rest)
            }
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            rest => ("", rest),
        };
        let own = |text: &str| text.to_owned();
        let (resource, name, subresource) = match rest {
            [] => ("", "", ""),
            [resource] => (*resource, "", ""),
            [resource, name] => (*resource, *name, ""),
            // The rest is a path of the server behind the object.
            [resource, name, "proxy", ..] => (*resource, *name, "proxy"),
            [resource, name, subresource] => (*resource, *name, *subresource),
            _ => return None,
        };
        Some(Self {
            group: own(group),
            version: own(version),
            resource: own(resource),
            namespace: own(namespace),
            name: own(name),
            subresource: own(subresource),
            watch,
        })
    }

    /// The collection of bindings, which is no resource: they are not kept.
    pub(crate) fn is_bindings(&self) -> bool {
        (self.group.as_str(), self.version.as_str(), self.resource.as_str())
            == ("", "v1", "bindings")
            && !self.namespace.is_empty()
            && self.name.is_empty()
    }

    /// Dots alone are no name: they mean something in paths.
    pub(crate) fn check_name(&self) -> Result<(), StatusError> {
        match self.name.as_str() {
            name @ ("." | "..") => Err(StatusError::bad_request(format!(
                "Name parameter invalid: {name:?}: may not be '{name}'"
            ))),
            _ => Ok(()),
        }
    }
}

/// The query of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decode = |text: &str| percent_decoded(&text.replace('+', " "));
            (decode(key), decode(value))
        });
        Self(pairs.collect())
    }

    /// The first value of that name; the empty text if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// As Go's converter reads booleans of a query: anything but 0 and false is true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.has(name) && !matches!(self.get(name), "0" | "false" | "False" | "FALSE" | "f" | "F")
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, StatusError> {
        match self.get(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                StatusError::bad_request(format!(
                    "strconv.ParseInt: parsing {text:?}: invalid syntax"
                ))
            }),
        }
    }

    /// Whether nothing is to be stored.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.all("dryRun").any(|value| value == "All")
    }
}

/// A request with its body read.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: bytes::Bytes,
}

impl Request {
    pub(crate) fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The media type of the body, without parameters.
    pub(crate) fn content_type(&self) -> &str {
        let text = self.header(header::CONTENT_TYPE);
        text.split(';').next().unwrap_or_default().trim()
    }

    /// Returns the field manager: from the query, or the first word of the user agent.
    pub(crate) fn field_manager(&self) -> Cow<'_, str> {
        match self.query.get("fieldManager") {
            "" => {
                let agent = self.header(header::USER_AGENT);
                let name = agent.split('/').next().unwrap_or_default();
                Cow::Owned(name.chars().take(128).collect())
            }
            name => Cow::Borrowed(name),
        }
    }
}

/// The form in which the API returns objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Projection {
    Full,
    /// Rows and columns, `kubectl get`.
    Table(IncludeObject),
    /// Metadata alone.
    Metadata,
    /// Metadata alone, of a list.
    MetadataList,
}

impl Projection {
    /// Returns the projection that the headers and the query request.
    pub(crate) fn from_request(request: &Request) -> Result<Self, StatusError> {
        match Self::from_accept(request.header(header::ACCEPT))? {
            Self::Table(_) => {
                Ok(Self::Table(IncludeObject::parse(request.query.get("includeObject"))?))
            }
            show => Ok(show),
        }
    }

    /// Returns the first projection of the Accept header that the server supports.
    fn from_accept(accept: &str) -> Result<Self, StatusError> {
        if accept.trim().is_empty() {
            return Ok(Self::Full);
        }
        let mut is_media_known = false;
        for wish in accept.split(',') {
            let mut parts = wish.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            if !matches!(media, "application/json" | "application/*" | "*/*" | "application/yaml") {
                continue;
            }
            is_media_known = true;
            let parameter = |name: &str| {
                wish.split(';')
                    .skip(1)
                    .filter_map(|part| part.trim().split_once('='))
                    .find_map(|(key, value)| (key.trim() == name).then_some(value.trim()))
            };
            let is_meta = parameter("g").is_none_or(|group| group == "meta.k8s.io")
                && parameter("v").is_none_or(|version| version == "v1");
            match parameter("as") {
                None => return Ok(Self::Full),
                Some("Table") if is_meta => return Ok(Self::Table(IncludeObject::default())),
                Some("PartialObjectMetadata") if is_meta => return Ok(Self::Metadata),
                Some("PartialObjectMetadataList") if is_meta => return Ok(Self::MetadataList),
                Some(_) => {}
            }
        }
        if is_media_known {
            return Err(StatusError::not_acceptable(
                "only the following media types are accepted: application/json, \
                 application/yaml, application/vnd.kubernetes.protobuf",
            ));
        }
        let mut failure = StatusError::not_acceptable(
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
             application/vnd.kubernetes.protobuf, application/json;stream=watch, \
             application/vnd.kubernetes.protobuf;stream=watch",
        );
        failure.details = Some(Box::default());
        Err(failure)
    }
}

/// Whether the first media type that can be served is YAML.
pub(crate) fn wants_yaml(accept: &str) -> bool {
    let medias = accept.split(',').map(|wish| wish.split(';').next().unwrap_or_default().trim());
    let known = ["application/json", "application/*", "*/*", "application/yaml"];
    medias.into_iter().find(|media| known.contains(media)) == Some("application/yaml")
}

pub(crate) fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = |at: usize| tail.get(at).and_then(|&c| char::from(c).to_digit(16));
        if let (b'%', Some(high), Some(low)) = (first, hex(0), hex(1)) {
            bytes.push(u8::try_from(high * 16 + low).expect("two hex digits"));
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_group_resource_namespace_object_and_subresource() {
        for (path, expected) in [
            ("/api/v1", "|v1||||"),
            ("/api/v1/nodes/a", "|v1|nodes||a|"),
            ("/api/v1/namespaces", "|v1|namespaces|||"),
            ("/api/v1/namespaces/x", "|v1|namespaces||x|"),
            ("/api/v1/namespaces/x/finalize", "|v1|namespaces||x|finalize"),
            ("/api/v1/namespaces/x/pods", "|v1|pods|x||"),
            ("/api/v1/namespaces/x/pods/p/eviction", "|v1|pods|x|p|eviction"),
            ("/apis/apps/v1/deployments", "apps|v1|deployments|||"),
            ("/apis/g/v1/namespaces/x/things/a%2Fb", "g|v1|things|x|a|b"),
            ("/api/v1/watch/namespaces/x/pods/p", "|v1|pods|x|p|"),
        ] {
            let t = Target::parse(path).unwrap();
            let found =
                [t.group, t.version, t.resource, t.namespace, t.name, t.subresource].join("|");
            assert_eq!(found, expected, "{path}");
        }
        assert_eq!(Target::parse("/healthz"), None);
        assert_eq!(Target::parse("/api/v1/namespaces/x/pods/p/a/b"), None);
    }

    #[test]
    fn the_first_supported_media_type_wins() {
        for (accept, expected) in [
            ("", Projection::Full),
            ("application/json", Projection::Full),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                Projection::Table(IncludeObject::Metadata),
            ),
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Projection::Full,
            ),
            ("application/vnd.kubernetes.protobuf,application/json", Projection::Full),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Projection::MetadataList,
            ),
        ] {
            assert_eq!(Projection::from_accept(accept), Ok(expected), "{accept}");
        }
        assert_eq!(Projection::from_accept("text/html").unwrap_err().code, 406);
    }
}
