//! Finds the placements of a plan that a violation affects.

use std::collections::{BTreeMap, BTreeSet};

use super::violation::{Target, Violation};
use crate::id::PodId;
use crate::plan::Plan;
use crate::scheduling::Request;

/// Positions of placements in a plan.
#[derive(Debug, Default)]
pub(super) struct Placements {
    /// In [`Plan::existing_nodes`].
    pub(super) nodes: BTreeSet<usize>,
    /// In [`Plan::claims`].
    pub(super) claims: BTreeSet<usize>,
}

/// The placements of a plan, by pod, node and NodePool.
pub(super) struct PlacementIndex<'p> {
    request: Request<'p>,
    plan: &'p Plan,
    pods_by_name: BTreeMap<String, PodId>,
}

impl<'p> PlacementIndex<'p> {
    pub(super) fn new(request: &Request<'p>, plan: &'p Plan) -> Self {
        let known = plan.placed_pods().filter(|pod| pod.index() < request.snapshot.pods.len());
        let pods_by_name = known.map(|pod| (request.snapshot.pod(pod).full_name(), pod)).collect();
        Self { request: *request, plan, pods_by_name }
    }

    /// Returns the placements that the violation affects.
    pub(super) fn affected(&self, violation: &Violation) -> Placements {
        match violation {
            Violation::UnknownPod(pod) => self.of_pods([*pod]),
            Violation::UnknownNode(id) => self.nodes_where(|node| node == id.index()),
            Violation::UnknownPool(pool) => {
                self.claims_where(|at| self.plan.claims[at].pool == *pool)
            }
            Violation::NotRequested { pod }
            | Violation::PlacedTwice { pod }
            | Violation::PlacedAndRefused { pod }
            | Violation::Forgotten { pod }
            | Violation::Unplaced { pod }
            | Violation::NoDomain { pod, .. }
            | Violation::Affinity { pod, .. } => self.of_names([pod]),
            Violation::AntiAffinity { pod, other, .. } => self.of_names([pod, other]),
            Violation::Spread { pods, .. } => self.of_names(pods),
            Violation::NodeGone { node } | Violation::NodeTooSmall { node, .. } => {
                self.of_node(node)
            }
            Violation::UnknownType { claim, .. }
            | Violation::EmptyClaim { claim }
            | Violation::TypeTooSmall { claim, .. }
            | Violation::TypeUnsuitable { claim, .. }
            | Violation::Requests { claim, .. }
            | Violation::MinValues { claim } => self.claims_where(|at| at == *claim),
            Violation::Taint { target, .. }
            | Violation::NodeAffinity { target, .. }
            | Violation::VolumeTopology { target, .. }
            | Violation::VolumeLimit { target, .. }
            | Violation::HostPort { target, .. } => match target {
                Target::Node(node) => self.of_node(node),
                Target::Claim(claim) => self.claims_where(|at| at == *claim),
            },
            Violation::Limit { pool, .. } => self.claims_where(|at| {
                let own = self.request.snapshot.pools.get(self.plan.claims[at].pool.index());
                own.is_some_and(|own| own.name == *pool)
            }),
            Violation::Reservation { id } => {
                self.claims_where(|at| self.plan.claims[at].reservations.contains(id))
            }
        }
    }

    fn of_names<'n>(&self, names: impl IntoIterator<Item = &'n String>) -> Placements {
        self.of_pods(names.into_iter().filter_map(|name| self.pods_by_name.get(name)).copied())
    }

    fn of_pods(&self, pods: impl IntoIterator<Item = PodId>) -> Placements {
        let pods: BTreeSet<PodId> = pods.into_iter().collect();
        let holds = |placed: &[PodId]| placed.iter().any(|pod| pods.contains(pod));
        let nodes = self.plan.existing_nodes.iter().enumerate();
        Placements {
            nodes: nodes.filter(|(_, (_, placed))| holds(placed)).map(|(at, _)| at).collect(),
            ..self.claims_where(|at| holds(&self.plan.claims[at].pods))
        }
    }

    fn of_node(&self, name: &str) -> Placements {
        let nodes = &self.request.snapshot.nodes;
        self.nodes_where(|node| nodes.get(node).is_some_and(|node| node.name == name))
    }

    fn nodes_where(&self, is_affected: impl Fn(usize) -> bool) -> Placements {
        let nodes = self.plan.existing_nodes.iter().enumerate();
        let nodes = nodes.filter(|(_, (node, _))| is_affected(node.index())).map(|(at, _)| at);
        Placements { nodes: nodes.collect(), claims: BTreeSet::new() }
    }

    fn claims_where(&self, is_affected: impl Fn(usize) -> bool) -> Placements {
        let claims = (0..self.plan.claims.len()).filter(|&at| is_affected(at));
        Placements { nodes: BTreeSet::new(), claims: claims.collect() }
    }
}
