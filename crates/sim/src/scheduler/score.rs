//! Scores the nodes that fit, with kube-scheduler's default scores and weights.
//!
//! Left out: where images are, and the spread that pods of a service or workload get without
//! asking.

use super::cache::{NodeInfo, SpreadUse, nonzero_requests};
use super::placement::{SchedulingCycle, domain};
use super::topology::{NO_DOMAIN, NodeIndex, TermEffect};

const MAX_SCORE: i64 = 100;

/// The weights of the scores; this one is for untolerated soft taints.
const TAINT_WEIGHT: i64 = 3;
const NODE_AFFINITY_WEIGHT: i64 = 2;
const LEAST_ALLOCATED_WEIGHT: i64 = 1;
const BALANCED_ALLOCATION_WEIGHT: i64 = 1;
const TOPOLOGY_SPREAD_WEIGHT: i64 = 2;
const POD_AFFINITY_WEIGHT: i64 = 2;

/// The best of the nodes; of equal ones the first by name.
pub(super) fn best(cycle: &SchedulingCycle<'_>, fitting: &[NodeIndex]) -> Option<NodeIndex> {
    if fitting.len() <= 1 {
        return fitting.first().copied();
    }
    let nodes: Vec<_> =
        fitting.iter().filter_map(|&at| Some((at, cycle.cache.nodes[at].as_ref()?))).collect();
    let mut scores = vec![0; nodes.len()];
    let mut add = |weight: i64, list: Vec<i64>| {
        for (score, more) in scores.iter_mut().zip(list) {
            *score += weight * more;
        }
    };
    let verdicts: Vec<_> = nodes.iter().map(|&(at, node)| cycle.verdict(at, node)).collect();
    let dislikes = verdicts.iter().map(|verdict| i64::from(verdict.soft_taint_count)).collect();
    add(TAINT_WEIGHT, reversed(to_most(dislikes)));
    let preference = verdicts.iter().map(|verdict| i64::from(verdict.preference)).collect();
    add(NODE_AFFINITY_WEIGHT, to_most(preference));
    add(
        LEAST_ALLOCATED_WEIGHT,
        nodes.iter().map(|(_, node)| least_allocated(cycle, node)).collect(),
    );
    if !cycle.pod.requirements.requests.is_nothing() {
        add(
            BALANCED_ALLOCATION_WEIGHT,
            nodes.iter().map(|(_, node)| balanced(cycle, node)).collect(),
        );
    }
    if let Some(list) = spread(cycle, &nodes) {
        add(TOPOLOGY_SPREAD_WEIGHT, list);
    }
    if let Some(list) = pod_affinity(cycle, &nodes) {
        add(POD_AFFINITY_WEIGHT, list);
    }
    let ranked = scores.into_iter().zip(&nodes);
    // The higher score, then the lower name.
    ranked.max_by(|(a, x), (b, y)| a.cmp(b).then_with(|| y.1.name.cmp(&x.1.name))).map(|(_, n)| n.0)
}

/// Stretched so that the largest is 100.
fn to_most(list: Vec<i64>) -> Vec<i64> {
    match list.iter().max().copied() {
        Some(largest) if largest > 0 => list.into_iter().map(|n| n * MAX_SCORE / largest).collect(),
        _ => list,
    }
}

fn reversed(list: Vec<i64>) -> Vec<i64> {
    list.into_iter().map(|score| MAX_SCORE - score).collect()
}

/// How much would be left, the mean of cpu and memory.
fn least_allocated(cycle: &SchedulingCycle<'_>, node: &NodeInfo) -> i64 {
    let (cpu, memory) = nonzero_requests(&cycle.pod.requirements.requests);
    let left = |used: i64, has: i64| match has.saturating_sub(used) {
        left if left > 0 => ratio(left, has),
        _ => 0,
    };
    let parts = [
        (node.nonzero_cpu_millis.saturating_add(cpu), node.allocatable.cpu_millis),
        (node.nonzero_memory.saturating_add(memory), node.allocatable.memory),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|(_, has)| *has > 0).collect();
    let sum: i64 = parts.iter().map(|(used, has)| left(*used, *has)).sum();
    sum / i64::try_from(parts.len()).unwrap_or(1).max(1)
}

/// `100 * part / whole`, whatever their size.
fn ratio(part: i64, whole: i64) -> i64 {
    let percent = i128::from(part) * i128::from(MAX_SCORE) / i128::from(whole.max(1));
    i64::try_from(percent).unwrap_or(MAX_SCORE)
}

/// How much more evenly cpu and memory would be used than they are.
fn balanced(cycle: &SchedulingCycle<'_>, node: &NodeInfo) -> i64 {
    let (used, has, requested) = (&node.used, &node.allocatable, &cycle.pod.requirements.requests);
    let balance = |cpu: i64, memory: i64| {
        if has.cpu_millis <= 0 || has.memory <= 0 {
            return MAX_SCORE;
        }
        let share = |used: i64, has: i64| ratio(used.max(0), has).min(MAX_SCORE);
        MAX_SCORE - (share(cpu, has.cpu_millis) - share(memory, has.memory)).abs() / 2
    };
    let after = balance(
        used.cpu_millis.saturating_add(requested.cpu_millis),
        used.memory.saturating_add(requested.memory),
    );
    let before = balance(used.cpu_millis, used.memory);
    MAX_SCORE / 2 + (MAX_SCORE / 2 + after - before) / 2
}

