//! Builds small clusters with devices for tests, and prints allocations as texts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::id::NodeId;
use crate::requirement::{Requirement, Requirements};
use crate::resources::Quantity;
use crate::scheduling::dra::*;

pub(super) const DRIVER: &str = "gpu.example.com";
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

/// A device without attributes.
pub(super) fn device(name: &str) -> Device {
    let shape = DeviceShape { driver: DRIVER.into(), ..DeviceShape::default() };
    Device { name: name.into(), shape: Arc::new(shape), consumes: Vec::new() }
}

pub(super) fn devices(names: &str) -> Vec<Device> {
    names.split_whitespace().map(device).collect()
}

/// A device that shares its memory.
pub(super) fn shared(name: &str, memory: i64) -> Device {
    device(name).edited(|shape| {
        let value = Quantity::from_units(memory);
        shape.allows_multiple = true;
        shape.capacity.insert("memory".to_owned(), DeviceCapacity { value, policy: None });
    })
}

impl Device {
    pub(super) fn edited(mut self, edit: impl FnOnce(&mut DeviceShape)) -> Self {
        edit(Arc::make_mut(&mut self.shape));
        self
    }

    pub(super) fn with(self, attribute: &str, value: &str) -> Self {
        let value = Attribute::Text(value.to_owned());
        self.edited(|shape| drop(shape.attributes.insert(attribute.to_owned(), value)))
    }

    /// Makes the device consume this much of the counter `slices` in `card`.
    pub(super) fn consuming(mut self, slices: i64) -> Self {
        self.consumes = vec![counter_set(slices)];
        self
    }
}

/// Returns the counter set `card` with a counter `slices`.
pub(super) fn counter_set(slices: i64) -> CounterSet {
    let counters = BTreeMap::from([("slices".to_owned(), Quantity::from_units(slices))]);
    CounterSet { name: "card".to_owned(), counters }
}

/// The only slice of a pool, for all nodes.
pub(super) fn slice(pool: &str, devices: Vec<Device>) -> Slice {
    Slice {
        driver: DRIVER.into(),
        pool: pool.into(),
        generation: 1,
        slice_count: 1,
        owner_node: None,
        node_access: NodeAccess::AllNodes,
        devices,
        counters: Vec::new(),
    }
}

impl Slice {
    pub(super) fn in_zone(mut self, zone: &str) -> Self {
        self.node_access = NodeAccess::Selector(vec![zones(&[zone])]);
        self
    }

    pub(super) fn on(mut self, node_access: NodeAccess) -> Self {
        self.node_access = node_access;
        self
    }

    pub(super) fn owned_by(mut self, node: &str) -> Self {
        self.owner_node = Some(node.to_owned());
        self
    }

    pub(super) fn of(mut self, generation: i64, slice_count: i64) -> Self {
        (self.generation, self.slice_count) = (generation, slice_count);
        self
    }

    pub(super) fn declaring(mut self, set: CounterSet) -> Self {
        self.counters.push(set);
        self
    }
}

pub(super) fn zones(zones: &[&str]) -> Requirements {
    std::iter::once(Requirement::in_values(ZONE, zones.iter().copied())).collect()
}

pub(super) fn id(pool: &str, device: &str) -> DeviceId {
    DeviceId { driver: DRIVER.into(), pool: pool.into(), device: device.into() }
}

/// Returns a query for `count` devices of the class `any`.
pub(super) fn query(count: u64) -> DeviceQuery {
    DeviceQuery {
        name: String::new(),
        class: "any".to_owned(),
        selectors: Vec::new(),
        count: Count::Exact(count),
        capacity: BTreeMap::new(),
    }
}

pub(super) fn all() -> DeviceQuery {
    DeviceQuery { count: Count::All, ..query(0) }
}

impl DeviceQuery {
    pub(super) fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    pub(super) fn of_class(self, class: &str) -> Self {
        Self { class: class.to_owned(), ..self }
    }

    pub(super) fn selecting(mut self, selector: &str) -> Self {
        self.selectors.push(DeviceSelector::Cel(selector.to_owned()));
        self
    }

    pub(super) fn memory(mut self, memory: i64) -> Self {
        self.capacity.insert("memory".to_owned(), Quantity::from_units(memory));
        self
    }
}

