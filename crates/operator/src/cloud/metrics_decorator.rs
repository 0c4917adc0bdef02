//! Wraps a cloud provider to measure its calls (spec 40 §9.5, spec 45 §3.1).

use std::sync::Arc;

use karpenter_api::labels::NODEPOOL;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_core::catalog::InstanceTypes;
use kube::ResourceExt as _;

use super::{CloudFuture, CloudProvider, CloudResult, DriftReason};
use crate::clock::Clock;
use crate::harness::current_controller;
use crate::metrics::Metrics;
use crate::metrics::labels::{CloudCall, CloudFailure};

#[cfg(test)]
mod tests;

/// A cloud provider that records the duration and the errors of calls. The label `controller` is
/// the controller whose reconcile makes the call, and empty outside of one.
#[derive(Debug)]
pub struct MetricsDecorator {
    inner: Arc<dyn CloudProvider>,
    metrics: Metrics,
    clock: Arc<dyn Clock>,
}

impl MetricsDecorator {
    /// The cloud, measured.
    pub fn new(inner: Arc<dyn CloudProvider>, metrics: Metrics, clock: Arc<dyn Clock>) -> Self {
        Self { inner, metrics, clock }
    }

    async fn measure<T>(
        &self,
        method: &'static str,
        nodepool: String,
        call: CloudFuture<'_, T>,
    ) -> CloudResult<T> {
        let (controller, provider) = (current_controller(), self.inner.name());
        let started = self.clock.now();
        let result = call.await;
        let took = self.clock.now().duration_since(started).as_secs_f64();
        let labels = CloudCall { controller, method, provider };
        self.metrics.cloudprovider_duration.observe(&labels, took);
        if let Err(error) = &result {
            let (error, nodepool) = (error.metric_label(), nodepool.as_str());
            let labels = CloudFailure { controller, method, provider, error, nodepool };
            self.metrics.cloudprovider_errors.inc(&labels);
        }
        result
    }
}

/// The pool of a claim, or nothing.
fn pool_of(node_claim: &NodeClaim) -> String {
    node_claim.labels().get(NODEPOOL).cloned().unwrap_or_default()
}

impl super::CloudDecorator for MetricsDecorator {
    fn inner(&self) -> &dyn CloudProvider {
        &*self.inner
    }

    fn create<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, NodeClaim> {
        Box::pin(self.measure("Create", pool_of(node_claim), self.inner.create(node_claim)))
    }

    fn delete<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, ()> {
        Box::pin(self.measure("Delete", pool_of(node_claim), self.inner.delete(node_claim)))
    }

    fn get<'a>(&'a self, provider_id: &'a str) -> CloudFuture<'a, NodeClaim> {
        // A search that fails finds no claim, so there is no pool.
        Box::pin(self.measure("Get", String::new(), self.inner.get(provider_id)))
    }

    fn list(&self) -> CloudFuture<'_, Vec<NodeClaim>> {
        Box::pin(self.measure("List", String::new(), self.inner.list()))
    }

    fn instance_types<'a>(&'a self, node_pool: &'a NodePool) -> CloudFuture<'a, InstanceTypes> {
        let pool = node_pool.metadata.name.clone().unwrap_or_default();
        Box::pin(self.measure("GetInstanceTypes", pool, self.inner.instance_types(node_pool)))
    }

    fn is_drifted<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, Option<DriftReason>> {
        Box::pin(self.measure("IsDrifted", pool_of(node_claim), self.inner.is_drifted(node_claim)))
    }

    fn reboot<'a>(
        &'a self,
        node_claim: &'a NodeClaim,
        operation_id: &'a str,
    ) -> CloudFuture<'a, ()> {
        let reboot = self.inner.reboot(node_claim, operation_id);
        Box::pin(self.measure("Reboot", pool_of(node_claim), reboot))
    }
}
