//! A cluster with a catalogue, and what happens to it when a plan is carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::types::{RESERVATION_ID, TypeBuilder};
use super::{
    NodeBuilder, Outcome, PodBuilder, PoolBuilder, daemon, default_types, label_key, node, pod,
    pool, solve_both, solve_both_unverified, solve_fast, well_known,
};
use crate::catalog::{Catalog, InstanceType, InstanceTypes, Offering};
use crate::id::{NodeId, PodId};
use crate::plan::{Plan, PlannedNodeClaim};
use crate::pod::{Phase, Pod};
use crate::requirement::Requirements;
use crate::scheduling::demand::demand;
use crate::scheduling::{Options, Request};
use crate::selector::Labels;
use crate::snapshot::Snapshot;
use crate::volume::{PersistentVolume, StorageClass, VolumeClaim};

/// A cluster, what it can launch, and the switches of the next solve.
#[derive(Clone, Debug)]
pub struct World {
    /// The cluster.
    pub snapshot: Snapshot,
    /// What can be launched.
    pub catalog: Catalog,
    /// The switches.
    pub options: Options,
    /// The types of pools that bring none.
    types: InstanceTypes,
    launched: usize,
}

/// How it is built.
impl World {
    /// Nothing but the fake provider's default types.
    pub fn empty() -> Self {
        let catalog = Catalog {
            pools: BTreeMap::new(),
            well_known: Arc::new(well_known()),
            reservation_id_label: Some(RESERVATION_ID.to_owned()),
            aliases: Arc::default(),
        };
        let types = shared(default_types());
        let (snapshot, options) = (Snapshot::default(), Options::default());
        Self { snapshot, catalog, options, types, launched: 0 }
    }

    /// One NodePool, `default`, with the fake provider's default types.
    pub fn new() -> Self {
        Self::empty().pool(pool("default"))
    }

    /// Returns a world with these types and one NodePool, `default`.
    pub fn with_types(types: impl IntoIterator<Item = TypeBuilder>) -> Self {
        Self::empty().types(types).pool(pool("default"))
    }

    /// The types of pools that are added from now on and bring none.
    #[must_use]
    pub fn types(mut self, types: impl IntoIterator<Item = TypeBuilder>) -> Self {
        self.types = shared(types);
        self
    }

    /// Adds a NodePool.
    #[must_use]
    pub fn pool(mut self, builder: PoolBuilder) -> Self {
        let managed = builder.managed();
        let is_usable = managed.replicas.is_none() && managed.is_ready && !managed.is_deleting;
        self.snapshot.managed_pools.insert(builder.pool.name.clone(), managed);
        let types = builder.types.map_or_else(|| self.types.clone(), Into::into);
        self.catalog.pools.insert(builder.pool.name.clone(), types);
        if is_usable {
            self.snapshot.pools.push(builder.pool);
        }
        self
    }

    /// Adds a node.
    #[must_use]
    pub fn node(mut self, builder: NodeBuilder) -> Self {
        self.snapshot.nodes.push(builder.build().into());
        self
    }

    /// Adds pods; the node that they are on must be there.
    #[must_use]
    pub fn pod(mut self, builder: PodBuilder) -> Self {
        let on = builder.node.as_deref().map(|name| self.node_id(name));
        let pods = builder.build().into_iter().map(|pod| Pod { node: on, ..pod }.into());
        self.snapshot.pods.extend(pods);
        self
    }

    /// Adds several kinds of pods.
    #[must_use]
    pub fn pods(self, builders: impl IntoIterator<Item = PodBuilder>) -> Self {
        builders.into_iter().fold(self, Self::pod)
    }

    /// Adds a full node in a zone, with this many pods of label `app` on it.
    #[must_use]
    pub fn full_node(self, name: &str, zone: &str, app: &str, pods: usize) -> Self {
        let full = node(name).zone(zone).resource("pods", &pods.to_string());
        self.node(full)
            .pod(pod(&format!("on-{name}")).label("app", app).on_node(name).replicas(pods))
    }

