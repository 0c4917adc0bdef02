//! What the cluster and the catalog say about devices, as plain values.
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
/// is made from a template is left out until the name is known, and for good if the pod's status
/// says that none is needed (spec 20 §3.19 rule 1).
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

/// Published devices, claims and classes of the cluster.
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
    /// Fills [`Self::matches`] for every selector of a claim or class and every device that is
    /// published or may be, with CEL given as a function. Answers that are known are kept, those
    /// that nobody needs any more are dropped.
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

    /// The texts of all selectors that can be asked for.
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
    /// The Node that owns it. Slices of nodes that are not there, or not initialised, do not count.
    pub owner_node: Option<String>,
    /// Which nodes can use its devices.
    pub node_access: NodeAccess,
    /// The devices.
    pub devices: Vec<Device>,
    /// Budgets that devices of the pool share. A slice with budgets has no devices.
    pub counters: Vec<CounterSet>,
}

/// Which nodes can use the devices of a slice.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeAccess {
    /// Every node.
    AllNodes,
    /// The node of this name, and no node to come.
    Node(String),
    /// Nodes that one of these terms selects.
    Selector(Vec<Requirements>),
    /// Each device says so itself, which is not supported: no node.
    PerDevice,
}

/// A device.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// The name in its pool.
    pub name: Arc<str>,
    /// What selectors see of it. Shared by devices that look the same.
    pub shape: Arc<DeviceShape>,
    /// What it takes of the pool's budgets, by the name of the budget.
    pub consumes: Vec<CounterSet>,
}

/// All of a device that a selector can see.
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
    /// A truth.
    Bool(bool),
    /// A semantic version.
    Version(String),
}

/// How much of something a device has.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceCapacity {
    /// All of it.
    pub value: Quantity,
    /// What shares can be had; none for any.
    pub policy: Option<RequestPolicy>,
}

/// What shares of a capacity can be had.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestPolicy {
    /// The share of those who do not say.
    pub default: Option<Quantity>,
    /// A range of shares.
    pub range: Option<ShareRange>,
    /// The shares that there are, ascending; empty for no such list.
    pub values: Vec<Quantity>,
}

/// A range of shares.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShareRange {
    /// The least.
    pub min: Option<Quantity>,
    /// The most.
    pub max: Option<Quantity>,
    /// Shares are the least and so many steps.
    pub step: Option<Quantity>,
}

/// Amounts of named counters: a budget, or what is taken of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterSet {
    /// The name of the budget.
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
    /// Something that is newer than we are.
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
    /// The devices that it wants.
    pub requests: Vec<DeviceRequest>,
    /// What must hold between them.
    pub constraints: Vec<Constraint>,
    /// `status.allocation`.
    pub allocation: Option<ClaimAllocation>,
    /// `status.reservedFor`.
    pub reserved_for: Vec<Consumer>,
}

impl Claim {
    /// Whether all who use it are pods that leave their nodes. What it holds can be had again, and
    /// it needs something in its place.
    pub(super) fn is_moving(&self, moving_pods: &BTreeSet<&str>) -> bool {
        !self.reserved_for.is_empty()
            && self.reserved_for.iter().all(|consumer| match consumer {
                Consumer::Pod(uid) => moving_pods.contains(uid.as_str()),
                Consumer::Other => false,
            })
    }
}

/// What a claim was given by the scheduler of the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimAllocation {
    /// The labels of its node selector, all terms intersected.
    pub requirements: Requirements,
    /// The node of its node selector (`metadata.name`), if the devices are a node's own.
    pub node: Option<String>,
    /// The devices.
    pub devices: Vec<AllocatedDevice>,
}

/// A device that a claim was given.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocatedDevice {
    /// The device.
    pub id: DeviceId,
    /// Its share of a device that several claims can have; empty if it has the whole.
    pub consumed: BTreeMap<String, Quantity>,
}

/// Who a claim is reserved for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consumer {
    /// The pod of this uid.
    Pod(String),
    /// Something else.
    Other,
}

/// One request of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceRequest {
    /// The name.
    pub name: String,
    /// What is asked.
    pub kind: DeviceRequestKind,
}

/// What a request asks.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceRequestKind {
    /// This.
    Exactly(DeviceQuery),
    /// The first of these that can be had.
    FirstAvailable(Vec<DeviceQuery>),
    /// Something that is newer than we are.
    Unsupported,
}

/// Devices that are wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceQuery {
    /// The name of the alternative; not used for `Exactly`.
    pub name: String,
    /// The DeviceClass.
    pub class: String,
    /// All must match, beside those of the class.
    pub selectors: Vec<DeviceSelector>,
    /// How many.
    pub count: Count,
    /// The share of a device that several claims can have.
    pub capacity: BTreeMap<String, Quantity>,
}

/// How many devices are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// So many.
    Exact(u64),
    /// All that match, at least one.
    All,
}

/// What must hold between the devices of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// The requests, or alternatives as `request/alternative`, that it is about; empty for all.
    pub requests: BTreeSet<String>,
    /// What must hold.
    pub rule: ConstraintRule,
}

/// A rule between devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstraintRule {
    /// All have the same value of this attribute.
    MatchAttribute(String),
    /// All have different values of an attribute. Refused.
    DistinctAttribute,
    /// Something that is newer than we are. Refused.
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
    /// Budgets that devices of the pool share.
    pub counters: Vec<CounterSet>,
}

/// Devices that will have the same value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributeBinding {
    /// The devices; fewer than two say nothing.
    pub devices: Vec<DeviceId>,
    /// The attribute's qualified name.
    pub attribute: String,
}
