//! A cloud in memory, for tests of controllers (spec 40 §10.5, spec 45 §16).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_api::labels;
use karpenter_api::nodeclaim::{NodeClaim, NodeClaimStatus};
use karpenter_api::nodepool::NodePool;
use karpenter_core::catalog::{InstanceType, InstanceTypes, Offering};
use karpenter_core::requirement::{Aliases, Operator, Requirements};
use karpenter_core::resources::{Quantity, Resources};
use karpenter_core::testing;

use crate::cloud::{
    CloudError, CloudFuture, CloudProvider, CloudResult, DriftReason, ProviderLabels, nodeclaim,
};
use crate::rng::SeededRng;

#[cfg(test)]
mod tests;

/// A cloud provider for tests: launches at once, records calls, and fails on request.
///
/// It starts with the types of [`testing::default_types`] for every pool. [`super::XProvider`] is
/// its provider.
pub struct FakeCloud {
    provider_labels: ProviderLabels,
    state: Mutex<State>,
}

/// The calls that a [`FakeCloud`] received, oldest first. It omits those that failed by injection.
#[derive(Clone, Debug, Default)]
pub struct RecordedCalls {
    /// Claims to launch.
    pub create: Vec<NodeClaim>,
    /// Claims to end.
    pub delete: Vec<NodeClaim>,
    /// The requested provider ids.
    pub get: Vec<String>,
    /// Claims to restart, with the id of the operation.
    pub reboot: Vec<(NodeClaim, String)>,
}

type MakeError = Arc<dyn Fn() -> CloudError + Send + Sync>;

struct State {
    rng: SeededRng,
    types: InstanceTypes,
    types_by_pool: BTreeMap<String, InstanceTypes>,
    errors_by_pool: BTreeMap<String, MakeError>,
    allowed_creates: usize,
    next_create: Option<CloudError>,
    next_delete: Option<CloudError>,
    next_get: Option<CloudError>,
    next_list: Option<CloudError>,
    next_reboot: Option<CloudError>,
    drift: Option<DriftReason>,
    default_termination_grace_period: Option<Duration>,
    instances: BTreeMap<String, NodeClaim>,
    calls: RecordedCalls,
}

impl Default for FakeCloud {
    fn default() -> Self {
        let default_types = testing::default_types().into_iter().map(|t| Arc::new(t.build()));
        Self {
            provider_labels: ProviderLabels {
                well_known: Arc::new(testing::well_known()),
                reservation_id_label: Some(testing::RESERVATION_ID.to_owned()),
                aliases: Arc::new(Aliases::default()),
            },
            state: Mutex::new(State {
                rng: SeededRng::new(0).fork("fake cloud"),
                types: default_types.collect(),
                types_by_pool: BTreeMap::new(),
                errors_by_pool: BTreeMap::new(),
                allowed_creates: usize::MAX,
                next_create: None,
                next_delete: None,
                next_get: None,
                next_list: None,
                next_reboot: None,
                drift: None,
                default_termination_grace_period: None,
                instances: BTreeMap::new(),
                calls: RecordedCalls::default(),
            }),
        }
    }
}

impl FakeCloud {
    /// One that launches anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// What pools can launch that have no types of their own.
    pub fn set_types(&self, types: impl IntoIterator<Item = InstanceType>) {
        self.state().types = types.into_iter().map(Arc::new).collect();
    }

    /// What one pool can launch.
    pub fn set_pool_types(&self, pool: &str, types: impl IntoIterator<Item = InstanceType>) {
        let types = types.into_iter().map(Arc::new).collect();
        self.state().types_by_pool.insert(pool.to_owned(), types);
    }

    /// Lets the pool's instance types fail from now on.
    pub fn fail_pool(&self, pool: &str, error: impl Fn() -> CloudError + Send + Sync + 'static) {
        self.state().errors_by_pool.insert(pool.to_owned(), Arc::new(error));
    }

    /// Lets the pool's instance types succeed again.
    pub fn clear_pool_error(&self, pool: &str) {
        self.state().errors_by_pool.remove(pool);
    }

    /// Launches fail after so many calls in all.
    pub fn allow_creates(&self, count: usize) {
        self.state().allowed_creates = count;
    }

    /// Lets the next launch fail.
    pub fn fail_next_create(&self, error: CloudError) {
        self.state().next_create = Some(error);
    }

    /// Lets the next end fail.
    pub fn fail_next_delete(&self, error: CloudError) {
        self.state().next_delete = Some(error);
    }

    /// Lets the next search fail.
    pub fn fail_next_get(&self, error: CloudError) {
        self.state().next_get = Some(error);
    }

    /// Lets the next list fail.
    pub fn fail_next_list(&self, error: CloudError) {
        self.state().next_list = Some(error);
    }