    /// Adds a DaemonSet whose pods look like this one.
    #[must_use]
    pub fn daemon(mut self, builder: &PodBuilder) -> Self {
        self.snapshot.daemons.push(daemon(builder));
        self
    }

    /// Adds a PersistentVolumeClaim of namespace `default`.
    #[must_use]
    pub fn volume_claim(mut self, name: &str, claim: VolumeClaim) -> Self {
        let name = ("default".to_owned(), name.to_owned());
        self.snapshot.volumes.claims.insert(name, claim);
        self
    }

    /// Adds a PersistentVolume.
    #[must_use]
    pub fn persistent_volume(mut self, name: &str, volume: PersistentVolume) -> Self {
        self.snapshot.volumes.volumes.insert(name.to_owned(), volume);
        self
    }

    /// Adds a StorageClass.
    #[must_use]
    pub fn storage_class(mut self, name: &str, class: StorageClass) -> Self {
        self.snapshot.volumes.classes.insert(name.to_owned(), class);
        self
    }

    /// Changes the options of the solve.
    #[must_use]
    pub fn with_options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads the objects of the world.
impl World {
    /// The node of a name.
    #[track_caller]
    pub fn node_id(&self, name: &str) -> NodeId {
        let found = self.snapshot.nodes.iter().position(|node| node.name == name);
        NodeId::new(found.unwrap_or_else(|| panic!("no node {name}")))
    }

    /// The pod of a name, in any namespace.
    #[track_caller]
    pub fn pod_id(&self, name: &str) -> PodId {
        let found = self.snapshot.pods.iter().position(|pod| pod.name == name);
        PodId::new(found.unwrap_or_else(|| panic!("no pod {name}")))
    }

    /// The pods that a provisioning loop would solve for.
    pub fn pending(&self) -> Vec<PodId> {
        demand(&self.snapshot).to_place
    }

    /// The instance types of a NodePool.
    pub fn types_of(&self, pool: &str) -> &[Arc<InstanceType>] {
        self.catalog.pools.get(pool).map_or(&[], |types| types)
    }
}

/// Solves, and carries out plans.
impl World {
    /// Solves for all pending pods.
    #[track_caller]
    pub fn solve(&self) -> Outcome {
        self.solve_for(&self.pending(), &BTreeSet::new())
    }

    /// Solves for all pending pods without verifying the plan.
    ///
    /// Nodes that lack labels can break the rules of Kubernetes.
    #[track_caller]
    pub fn solve_unverified(&self) -> Outcome {
        self.solve_with(solve_both_unverified, &self.pending(), &BTreeSet::new())
    }

    /// Solves for all pending pods with the product's solver alone: the slow one knows neither
    /// devices nor explanations.
    #[track_caller]
    pub fn solve_fast(&self) -> Outcome {
        self.solve_with(solve_fast, &self.pending(), &BTreeSet::new())
    }

    /// The same as [`Self::solve_for`] without looking for broken rules.
    #[track_caller]
    pub fn solve_for_unverified(&self, pods: &[PodId], without: &BTreeSet<NodeId>) -> Outcome {
        self.solve_with(solve_both_unverified, pods, without)
    }

    /// Solves for these pods as if these nodes were gone.
    #[track_caller]
    pub fn solve_for(&self, pods: &[PodId], without: &BTreeSet<NodeId>) -> Outcome {
        self.solve_with(solve_both, pods, without)
    }

