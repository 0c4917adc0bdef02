//! Creates and changes objects of any kind from plain manifests.
//!
//! For tests of admission: the body goes to the API server exactly as it was written, also if no
//! type of ours could hold it, and the response is returned unchanged.

use kube::api::{DeleteParams, GetParams, PostParams};
use kube::core::{DynamicObject, GroupVersionKind, Request};
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, Resource as _};
use serde_json::Value;

/// What went wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status, if the API server answered at all.
    pub code: Option<u16>,
    /// The API server's own words, such as `NodePool.karpenter.sh "x" is invalid: spec…`.
    pub message: String,
}

impl std::error::Error for ApiError {}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// Parses a YAML manifest.
///
/// # Panics
///
/// If it is not YAML: that is a mistake in the test.
#[track_caller]
pub fn parse_manifest(yaml: &str) -> Value {
    serde_saphyr::from_str(yaml).expect("the manifest is YAML")
}

/// The objects of one API server.
#[derive(Clone)]
pub struct Objects {
    client: Client,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Objects")
    }
}

impl Objects {
    /// Acts with the rights of `client`.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Creates the object; returns it with its defaults.
    pub async fn create(&self, object: &Value) -> Result<Value, ApiError> {
        let (requests, _) = self.resource_and_name(object).await?;
        self.send(requests.create(&PostParams::default(), json_body(object))).await
    }

    /// Replaces the object. Without a resource version, it replaces whatever is there.
    pub async fn update(&self, object: &Value) -> Result<Value, ApiError> {
        let (requests, name) = self.resource_and_name(object).await?;
        let body = json_body(&self.with_current_version(&requests, &name, object).await?);
        self.send(requests.replace(&name, &PostParams::default(), body)).await
    }

    /// Replaces the status alone, as controllers do.
    pub async fn update_status(&self, object: &Value) -> Result<Value, ApiError> {
        let (requests, name) = self.resource_and_name(object).await?;
        let body = json_body(&self.with_current_version(&requests, &name, object).await?);
        let params = PostParams::default();
        self.send(requests.replace_subresource("status", &name, &params, body)).await
    }

    /// The object as it is now; of `object`, only kind, namespace and name matter.
    pub async fn get(&self, object: &Value) -> Result<Value, ApiError> {
        let (requests, name) = self.resource_and_name(object).await?;
        self.send(requests.get(&name, &GetParams::default())).await
    }

    /// Deletes the object; of `object`, only kind, namespace and name matter.
    pub async fn delete(&self, object: &Value) -> Result<(), ApiError> {
        let (requests, name) = self.resource_and_name(object).await?;
        self.send(requests.delete(&name, &DeleteParams::default())).await.map(drop)
    }

    /// Returns the path of an object's kind and namespace, and its name or "".
    async fn resource_and_name(&self, object: &Value) -> Result<(Request, String), ApiError> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let version = text("/apiVersion").unwrap_or_default();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = GroupVersionKind::gvk(group, version, text("/kind").unwrap_or_default());
        let (resource, capabilities) = pinned_kind(&self.client, &kind).await?;
        let namespace = match capabilities.scope {
            Scope::Cluster => None,
            Scope::Namespaced => Some(text("/metadata/namespace").unwrap_or("default")),
        };
        let path = DynamicObject::url_path(&resource, namespace);
        Ok((Request::new(path), text("/metadata/name").unwrap_or_default().to_owned()))
    }

    /// Returns the object with the stored resource version, unless it has one.
    async fn with_current_version(
        &self,
        requests: &Request,
        name: &str,
        object: &Value,
    ) -> Result<Value, ApiError> {
        let mut object = object.clone();
        if object.pointer("/metadata/resourceVersion").is_none() {
            let found = self.send(requests.get(name, &GetParams::default())).await?;
            object["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
        }
        Ok(object)
    }

    async fn send(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Value, ApiError> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        Ok(self.client.request(request).await?)
    }
}

fn json_body(object: &Value) -> Vec<u8> {
    object.to_string().into_bytes()
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self { code: Some(status.code), message: status.message },
            other => Self { code: None, message: other.to_string() },
        }
    }
}
