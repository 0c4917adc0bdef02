//! Finds the topology constraint that rejects a pod, to report it.

use std::collections::BTreeSet;

use super::Solver;
use super::attempt::AttemptView;
use super::requirement_store::SetId;
use super::topology_groups::{DomainKind, FeasibleDomains, GroupId};
use crate::bit_set::BitSet;
use crate::rejection::{RejectionReason, TopologyRejection};
use crate::requirement::{Requirement, Requirements};

/// The most domains that a rejection names.
const DOMAINS_SHOWN: usize = 25;

impl Solver<'_> {
    /// Returns the requirements narrowed by each topology group, own groups first.
    pub(super) fn check_topology_groups(
        &mut self,
        requirements: &Requirements,
        set: SetId,
        template: usize,
        variants: &BitSet,
        class: usize,
        view: &AttemptView,
    ) -> Result<Requirements, RejectionReason> {
        let shape = &view.shape;
        let mut large_enough = variants.clone();
        let need = self.classes[class].requests.clone();
        self.keep_large_enough(&mut large_enough, template, class, None, &need);
        let types = &mut self.types[self.templates[template].types];
        large_enough.intersect_with(&types.compatible_types(set, &mut self.store).variants);
        let mut others: Vec<GroupId> = shape
            .label_groups
            .iter()
            .map(|over| over.group)
            .chain(shape.host_groups.iter().map(|over| over.group))
            .filter(|group| !shape.owned.contains(group))
            .collect();
        // In an order that does not depend on the order of pods.
        others.sort_by_cached_key(|&group| {
            let identity = &self.topology.group(group).identity;
            (identity.key.clone(), identity.namespaces.clone(), identity.selector.clone())
        });
        let mut narrowed = requirements.clone();
        for group in shape.owned.iter().copied().chain(others) {
            let key = self.topology.group(group).identity.key.clone();
            let node = requirements.get(&key).cloned();
            let left = match self.topology.group(group).domain_kind {
                DomainKind::Host => host_left(group, view).then(|| node.clone()).flatten(),
                DomainKind::Label(position) => {
                    self.domain_left(group, position, view, set, &large_enough, template)
                }
            };
            let Some(left) = left else {
                let strict = self.store.plain_split(shape.strict);
                return Err(RejectionReason::Topology(Box::new(
                    self.topology_rejection(group, &strict, node),
                )));
            };
            narrowed.add(left);
        }
        Ok(narrowed)
    }

    fn domain_left(
        &mut self,
        group: GroupId,
        position: usize,
        view: &AttemptView,
        set: SetId,
        variants: &BitSet,
        template: usize,
    ) -> Option<Requirement> {
        let index = view.shape.label_groups.iter().position(|over| over.group == group)?;
        let feasible: &FeasibleDomains = &view.feasible[index];
        if let Some(pick) = self.choose_domains(group, position, feasible, set, variants, template)
        {
            return Some(self.store.get(pick).clone());
        }
        // The first pod of an affinity gets a domain that the pod allows even if the candidate does
        // not: the candidate then rejects it.
        let start = feasible.bootstrap.as_ref()?;
        let key = self.topology.domains[position].key;
        let own = self.store.find(set, key).map(|own| self.store.get(own));
        let has_values = own.is_some_and(|own| !own.is_complement() && !own.is_empty());
        if !has_values || !feasible.domains.is_empty() || start.is_empty() {
            return None;
        }
        let tied = start.iter().collect();
        let chosen = self.break_tie(position, tied, set, variants, template);
        let chosen = self.topology.domains[position].requirement_for(&chosen, &mut self.store);
        Some(self.store.get(chosen).clone())
    }

    fn topology_rejection(
        &self,
        id: GroupId,
        strict: &Requirements,
        node: Option<Requirement>,
    ) -> TopologyRejection {
        let group = self.topology.group(id);
        let key = &group.identity.key;
        let mut counts: Vec<(String, u32)> = match group.domain_kind {
            DomainKind::Label(position) => {
                let domains = &self.topology.domains[position];
                (0..domains.len())
                    .filter(|&domain| self.topology.is_known(id, domain))
                    .map(|domain| (domains.name(domain).to_owned(), group.count(domain)))
                    .collect()
            }
            DomainKind::Host => {
                let nodes = self.existing.nodes.iter().filter(|node| !node.is_removed);
                let nodes = nodes.map(|node| node.host);
                let claims = self.claims.iter().map(|claim| claim.host);
                let hosts: BTreeSet<usize> = nodes.chain(claims).chain(group.occupied()).collect();
                hosts
                    .into_iter()
                    .map(|host| (self.topology.host_name(host).to_owned(), group.count(host)))
                    .collect()
            }
        };
        counts.sort();
        let more = counts.len().saturating_sub(DOMAINS_SHOWN);
        counts.truncate(DOMAINS_SHOWN);
        TopologyRejection {
            kind: group.identity.kind,
            key: key.clone(),
            counts,
            omitted_domains: more,
            pod_domains: strict.get(key).cloned().unwrap_or_else(|| Requirement::exists(key)),
            node_domains: node.unwrap_or_else(|| Requirement::exists(key)),
        }
    }
}

/// Returns whether a group over hosts lets a pod go to a new host.
fn host_left(group: GroupId, view: &AttemptView) -> bool {
    let hosts = view.shape.host_groups.iter().zip(&view.may_start);
    hosts.filter(|(over, _)| over.group == group).all(|(over, may_start)| match over.limit {
        Some(limit) => limit >= 0,
        None => *may_start,
    })
}
