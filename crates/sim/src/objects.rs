//! Objects of any kind, from plain manifests: what scenarios and tests put into a world.

use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client};
use serde_json::Value;

/// The field manager of what a scenario applies.
const MANAGER: &str = "scenario";

/// Why a manifest could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{0}: apiVersion, kind and metadata.name are needed")]
    Incomplete(String),
    #[error("{object}: {}", api_message(source))]
    Rejected { object: String, source: Box<kube::Error> },
}

/// Returns the message of an API error without the rest of the Status.
pub fn api_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// `Deployment default/web`, to name an object in a message.
pub fn describe(manifest: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let (kind, name) = (text(&manifest["kind"]), text(&manifest["metadata"]["name"]));
    match manifest["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Applies a manifest on the server, as `kubectl apply --server-side --force-conflicts` does.
pub async fn apply(client: &Client, manifest: &Value) -> Result<DynamicObject, ApplyError> {
    let (api, name) = locate(client, manifest).await?;
    let params = PatchParams::apply(MANAGER).force();
    api.patch(&name, &params, &Patch::Apply(manifest))
        .await
        .map_err(|error| rejected(manifest, error))
}

/// Deletes the object of a manifest; that it is gone already is fine.
pub async fn delete(client: &Client, manifest: &Value) -> Result<(), ApplyError> {
    let (api, name) = locate(client, manifest).await?;
    match api.delete(&name, &DeleteParams::background()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(rejected(manifest, error)),
    }
}

/// Where objects of the manifest's kind are, and the name of this one.
pub async fn locate(
    client: &Client,
    manifest: &Value,
) -> Result<(Api<DynamicObject>, String), ApplyError> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let fields = (
        text(&manifest["apiVersion"]),
        text(&manifest["kind"]),
        text(&manifest["metadata"]["name"]),
    );
    let (Some(api_version), Some(kind), Some(name)) = fields else {
        return Err(ApplyError::Incomplete(describe(manifest)));
    };
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    let gvk = GroupVersionKind::gvk(group, version, &kind);
    let (resource, capabilities) =
        pinned_kind(client, &gvk).await.map_err(|error| rejected(manifest, error))?;
    let namespace =
        text(&manifest["metadata"]["namespace"]).unwrap_or_else(|| "default".to_owned());
    let api = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), &namespace, &resource),
    };
    Ok((api, name))
}

fn rejected(manifest: &Value, error: kube::Error) -> ApplyError {
    ApplyError::Rejected { object: describe(manifest), source: Box::new(error) }
}
