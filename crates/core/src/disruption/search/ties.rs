//! Chooses which of several equal nodes to remove; in upstream that is left to chance.

use super::best::{exceeds, was_launched_recently};
use super::{Candidate, CandidateIndex};
use crate::disruption::allowances::Allowances;
use crate::disruption::consolidation::{Consolidation, ConsolidationMove};
use crate::disruption::{Command, Method, Reason};
use crate::scheduling::Fuel;

/// The most equal nodes that are tried as the first.
const DRAWS_MAX: usize = 8;

/// Returns a better command with other nodes that equal its last one.
/// It may also have one more or one less of them: the replacement may be a size smaller then.
pub(super) fn choose_among_ties(
    consolidation: &mut Consolidation<'_>,
    candidates: &[&Candidate],
    found: &Command,
    fuel: &mut Fuel<'_>,
) -> Option<Command> {
    let last = found.candidates.last().filter(|_| found.candidates.len() > 1)?;
    let ratio = last.savings_ratio();
    let (equal, kept) = found.candidates.iter().partition::<Vec<_>, _>(|one| is_tied(one, ratio));
    let draws: Vec<_> = candidates.iter().filter(|one| is_tied(one, ratio)).copied().collect();
    let index = consolidation.index;
    let mut best: Option<(Vec<&Candidate>, ConsolidationMove)> = None;
    for first in 0..draws.len().min(DRAWS_MAX) {
        let order = draws.iter().cycle().skip(first).copied();
        for count in [equal.len().saturating_sub(1), equal.len(), equal.len() + 1] {
            if count > draws.len() {
                continue;
            }
            let set: Vec<_> = kept.iter().copied().chain(order.clone().take(count)).collect();
            if set.len() < 2 || !is_within_budgets(index, &set) || fuel.is_used_up() {
                continue;
            }
            let Ok(other) = consolidation.consider(&set, fuel) else { continue };
            let savings = best.as_ref().map_or(found.savings, |(_, best)| best.savings);
            if exceeds(other.savings, savings)
                && !was_launched_recently(index.context, &set, &other)
            {
                best = Some((set, other));
            }
        }
    }
    best.map(|(set, found)| Consolidation::command(Method::MultiNode, &set, found))
}

fn is_tied(candidate: &Candidate, ratio: f64) -> bool {
    (candidate.savings_ratio() - ratio).abs() <= ratio * 1e-12
}

fn is_within_budgets(index: &CandidateIndex<'_>, set: &[&Candidate]) -> bool {
    let mut left = Allowances::new(index.context, Reason::Underutilized);
    set.iter().all(|one| left.reserve(&one.pool))
}

#[cfg(test)]
mod tests {
    use super::super::best::{candidates, upstream_command};
    use super::super::destinations::Destinations;
    use super::*;
    use crate::disruption::{PassContext, SearchFuel, Settings};
    use crate::testing::{TypeBuilder, World, instance_type, node, pod, pool};

    const ZONE: &str = "test-zone-1";

    fn type_builder(name: &str, cpu: &str, price: f64) -> TypeBuilder {
        let base = instance_type(name).cpu(cpu).memory("100Gi").pods("100").no_overhead();
        base.on_demand(ZONE, price)
    }

    #[test]
    fn ties_are_broken_in_favor_of_the_cheapest_replacement() {
        let large = type_builder("large", "16", 16.0);
        let types =
            [large.clone(), type_builder("wide", "12", 12.0), type_builder("mid", "8", 8.0)];
        let world = World::empty().types(types).pool(pool("default").budget("3", &[]));
        // Nothing moves between them, and all cost and hold the same number of pods.
        let world = ["a", "b", "c", "d", "e"].iter().fold(world, |world, name| {
            let on = node(name).of_type(&large.clone().build()).zone(ZONE);
            let cpu = if matches!(*name, "a" | "b" | "c") { "3500m" } else { "1500m" };
            let on = on.label("capacity-type", "on-demand").taint("full=yes:NoSchedule");
            world.node(on).pod(pod(&format!("of-{name}")).cpu(cpu).on_node(name))
        });
        let settings = Settings::default();
        let now = jiff::Timestamp::UNIX_EPOCH;
        let context = PassContext::new(&world.snapshot, &world.catalog, &settings, now);
        let index = CandidateIndex::new(&context);
        let (mut consolidation, mut time) = (Consolidation::new(&index), SearchFuel::unlimited());
        let none = Destinations::default();
        let found =
            upstream_command(&mut consolidation, &none, &context.unseen_pools, &mut time).unwrap();
        let names = |command: &Command| -> Vec<String> {
            command.candidates.iter().map(|one| one.name.clone()).collect()
        };
        assert_eq!((names(&found).join(""), found.savings), ("abc".to_owned(), 48.0 - 12.0));
        let all = candidates(&index, &none);
        let other = choose_among_ties(&mut consolidation, &all, &found, &mut time.multi).unwrap();
        assert_eq!((names(&other).join(""), other.savings), ("cde".to_owned(), 48.0 - 8.0));
        let again = choose_among_ties(&mut consolidation, &all, &other, &mut time.multi);
        assert_eq!(again, None, "nothing is better, and no more may go");
    }
}