/// How few pods of the spread constraints that may be broken are in the node's domains.
fn spread(cycle: &SchedulingCycle<'_>, nodes: &[(NodeIndex, &NodeInfo)]) -> Option<Vec<i64>> {
    let wished: Vec<_> = cycle.pending.spread.iter().filter(|spread| !spread.is_required).collect();
    if wished.is_empty() {
        return None;
    }
    let keys: Vec<_> = wished.iter().map(|spread| cycle.domains(spread.key)).collect();
    let is_ranked = |at: NodeIndex| keys.iter().all(|domains| domain(domains, at) != NO_DOMAIN);
    let mut sums = vec![0.0; nodes.len()];
    for spread in &wished {
        let counts = counts(cycle, spread, nodes, &is_ranked);
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    let rounded: Vec<Option<i64>> =
        nodes.iter().zip(sums).map(|(&(at, _), sum)| is_ranked(at).then(|| rounded(sum))).collect();
    let ranked = || rounded.iter().flatten().copied();
    let (least, most) = (ranked().min().unwrap_or(0), ranked().max().unwrap_or(0));
    let score = |sum: Option<i64>| match sum {
        None => 0,
        Some(_) if most == 0 => MAX_SCORE,
        Some(sum) => MAX_SCORE * (most + least - sum) / most,
    };
    Some(rounded.into_iter().map(score).collect())
}

/// For each node, the pods of its domain. Those of a key with many domains weigh more, so that few
/// pods on many nodes are not lost beside many in few zones.
fn counts(
    cycle: &SchedulingCycle<'_>,
    spread: &SpreadUse,
    nodes: &[(NodeIndex, &NodeInfo)],
    is_ranked: &dyn Fn(NodeIndex) -> bool,
) -> Vec<f64> {
    let domains = cycle.domains(spread.key);
    let found = cycle.cache.counters.counts(spread.counter);
    let mut sums = vec![0_u32; cycle.cache.keys.domains(spread.key).len()];
    for (at, node) in cycle.cache.nodes.iter().enumerate() {
        if let Some(node) = node
            && is_ranked(at)
            && (spread.is_hostname || cycle.includes(spread, at, node))
        {
            sums[domain(domains, at) as usize] += found.at(at);
        }
    }
    let mut seen = vec![false; sums.len()];
    for &(at, _) in nodes.iter().filter(|(at, _)| is_ranked(*at)) {
        seen[domain(domains, at) as usize] = true;
    }
    let size = u32::try_from(seen.iter().filter(|seen| **seen).count()).unwrap_or(u32::MAX);
    let weight = (f64::from(size) + 2.0).ln();
    let skew = f64::from(i32::try_from(spread.max_skew).unwrap_or(i32::MAX)) - 1.0;
    let of_node = |&(at, _): &(NodeIndex, &NodeInfo)| match domain(domains, at) {
        NO_DOMAIN => 0.0,
        domain => f64::from(sums[domain as usize]) * weight + skew,
    };
    nodes.iter().map(of_node).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "sums of counts of pods")]
fn rounded(sum: f64) -> i64 {
    sum.round() as i64
}

/// Weights of preferred terms: of the pod towards others, and of others towards it.
fn pod_affinity(cycle: &SchedulingCycle<'_>, nodes: &[(NodeIndex, &NodeInfo)]) -> Option<Vec<i64>> {
    let cache = cycle.cache;
    let own = cycle.pending.preferred_terms.iter();
    let own = own.map(|&(weight, key, counter)| (weight, key, cache.counters.counts(counter)));
    let others =
        cache.bound_terms.matching(cache.match_target(cycle.pod)).filter_map(|(term, counts)| {
            let TermEffect::Prefer(weight) = term.effect else { return None };
            Some((weight, cache.keys.known(&term.topology_key)?, counts))
        });
    let mut sums = vec![0; nodes.len()];
    for (weight, key, counts) in own.chain(others).filter(|(_, _, counts)| !counts.is_zero()) {
        let (domains, per_domain) = (cycle.domains(key), cycle.domain_counts(key, counts));
        for (sum, &(at, _)) in sums.iter_mut().zip(nodes) {
            match domain(domains, at) {
                NO_DOMAIN => {}
                domain => *sum += weight * i64::from(per_domain[domain as usize]),
            }
        }
    }
    let (least, most) = (sums.iter().min().copied()?, sums.iter().max().copied()?);
    (most > least)
        .then(|| sums.into_iter().map(|n| MAX_SCORE * (n - least) / (most - least)).collect())
}
