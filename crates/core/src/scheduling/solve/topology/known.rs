//! Which domains a group knows beside those with pods: those that NodePools offer to its owners, and
//! those where nodes are.

use rustc_hash::FxHashMap;
use std::sync::Arc;

use super::super::groups::{Group, GroupId, Place};
use super::super::store::Store;
use super::super::universe::universe;
use super::super::world::World;
use super::Topology;
use super::joining::Change;
use crate::reason::TopologyKind;
use crate::taint::{Taint, Toleration, untolerated};

/// The domains that NodePools offer to owners with these tolerations.
pub(super) type Offered = FxHashMap<Vec<Toleration>, Arc<[usize]>>;

/// How many nodes there are in each domain of a key that a filter lets count. Most groups have the
/// same filter, so most share one.
#[derive(Clone, Debug, Default)]
pub(super) struct Presence {
    pub(super) nodes: Vec<u32>,
    /// The last question whose nodes were taken out.
    pub(super) question: u32,
}

impl<'a> Topology<'a> {
    /// Adds the domains of NodePools that a new owner may use.
    pub(in super::super) fn own(
        &mut self,
        id: GroupId,
        tolerations: &[Toleration],
        world: &World<'a>,
    ) {
        let Place::Label(position) = self.group(id).place else { return };
        for &domain in self.offered(id, position, tolerations, world).iter() {
            let was_known = self.is_known(id, domain);
            let group = &mut self.groups[id.0 as usize];
            if !group.offer(domain) {
                continue;
            }
            if !was_known {
                group.epoch += 1;
                let is_shared = group.identity.kind != TopologyKind::Spread;
                self.learned += usize::from(is_shared);
            }
            self.note(Change::Offered(id, domain));
        }
    }

    /// The domains that NodePools offer to an owner of a group.
    pub(super) fn offered(
        &mut self,
        id: GroupId,
        position: usize,
        tolerations: &[Toleration],
        world: &World<'a>,
    ) -> Arc<[usize]> {
        let identity = self.group(id).identity.clone();
        let takes_all = identity.takes_all_domains();
        let known = self.offered.get(&(position, takes_all));
        if let Some(known) = known.and_then(|known| known.get(tolerations)) {
            return known.clone();
        }
        let universe = if let Some(universe) = self.universe.get(&identity.key) {
            universe.clone()
        } else {
            let universe = Arc::new(universe(world, &identity.key));
            self.universe.insert(identity.key.clone(), universe.clone());
            universe
        };
        let is_tolerated = |sets: &Vec<Vec<Taint>>| {
            sets.iter().any(|taints| untolerated(taints, tolerations).is_empty())
        };
        let offered = universe
            .iter()
            .filter(|(_, taints)| takes_all || taints.as_ref().is_none_or(is_tolerated));
        let domains = &mut self.domains[position];
        let offered: Arc<[usize]> = offered.map(|(domain, _)| domains.number(domain)).collect();
        let of_key = self.offered.entry((position, takes_all)).or_default();
        of_key.insert(tolerations.to_vec(), offered.clone());
        offered
    }

    /// Whether a domain counts for a group.
    pub(in super::super) fn is_known(&self, id: GroupId, domain: usize) -> bool {
        let group = self.group(id);
        group.is_known(domain, self.present(group))
    }

    pub(super) fn present(&self, group: &Group) -> &[u32] {
        group.presence.map_or(&[], |presence| &self.presences[presence].nodes)
    }

    /// Finds out in which domains there are nodes, pods or not.
    pub(super) fn look_at_nodes(&mut self, id: GroupId, world: &World<'a>, store: &mut Store<'_>) {
        let Place::Label(position) = self.group(id).place else { return };
        let key = (position, self.group(id).filter);
        let presence = if let Some(&presence) = self.presence_ids.get(&key) {
            presence
        } else {
            let mut presence = Presence::default();
            for &index in &world.candidates {
                if let Some(domain) = self.presence_of(id, index, world, store) {
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

    /// The domain in which a group sees a node, if it does.
    pub(super) fn presence_of(
        &mut self,
        id: GroupId,
        index: usize,
        world: &World<'a>,
        store: &mut Store<'_>,
    ) -> Option<usize> {
        let Place::Label(position) = self.group(id).place else { return None };
        let node = &world.nodes[index];
        let raw = node.raw.as_ref()?;
        let domain = node.labels.get(self.group(id).identity.key.as_str())?;
        let accepts = self.accepts(id, &self.raw_landing(index, raw), store);
        accepts.then(|| self.domains[position].number(domain))
    }
}
