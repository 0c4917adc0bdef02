//! Chooses the topology domains of a candidate (spec 20 §4.5) and breaks ties (§4.8).

use smallvec::SmallVec;

use super::Solver;
use super::attempt::AttemptView;
use super::requirement_store::{ReqId, SetId};
use super::topology_groups::{FeasibleDomains, GroupId};
use crate::bit_set::BitSet;
use crate::catalog::CAPACITY_TYPE;
use crate::labels::ZONE;
use crate::rejection::TopologyKind;

impl Solver<'_> {
    /// Narrows a requirement set by the topology groups over labels (spec 20 §4.5).
    ///
    /// Each group sees the set as it was before.
    pub(super) fn narrow_by_topology(
        &mut self,
        before: SetId,
        variants: &BitSet,
        template: usize,
        view: &AttemptView,
    ) -> Option<SetId> {
        let mut picks: SmallVec<[ReqId; 4]> = SmallVec::new();
        for (over, feasible) in view.shape.label_groups.iter().zip(&view.feasible) {
            picks.push(self.choose_domains(
                over.group,
                over.domains,
                feasible,
                before,
                variants,
                template,
            )?);
        }
        let mut set = before;
        for pick in picks {
            set = self.store.narrow_by(set, pick)?;
        }
        Some(set)
    }

    /// Returns the domains that one group leaves to a candidate.
    pub(super) fn choose_domains(
        &mut self,
        group: GroupId,
        position: usize,
        feasible: &FeasibleDomains,
        set: SetId,
        variants: &BitSet,
        template: usize,
    ) -> Option<ReqId> {
        let domains = &mut self.topology.domains[position];
        let key = domains.key;
        let own = domains.allowed(self.store.find(set, key), &self.store);
        let mut options = feasible.domains.clone();
        options.intersect_with(&own);
        let kind = self.topology.group(group).identity.kind;
        let is_start = options.is_empty();
        if is_start {
            options = feasible.bootstrap.clone()?;
            options.intersect_with(&own);
        }
        if options.is_empty() {
            return None;
        }
        if kind == TopologyKind::Spread {
            let group = self.topology.group(group);
            let least = options.iter().map(|domain| group.count(domain)).min()?;
            let tied: Vec<usize> =
                options.iter().filter(|&domain| group.count(domain) == least).collect();
            options = self.break_tie(position, tied, set, variants, template);
        } else if is_start {
            let tied = options.iter().collect();
            options = self.break_tie(position, tied, set, variants, template);
        }
        Some(self.topology.domains[position].requirement_for(&options, &mut self.store))
    }

    /// Picks one of several equal domains (spec 20 §4.8).
    ///
    /// For zones and capacity types it picks the cheapest, then the first by name. Upstream picks
    /// at random.
    pub(super) fn break_tie(
        &mut self,
        position: usize,
        tied: Vec<usize>,
        set: SetId,
        variants: &BitSet,
        template: usize,
    ) -> BitSet {
        let size = self.topology.domains[position].len();
        let one = |domain: usize| {
            let mut bits = BitSet::empty(size);
            bits.insert(domain);
            bits
        };
        if let [only] = tied.as_slice() {
            return one(*only);
        }
        let key = self.store.key_name(self.topology.domains[position].key);
        let by_price = matches!(key, ZONE | CAPACITY_TYPE);
        let mut best: Option<(f64, usize)> = None;
        for domain in tied {
            let price = if by_price {
                self.price_in(position, &one(domain), set, variants, template)
            } else {
                0.0
            };
            let is_better = best.is_none_or(|(lowest, chosen)| {
                let domains = &self.topology.domains[position];
                let names = || domains.name(domain).cmp(domains.name(chosen));
                price.total_cmp(&lowest).then_with(names).is_lt()
            });
            if is_better {
                best = Some((price, domain));
            }
        }
        one(best.map_or(0, |(_, domain)| domain))
    }

    /// Returns the lowest price of a candidate in a domain.
    fn price_in(
        &mut self,
        position: usize,
        domain: &BitSet,
        set: SetId,
        variants: &BitSet,
        template: usize,
    ) -> f64 {
        let requirement = self.topology.domains[position].requirement_for(domain, &mut self.store);
        let set = self.store.tighten(set, requirement);
        let types = &mut self.types[self.templates[template].types];
        let answer = types.compatible_types(set, &mut self.store);
        let mut by_price = self.types[self.templates[template].types].by_price(&answer).iter();
        let cheapest = by_price.find(|(_, variant)| variants.contains(*variant as usize));
        cheapest.map_or(f64::INFINITY, |(price, _)| *price)
    }
}
