//! Instance types under a node class: labels, capacity, overhead and offerings (spec 51 §2–§7).
//!
//! [`InstanceTypes::list`] is the entry. It works in two steps, and caches each one:
//!
//! 1. [`resolve()`] makes labels, capacity and overhead from the facts of EC2 and the settings of
//!    the node class. The result is kept for five minutes under all that it depends on.
//! 2. [`OfferingScope`] adds the offerings. The result is shared until prices, reservations or
//!    marks change. A mark of one offering recomputes its instance type alone.
//!
//! | Module | Content | Specification |
//! |---|---|---|
//! | `settings` | node class and options as plain values | 51 §2 |
//! | `labels` | the labels of nodes | 51 §3 |
//! | `capacity`, `overhead` | resources | 51 §4, §5 |
//! | `expressions` | kubelet settings that are expressions | 51 §5.4 |
//! | `compatibility` | whether EC2 can launch the type as the node class wants it | 51 §6 |
//! | `cache_key` | what a cached result depends on | 51 §2, §7.1 |

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::join;
use karpenter_api::ec2_nodeclass::Ec2NodeClass;
use karpenter_api::grammar::{Amount, QuantityFormat};
use karpenter_api::kubelet::ManagedSettingError;
use karpenter_core::catalog::InstanceType;
use karpenter_core::resources::{Notation, Quantity};
use karpenter_operator::clock::Clock;

use crate::discovery::{
    CallError, Ec2Types, InstanceTypeInfo, OfferedZones, TypeFigures, read_instance_types,
    read_offered_zones,
};
use crate::expiring::ExpiringMap;
use crate::offerings::{OfferingContext, OfferingScope, OfferingSources, placement_labels};
use crate::prices::{PriceBook, PriceList};
use crate::reservations::ReservationCounts;
use crate::unavailable::UnavailableOfferings;

mod cache_key;
mod capacity;
mod compatibility;
mod expressions;
mod labels;
mod memory;
mod overhead;
mod resolve;
mod settings;
#[cfg(test)]
mod tests;

pub use compatibility::is_compatible;
pub use expressions::{
    ExpressionFailure, ExpressionVariables, KubeletContext, KubeletExpressions, reserved_quantity,
};
pub use labels::SharedRequirements;
pub use memory::DiscoveredMemory;
pub use overhead::{InvalidSetting, Overhead};
pub use resolve::{
    Discovered, DiscoveredType, ResolveError, ResolvedType, check_expressions, overhead, resolve,
    resolved_pods,
};
pub use settings::{ClassReservation, ClassSettings, ClassZone, EFA_ONLY, ResolutionOptions};

/// How long resolved instance types are kept.
const RESOLVED_TTL: Duration = Duration::from_mins(5);

/// Why instance types cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// Discovery has found nothing yet.
    #[error("no instance types found")]
    NoInstanceTypes,
    /// Discovery has found no zones yet.
    #[error("no instance types offerings found")]
    NoOfferings,
    /// The node class has no subnets.
    #[error("no subnets found")]
    NoSubnets,
    /// The node class has an unreadable kubelet configuration.
    #[error("parsing spec.kubelet, {0}")]
    Kubelet(#[from] ManagedSettingError),
    /// An instance type cannot be resolved.
    #[error("resolving instance type {name}, {source}")]
    Resolve {
        /// The instance type.
        name: String,
        /// Why.
        source: Box<ResolveError>,
    },
    /// EC2 has no such instance type.
    #[error("instance type {0} not found in cache")]
    Unknown(String),
}

/// Instance types with all state that they depend on.
#[derive(Debug)]
pub struct InstanceTypes {
    options: ResolutionOptions,
    figures: BTreeMap<String, TypeFigures>,
    expressions: KubeletExpressions,
    clock: Arc<dyn Clock>,
    prices: Arc<PriceBook>,
    unavailable: Arc<UnavailableOfferings>,
    reservations: Arc<ReservationCounts>,
    memory: DiscoveredMemory,
    facts: RwLock<Facts>,
    resolved: Mutex<ExpiringMap<String, Arc<ResolvedTypes>>>,
    offered: Mutex<ExpiringMap<String, Arc<OfferedTypes>>>,
    resolved_types: AtomicU64,
    offered_types: AtomicU64,
}

/// What discovery has read, and its prepared form.
#[derive(Debug, Default)]
struct Facts {
    types: Vec<InstanceTypeInfo>,
    zones: OfferedZones,
    discovered: Arc<Discovered>,
}

/// The resolved instance types of a node class.
#[derive(Debug)]
struct ResolvedTypes {
    discovered: Arc<Discovered>,
    types: Vec<ResolvedType>,
}

