//! Forwards the calls of a provider that wraps another one (spec 40 §9.5, spec 45 §3.1).

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_core::catalog::InstanceTypes;

use super::{CloudFuture, CloudProvider, DriftReason, ProviderLabels, RegistrationHook};

/// A cloud provider that wraps another and changes some of its methods.
///
/// A decorator implements [`Self::inner`] and the methods that it changes; all others forward the
/// call. Every decorator is a [`CloudProvider`]. A new method of that trait is forwarded here, and
/// nowhere else.
///
/// Name this trait by its path instead of importing it: an import makes calls of a method ambiguous.
pub trait CloudDecorator: Debug + Send + Sync {
    /// Returns the wrapped provider.
    fn inner(&self) -> &dyn CloudProvider;

    /// Forwards [`CloudProvider::create`].
    fn create<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, NodeClaim> {
        self.inner().create(node_claim)
    }

    /// Forwards [`CloudProvider::delete`].
    fn delete<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, ()> {
        self.inner().delete(node_claim)
    }

    /// Forwards [`CloudProvider::get`].
    fn get<'a>(&'a self, provider_id: &'a str) -> CloudFuture<'a, NodeClaim> {
        self.inner().get(provider_id)
    }

    /// Forwards [`CloudProvider::list`].
    fn list(&self) -> CloudFuture<'_, Vec<NodeClaim>> {
        self.inner().list()
    }

    /// Forwards [`CloudProvider::instance_types`].
    fn instance_types<'a>(&'a self, node_pool: &'a NodePool) -> CloudFuture<'a, InstanceTypes> {
        self.inner().instance_types(node_pool)
    }

    /// Forwards [`CloudProvider::is_drifted`].
    fn is_drifted<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, Option<DriftReason>> {
        self.inner().is_drifted(node_claim)
    }

    /// Forwards [`CloudProvider::reboot`].
    fn reboot<'a>(
        &'a self,
        node_claim: &'a NodeClaim,
        operation_id: &'a str,
    ) -> CloudFuture<'a, ()> {
        self.inner().reboot(node_claim, operation_id)
    }

    /// Forwards [`CloudProvider::name`].
    fn name(&self) -> &'static str {
        self.inner().name()
    }

    /// Forwards [`CloudProvider::provider_labels`].
    fn provider_labels(&self) -> ProviderLabels {
        self.inner().provider_labels()
    }

    /// Forwards [`CloudProvider::registration_hooks`].
    fn registration_hooks(&self) -> Vec<Arc<dyn RegistrationHook>> {
        self.inner().registration_hooks()
    }

    /// Forwards [`CloudProvider::default_termination_grace_period`].
    fn default_termination_grace_period(&self) -> Option<Duration> {
        self.inner().default_termination_grace_period()
    }
}

impl<D: CloudDecorator> CloudProvider for D {
    fn create<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, NodeClaim> {
        CloudDecorator::create(self, node_claim)
    }

    fn delete<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, ()> {
        CloudDecorator::delete(self, node_claim)
    }

    fn get<'a>(&'a self, provider_id: &'a str) -> CloudFuture<'a, NodeClaim> {
        CloudDecorator::get(self, provider_id)
    }

    fn list(&self) -> CloudFuture<'_, Vec<NodeClaim>> {
        CloudDecorator::list(self)
    }

    fn instance_types<'a>(&'a self, node_pool: &'a NodePool) -> CloudFuture<'a, InstanceTypes> {
        CloudDecorator::instance_types(self, node_pool)
    }

    fn is_drifted<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, Option<DriftReason>> {
        CloudDecorator::is_drifted(self, node_claim)
    }

    fn reboot<'a>(
        &'a self,
        node_claim: &'a NodeClaim,
        operation_id: &'a str,
    ) -> CloudFuture<'a, ()> {
        CloudDecorator::reboot(self, node_claim, operation_id)
    }

    fn name(&self) -> &'static str {
        CloudDecorator::name(self)
    }

    fn provider_labels(&self) -> ProviderLabels {
        CloudDecorator::provider_labels(self)
    }

    fn registration_hooks(&self) -> Vec<Arc<dyn RegistrationHook>> {
        CloudDecorator::registration_hooks(self)
    }

    fn default_termination_grace_period(&self) -> Option<Duration> {
        CloudDecorator::default_termination_grace_period(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeCloud;

    #[derive(Debug)]
    struct Renamed(FakeCloud);

    impl super::CloudDecorator for Renamed {
        fn inner(&self) -> &dyn CloudProvider {
            &self.0
        }

        fn name(&self) -> &'static str {
            "renamed"
        }
    }

    #[test]
    fn a_decorator_forwards_unchanged_methods() {
        let plain = FakeCloud::default();
        let period = Duration::from_secs(90);
        plain.set_default_termination_grace_period(period);
        let labels = CloudProvider::provider_labels(&plain);
        let decorated: Arc<dyn CloudProvider> = Arc::new(Renamed(plain));
        assert_eq!(decorated.name(), "renamed");
        assert_eq!(decorated.provider_labels().well_known, labels.well_known);
        assert_eq!(decorated.default_termination_grace_period(), Some(period));
    }
}
