//! A decorator of any cloud provider that injects faults: late launches, short offerings, changed
//! prices, lost instances and failed calls.
//!
//! ```text
//! call ─▶ too many in flight? ─▶ slow? ─▶ fails? ─▶ provider ─▶ answer lost?
//! create ─▶ launch delay ─▶ available offering ─▶ provider ─▶ lost later? never registers?
//! ```
//!
//! It does not depend on how the provider works: it avoids short offerings by narrowing the claim,
//! and an instance that never registers is one that was deleted at once and is still listed. A lost
//! instance leaves a node whose kubelet must fall silent: a world runs
//! [`FaultyCloud::silence_lost`] for that.

mod instance_faults;
mod price;
mod shortage;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::nodeclaim::NodeClaim;
use karpenter_api::nodepool::NodePool;
use karpenter_core::catalog::InstanceTypes;
use karpenter_operator::clock::Clock;
use karpenter_operator::cloud::{CloudError, CloudFuture, CloudProvider, CloudResult, DriftReason};
use karpenter_operator::rng::SeededRng;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use self::instance_faults::InstanceFaults;
pub use self::price::PriceChange;
pub use self::shortage::Shortage;
pub(crate) use self::shortage::glob;
use crate::faults::{Journal, RandomDelay, Switch};
use crate::kubelet;

#[cfg(test)]
mod tests;

/// A launch takes up to this much longer than the launch delay says.
const DELAY_JITTER: f64 = 0.25;

/// The interval at which [`FaultyCloud::silence_lost`] looks for lost instances.
const LOST_INSTANCE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// What goes wrong in the cloud. Rates are from 0 (never) to 1 (always).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CloudFaults {
    /// How much longer a launch takes at least.
    pub launch_delay: Duration,
    /// Offerings that there is nothing left of.
    pub shortages: Vec<Shortage>,
    /// Instances that are lost, and within which time after their launch.
    pub lost_instances: RandomDelay,
    /// Instances whose node never appears.
    pub failed_registrations: f64,
    /// Calls of methods that [`Self::methods`] does not name.
    pub calls: CallFaults,
    /// Calls by the name of the method, such as `create`.
    pub methods: BTreeMap<Method, CallFaults>,
    /// More calls at once are rejected.
    pub calls_in_flight: Option<u32>,
}

/// What goes wrong with calls.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CallFaults {
    /// They fail without any effect.
    pub errors: f64,
    /// They take longer.
    pub slow: RandomDelay,
    /// They happen, and the answer is lost.
    pub lost_answers: f64,
}

/// The calls of a [`CloudProvider`] that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    Create,
    Delete,
    Get,
    List,
    InstanceTypes,
    IsDrifted,
    Reboot,
}

impl Method {
    pub const ALL: [Self; 7] = [
        Self::Create,
        Self::Delete,
        Self::Get,
        Self::List,
        Self::InstanceTypes,
        Self::IsDrifted,
        Self::Reboot,
    ];

    /// As scenarios write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Get => "get",
            Self::List => "list",
            Self::InstanceTypes => "instanceTypes",
            Self::IsDrifted => "isDrifted",
            Self::Reboot => "reboot",
        }
    }
}

/// An async callback that gets the NodeClaim of an instance before its deletion.
pub type InstanceDeletionHook = Arc<dyn Fn(NodeClaim) -> BoxFuture<'static, ()> + Send + Sync>;

/// A cloud provider with injected faults.
pub struct FaultyCloud {
    inner: Arc<dyn CloudProvider>,
    switch: Switch<CloudFaults>,
    clock: Arc<dyn Clock>,
    rng: SeededRng,
    journal: Journal,
    calls: AtomicU64,
    in_flight: AtomicU32,
    instance_faults: InstanceFaults,
    /// Called before every deletion of an instance.
    deletion_hook: Mutex<Option<InstanceDeletionHook>>,
    /// The active price changes.
    prices: Mutex<Vec<PriceChange>>,
    /// The adjusted instance types of each NodePool, as last computed.
    adjusted_types: Mutex<BTreeMap<String, shortage::AdjustedTypes>>,
}

