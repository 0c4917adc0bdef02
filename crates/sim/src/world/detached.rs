//! A cloud whose calls run detached: a launch or deletion completes even if its caller is killed
//! while it waits for the response.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_operator::cloud::{CloudError, CloudFuture, CloudProvider, CloudResult};
use karpenter_operator::harness::tasks::Tasks;
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

impl karpenter_operator::cloud::CloudDecorator for DetachedCloud {
    fn inner(&self) -> &dyn CloudProvider {
        &*self.inner
    }

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
}
