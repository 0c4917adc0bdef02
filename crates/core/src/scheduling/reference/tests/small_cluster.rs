//! Builds small clusters for tests of the reference solver and the verifier.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::catalog::{CAPACITY_TYPE, Catalog, InstanceType, Offering, RESERVED};
use crate::id::{NodeId, PodId};
use crate::plan::{Plan, PlannedNodeClaim};
use crate::pod::{AffinityTerm, OwnerKind, Phase, Pod, PodSpec, SpreadConstraint, example};
use crate::requirement::{Requirement, Requirements};
use crate::resources::{CPU, MEMORY, Notation, PODS, Quantity, Resources};
use crate::scheduling::dra::DynamicResources;
use crate::scheduling::reference;
use crate::scheduling::{Fuel, Options, Request};
use crate::selector::{LabelSelector, Labels, Selector};
use crate::snapshot::{
    Daemon, NodeClassRef, NodeDisruptionState, NodeObject, Pool, Snapshot, StateNode,
};
use crate::verify;

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(crate) const RESERVATION: &str = "example.com/reservation-id";
pub(crate) const CUSTOM: &str = "example.com/team";
const ARCH: &str = "kubernetes.io/arch";
const TYPE: &str = "node.kubernetes.io/instance-type";
const POOL: &str = "karpenter.sh/nodepool";
pub(crate) const ZONES: [&str; 3] = ["a", "b", "c"];