impl FaultyCloud {
    /// Wraps the provider with the faults that the switch turns on.
    pub fn new(
        inner: Arc<dyn CloudProvider>,
        switch: Switch<CloudFaults>,
        clock: &Arc<dyn Clock>,
        rng: SeededRng,
        journal: Journal,
    ) -> Self {
        Self {
            inner,
            switch,
            clock: Arc::clone(clock),
            rng,
            journal,
            calls: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            instance_faults: InstanceFaults::default(),
            deletion_hook: Mutex::default(),
            prices: Mutex::default(),
            adjusted_types: Mutex::default(),
        }
    }

    /// Sets the callback that runs before each deletion of an instance.
    /// The callback may read the world as it is before the deletion.
    pub fn set_deletion_hook(&self, hook: InstanceDeletionHook) {
        *self.deletion_hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(hook);
    }

    /// Returns the instances that exist, without faults of calls.
    pub async fn instances(&self) -> CloudResult<Vec<NodeClaim>> {
        let found = self.inner.list().await?;
        Ok(self.instance_faults.visible_instances(found, self.clock.now()))
    }

    /// From now on these prices are other than usual, and no others.
    pub fn set_prices(&self, changes: Vec<PriceChange>) {
        *self.prices.lock().unwrap_or_else(PoisonError::into_inner) = changes;
    }

    /// What an instance costs per hour at the moment; none if it is not known.
    pub async fn price(&self, node_claim: &NodeClaim) -> Option<f64> {
        let types = self.inner.instance_types(&shortage::pool_of(node_claim)).await.ok()?;
        price::hourly_price(node_claim, &price::apply_price_changes(types, &self.prices()))
    }

