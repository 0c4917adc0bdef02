//! A cloud with troubles: a decorator of any provider that makes launches late, lets offerings run
//! short, changes prices, loses instances and fails calls.
//!
//! ```text
//! call ─▶ too many in flight? ─▶ slow? ─▶ fails? ─▶ provider ─▶ answer lost?
//! create ─▶ launch delay ─▶ an offering that is not short ─▶ provider ─▶ lost later? never registers?
//! ```
//!
//! It knows nothing of how the provider works: short offerings are left out by narrowing the
//! claim, and an instance that never registers is one that was ended at once and goes on being
//! shown. What an instance that is lost leaves behind, a node without a kubelet, is the work of
//! [`Troubled::silence_lost`], which a world runs beside it.

mod fate;
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
use karpenter_operator::chance::Chance;
use karpenter_operator::clock::Clock;
use karpenter_operator::cloud::{
    CloudError, CloudFuture, CloudProvider, CloudResult, DriftReason, RegistrationHook,
    RepairPolicy, Vocabulary,
};
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use self::fate::Fates;
pub use self::price::PriceChange;
pub use self::shortage::Shortage;
pub(crate) use self::shortage::glob;
use crate::faults::{Journal, Late, Switch};
use crate::kubelet;

#[cfg(test)]
mod tests;

/// A launch takes up to this much longer than the launch delay says.
const DELAY_JITTER: f64 = 0.25;

/// How often somebody looks for instances that are lost by now.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What goes wrong in the cloud. Rates are from 0 (never) to 1 (always).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CloudFaults {
    /// How much longer a launch takes at least.
    pub launch_delay: Duration,
    /// Offerings that there is nothing left of.
    pub shortages: Vec<Shortage>,
    /// Instances that are lost, and within which time after their launch.
    pub lost_instances: Late,
    /// Instances whose node never appears.
    pub failed_registrations: f64,
    /// Calls of methods that [`Self::methods`] does not name.
    pub calls: CallFaults,
    /// Calls by the name of the method, such as `create`.
    pub methods: BTreeMap<Method, CallFaults>,
    /// More calls at once are refused.
    pub calls_in_flight: Option<u32>,
}

/// What goes wrong with calls.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CallFaults {
    /// They fail without any effect.
    pub errors: f64,
    /// They take longer.
    pub slow: Late,
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

/// Is shown a NodeClaim, as the product sees it.
pub type Witness = Arc<dyn Fn(NodeClaim) -> BoxFuture<'static, ()> + Send + Sync>;

/// A cloud with troubles.
pub struct Troubled {
    inner: Arc<dyn CloudProvider>,
    switch: Switch<CloudFaults>,
    clock: Arc<dyn Clock>,
    chance: Chance,
    journal: Journal,
    calls: AtomicU64,
    in_flight: AtomicU32,
    fates: Fates,
    /// Is shown every instance that is to be ended, before it is.
    witness: Mutex<Option<Witness>>,
    /// What is not at its usual price.
    prices: Mutex<Vec<PriceChange>>,
    /// The types of a pool with their prices and the offerings that are short, as last made.
    marked: Mutex<BTreeMap<String, shortage::Marked>>,
}

impl Troubled {
    /// The provider, with the troubles that the switch turns on.
    pub fn new(
        inner: Arc<dyn CloudProvider>,
        switch: Switch<CloudFaults>,
        clock: &Arc<dyn Clock>,
        chance: Chance,
        journal: Journal,
    ) -> Self {
        Self {
            inner,
            switch,
            clock: Arc::clone(clock),
            chance,
            journal,
            calls: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            fates: Fates::default(),
            witness: Mutex::default(),
            prices: Mutex::default(),
            marked: Mutex::default(),
        }
    }

    /// Shows every instance that the product ends to somebody, who may look at the world before.
    pub fn show_to(&self, witness: Witness) {
        *self.witness.lock().unwrap_or_else(PoisonError::into_inner) = Some(witness);
    }

    /// The instances that there are, as somebody sees them whose calls work.
    pub async fn instances(&self) -> CloudResult<Vec<NodeClaim>> {
        let found = self.inner.list().await?;
        Ok(self.fates.seen(found, self.clock.now()))
    }