    /// Lets the next restart fail.
    pub fn fail_next_reboot(&self, error: CloudError) {
        self.state().next_reboot = Some(error);
    }

    /// Whether instances have drifted, and why.
    pub fn set_drift(&self, reason: Option<&str>) {
        self.state().drift = reason.map(str::to_owned);
    }

    /// Sets the terminationGracePeriod of claims whose pool has none.
    pub fn set_default_termination_grace_period(&self, period: Duration) {
        self.state().default_termination_grace_period = Some(period);
    }

    /// Adds an instance, or changes the one with this provider id.
    ///
    /// A claim without a provider id is ignored. An instance with a deletion time is shutting down:
    /// [`get`](CloudProvider::get) and [`list`](CloudProvider::list) return it until it is
    /// [lost](Self::lose_instance) or deleted.
    pub fn put_instance(&self, node_claim: NodeClaim) {
        if let Some(id) = provider_id(&node_claim).map(str::to_owned) {
            self.state().instances.insert(id, node_claim);
        }
    }

    /// Loses an instance, as clouds sometimes do.
    pub fn lose_instance(&self, provider_id: &str) {
        self.state().instances.remove(provider_id);
    }

    /// The calls so far.
    pub fn calls(&self) -> RecordedCalls {
        self.state().calls.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launch(&self, node_claim: &NodeClaim) -> CloudResult<NodeClaim> {
        let mut state = self.state();
        if let Some(error) = state.next_create.take() {
            return Err(error);
        }
        state.calls.create.push(node_claim.clone());
        if state.calls.create.len() > state.allowed_creates {
            return Err(CloudError::other("no more launches are allowed"));
        }
        let labels = node_claim.metadata.labels.clone().unwrap_or_default();
        let pool = labels.get(labels::NODEPOOL).map(String::as_str).unwrap_or_default();
        let types = state.types_of(pool)?;
        let (of_type, of_offering) = self.select_offering(node_claim, &types)?;
        let instance_type = &types[of_type];
        let offering = &instance_type.offerings[of_offering];
        if offering.is_reserved() {
            state.consume_reservation(pool, &types, of_type, of_offering);
        }
        let id = state.rng.u64();
        let provider_id = format!("fake:///i-{id:016x}");
        let launched = NodeClaim {
            metadata: ObjectMeta {
                name: node_claim.metadata.name.clone(),
                labels: Some(launched_labels(instance_type, offering, labels)),
                annotations: node_claim.metadata.annotations.clone(),
                ..ObjectMeta::default()
            },
            spec: node_claim.spec.clone(),
            status: Some(NodeClaimStatus {
                provider_id: Some(provider_id.clone()),
                capacity: Some(nodeclaim::quantities(&nonzero(&instance_type.capacity))),
                allocatable: Some(nodeclaim::quantities(&nonzero(&instance_type.allocatable()))),
                ..NodeClaimStatus::default()
            }),
        };
        state.instances.insert(provider_id, launched.clone());
        Ok(launched)
    }

    /// Returns the first cheapest type that fits and its offering, as positions. A reservation with
    /// free capacity wins, else the first offering.
    fn select_offering(
        &self,
        node_claim: &NodeClaim,
        types: &InstanceTypes,
    ) -> CloudResult<(usize, usize)> {
        let requirements = nodeclaim::requirements(node_claim, &self.provider_labels.aliases)?;
        let requests = nodeclaim::requests(node_claim)?;
        let is_compatible = |other: &Requirements| {
            requirements.compatible(other, &self.provider_labels.well_known).is_ok()
        };
        let mut best: Option<(f64, usize, Vec<usize>)> = None;
        for (position, instance_type) in types.iter().enumerate() {
            let offerings: Vec<_> = (instance_type.offerings.iter().enumerate())
                .filter(|(_, offering)| offering.available)
                .filter(|(_, offering)| is_compatible(&offering.requirements))
                .map(|(position, _)| position)
                .collect();
            let prices = offerings.iter().map(|&o| instance_type.offerings[o].price);
            let Some(price) = prices.min_by(f64::total_cmp) else { continue };
            let fits = is_compatible(&instance_type.requirements)
                && requests.fits_in(&instance_type.allocatable());
            if fits && best.as_ref().is_none_or(|(so_far, ..)| price < *so_far) {
                best = Some((price, position, offerings));
            }
        }
        let (_, of_type, offerings) =
            best.ok_or_else(|| CloudError::insufficient_capacity("no instance type fits"))?;
        let has_capacity = |&&offering: &&usize| {
            let offering = &types[of_type].offerings[offering];
            offering.is_reserved() && offering.reservation_capacity > 0
        };
        let offering = offerings.iter().find(has_capacity).or(offerings.first());
        Ok((of_type, *offering.expect("a type without offerings was passed over")))
    }
}

impl State {
    fn types_of(&self, pool: &str) -> CloudResult<InstanceTypes> {
        match self.errors_by_pool.get(pool) {
            Some(error) => Err(error()),
            None => Ok(self.types_by_pool.get(pool).unwrap_or(&self.types).clone()),
        }
    }

