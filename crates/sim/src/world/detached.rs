//! A cloud whose calls run detached: a launch or deletion completes even if its caller is killed
//! while it waits for the response.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_core::catalog::InstanceTypes;
use karpenter_operator::cloud::{
    CloudError, CloudFuture, CloudProvider, CloudResult, DriftReason, ProviderLabels,
    RegistrationHook, RepairPolicy,
};
use karpenter_operator::harness::tasks::Tasks;
use kube::core::ApiResource;
use tokio::sync::oneshot;

/// A provider whose launches and deletions run in tasks of the world.
/// Calls that only read end with their caller.
#[derive(Debug)]
pub(super) struct DetachedCloud {
    inner: Arc<dyn CloudProvider>,
    tasks: Tasks,
}

impl DetachedCloud {
    pub(super) fn new(inner: Arc<dyn CloudProvider>, tasks: Tasks) -> Self {
        Self { inner, tasks }
    }

    async fn run_detached<T: Send + 'static>(
        &self,
        name: &'static str,
        call: BoxFuture<'static, CloudResult<T>>,
    ) -> CloudResult<T> {
        let (answer, answered) = oneshot::channel();
        self.tasks.spawn(name, async move {
            // The caller may be gone.
            let _ = answer.send(call.await);
        });
        answered.await.unwrap_or_else(|_| Err(CloudError::other("the world has ended")))
    }
}

impl CloudProvider for DetachedCloud {
    fn create<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, NodeClaim> {
        let (inner, claim) = (Arc::clone(&self.inner), node_claim.clone());
        let call = Box::pin(async move { inner.create(&claim).await });
        Box::pin(self.run_detached("cloud.create", call))
    }

    fn delete<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, ()> {
        let (inner, claim) = (Arc::clone(&self.inner), node_claim.clone());
        let call = Box::pin(async move { inner.delete(&claim).await });
        Box::pin(self.run_detached("cloud.delete", call))
    }

    fn get<'a>(&'a self, provider_id: &'a str) -> CloudFuture<'a, NodeClaim> {
        self.inner.get(provider_id)
    }

    fn list(&self) -> CloudFuture<'_, Vec<NodeClaim>> {
        self.inner.list()
    }

    fn instance_types<'a>(&'a self, node_pool: &'a NodePool) -> CloudFuture<'a, InstanceTypes> {
        self.inner.instance_types(node_pool)
    }

    fn is_drifted<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, Option<DriftReason>> {
        self.inner.is_drifted(node_claim)
    }

    fn reboot<'a>(
        &'a self,
        node_claim: &'a NodeClaim,
        operation_id: &'a str,
    ) -> CloudFuture<'a, ()> {
        self.inner.reboot(node_claim, operation_id)
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        self.inner.repair_policies()
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn supported_node_classes(&self) -> Vec<ApiResource> {
        self.inner.supported_node_classes()
    }

    fn provider_labels(&self) -> ProviderLabels {
        self.inner.provider_labels()
    }

    fn registration_hooks(&self) -> Vec<Arc<dyn RegistrationHook>> {
        self.inner.registration_hooks()
    }

    fn default_termination_grace_period(&self) -> Option<Duration> {
        self.inner.default_termination_grace_period()
    }
}