    #[track_caller]
    fn solve_with(
        &self,
        solve: fn(&Request<'_>) -> Plan,
        pods: &[PodId],
        without: &BTreeSet<NodeId>,
    ) -> Outcome {
        let Self { snapshot, catalog, options, .. } = self;
        let plan = solve(&Request { snapshot, catalog, pods, excluded_nodes: without, options });
        Outcome::new(self.clone(), plan)
    }

    /// Returns the world after a plan was carried out.
    ///
    /// Each NodeClaim becomes a ready node, launched as the fake provider does. The plan's pods are
    /// bound if `bind`.
    #[must_use]
    pub fn apply_plan(&self, plan: &Plan, bind: bool) -> Self {
        let mut world = self.clone();
        for (node, pods) in &plan.existing_nodes {
            world.bind(pods, *node, bind);
        }
        for claim in &plan.claims {
            let node = world.launch(claim);
            world.bind(&claim.pods, node, bind);
        }
        world
    }

    fn bind(&mut self, pods: &[PodId], node: NodeId, bind: bool) {
        for pod in pods.iter().filter(|_| bind) {
            let pod = &mut self.snapshot.pods[pod.index()];
            pod.node = Some(node);
            pod.phase = Phase::Running;
            pod.unschedulable = false;
        }
    }

    /// Buys the cheapest offering of the cheapest type, a reserved one before all others.
    fn launch(&mut self, claim: &PlannedNodeClaim) -> NodeId {
        let pool = self.snapshot.pool(claim.pool).clone();
        let well_known = self.catalog.well_known.clone();
        let suits = |offering: &&Offering| {
            offering.available
                && claim.requirements.compatible(&offering.requirements, &well_known).is_ok()
        };
        // One that can be launched comes first; with credits there may be none.
        let order = |o: &Offering| (!o.is_launchable(), !o.is_reserved());
        let order = |a: &&Offering, b: &&Offering| {
            order(a).cmp(&order(b)).then(a.price.total_cmp(&b.price))
        };
        // A NodeClaim that holds a reservation still lists types that are not in it.
        let types = self.types_of(&pool.name);
        let bought = claim.instance_types.iter().find_map(|&position| {
            let of_type = types[position as usize].clone();
            let offering = of_type.offerings.iter().filter(suits).min_by(order)?.clone();
            Some((of_type, offering))
        });
        let (of_type, offering) = bought.expect("a NodeClaim has an offering");
        self.launched += 1;
        let mut built = node(&format!("{}-{}", pool.name, self.launched))
            .pool(&pool.name)
            .of_type(&of_type)
            .labels(single_values(&claim.requirements))
            .labels(single_values(&offering.requirements))
            .labels(pool.labels.clone());
        for taint in &pool.taints {
            built = built.taint(&taint.to_string());
        }
        self.snapshot.nodes.push(built.build().into());
        if let Some(id) = offering.reservation_id(self.catalog.reservation_id_label.as_deref()) {
            self.decrement_reservation(id);
        }
        NodeId::new(self.snapshot.nodes.len() - 1)
    }

    /// Takes one instance from a reservation, in all its offerings.
    fn decrement_reservation(&mut self, id: &str) {
        let label = self.catalog.reservation_id_label.clone();
        for types in self.catalog.pools.values_mut() {
            let mut changed: Vec<Arc<InstanceType>> = types.to_vec();
            let offerings =
                changed.iter_mut().flat_map(|one| Arc::make_mut(&mut Arc::make_mut(one).offerings));
            for offering in offerings {
                if offering.reservation_id(label.as_deref()) == Some(id) {
                    offering.reservation_capacity = offering.reservation_capacity.saturating_sub(1);
                }
            }
            *types = changed.into();
        }
    }
}

/// The labels that requirements leave no choice about, and the smallest value of the others.
fn single_values(requirements: &Requirements) -> Labels {
    let named = requirements.iter().filter(|r| !r.is_complement() && r.key() != label_key("type"));
    let values = named.filter_map(|r| Some((r.key().to_owned(), r.values().first()?.clone())));
    values.collect()
}

fn shared(types: impl IntoIterator<Item = TypeBuilder>) -> InstanceTypes {
    types.into_iter().map(|one| Arc::new(one.build())).collect()
}
