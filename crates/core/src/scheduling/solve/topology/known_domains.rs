//! Finds the domains that a group knows without pods: offered by NodePools, or with nodes.

use rustc_hash::FxHashMap;
use std::sync::Arc;

use super::super::input::SolverInput;
use super::super::pool_domains::pool_domains;
use super::super::requirement_store::RequirementStore;
use super::super::topology_groups::{DomainKind, GroupId, TopologyGroup};
use super::Topology;
use super::request_state::Change;
use crate::rejection::TopologyKind;
use crate::taint::{Taint, Toleration, untolerated_taints};

/// By tolerations of the owners: the domains that NodePools offer to them.
pub(super) type OfferedDomains = FxHashMap<Vec<Toleration>, Arc<[usize]>>;

/// The number of nodes in each domain of a key that a filter accepts.
///
/// Most groups have the same filter, so most share one.
#[derive(Clone, Debug, Default)]
pub(super) struct NodePresence {
    pub(super) nodes: Vec<u32>,
    /// The last request whose removed nodes were subtracted.
    pub(super) last_request: u32,
}

impl<'a> Topology<'a> {
    /// Adds the domains that NodePools offer to a new owner of a group.
    pub(in super::super) fn add_owner(
        &mut self,
        id: GroupId,
        tolerations: &[Toleration],
        input: &SolverInput<'a>,
    ) {
        let DomainKind::Label(position) = self.group(id).domain_kind else { return };
        for &domain in self.offered(id, position, tolerations, input).iter() {
            let was_known = self.is_known(id, domain);
            let group = &mut self.groups[id.0 as usize];
            if !group.offer(domain) {
                continue;
            }
            if !was_known {
                group.epoch += 1;
                let is_shared = group.identity.kind != TopologyKind::Spread;
                self.learned_domain_count += usize::from(is_shared);
            }
            self.note(Change::Offered(id, domain));
        }
    }

    /// Returns the domains that NodePools offer to an owner of a group.
    pub(super) fn offered(
        &mut self,
        id: GroupId,
        position: usize,
        tolerations: &[Toleration],
        input: &SolverInput<'a>,
    ) -> Arc<[usize]> {
        let identity = self.group(id).identity.clone();
        let takes_all = identity.takes_all_domains();
        let known = self.offered.get(&(position, takes_all));
        if let Some(known) = known.and_then(|known| known.get(tolerations)) {
            return known.clone();
        }
        let pool_domains = if let Some(pool_domains) = self.pool_domains.get(&identity.key) {
            pool_domains.clone()
        } else {
            let pool_domains = Arc::new(pool_domains(input, &identity.key));
            self.pool_domains.insert(identity.key.clone(), pool_domains.clone());
            pool_domains
        };
        let is_tolerated = |sets: &Vec<Vec<Taint>>| {
            sets.iter().any(|taints| untolerated_taints(taints, tolerations).is_empty())
        };
        let offered = pool_domains
            .iter()
            .filter(|(_, taints)| takes_all || taints.as_ref().is_none_or(is_tolerated));
        let domains = &mut self.domains[position];
        let offered: Arc<[usize]> = offered.map(|(domain, _)| domains.number(domain)).collect();
        let of_key = self.offered.entry((position, takes_all)).or_default();
        of_key.insert(tolerations.to_vec(), offered.clone());
        offered
    }

    /// Returns whether a group knows a domain.
    pub(in super::super) fn is_known(&self, id: GroupId, domain: usize) -> bool {
        let group = self.group(id);
        group.is_known(domain, self.node_counts(group))
    }

    pub(super) fn node_counts(&self, group: &TopologyGroup) -> &[u32] {
        group.presence.map_or(&[], |presence| &self.presences[presence].nodes)
    }

    /// Counts the nodes in each domain of a group, with pods or without.
    pub(super) fn count_nodes_by_domain(
        &mut self,
        id: GroupId,
        input: &SolverInput<'a>,
        store: &mut RequirementStore<'_>,
    ) {
        let DomainKind::Label(position) = self.group(id).domain_kind else { return };
        let key = (position, self.group(id).filter);
        let presence = if let Some(&presence) = self.presence_ids.get(&key) {
            presence
        } else {
            let mut presence = NodePresence::default();
            for &index in &input.candidates {
                if let Some(domain) = self.domain_of_node(id, index, input, store) {
                    let length = presence.nodes.len().max(domain + 1);
                    presence.nodes.resize(length, 0);
                    presence.nodes[domain] += 1;
                }
            }
            self.presences.push(presence);
            self.presence_ids.insert(key, self.presences.len() - 1);
            self.presences.len() - 1
        };
        self.groups[id.0 as usize].presence = Some(presence);
    }

    /// Returns the domain in which a group counts a node, if it does.
    pub(super) fn domain_of_node(
        &mut self,
        id: GroupId,
        index: usize,
        input: &SolverInput<'a>,
        store: &mut RequirementStore<'_>,
    ) -> Option<usize> {
        let DomainKind::Label(position) = self.group(id).domain_kind else { return None };
        let node = &input.nodes[index];
        let raw = node.raw.as_ref()?;
        let domain = node.labels.get(self.group(id).identity.key.as_str())?;
        let accepts = self.accepts(id, &self.object_node(index, raw), store);
        accepts.then(|| self.domains[position].number(domain))
    }
}