/// The instance types of a node class with offerings, and the state that they were made from.
#[derive(Debug)]
struct OfferedTypes {
    resolved: Arc<ResolvedTypes>,
    prices: Arc<PriceList>,
    unavailable_version: u64,
    reservation_version: u64,
    /// The sequence number of each instance type in [`UnavailableOfferings`].
    sequences: Vec<u64>,
    types: karpenter_core::catalog::InstanceTypes,
}

/// The sources of state that instance types depend on.
#[derive(Clone, Debug)]
pub struct InstanceTypeSources {
    /// Figures that no EC2 API returns, by instance type.
    pub figures: BTreeMap<String, TypeFigures>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The prices.
    pub prices: Arc<PriceBook>,
    /// The offerings that EC2 has refused.
    pub unavailable: Arc<UnavailableOfferings>,
    /// The instances left in reservations.
    pub reservations: Arc<ReservationCounts>,
}

impl InstanceTypes {
    /// Returns a list without any instance type; [`Self::refresh`] or [`Self::replace`] fills it.
    pub fn new(options: ResolutionOptions, sources: InstanceTypeSources) -> Self {
        Self {
            options,
            figures: sources.figures,
            expressions: KubeletExpressions::new(Arc::clone(&sources.clock)),
            memory: DiscoveredMemory::new(Arc::clone(&sources.clock)),
            clock: sources.clock,
            prices: sources.prices,
            unavailable: sources.unavailable,
            reservations: sources.reservations,
            facts: RwLock::default(),
            resolved: Mutex::default(),
            offered: Mutex::default(),
            resolved_types: AtomicU64::new(0),
            offered_types: AtomicU64::new(0),
        }
    }

    /// Reads instance types and zones from EC2; a failure of one does not stop the other.
    pub async fn refresh(&self, ec2: &dyn Ec2Types) -> Result<(), Vec<CallError>> {
        let (types, zones) = join(read_instance_types(ec2), read_offered_zones(ec2)).await;
        let (types, types_error) = split(types);
        let (zones, zones_error) = split(zones);
        self.update(types, zones);
        let errors: Vec<_> = types_error.into_iter().chain(zones_error).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Replaces the facts of EC2.
    pub fn replace(&self, types: Vec<InstanceTypeInfo>, zones: OfferedZones) {
        self.update(Some(types), Some(zones));
    }

    /// Replaces what was read; only a change flushes the resolved instance types.
    fn update(&self, types: Option<Vec<InstanceTypeInfo>>, zones: Option<OfferedZones>) {
        let mut facts = self.facts.write().unwrap_or_else(PoisonError::into_inner);
        let is_changed = types.as_ref().is_some_and(|types| *types != facts.types)
            || zones.as_ref().is_some_and(|zones| *zones != facts.zones);
        if !is_changed {
            return;
        }
        facts.types = types.unwrap_or_else(|| std::mem::take(&mut facts.types));
        facts.zones = zones.unwrap_or_else(|| std::mem::take(&mut facts.zones));
        tracing::debug!(count = facts.types.len(), "discovered instance types");
        let types = facts.types.iter().cloned();
        facts.discovered =
            Arc::new(Discovered::new(types, &facts.zones, &self.figures, &self.options.region));
        drop(facts);
        lock(&self.resolved).clear();
        lock(&self.offered).clear();
    }

    /// Returns every instance type under a node class, with its offerings.
    ///
    /// Also those that its zones do not sell, which have only unavailable offerings. While nothing
    /// changes the same list is returned.
    pub fn list(
        &self,
        class: &Ec2NodeClass,
        context: &OfferingContext,
    ) -> Result<karpenter_core::catalog::InstanceTypes, ListError> {
        let discovered = self.discovered(class)?;
        let key = cache_key::resolved(class, &self.options);
        let resolved = self.resolved(class, discovered, &key)?;
        let key = cache_key::offered(&key, class, context);
        Ok(Arc::clone(&self.offered(&resolved, key, class, context)?.types))
    }

    /// Returns one instance type under a node class, with its offerings.
    pub fn get(
        &self,
        class: &Ec2NodeClass,
        context: &OfferingContext,
        name: &str,
    ) -> Result<Arc<InstanceType>, ListError> {
        let discovered = self.discovered(class)?;
        let known = discovered.get(name).ok_or_else(|| ListError::Unknown(name.to_owned()))?;
        let key = cache_key::resolved(class, &self.options);
        let settings = self.settings(class)?;
        let listed = lock(&self.resolved).get(&key, self.clock.monotonic()).cloned();
        let position = listed
            .as_ref()
            .and_then(|l| l.types.binary_search_by(|t| t.info.name.as_str().cmp(name)).ok());
        let resolved = match listed.as_ref().zip(position).and_then(|(l, at)| l.types.get(at)) {
            Some(resolved) => resolved.clone(),
            None => self.resolve(known, &settings, class, &mut SharedRequirements::default())?,
        };
        let prices = self.prices.current();
        let scope = OfferingScope::new(&discovered, &settings, context);
        Ok(self.with_offerings(&resolved, &scope, context, self.sources(&prices)))
    }

    /// Returns the parts of the overhead of an instance type under a node class.
    pub fn overhead(&self, class: &Ec2NodeClass, name: &str) -> Result<Overhead, ListError> {
        let discovered = self.discovered(class)?;
        let known = discovered.get(name).ok_or_else(|| ListError::Unknown(name.to_owned()))?;
        let settings = self.settings(class)?;
        let context = self.kubelet(&known.info, &settings);
        let parts = resolved_pods(context).and_then(|pods| overhead(context, pods));
        parts.map_err(|source| ListError::Resolve { name: name.to_owned(), source: source.into() })
    }

    /// Checks the kubelet expressions of a node class on every known instance type.
    pub fn check_expressions(&self, class: &Ec2NodeClass) -> Result<(), ExpressionCheckError> {
        let settings = self.settings(class).map_err(ExpressionCheckError::List)?;
        let kubelet = class.spec.kubelet.as_ref();
        if !self.options.node_class_cel
            || !kubelet.is_some_and(karpenter_api::kubelet::has_expressions)
        {
            return Ok(());
        }
        let discovered = self.current_facts();
        if discovered.types.is_empty() {
            return Err(ExpressionCheckError::List(ListError::NoInstanceTypes));
        }
        let context = |info| KubeletContext {
            info,
            settings: &settings,
            options: &self.options,
            expressions: &self.expressions,
        };
        check_expressions(&discovered.types, context, &self.options)
            .map_err(|failure| ExpressionCheckError::Failure(failure.into()))
    }

    /// Returns the memory that nodes have reported, by instance type and images.
    pub fn memory(&self) -> &DiscoveredMemory {
        &self.memory
    }

    /// Returns how many instance types were resolved, and how often offerings were computed.
    pub fn statistics(&self) -> (u64, u64) {
        (self.resolved_types.load(Ordering::Relaxed), self.offered_types.load(Ordering::Relaxed))
    }

    fn current_facts(&self) -> Arc<Discovered> {
        let facts = self.facts.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&facts.discovered)
    }