    /// Takes one instance from the reservation. It stays available when it is full.
    fn consume_reservation(
        &mut self,
        pool: &str,
        types: &InstanceTypes,
        of_type: usize,
        of: usize,
    ) {
        let mut types: Vec<_> = types.to_vec();
        let offerings = &mut Arc::make_mut(&mut types[of_type]).offerings;
        let offering = &mut Arc::make_mut(offerings)[of];
        offering.reservation_capacity = offering.reservation_capacity.saturating_sub(1);
        match self.types_by_pool.get_mut(pool) {
            Some(own) => *own = types.into(),
            None => self.types = types.into(),
        }
    }
}

/// Later ones win: the type's labels, those of the offering, and the claim's own.
fn launched_labels(
    instance_type: &InstanceType,
    offering: &Offering,
    own: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let of_type = instance_type.requirements.iter().filter(|r| r.operator() == Operator::In);
    let mut labels: BTreeMap<_, _> = of_type
        .chain(offering.requirements.iter())
        .filter_map(|requirement| Some((requirement.key().to_owned(), requirement.pick_value(0)?)))
        .collect();
    labels.extend(own);
    labels
}

fn nonzero(resources: &Resources) -> Resources {
    resources.iter().filter(|(_, quantity)| *quantity != Quantity::ZERO).collect()
}

fn provider_id(node_claim: &NodeClaim) -> Option<&str> {
    node_claim.status.as_ref()?.provider_id.as_deref()
}

impl CloudProvider for FakeCloud {
    fn create<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, NodeClaim> {
        Box::pin(async { self.launch(node_claim) })
    }

    /// The first call ends the instance, the second one finds it gone.
    fn delete<'a>(&'a self, node_claim: &'a NodeClaim) -> CloudFuture<'a, ()> {
        Box::pin(async {
            let mut state = self.state();
            if let Some(error) = state.next_delete.take() {
                return Err(error);
            }
            state.calls.delete.push(node_claim.clone());
            let id = provider_id(node_claim).unwrap_or_default();
            match state.instances.remove(id) {
                Some(_) => Ok(()),
                None => Err(instance_not_found(id)),
            }
        })
    }

    fn get<'a>(&'a self, provider_id: &'a str) -> CloudFuture<'a, NodeClaim> {
        Box::pin(async move {
            let mut state = self.state();
            if let Some(error) = state.next_get.take() {
                return Err(error);
            }
            state.calls.get.push(provider_id.to_owned());
            state.instances.get(provider_id).cloned().ok_or_else(|| instance_not_found(provider_id))
        })
    }

    fn list(&self) -> CloudFuture<'_, Vec<NodeClaim>> {
        Box::pin(async {
            let mut state = self.state();
            match state.next_list.take() {
                Some(error) => Err(error),
                None => Ok(state.instances.values().cloned().collect()),
            }
        })
    }

    fn instance_types<'a>(&'a self, node_pool: &'a NodePool) -> CloudFuture<'a, InstanceTypes> {
        let pool = node_pool.metadata.name.as_deref().unwrap_or_default();
        Box::pin(async move { self.state().types_of(pool) })
    }

    fn is_drifted<'a>(&'a self, _: &'a NodeClaim) -> CloudFuture<'a, Option<DriftReason>> {
        Box::pin(async { Ok(self.state().drift.clone()) })
    }

    fn reboot<'a>(
        &'a self,
        node_claim: &'a NodeClaim,
        operation_id: &'a str,
    ) -> CloudFuture<'a, ()> {
        Box::pin(async move {
            let mut state = self.state();
            if let Some(error) = state.next_reboot.take() {
                return Err(error);
            }
            state.calls.reboot.push((node_claim.clone(), operation_id.to_owned()));
            Ok(())
        })
    }

    fn name(&self) -> &'static str {
        "x"
    }

    fn default_termination_grace_period(&self) -> Option<Duration> {
        self.state().default_termination_grace_period
    }

    fn provider_labels(&self) -> ProviderLabels {
        self.provider_labels.clone()
    }
}

fn instance_not_found(provider_id: &str) -> CloudError {
    let text = format!("no nodeclaim exists with provider id (provider-id={provider_id})");
    CloudError::not_found(text)
}

impl fmt::Debug for FakeCloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instances: Vec<_> = self.state().instances.keys().cloned().collect();
        f.debug_struct("FakeCloud").field("instances", &instances).finish_non_exhaustive()
    }
}