    /// From now on these prices are other than usual, and no others.
    pub fn set_prices(&self, changes: Vec<PriceChange>) {
        *self.prices.lock().unwrap_or_else(PoisonError::into_inner) = changes;
    }

    /// What an instance costs per hour at the moment; none if it is not known.
    pub async fn price(&self, node_claim: &NodeClaim) -> Option<f64> {
        let types = self.inner.instance_types(&shortage::pool_of(node_claim)).await.ok()?;
        price::of(node_claim, &price::changed(types, &self.prices()))
    }

    fn prices(&self) -> Vec<PriceChange> {
        self.prices.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Loses an instance now.
    pub fn lose(&self, provider_id: &str) {
        self.journal.note("instance lost", provider_id);
        self.fates.lose(provider_id, self.clock.now());
    }

    /// Lets the kubelets of lost instances fall silent, and clears away what belongs to nobody, for
    /// ever.
    pub async fn silence_lost(&self, client: Client) -> Infallible {
        let claims: Api<NodeClaim> = Api::all(client.clone());
        let nodes: Api<Node> = Api::all(client);
        loop {
            self.clock.sleep(LOOK_EVERY).await;
            if self.fates.has_hidden()
                && let Ok(found) = claims.list(&ListParams::default()).await
            {
                let owners: Vec<_> = found.items.iter().map(fate::owner).collect();
                self.fates.clear_hidden(&owners);
            }
            let lost = self.fates.to_silence(self.clock.now());
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
                    self.fates.silenced(id);
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
        let Some(on) = self.switch.now() else { return call.await };
        let faults = on.what.methods.get(&method).copied().unwrap_or(on.what.calls);
        let mut chance = self.chance_of_next_call();
        let note = |what| self.journal.note(what, format!("{} {about}", method.name()));
        let is_late = chance.happens(faults.slow.rate);
        let is_error = chance.happens(faults.errors);
        let is_lost = chance.happens(faults.lost_answers);
        let running = self.in_flight.load(Ordering::Relaxed);
        if on.what.calls_in_flight.is_some_and(|most| running > most) {
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

    fn chance_of_next_call(&self) -> Chance {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        self.chance.fork(&number.to_string())
    }

    async fn launch(&self, node_claim: &NodeClaim) -> CloudResult<NodeClaim> {
        let Some(on) = self.switch.now() else {
            let narrowed = self.narrowed(node_claim).await?;
            return self.inner.create(narrowed.as_ref().unwrap_or(node_claim)).await;
        };
        let about = format!("NodeClaim {}", node_claim.name_any());
        // Of the claim, not of the call: a launch that is repeated does not get another chance.
        let uid = node_claim.metadata.uid.as_deref().unwrap_or_default();
        let mut chance = self.chance.fork(&format!("{}/{uid}", node_claim.name_any()));
        if !on.what.launch_delay.is_zero() {
            self.journal.note("launch delayed", &*about);
            self.clock.sleep(chance.jitter(on.what.launch_delay, DELAY_JITTER)).await;
        }
        let is_unregistered = chance.happens(on.what.failed_registrations);
        let is_lost = chance.happens(on.what.lost_instances.rate);
        let lost_after = chance.duration(Duration::ZERO..on.what.lost_instances.by);
        let narrowed = self.narrowed(node_claim).await.inspect_err(|_| {
            self.journal.note("out of capacity", &*about);
        })?;
        let launched = self.inner.create(narrowed.as_ref().unwrap_or(node_claim)).await?;
        let id = provider_id(&launched).unwrap_or_default().to_owned();
        if is_unregistered {
            self.journal.note("never registers", &*about);
            let _ended = self.inner.delete(&fate::nobodys(&launched)).await;
            self.fates.hide(&id, launched.clone(), fate::owner(node_claim));
        } else if is_lost && self.fates.is_new(&id) {
            self.journal.note("instance will be lost", &*about);
            let at = self.clock.now().checked_add(lost_after).unwrap_or_default();
            self.fates.lose(&id, at);
        }
        Ok(launched)
    }

    /// The claim, narrowed to an offering that is not short; none if nothing is short and prices
    /// are as the provider has them.
    async fn narrowed(&self, node_claim: &NodeClaim) -> CloudResult<Option<NodeClaim>> {
        let (short, prices) = (self.short(), self.prices());
        if short.is_empty() && prices.is_empty() {
            return Ok(None);
        }
        let types = self.inner.instance_types(&shortage::pool_of(node_claim)).await?;
        let types = price::changed(types, &prices);
        let vocabulary = self.inner.vocabulary();
        shortage::narrow(node_claim, &types, &vocabulary, &short, !prices.is_empty())
    }

    /// The shortages of this moment.
    fn short(&self) -> Vec<Shortage> {
        let Some(on) = self.switch.now() else { return Vec::new() };
        let passed = self.clock.now().duration_since(on.since);
        let passed = Duration::try_from(passed).unwrap_or_default();
        on.what.shortages.iter().filter(|shortage| shortage.is_on(passed)).cloned().collect()
    }

    /// The types at their prices, with the offerings marked that are short. Made anew only when
    /// something changes.
    fn mark(&self, pool: &NodePool, types: InstanceTypes) -> InstanceTypes {
        let (short, prices) = (self.short(), self.prices());
        if short.is_empty() && prices.is_empty() {
            return types;
        }
        let mut marked = self.marked.lock().unwrap_or_else(PoisonError::into_inner);
        let known = marked.get(&pool.name_any());
        let known = known.filter(|known| known.is_of(&types, &short, &prices));
        if let Some(known) = known {
            return Arc::clone(&known.types);
        }
        let made = shortage::Marked::new(types, short, prices);
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

impl CloudProvider for Troubled {
    fn create<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, NodeClaim> {
        Box::pin(async move {
            let about = node_claim.name_any();
            self.call(Method::Create, &about, self.launch(node_claim)).await
        })
    }

    fn delete<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, ()> {
        let end = async move {
            let witness = self.witness.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(witness) = witness {
                witness(node_claim.clone()).await;
            }
            let id = provider_id(node_claim).unwrap_or_default();
            let is_gone = self.fates.forget(id, self.clock.now());
            let ended = self.inner.delete(node_claim).await;
            if is_gone { Err(no_instance(id)) } else { ended }
        };
        Box::pin(async move { self.call(Method::Delete, &node_claim.name_any(), end).await })
    }

    fn get<'a>(&'a self, provider_id: &'a str) -> CloudFuture<'a, NodeClaim> {
        let find = async move {
            match self.fates.look_up(provider_id, self.clock.now()) {
                fate::Seen::AsItIs => self.inner.get(provider_id).await,
                fate::Seen::Instead(hidden) => Ok(*hidden),
                fate::Seen::Gone => Err(no_instance(provider_id)),
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
            Ok(self.mark(node_pool, types))
        };
        Box::pin(
            async move { self.call(Method::InstanceTypes, &node_pool.name_any(), types).await },
        )
    }

    fn is_drifted<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, Option<DriftReason>> {
        let ask = self.inner.is_drifted(node_claim);
        Box::pin(async move { self.call(Method::IsDrifted, &node_claim.name_any(), ask).await })
    }

    fn reboot<'a>(
        &'a self,
        node_claim: &'a NodeClaim,
        operation_id: &'a str,
    ) -> CloudFuture<'a, ()> {
        let restart = self.inner.reboot(node_claim, operation_id);
        Box::pin(async move { self.call(Method::Reboot, &node_claim.name_any(), restart).await })
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

    fn vocabulary(&self) -> Vocabulary {
        self.inner.vocabulary()
    }

    fn registration_hooks(&self) -> Vec<Arc<dyn RegistrationHook>> {
        self.inner.registration_hooks()
    }

    fn default_termination_grace_period(&self) -> Option<Duration> {
        self.inner.default_termination_grace_period()
    }
}

impl fmt::Debug for Troubled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Troubled")
            .field("inner", &self.inner)
            .field("fates", &self.fates)
            .finish_non_exhaustive()
    }
}