    fn prices(&self) -> Vec<PriceChange> {
        self.prices.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Loses an instance now.
    pub fn lose(&self, provider_id: &str) {
        self.journal.record("instance lost", provider_id);
        self.instance_faults.mark_lost(provider_id, self.clock.now());
    }

    /// Silences the kubelets of lost instances, and drops orphaned never-registering ones, for
    /// ever.
    pub async fn silence_lost(&self, client: Client) -> Infallible {
        let claims: Api<NodeClaim> = Api::all(client.clone());
        let nodes: Api<Node> = Api::all(client);
        loop {
            self.clock.sleep(LOST_INSTANCE_CHECK_INTERVAL).await;
            if self.instance_faults.has_never_registering()
                && let Ok(found) = claims.list(&ListParams::default()).await
            {
                let owners: Vec<_> = found.items.iter().map(instance_faults::owner).collect();
                self.instance_faults.remove_never_registering_except(&owners);
            }
            let lost = self.instance_faults.lost_with_speaking_kubelet(self.clock.now());
            if lost.is_empty() {
                continue;
            }
            let Ok(found) = nodes.list(&ListParams::default()).await else { continue };
            for node in &found.items {
                let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
                let Some(id) = id.filter(|id| lost.iter().any(|lost| lost == id)) else { continue };
                let silent = json!({"metadata": {"annotations": {kubelet::SILENT: "true"}}});
                let silent = Patch::Merge(silent);
                let patched = nodes.patch(&node.name_any(), &PatchParams::default(), &silent).await;
                if patched.is_ok() {
                    self.instance_faults.mark_kubelet_silenced(id);
                }
            }
        }
    }

    /// A call to the provider, with what goes wrong on the way.
    async fn call<T>(
        &self,
        method: Method,
        about: &str,
        call: impl Future<Output = CloudResult<T>> + Send,
    ) -> CloudResult<T> {
        let _in_flight = InFlight::new(&self.in_flight);
        let Some(on) = self.switch.active_faults() else { return call.await };
        let faults = on.faults.methods.get(&method).copied().unwrap_or(on.faults.calls);
        let mut rng = self.chance_of_next_call();
        let note = |fault| self.journal.record(fault, format!("{} {about}", method.name()));
        let is_late = rng.random_bool(faults.slow.rate);
        let is_error = rng.random_bool(faults.errors);
        let is_lost = rng.random_bool(faults.lost_answers);
        let running = self.in_flight.load(Ordering::Relaxed);
        if on.faults.calls_in_flight.is_some_and(|most| running > most) {
            note("too many calls");
            return Err(CloudError::other("request limit exceeded"));
        }
        if is_late {
            note("slow");
            self.clock.sleep(faults.slow.by).await;
        }
        if is_error {
            note("error");
            return Err(CloudError::other("the cloud is not available"));
        }
        let answer = call.await;
        if is_lost {
            note("answer lost");
            return Err(CloudError::other("connection reset by peer"));
        }
        answer
    }

    fn chance_of_next_call(&self) -> SeededRng {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        self.rng.fork(&number.to_string())
    }

    async fn launch(&self, node_claim: &NodeClaim) -> CloudResult<NodeClaim> {
        let Some(on) = self.switch.active_faults() else {
            let narrowed = self.narrowed(node_claim).await?;
            return self.inner.create(narrowed.as_ref().unwrap_or(node_claim)).await;
        };
        let about = format!("NodeClaim {}", node_claim.name_any());
        // Of the claim, not of the call: a launch that is repeated does not get another chance.
        let uid = node_claim.metadata.uid.as_deref().unwrap_or_default();
        let mut rng = self.rng.fork(&format!("{}/{uid}", node_claim.name_any()));
        if !on.faults.launch_delay.is_zero() {
            self.journal.record("launch delayed", &*about);
            self.clock.sleep(rng.jitter(on.faults.launch_delay, DELAY_JITTER)).await;
        }
        let is_unregistered = rng.random_bool(on.faults.failed_registrations);
        let is_lost = rng.random_bool(on.faults.lost_instances.rate);
        let lost_after = rng.duration(Duration::ZERO..on.faults.lost_instances.by);
        let narrowed = self.narrowed(node_claim).await.inspect_err(|_| {
            self.journal.record("out of capacity", &*about);
        })?;
        let launched = self.inner.create(narrowed.as_ref().unwrap_or(node_claim)).await?;
        let id = provider_id(&launched).unwrap_or_default().to_owned();
        if is_unregistered {
            self.journal.record("never registers", &*about);
            let _ended = self.inner.delete(&instance_faults::with_unknown_claim(&launched)).await;
            self.instance_faults.mark_never_registering(
                &id,
                launched.clone(),
                instance_faults::owner(node_claim),
            );
        } else if is_lost && self.instance_faults.is_new(&id) {
            self.journal.record("instance will be lost", &*about);
            let at = self.clock.now().checked_add(lost_after).unwrap_or_default();
            self.instance_faults.mark_lost(&id, at);
        }
        Ok(launched)
    }

    /// The claim, narrowed to an offering that is not short; none if nothing is short and prices
    /// are as the provider has them.
    async fn narrowed(&self, node_claim: &NodeClaim) -> CloudResult<Option<NodeClaim>> {
        let (short, prices) = (self.active_shortages(), self.prices());
        if short.is_empty() && prices.is_empty() {
            return Ok(None);
        }
        let types = self.inner.instance_types(&shortage::pool_of(node_claim)).await?;
        let types = price::apply_price_changes(types, &prices);
        let vocabulary = self.inner.provider_labels();
        shortage::narrow(node_claim, &types, &vocabulary, &short, !prices.is_empty())
    }

    /// Returns the shortages that are active now.
    fn active_shortages(&self) -> Vec<Shortage> {
        let Some(on) = self.switch.active_faults() else { return Vec::new() };
        let passed = self.clock.now().duration_since(on.since);
        let passed = Duration::try_from(passed).unwrap_or_default();
        on.faults.shortages.iter().filter(|shortage| shortage.is_on(passed)).cloned().collect()
    }

    /// Returns the types with current prices, short offerings marked unavailable.
    /// Computes them again only when something changes.
    fn adjusted_instance_types(&self, pool: &NodePool, types: InstanceTypes) -> InstanceTypes {
        let (short, prices) = (self.active_shortages(), self.prices());
        if short.is_empty() && prices.is_empty() {
            return types;
        }
        let mut marked = self.adjusted_types.lock().unwrap_or_else(PoisonError::into_inner);
        let known = marked.get(&pool.name_any());
        let known = known.filter(|known| known.is_current(&types, &short, &prices));
        if let Some(known) = known {
            return Arc::clone(&known.types);
        }
        let made = shortage::AdjustedTypes::new(types, short, prices);
        let types = Arc::clone(&made.types);
        marked.insert(pool.name_any(), made);
        types
    }
}

/// Counts calls as long as they run.
struct InFlight<'a>(&'a AtomicU32);

