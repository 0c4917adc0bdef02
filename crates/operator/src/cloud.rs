//! The cloud provider interface that controllers use (spec 40 §9, spec 45 §3).
//!
//! A provider launches, finds and terminates instances, and lists the instance types that it can
//! launch. It decides nothing about pods: the requirements of a NodeClaim limit the choice, and the
//! provider takes one type of it. It is used as `Arc<dyn CloudProvider>`. Decorators wrap a
//! provider in another.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_core::catalog::InstanceTypes;
use karpenter_core::requirement::Aliases;

mod decorator;
mod error;
mod metrics_decorator;
pub mod nodeclaim;
mod overlay_decorator;
mod repair;

pub use decorator::CloudDecorator;
pub use error::{BoxError, CloudError, CloudErrorClass, cloud_errors};
pub use metrics_decorator::MetricsDecorator;
pub use overlay_decorator::{OverlayDecorator, OverlayStore};
pub use repair::{RepairAction, RepairError, RepairPolicy, check_repair_policies};

/// What a call to the cloud comes to.
pub type CloudResult<T> = Result<T, CloudError>;

/// A future that borrows what it was called with.
pub type CloudFuture<'a, T> = BoxFuture<'a, CloudResult<T>>;

/// A cloud that runs nodes.
pub trait CloudProvider: Debug + Send + Sync {
    /// Launches one instance that satisfies the claim's requirements, requests and node class.
    ///
    /// The answer holds every label that is resolved now (instance type, zone, capacity type and so
    /// on), annotations such as the hash of the node class, and in its status the provider id,
    /// image, capacity and allocatable; never success without a provider id. Callers repeat it
    /// after an error, so it launches at most one instance for a claim, or leaves the rest to a
    /// garbage collection of its own.
    fn create<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, NodeClaim>;

    /// Starts or continues the termination of the claim's instance. Success means that it is still
    /// terminating; [`CloudError::NodeClaimNotFound`] that it is gone. Many callers call it often,
    /// so it is cheap after the first time.
    fn delete<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, ()>;

    /// Returns the instance with this provider id, also while it shuts down.
    ///
    /// An instance that is shutting down has a deletion time.
    /// [`CloudError::NodeClaimNotFound`] means that the instance is terminated, or that the cloud
    /// does not know it.
    fn get<'a>(&'a self, provider_id: &'a str) -> CloudFuture<'a, NodeClaim>;

    /// Returns all instances that the Karpenter of this cluster owns.
    ///
    /// Instances that are shutting down are left out or have a deletion time. The creation time is
    /// that of the launch.
    fn list(&self) -> CloudFuture<'_, Vec<NodeClaim>>;

    /// Returns all types that the pool's node class can launch; offerings that cannot be launched
    /// now are marked unavailable. Calls are frequent, so results are shared and built once.
    fn instance_types<'a>(&'a self, node_pool: &'a NodePool) -> CloudFuture<'a, InstanceTypes>;

    /// Returns why the instance no longer matches the node class, if so.
    fn is_drifted<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, Option<DriftReason>>;

    /// Restarts the instance in place, and returns when the cloud has accepted the request. The id
    /// names one restart, also when the caller repeats the request.
    fn reboot<'a>(
        &'a self,
        node_claim: &'a NodeClaim,
        operation_id: &'a str,
    ) -> CloudFuture<'a, ()>;

    /// The provider's name in metrics.
    fn name(&self) -> &'static str;

    /// Returns the labels that the provider defines, with their rules.
    fn provider_labels(&self) -> ProviderLabels;

    /// What else has to happen before a node counts as registered.
    fn registration_hooks(&self) -> Vec<Arc<dyn RegistrationHook>> {
        Vec::new()
    }

    /// Returns the terminationGracePeriod of NodeClaims whose NodePool has none.
    fn default_termination_grace_period(&self) -> Option<Duration> {
        None
    }
}

/// Why an instance is not what it should be, as the condition `Drifted` shows it.
pub type DriftReason = String;

/// The labels that a provider defines; the rest of a [`karpenter_core::catalog::Catalog`].
#[derive(Clone, Debug, Default)]
pub struct ProviderLabels {
    /// Labels that pods may request without a definition in the NodePool, core's own included.
    pub well_known: Arc<BTreeSet<String>>,
    /// The label that names the reservation of a reserved offering.
    pub reservation_id_label: Option<String>,
    /// Other spellings of labels.
    pub aliases: Arc<Aliases>,
}

/// A step of the provider between the arrival of a node and its registration (spec 40 §9.4). Every
/// reconcile until then calls it, concurrently with the other hooks.
pub trait RegistrationHook: Debug + Send + Sync {
    /// The hook's name in logs.
    fn name(&self) -> &'static str;

    /// Returns which changes a NodeClaim still needs before registration. Hooks do not write: the
    /// caller merges their results, so they cannot conflict.
    fn check_registration<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, HookResult>;
}

/// The changes that a hook requests for a NodeClaim. The default is no change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookResult {
    /// Labels to set on the claim.
    pub labels: BTreeMap<String, String>,
    /// Annotations to set on the claim.
    pub annotations: BTreeMap<String, String>,
    /// Whether registration has to wait, and for how long.
    pub requeue: Option<HookRequeue>,
}

/// When the registration controller calls the hook again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookRequeue {
    /// With the usual backoff.
    Backoff,
    /// After this time.
    After(Duration),
}
