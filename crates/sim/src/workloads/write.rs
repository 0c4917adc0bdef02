//! Writes objects for the controllers, and feeds the responses into the informers at once.

use std::fmt::Debug;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde_json::{Value, json};

use super::index::Ownership;
use super::pods::owner_reference;
use karpenter_operator::watch::Informer;

/// So many calls are under way at a time.
const CONCURRENCY: usize = 16;

/// What the controllers call themselves.
const MANAGER: &str = "kube-controller-manager";

/// A namespaced kind that the controllers write.
pub(super) trait NamespacedObject:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
{
}

impl<K> NamespacedObject for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
{
}

pub(super) struct Writer {
    client: Client,
}

impl Writer {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(super) fn api<K>(&self, object: &K) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default())
    }

    pub(super) async fn create<K: NamespacedObject>(
        &self,
        informer: &Informer<K>,
        object: &K,
    ) -> Result<(), kube::Error> {
        informer.apply_write_result(self.api(object).create(&post(), object).await?);
        Ok(())
    }

    /// Makes pods in batches of 1, 2, 4, …: if none can be made, that costs one call, not many.
    pub(super) async fn create_pods(
        &self,
        informer: &Informer<Pod>,
        pods: Vec<Pod>,
    ) -> Result<(), kube::Error> {
        let mut rest = pods.as_slice();
        let mut size = 1;
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(size.min(rest.len()));
            // Boxed, since a stream of borrowing closures is not Send for all lifetimes.
            let calls: Vec<_> =
                batch.iter().map(|pod| Box::pin(self.create(informer, pod))).collect();
            let results: Vec<_> = stream::iter(calls).buffered(CONCURRENCY).collect().await;
            for result in results {
                match result {
                    // A namespace that ends takes the owner with it.
                    Err(error) if is_terminating_namespace(&error) => return Ok(()),
                    result => result?,
                }
            }
            rest = later;
            size *= 2;
        }
        Ok(())
    }

    /// Deletes pods, and returns those whose deletion was accepted.
    pub(super) async fn delete_pods(
        &self,
        informer: &Informer<Pod>,
        pods: &[Arc<Pod>],
    ) -> (Vec<Arc<Pod>>, Result<(), kube::Error>) {
        let calls: Vec<_> =
            pods.iter().map(|pod| Box::pin(self.delete_pod(informer, pod, None))).collect();
        let results: Vec<_> = stream::iter(calls).buffered(CONCURRENCY).collect().await;
        let mut deleted = Vec::new();
        let mut outcome = Ok(());
        for (pod, result) in pods.iter().zip(results) {
            match result {
                Ok(()) => deleted.push(Arc::clone(pod)),
                Err(error) => outcome = Err(error),
            }
        }
        (deleted, outcome)
    }

    /// One that is gone, or another one by now, is fine.
    pub(super) async fn delete_pod(
        &self,
        informer: &Informer<Pod>,
        pod: &Pod,
        grace: Option<u32>,
    ) -> Result<(), kube::Error> {
        let mut params = DeleteParams::default().preconditions(of_uid(pod));
        params.grace_period_seconds = grace;
        match self.api(pod).delete(&pod.name_any(), &params).await {
            Ok(answer) => {
                if let Some(ending) = answer.left().filter(super::pods::is_terminating) {
                    informer.apply_write_result(ending);
                }
                Ok(())
            }
            Err(error) => ignore_not_found_or_conflict(Err(error)),
        }
    }

    /// Deletes any object; what it owns goes after it.
    pub(super) async fn delete<K: NamespacedObject>(&self, object: &K) -> Result<(), kube::Error> {
        let params = DeleteParams::background().preconditions(of_uid(object));
        ignore_not_found_or_conflict(
            self.api(object).delete(&object.name_any(), &params).await.map(drop),
        )
    }

    /// Stores an object that was changed on paper; a conflict is an error.
    pub(super) async fn update<K: NamespacedObject>(
        &self,
        informer: &Informer<K>,
        object: &K,
    ) -> Result<(), kube::Error> {
        informer.apply_write_result(
            self.api(object).replace(&object.name_any(), &post(), object).await?,
        );
        Ok(())
    }

    pub(super) async fn update_status<K: NamespacedObject>(
        &self,
        informer: &Informer<K>,
        object: &K,
    ) -> Result<(), kube::Error> {
        informer.apply_write_result(
            self.api(object).replace_status(&object.name_any(), &post(), object).await?,
        );
        Ok(())
    }

    /// A merge patch of this very object.
    pub(super) async fn patch<K: NamespacedObject>(
        &self,
        informer: &Informer<K>,
        object: &K,
        mut patch: Value,
    ) -> Result<(), kube::Error> {
        patch["metadata"]["uid"] = object.uid().into();
        let params =
            PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let patched =
            self.api(object).patch(&object.name_any(), &params, &Patch::Merge(patch)).await;
        match patched {
            Ok(patched) => {
                informer.apply_write_result(patched);
                Ok(())
            }
            Err(error) => ignore_not_found_or_conflict(Err(error)),
        }
    }

    /// Adopts and releases the objects; returns whether there were any.
    pub(super) async fn apply_ownership<K, O>(
        &self,
        informer: &Informer<K>,
        owner: &O,
        ownership: &Ownership<K>,
    ) -> Result<bool, kube::Error>
    where
        K: NamespacedObject,
        O: Resource<DynamicType = ()>,
    {
        let uid = owner.meta().uid.as_deref().unwrap_or_default();
        for object in &ownership.adopt {
            let mut owners = object.owner_references().to_vec();
            owners.push(owner_reference(owner));
            let patch = json!({"metadata": {"ownerReferences": owners}});
            self.patch(informer, object.as_ref(), patch).await?;
        }
        for object in &ownership.release {
            let owners = object.owner_references().iter().filter(|owner| owner.uid != uid);
            let owners: Vec<_> = owners.collect();
            let patch = json!({"metadata": {"ownerReferences": owners}});
            self.patch(informer, object.as_ref(), patch).await?;
        }
        Ok(!ownership.adopt.is_empty() || !ownership.release.is_empty())
    }
}

fn post() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

fn of_uid<K: Resource>(object: &K) -> Preconditions {
    Preconditions { uid: object.meta().uid.clone(), resource_version: None }
}

fn is_terminating_namespace(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// Turns not-found and conflict errors into success: the object needs no write.
pub(super) fn ignore_not_found_or_conflict(
    result: Result<(), kube::Error>,
) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        result => result,
    }
}