/// A claim with requests `r0`, `r1`, …
pub(super) fn claim(queries: impl IntoIterator<Item = DeviceQuery>) -> Claim {
    claim_of_kinds(queries.into_iter().map(DeviceRequestKind::Exactly))
}

pub(super) fn claim_of_kinds(kinds: impl IntoIterator<Item = DeviceRequestKind>) -> Claim {
    let request = |(at, kind)| DeviceRequest { name: format!("r{at}"), kind };
    Claim { requests: kinds.into_iter().enumerate().map(request).collect(), ..Claim::default() }
}

impl Claim {
    pub(super) fn matching(self, attribute: &str) -> Self {
        self.constrained(&[], ConstraintRule::MatchAttribute(attribute.to_owned()))
    }

    pub(super) fn constrained(mut self, requests: &[&str], rule: ConstraintRule) -> Self {
        let requests = requests.iter().map(|name| (*name).to_owned()).collect();
        self.constraints.push(Constraint { requests, rule });
        self
    }

    /// Allocates this device to the claim, reserved for these pods.
    pub(super) fn holding(mut self, device: DeviceId, pods: &[&str]) -> Self {
        let devices = vec![AllocatedDevice { id: device, consumed: BTreeMap::new() }];
        self.allocation = Some(ClaimAllocation { devices, ..ClaimAllocation::default() });
        self.reserved_for = pods.iter().map(|uid| Consumer::Pod((*uid).to_owned())).collect();
        self
    }
}

/// Returns the devices that a type's node will publish.
pub(super) fn template(devices: Vec<Device>) -> DynamicResources {
    let template = SliceTemplate {
        driver: DRIVER.into(),
        pool: "local".into(),
        devices,
        counters: Vec::new(),
    };
    DynamicResources { templates: vec![template], bindings: Vec::new() }
}

/// A cluster with the DeviceClass `any`, the node `here` and the leaving pod `leaving`.
pub(super) struct TestCluster {
    pub(super) state: DynamicResourceState,
    pub(super) types: Vec<(&'static str, DynamicResources)>,
    well_known: BTreeSet<String>,
}

impl TestCluster {
    pub(super) fn new(slices: Vec<Slice>) -> Self {
        let state = DynamicResourceState {
            slices: slices.into_iter().map(Arc::new).collect(),
            classes: BTreeMap::from([("any".to_owned(), Arc::default())]),
            ..DynamicResourceState::default()
        };
        let well_known = BTreeSet::from([ZONE.to_owned()]);
        Self { state, types: vec![("small", DynamicResources::default())], well_known }
    }

    pub(super) fn types(self, types: Vec<(&'static str, DynamicResources)>) -> Self {
        Self { types, ..self }
    }

    pub(super) fn class(mut self, name: &str, selectors: Vec<DeviceSelector>) -> Self {
        self.state.classes.insert(name.to_owned(), Arc::new(DeviceClass { selectors }));
        self
    }

    pub(super) fn claim(mut self, name: &str, claim: Claim) -> Self {
        self.state.claims.insert(key(name), Arc::new(claim));
        self
    }

    /// Evaluates the selectors of all claims and classes.
    ///
    /// `attribute=value` matches texts, `broken` does not compile, `fails` does not evaluate.
    pub(super) fn with_evaluated_selectors(mut self) -> Self {
        let mut catalog = crate::catalog::Catalog::default();
        let types = self.types.iter().map(|(name, resources)| {
            Arc::new(crate::catalog::InstanceType {
                name: (*name).to_owned(),
                requirements: Requirements::default().into(),
                offerings: Vec::new().into(),
                capacity: crate::resources::Resources::default().into(),
                overhead: crate::resources::Resources::default().into(),
                volume_limits: BTreeMap::new(),
                dynamic_resources: resources.clone(),
                has_capacity_overlay: false,
            })
        });
        catalog.pools.insert("pool".to_owned(), types.collect());
        self.state.evaluate_selectors(&catalog, &|selector, shape| match selector {
            "broken" => Err(SelectorError::Compile("no sense".to_owned())),
            "fails" => Err(SelectorError::Evaluate("no such key".to_owned())),
            _ => Ok(selector.split_once('=').is_some_and(|(attribute, value)| {
                shape.attributes.get(attribute) == Some(&Attribute::Text(value.to_owned()))
            })),
        });
        self
    }

    pub(super) fn allocator(&self) -> Allocator<'_> {
        let nodes = BTreeSet::from(["here"]);
        Allocator::new(&self.state, &nodes, BTreeSet::from(["leaving"]), &self.well_known)
    }

