//! Devices, claims and classes of the cluster and the catalog, as plain values.
//!
//! Texts that many values repeat (drivers, pools, device names) are shared, so that an id is cheap
//! to copy.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::matches::{SelectorError, SelectorMatches};
use crate::catalog::Catalog;
use crate::requirement::Requirements;
use crate::resources::Quantity;

/// A ResourceClaim that a pod uses, by name in the pod's namespace. An entry of the pod whose claim
/// is made from a template is left out until the name is known, and for good if no claim is needed
/// according to the pod's status (spec 20 §3.19 rule 1).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimRef {
    /// The name of the claim in the pod's namespace.
    pub name: String,
}

/// Names a ResourceClaim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimKey {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Names a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// The driver that publishes it.
    pub driver: Arc<str>,
    /// Its pool.
    pub pool: Arc<str>,
    /// Its name in the pool.
    pub device: Arc<str>,
}

/// The published devices, claims and classes of the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DynamicResourceState {
    /// All ResourceSlices, by name: the order is the order in which devices are tried.
    pub slices: Vec<Arc<Slice>>,
    /// All ResourceClaims.
    pub claims: BTreeMap<ClaimKey, Arc<Claim>>,
    /// All DeviceClasses by name.
    pub classes: BTreeMap<String, Arc<DeviceClass>>,
    /// Which devices the selectors of claims and classes match.
    pub matches: Arc<SelectorMatches>,
}

impl DynamicResourceState {
    /// Fills [`Self::matches`] for every selector and every device, published or from a template.
    ///
    /// `evaluate` evaluates the CEL. Known results are kept, and results without a selector or
    /// device are dropped.
    pub fn evaluate_selectors(
        &mut self,
        catalog: &Catalog,
        evaluate: &dyn Fn(&str, &DeviceShape) -> Result<bool, SelectorError>,
    ) {
        let published = self.slices.iter().flat_map(|slice| &slice.devices);
        let types = catalog.pools.values().flat_map(|types| types.iter());
        let templates = types.flat_map(|it| &it.dynamic_resources.templates);
        let shapes: BTreeSet<_> = published
            .chain(templates.flat_map(|template| &template.devices))
            .map(|device| device.shape.clone())
            .collect();
        self.matches = Arc::new(self.matches.refreshed(&self.selectors(), shapes, evaluate));
    }

    /// Returns the texts of all CEL selectors of claims and classes.
    fn selectors(&self) -> BTreeSet<String> {
        let of_classes = self.classes.values().flat_map(|class| &class.selectors);
        let of_claims =
            self.claims.values().flat_map(|claim| &claim.requests).flat_map(|request| {
                let queries: &[DeviceQuery] = match &request.kind {
                    DeviceRequestKind::Exactly(query) => std::slice::from_ref(query),
                    DeviceRequestKind::FirstAvailable(queries) => queries,
                    DeviceRequestKind::Unsupported => &[],
                };
                queries.iter().flat_map(|query| &query.selectors)
            });
        of_classes
            .chain(of_claims)
            .filter_map(|selector| selector.cel().map(str::to_owned))
            .collect()
    }
}

/// A published ResourceSlice.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// The driver.
    pub driver: Arc<str>,
    /// The pool that it is a part of.
    pub pool: Arc<str>,
    /// The generation of the pool; older ones do not count.
    pub generation: i64,
    /// How many slices the pool has at this generation.
    pub slice_count: i64,
    /// The Node that owns it. Slices of missing or uninitialised nodes do not count.
    pub owner_node: Option<String>,
    /// Which nodes can use its devices.
    pub node_access: NodeAccess,
    /// The devices.
    pub devices: Vec<Device>,
    /// Counters that devices of the pool share. A slice with counters has no devices.
    pub counters: Vec<CounterSet>,
}

/// Which nodes can use the devices of a slice.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeAccess {
    /// Every node.
    AllNodes,
    /// The node of this name.
    Node(String),
    /// Nodes that one of these terms selects.
    Selector(Vec<Requirements>),
    /// Each device has its own node selector, which is not supported: no node.
    PerDevice,
}

/// A device.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// The name in its pool.
    pub name: Arc<str>,
    /// The part that selectors see. Shared by devices of one shape.
    pub shape: Arc<DeviceShape>,
    /// The amounts that it consumes of its pool's counters, by counter set.
    pub consumes: Vec<CounterSet>,
}

/// All parts of a device that a selector can see.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceShape {
    /// The driver.
    pub driver: Arc<str>,
    /// Attributes by qualified name, or by short name in the driver's domain.
    pub attributes: BTreeMap<String, Attribute>,
    /// Capacities by name.
    pub capacity: BTreeMap<String, DeviceCapacity>,
    /// Whether several claims can have a share of it. Other devices go to one claim.
    pub allows_multiple: bool,
}

/// The value of an attribute. Values of different types are never equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribute {
    /// A text.
    Text(String),
    /// An integer.
    Int(i64),
    /// A boolean.
    Bool(bool),
    /// A semantic version.
    Version(String),
}

/// The amount of one capacity that a device has.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceCapacity {
    /// The whole amount.
    pub value: Quantity,
    /// The shares that claims can have; none allows any share.
    pub policy: Option<RequestPolicy>,
}