    fn discovered(&self, class: &Ec2NodeClass) -> Result<Arc<Discovered>, ListError> {
        let discovered = self.current_facts();
        if discovered.types.is_empty() {
            return Err(ListError::NoInstanceTypes);
        }
        if discovered.all_zones.is_empty() {
            return Err(ListError::NoOfferings);
        }
        let subnets = class.status.as_ref().and_then(|status| status.subnets.as_ref());
        if subnets.is_none_or(Vec::is_empty) {
            return Err(ListError::NoSubnets);
        }
        Ok(discovered)
    }

    fn settings(&self, class: &Ec2NodeClass) -> Result<ClassSettings, ListError> {
        let mut settings = ClassSettings::new(class)?;
        if !self.options.reserved_capacity {
            settings.reservations.clear();
        }
        Ok(settings)
    }

    fn resolved(
        &self,
        class: &Ec2NodeClass,
        discovered: Arc<Discovered>,
        key: &str,
    ) -> Result<Arc<ResolvedTypes>, ListError> {
        let now = self.clock.monotonic();
        let current = |known: &&Arc<ResolvedTypes>| Arc::ptr_eq(&known.discovered, &discovered);
        if let Some(known) = lock(&self.resolved).get(key, now).filter(current) {
            return Ok(Arc::clone(known));
        }
        let settings = self.settings(class)?;
        let others: Vec<_> = lock(&self.resolved).values(now).filter(current).cloned().collect();
        let mut shared = SharedRequirements::default();
        let mut types = Vec::with_capacity(discovered.types.len());
        for (position, known) in discovered.types.iter().enumerate() {
            let mut resolved = self.resolve(known, &settings, class, &mut shared)?;
            let equals = others.iter().filter_map(|list| list.types.get(position));
            equals.for_each(|other| share(&mut resolved.instance_type, &other.instance_type));
            types.push(resolved);
        }
        let made = Arc::new(ResolvedTypes { discovered, types });
        let mut cache = lock(&self.resolved);
        cache.sweep(now);
        cache.insert(key.to_owned(), Arc::clone(&made), now, RESOLVED_TTL);
        Ok(made)
    }

    fn resolve(
        &self,
        known: &DiscoveredType,
        settings: &ClassSettings,
        class: &Ec2NodeClass,
        shared: &mut SharedRequirements,
    ) -> Result<ResolvedType, ListError> {
        self.resolved_types.fetch_add(1, Ordering::Relaxed);
        let name = &known.info.name;
        let memory = self.memory.get(name, class);
        resolve(known, self.kubelet(&known.info, settings), memory, shared)
            .map_err(|source| ListError::Resolve { name: name.clone(), source: source.into() })
    }