    fn candidate<'w>(
        &'w self,
        place: TestCandidate,
        requirements: &'w Requirements,
    ) -> Candidate<'w> {
        let in_flight = |(name, resources): &'w (&'static str, DynamicResources)| {
            CandidateType::in_flight(name, resources)
        };
        let of_node = |(name, resources): &'w (&'static str, DynamicResources)| {
            CandidateType::of_node(name, Some(resources), true)
        };
        let (node_name, types) = match place {
            TestCandidate::NewClaim(_) => (None, self.types.iter().map(in_flight).collect()),
            TestCandidate::ExistingNode => (Some("here"), self.types.iter().map(of_node).collect()),
        };
        Candidate { id: place.id(), node_name, requirements, types }
    }

    /// Returns the devices of claims on a new NodeClaim of zones a and b, as text.
    #[track_caller]
    pub(super) fn try_new(&self, claims: &str) -> String {
        self.try_allocate(&self.allocator(), TestCandidate::NewClaim(0), claims)
    }

    /// Returns the devices of claims as text, without holding them.
    ///
    /// The text is `type: device device, type: device @ requirements`. Devices of templates have a
    /// `+`, other pools than `p` are named, several claims are set apart by `|`.
    #[track_caller]
    pub(super) fn try_allocate(
        &self,
        allocator: &Allocator<'_>,
        place: TestCandidate,
        claims: &str,
    ) -> String {
        let mut copy = allocator.clone();
        self.allocate_and_commit(&mut copy, place, claims)
    }

    /// Returns the devices of claims as text, and holds them.
    #[track_caller]
    pub(super) fn allocate_and_commit(
        &self,
        allocator: &mut Allocator<'_>,
        place: TestCandidate,
        claims: &str,
    ) -> String {
        let refs: Vec<_> =
            claims.split_whitespace().map(|name| ClaimRef { name: name.to_owned() }).collect();
        let requirements = zones(&["a", "b"]);
        let candidate = self.candidate(place, &requirements);
        let resolved = match allocator.resolve("default", &refs) {
            Ok(resolved) => resolved,
            Err(why) => return why,
        };
        let allocation = match allocator.allocate(&candidate, &resolved) {
            Ok(allocation) => allocation,
            Err(why) => return why,
        };
        let (kept, narrowed) = (allocation.types.clone(), allocation.requirements.to_string());
        allocator.commit(candidate.id, allocation);
        let texts: Vec<_> = kept
            .iter()
            .map(|at| {
                let name = candidate.types[*at].name;
                let of_claim = |key: &&ClaimKey| {
                    let devices = allocator.claims().get(*key)?.by_type.get(name)?;
                    let ids: Vec<_> = devices.devices.iter().map(text).collect();
                    Some(ids.join(" "))
                };
                let devices: Vec<_> = resolved.iter().filter_map(of_claim).collect();
                format!("{name}: {}", devices.join(" | "))
            })
            .collect();
        let at = if narrowed.is_empty() { String::new() } else { format!(" @ {narrowed}") };
        format!("{}{at}", texts.join(", "))
    }
}

/// The candidate that devices are allocated for.
#[derive(Clone, Copy)]
pub(super) enum TestCandidate {
    NewClaim(u32),
    ExistingNode,
}

impl TestCandidate {
    pub(super) fn id(self) -> CandidateId {
        match self {
            Self::NewClaim(number) => CandidateId::InFlight(number),
            Self::ExistingNode => CandidateId::Node(NodeId(0)),
        }
    }
}

fn text(chosen: &ChosenDevice) -> String {
    let pool = match &*chosen.id.pool {
        "p" | "local" => String::new(),
        pool => format!("{pool}/"),
    };
    format!("{pool}{}{}", if chosen.is_template { "+" } else { "" }, chosen.id.device)
}

fn key(name: &str) -> ClaimKey {
    ClaimKey { namespace: "default".to_owned(), name: name.to_owned() }
}