impl<'a> InFlight<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) fn provider_id(node_claim: &NodeClaim) -> Option<&str> {
    node_claim.status.as_ref()?.provider_id.as_deref().filter(|id| !id.is_empty())
}

fn no_instance(provider_id: &str) -> CloudError {
    CloudError::not_found(format!("no instance (id={provider_id})"))
}

impl karpenter_operator::cloud::CloudDecorator for FaultyCloud {
    fn inner(&self) -> &dyn CloudProvider {
        &*self.inner
    }

    fn create<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, NodeClaim> {
        Box::pin(async move {
            let about = node_claim.name_any();
            self.call(Method::Create, &about, self.launch(node_claim)).await
        })
    }

    fn delete<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, ()> {
        let end = async move {
            let hook = self.deletion_hook.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(hook) = hook {
                hook(node_claim.clone()).await;
            }
            let id = provider_id(node_claim).unwrap_or_default();
            let is_gone = self.instance_faults.forget(id, self.clock.now());
            let ended = self.inner.delete(node_claim).await;
            if is_gone { Err(no_instance(id)) } else { ended }
        };
        Box::pin(async move { self.call(Method::Delete, &node_claim.name_any(), end).await })
    }

    fn get<'a>(&'a self, provider_id: &'a str) -> CloudFuture<'a, NodeClaim> {
        let find = async move {
            match self.instance_faults.view(provider_id, self.clock.now()) {
                instance_faults::InstanceView::Unchanged => self.inner.get(provider_id).await,
                instance_faults::InstanceView::Substitute(hidden) => Ok(*hidden),
                instance_faults::InstanceView::Deleted => Err(no_instance(provider_id)),
            }
        };
        Box::pin(self.call(Method::Get, provider_id, find))
    }

    fn list(&self) -> CloudFuture<'_, Vec<NodeClaim>> {
        Box::pin(self.call(Method::List, "", self.instances()))
    }

    fn instance_types<'a>(&'a self, node_pool: &'a NodePool) -> CloudFuture<'a, InstanceTypes> {
        let types = async move {
            let types = self.inner.instance_types(node_pool).await?;
            Ok(self.adjusted_instance_types(node_pool, types))
        };
        Box::pin(
            async move { self.call(Method::InstanceTypes, &node_pool.name_any(), types).await },
        )
    }

    fn is_drifted<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, Option<DriftReason>> {
        let request = self.inner.is_drifted(node_claim);
        Box::pin(async move { self.call(Method::IsDrifted, &node_claim.name_any(), request).await })
    }

    fn reboot<'a>(
        &'a self,
        node_claim: &'a NodeClaim,
        operation_id: &'a str,
    ) -> CloudFuture<'a, ()> {
        let restart = self.inner.reboot(node_claim, operation_id);
        Box::pin(async move { self.call(Method::Reboot, &node_claim.name_any(), restart).await })
    }
}

impl fmt::Debug for FaultyCloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyCloud")
            .field("inner", &self.inner)
            .field("fates", &self.instance_faults)
            .finish_non_exhaustive()
    }
}