/// The shares of a capacity that claims can have.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestPolicy {
    /// The share of a request without an amount.
    pub default: Option<Quantity>,
    /// A range of shares.
    pub range: Option<ShareRange>,
    /// The allowed shares, ascending; empty for no such list.
    pub values: Vec<Quantity>,
}

/// A range of shares.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShareRange {
    /// The least.
    pub min: Option<Quantity>,
    /// The most.
    pub max: Option<Quantity>,
    /// Shares are the least plus a multiple of this step.
    pub step: Option<Quantity>,
}

/// Amounts of named counters: declared by a slice, or consumed by a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterSet {
    /// The name of the counter set.
    pub name: String,
    /// Amounts by counter.
    pub counters: BTreeMap<String, Quantity>,
}

/// A DeviceClass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceClass {
    /// All must match.
    pub selectors: Vec<DeviceSelector>,
}

/// How devices are selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSelector {
    /// A CEL expression.
    Cel(String),
    /// A selector of a newer API.
    Unsupported,
}

impl DeviceSelector {
    /// The expression.
    pub(super) fn cel(&self) -> Option<&str> {
        match self {
            Self::Cel(text) => Some(text),
            Self::Unsupported => None,
        }
    }
}

/// A ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    /// The devices that it requests.
    pub requests: Vec<DeviceRequest>,
    /// Conditions between the devices.
    pub constraints: Vec<Constraint>,
    /// `status.allocation`.
    pub allocation: Option<ClaimAllocation>,
    /// `status.reservedFor`.
    pub reserved_for: Vec<Consumer>,
}

impl Claim {
    /// Returns whether only pods that leave their nodes use the claim.
    ///
    /// Its devices can then be allocated again, and it needs others.
    pub(super) fn is_moving(&self, moving_pods: &BTreeSet<&str>) -> bool {
        !self.reserved_for.is_empty()
            && self.reserved_for.iter().all(|consumer| match consumer {
                Consumer::Pod(uid) => moving_pods.contains(uid.as_str()),
                Consumer::Other => false,
            })
    }
}

/// The devices that the scheduler of the cluster allocated to a claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimAllocation {
    /// The labels of its node selector, all terms intersected.
    pub requirements: Requirements,
    /// The node of its node selector (`metadata.name`), if the devices are a node's own.
    pub node: Option<String>,
    /// The devices.
    pub devices: Vec<AllocatedDevice>,
}

/// A device that is allocated to a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocatedDevice {
    /// The device.
    pub id: DeviceId,
    /// Its share of a device that several claims can have; empty if it has the whole.
    pub consumed: BTreeMap<String, Quantity>,
}

/// The object that a claim is reserved for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consumer {
    /// The pod of this uid.
    Pod(String),
    /// Another object.
    Other,
}

/// One request of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceRequest {
    /// The name.
    pub name: String,
    /// The kind of the request, with its queries.
    pub kind: DeviceRequestKind,
}

/// The kind of a device request, as in the Kubernetes API.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceRequestKind {
    /// These devices.
    Exactly(DeviceQuery),
    /// The first of these alternatives that is available.
    FirstAvailable(Vec<DeviceQuery>),
    /// A request of a newer API.
    Unsupported,
}

/// The devices that a request, or one of its alternatives, selects.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceQuery {
    /// The name of the alternative; not used for `Exactly`.
    pub name: String,
    /// The DeviceClass.
    pub class: String,
    /// All must match, beside those of the class.
    pub selectors: Vec<DeviceSelector>,
    /// How many devices.
    pub count: Count,
    /// The share of a device that several claims can have.
    pub capacity: BTreeMap<String, Quantity>,
}

/// How many devices a query selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// This many.
    Exact(u64),
    /// All that match, at least one.
    All,
}

/// A condition that the devices of a claim must meet together.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// The requests, or alternatives as `request/alternative`, that it covers; empty for all.
    pub requests: BTreeSet<String>,
    /// The condition.
    pub rule: ConstraintRule,
}

/// The condition of a constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstraintRule {
    /// All have the same value of this attribute.
    MatchAttribute(String),
    /// All have different values of an attribute. Rejected.
    DistinctAttribute,
    /// A constraint of a newer API. Rejected.
    Unsupported,
}

/// Devices that a node of an instance type will publish.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DynamicResources {
    /// The slices that its drivers will publish.
    pub templates: Vec<SliceTemplate>,
    /// Attributes whose values are known only later, but will be the same.
    pub bindings: Vec<AttributeBinding>,
}

/// A slice that a node will publish. All of its devices are the node's own.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceTemplate {
    /// The driver.
    pub driver: Arc<str>,
    /// The pool.
    pub pool: Arc<str>,
    /// The devices.
    pub devices: Vec<Device>,
    /// Counters that devices of the pool share.
    pub counters: Vec<CounterSet>,
}

/// Devices that will have the same value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributeBinding {
    /// The devices; fewer than two bind nothing.
    pub devices: Vec<DeviceId>,
    /// The attribute's qualified name.
    pub attribute: String,
}