/// Name, cores and price.
pub(crate) type TypeSpec = (&'static str, i64, f64);

/// A cluster, its catalog, and the pods to place: those that are not bound.
#[derive(Clone)]
pub(crate) struct SmallCluster {
    pub(crate) snapshot: Snapshot,
    pub(crate) catalog: Catalog,
    pub(crate) options: Options,
    pub(crate) excluded_nodes: BTreeSet<NodeId>,
}

impl SmallCluster {
    pub(crate) fn empty() -> Self {
        let well_known = [ZONE, ARCH, TYPE, CAPACITY_TYPE, RESERVATION, POOL];
        let catalog = Catalog {
            well_known: Arc::new(well_known.into_iter().map(str::to_owned).collect()),
            reservation_id_label: Some(RESERVATION.to_owned()),
            ..Catalog::default()
        };
        let (snapshot, options) = (Snapshot::default(), Options::default());
        Self { snapshot, catalog, options, excluded_nodes: BTreeSet::new() }
    }

    /// One pool, `default`, of these types.
    pub(crate) fn new(types: &[TypeSpec]) -> Self {
        Self::empty().pool("default", types, |_| ())
    }

    pub(crate) fn pool(
        mut self,
        name: &str,
        types: &[TypeSpec],
        change: impl FnOnce(&mut Pool),
    ) -> Self {
        let class = |text: &str| text.to_owned();
        let mut pool = Pool {
            name: name.to_owned(),
            weight: None,
            requirements: Requirements::default(),
            labels: Labels::new(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            limits: Resources::default(),
            node_class: NodeClassRef {
                group: class("example.com"),
                kind: class("FakeClass"),
                name: class("default"),
            },
            consolidate_after: None,
        };
        change(&mut pool);
        self.snapshot.pools.push(pool);
        let types: Vec<_> = types.iter().map(|&own| Arc::new(instance_type(own))).collect();
        self.catalog.pools.insert(name.to_owned(), types.into());
        self
    }

    /// Changes every instance type.
    pub(crate) fn types_with(mut self, change: impl Fn(&mut InstanceType)) -> Self {
        for list in self.catalog.pools.values_mut() {
            let mut types = list.to_vec();
            for own in &mut types {
                change(Arc::make_mut(own));
            }
            *list = types.into();
        }
        self
    }

    /// Sets the price of all offerings in a zone.
    pub(crate) fn price(self, zone: &str, price: f64) -> Self {
        self.types_with(|own| {
            for offering in Arc::make_mut(&mut own.offerings) {
                if offering.requirements.get(ZONE).is_some_and(|zones| zones.has(zone)) {
                    offering.price = price;
                }
            }
        })
    }

    /// Adds a reservation in zone `a` to every type.
    pub(crate) fn reserved(self, id: &str, capacity: u32) -> Self {
        self.types_with(|own| {
            let mut offering = offering("a", RESERVED, 0.001);
            offering.requirements.add(in_values(RESERVATION, &[id]));
            offering.reservation_capacity = capacity;
            own.offerings = own.offerings.iter().cloned().chain([offering]).collect();
            let both = [RESERVED, "on-demand"];
            own.requirements = own
                .requirements
                .iter()
                .filter(|known| ![CAPACITY_TYPE, RESERVATION].contains(&known.key()))
                .cloned()
                .chain([in_values(CAPACITY_TYPE, &both), in_values(RESERVATION, &[id])])
                .collect::<Requirements>()
                .into();
        })
    }

    pub(crate) fn volume_limit(self, driver: &str, limit: u32) -> Self {
        self.types_with(|own| {
            own.volume_limits.insert(driver.to_owned(), limit);
        })
    }

    /// Adds a ready, unmanaged node in zone `a`.
    pub(crate) fn node(
        mut self,
        name: &str,
        cores: i64,
        change: impl FnOnce(&mut StateNode),
    ) -> Self {
        let labels: Labels = [(HOSTNAME, name), (ZONE, "a"), (ARCH, "amd64")]
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let mut node = StateNode {
            name: name.to_owned(),
            object: None,
            labels,
            taints: Vec::new(),
            pool: None,
            is_managed: false,
            is_initialized: true,
            is_deleting: false,
            capacity: capacity(cores),
            allocatable: capacity(cores),
            published_volume_limits: BTreeMap::new(),
            initialized_at: None,
            last_pod_event: None,
            provider_id: format!("id/{name}"),
            disruption_state: NodeDisruptionState::default(),
        };
        change(&mut node);
        if node.object.is_none() {
            let (labels, taints) = (node.labels.clone(), node.taints.clone());
            node.object = Some(NodeObject { labels, taints });
        }
        self.snapshot.nodes.push(node.into());
        self
    }

    pub(crate) fn pod(self, name: &str, millis: i64) -> Self {
        self.pods(name, millis, 1)
    }

    /// Adds pods `name-0`, `name-1`, …, with label `app` for the part before the first dash.
    pub(crate) fn pods(self, name: &str, millis: i64, count: usize) -> Self {
        self.pods_with(name, millis, count, |_, _| ())
    }

    pub(crate) fn pods_with(
        mut self,
        name: &str,
        millis: i64,
        count: usize,
        change: impl Fn(&mut Pod, &mut PodSpec),
    ) -> Self {
        for number in 0..count {
            let mut pod = pod(&format!("{name}-{number}"), millis, self.snapshot.pods.len());
            let mut spec = PodSpec::clone(&pod.spec);
            change(&mut pod, &mut spec);
            pod.spec = Arc::new(spec);
            self.snapshot.pods.push(pod.into());
        }
        self
    }

    pub(crate) fn bound(self, name: &str, millis: i64, node: &str) -> Self {
        self.bound_with(name, millis, node, |_| ())
    }

    pub(crate) fn bound_with(
        self,
        name: &str,
        millis: i64,
        node: &str,
        change: impl Fn(&mut PodSpec),
    ) -> Self {
        let position = self.snapshot.nodes.iter().position(|known| known.name == node).unwrap();
        self.pods_with(name, millis, 1, |pod, spec| {
            pod.node = Some(NodeId::new(position));
            pod.phase = Phase::Running;
            change(spec);
        })
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Snapshot)) -> Self {
        change(&mut self.snapshot);
        self
    }

    pub(crate) fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Returns the pods to place: unbound, or on a deleting or excluded node.
    pub(crate) fn requested_pods(&self) -> Vec<PodId> {
        let pods = self.snapshot.pods.iter().enumerate();
        let to_place = pods.filter(|(_, pod)| {
            let on = pod.node.map(|node| (node, self.snapshot.node(node)));
            let is_leaving = |(id, node): (NodeId, &StateNode)| {
                node.is_deleting || self.excluded_nodes.contains(&id)
            };
            on.is_none_or(is_leaving) && pod.owner != OwnerKind::DaemonSet
        });
        to_place.map(|(position, _)| PodId::new(position)).collect()
    }

    pub(crate) fn request<'a>(&'a self, pods: &'a [PodId]) -> Request<'a> {
        let Self { snapshot, catalog, options, excluded_nodes } = self;
        Request { snapshot, catalog, pods, excluded_nodes, options }
    }

    /// Solves with the reference solver and verifies the plan.
    #[track_caller]
    pub(crate) fn solve(&self) -> Plan {
        self.solve_with(&mut Fuel::unlimited())
    }

    #[track_caller]
    pub(crate) fn solve_with(&self, fuel: &mut Fuel<'_>) -> Plan {
        let pods = self.requested_pods();
        let plan = reference::solve(&self.request(&pods), fuel);
        let found = self.violations(&plan);
        assert!(found.is_empty(), "{found:#?}");
        plan
    }

    /// Returns the violations of a plan, as text.
    pub(crate) fn violations(&self, plan: &Plan) -> Vec<String> {
        self.violations_of_level(plan, verify::Level::Complete)
    }

    /// Returns the violations of a plan that this level finds, as text.
    pub(crate) fn violations_of_level(&self, plan: &Plan, level: verify::Level) -> Vec<String> {
        let pods = self.requested_pods();
        verify::check_plan(&self.request(&pods), plan, level)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    pub(crate) fn id(&self, name: &str) -> PodId {
        PodId::new(self.snapshot.pods.iter().position(|pod| pod.name == name).unwrap())
    }

    fn names(&self, pods: &[PodId]) -> String {
        let names: Vec<_> = pods.iter().map(|&pod| &*self.snapshot.pod(pod).name).collect();
        names.join(" ")
    }

    /// Returns one text per node (`node: pods`) and per NodeClaim (the pods alone).
    pub(crate) fn placed(&self, plan: &Plan) -> Vec<String> {
        let on_nodes = plan.existing_nodes.iter().map(|(node, pods)| {
            format!("{}: {}", self.snapshot.node(*node).name, self.names(pods))
        });
        on_nodes.chain(plan.claims.iter().map(|claim| self.names(&claim.pods))).collect()
    }

    pub(crate) fn rejections(&self, plan: &Plan) -> Vec<String> {
        let rejected = plan.rejected.iter();
        rejected.map(|(pod, why)| format!("{}: {why}", self.snapshot.pod(*pod).name)).collect()
    }

    pub(crate) fn types(&self, claim: &PlannedNodeClaim) -> Vec<&str> {
        let list = &self.catalog.pools[&self.snapshot.pool(claim.pool).name];
        claim.instance_types.iter().map(|&own| &*list[own as usize].name).collect()
    }

    /// Returns the zones of the NodeClaims, in the order they were opened.
    pub(crate) fn zones(plan: &Plan) -> Vec<String> {
        let zones = |claim: &PlannedNodeClaim| {
            let zones = claim.requirements.get(ZONE).unwrap().values().iter();
            zones.cloned().collect::<Vec<_>>().join("|")
        };
        plan.claims.iter().map(zones).collect()
    }
}

fn capacity(cores: i64) -> Resources {
    let pods = (PODS, Quantity::from_units(110));
    [(CPU, Quantity::from_units(cores)), (MEMORY, memory(4 * cores)), pods].into_iter().collect()
}

/// Returns `gib` GiB.
pub(crate) fn memory(gib: i64) -> Quantity {
    Quantity::from_units(gib << 30).with_notation(Notation::BinarySi)
}

fn instance_type((name, cores, price): TypeSpec) -> InstanceType {
    InstanceType {
        name: name.to_owned(),
        requirements: [
            in_values(TYPE, &[name]),
            in_values(ARCH, &["amd64"]),
            in_values(ZONE, &ZONES),
            in_values(CAPACITY_TYPE, &["on-demand"]),
            Requirement::does_not_exist(RESERVATION),
        ]
        .into_iter()
        .collect::<Requirements>()
        .into(),
        offerings: ZONES.iter().map(|zone| offering(zone, "on-demand", price)).collect(),
        capacity: capacity(cores).into(),
        overhead: Resources::default().into(),
        volume_limits: BTreeMap::new(),
        dynamic_resources: DynamicResources::default(),
        has_capacity_overlay: false,
    }
}

pub(crate) fn offering(zone: &str, capacity_type: &str, price: f64) -> Offering {
    let requirements = [in_values(ZONE, &[zone]), in_values(CAPACITY_TYPE, &[capacity_type])];
    Offering::new(Requirements::from_iter(requirements), price)
}

fn pod(name: &str, millis: i64, number: usize) -> Pod {
    let app = name.split('-').next().unwrap_or(name);
    let requests = [(CPU, Quantity::from_millis(millis)), (PODS, Quantity::from_units(1))];
    Pod {
        uid: format!("uid-{number:04}"),
        labels: Arc::new([("app".to_owned(), app.to_owned())].into()),
        spec: Arc::new(PodSpec { requests: requests.into_iter().collect(), ..PodSpec::default() }),
        phase: Phase::Unset,
        ..example::pending_pod(name)
    }
}

pub(crate) fn daemon(name: &str, millis: i64, change: impl FnOnce(&mut PodSpec)) -> Daemon {
    let mut spec = PodSpec::clone(&pod(name, millis, 0).spec);
    change(&mut spec);
    Daemon { namespace: "default".to_owned(), name: name.to_owned(), spec: Arc::new(spec) }
}

pub(crate) fn in_values(key: &str, values: &[&str]) -> Requirement {
    Requirement::in_values(key, values.iter().copied())
}

pub(crate) fn labelled(labels: &[(&str, &str)]) -> Requirements {
    labels.iter().map(|&(key, value)| in_values(key, &[value])).collect()
}

pub(crate) fn app(name: &str) -> Selector {
    let labels = [("app".to_owned(), name.to_owned())].into();
    Selector::Matching(LabelSelector::from_labels(labels))
}

pub(crate) fn term(key: &str, name: &str) -> AffinityTerm {
    AffinityTerm {
        topology_key: key.to_owned(),
        selector: app(name),
        namespaces: Vec::new(),
        namespace_selector: None,
    }
}

/// A required spread constraint.
pub(crate) fn spread(key: &str, max_skew: i32, name: &str) -> SpreadConstraint {
    SpreadConstraint {
        topology_key: key.to_owned(),
        max_skew,
        is_required: true,
        selector: app(name),
        match_label_keys: Vec::new(),
        min_domains: None,
        honors_node_affinity: true,
        honors_node_taints: false,
    }
}