    fn kubelet<'a>(
        &'a self,
        info: &'a InstanceTypeInfo,
        settings: &'a ClassSettings,
    ) -> KubeletContext<'a> {
        KubeletContext { info, settings, options: &self.options, expressions: &self.expressions }
    }

    fn sources<'a>(&'a self, prices: &'a PriceList) -> OfferingSources<'a> {
        OfferingSources { prices, unavailable: &self.unavailable, reservations: &self.reservations }
    }

    /// Returns the instance types with offerings, of which it recomputes what has changed.
    ///
    /// Node classes that share resolved instance types may differ in what offerings depend on.
    fn offered(
        &self,
        resolved: &Arc<ResolvedTypes>,
        key: String,
        class: &Ec2NodeClass,
        context: &OfferingContext,
    ) -> Result<Arc<OfferedTypes>, ListError> {
        let now = self.clock.monotonic();
        let known = lock(&self.offered).get(&key, now).cloned();
        // Versions first: what changes meanwhile is recomputed by the next call.
        let unavailable_version = self.unavailable.version();
        let reservation_version = self.reservations.version();
        let prices = self.prices.current();
        let known = known.filter(|known| {
            Arc::ptr_eq(&known.resolved, resolved) && Arc::ptr_eq(&known.prices, &prices)
        });
        if let Some(known) = &known
            && known.unavailable_version == unavailable_version
            && known.reservation_version == reservation_version
        {
            return Ok(Arc::clone(known));
        }
        let settings = self.settings(class)?;
        let scope = OfferingScope::new(&resolved.discovered, &settings, context);
        let sources = self.sources(&prices);
        let has_counts = |name: &str| {
            known.as_ref().is_some_and(|known| known.reservation_version != reservation_version)
                && settings.reservations_of(name).next().is_some()
        };
        let mut sequences = Vec::with_capacity(resolved.types.len());
        let mut types = Vec::with_capacity(resolved.types.len());
        for (position, of) in resolved.types.iter().enumerate() {
            let sequence = self.unavailable.sequence(&of.info.name);
            let same = known.as_ref().and_then(|known| {
                let is_same = known.sequences.get(position) == Some(&sequence);
                known.types.get(position).filter(|_| is_same && !has_counts(&of.info.name))
            });
            types.push(match same {
                Some(same) => Arc::clone(same),
                None => self.with_offerings(of, &scope, context, sources),
            });
            sequences.push(sequence);
        }
        let made = Arc::new(OfferedTypes {
            resolved: Arc::clone(resolved),
            unavailable_version,
            reservation_version,
            sequences,
            types: types.into(),
            prices,
        });
        let mut cache = lock(&self.offered);
        cache.sweep(now);
        cache.insert(key, Arc::clone(&made), now, RESOLVED_TTL);
        Ok(made)
    }

    fn with_offerings(
        &self,
        resolved: &ResolvedType,
        scope: &OfferingScope<'_>,
        context: &OfferingContext,
        sources: OfferingSources<'_>,
    ) -> Arc<InstanceType> {
        self.offered_types.fetch_add(1, Ordering::Relaxed);
        let mut made = resolved.instance_type.with_offerings(scope.offerings(resolved, sources));
        if let Some(group) = &context.placement_group {
            made.requirements.extend(placement_labels(group));
        }
        Arc::new(made)
    }
}

/// Why the expressions of a node class are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionCheckError {
    /// There is nothing to check them on.
    #[error(transparent)]
    List(ListError),
    /// An expression fails on an instance type.
    #[error(transparent)]
    Failure(Box<ExpressionFailure>),
}

/// Lets equal parts of two instance types share their memory.
fn share(own: &mut InstanceType, other: &InstanceType) {
    if own.requirements == other.requirements {
        own.requirements = other.requirements.clone();
    }
    if own.capacity == other.capacity {
        own.capacity = other.capacity.clone();
    }
    if own.overhead == other.overhead {
        own.overhead = other.overhead.clone();
    }
}

fn split<T, E>(result: Result<T, E>) -> (Option<T>, Option<E>) {
    match result {
        Ok(value) => (Some(value), None),
        Err(error) => (None, Some(error)),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the amount of a quantity text.
fn quantity(text: &str) -> Option<Quantity> {
    let amount: Amount = text.trim().parse().ok()?;
    let notation = match amount.format() {
        QuantityFormat::Decimal => Notation::DecimalSi,
        QuantityFormat::Binary => Notation::BinarySi,
        QuantityFormat::Exponent => Notation::DecimalExponent,
    };
    Some(Quantity::from_nanos(amount.as_nanos()).with_notation(notation))
}
