//! Policy Balanced: a move has to be worth its disruption (spec 30 §7).

use std::collections::BTreeMap;

use super::{Candidate, CandidateIndex, ConsolidationPolicy, DisruptionClass, cost};

/// Savings count this many times as much as disruption.
const K: f64 = 2.0;
/// The least score of a move that is worth it.
const THRESHOLD: f64 = 1.0 / K;

/// The total price and disruption cost of each NodePool's nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct PoolTotals(BTreeMap<String, PoolTotal>);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PoolTotal {
    pub(super) cost: f64,
    pub(super) disruption: f64,
}

/// How a move scores for a NodePool with policy Balanced.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolScore {
    /// The pool.
    pub pool: String,
    /// The share of the pool's price that is saved.
    pub savings_fraction: f64,
    /// The share of the pool's disruption cost that it takes.
    pub disruption_fraction: f64,
}

impl PoolScore {
    /// Savings in relation to disruption.
    pub fn score(&self) -> f64 {
        if self.savings_fraction <= 0.0 {
            0.0
        } else if self.disruption_fraction == 0.0 {
            f64::INFINITY
        } else {
            self.savings_fraction / self.disruption_fraction
        }
    }

    /// Whether the move is worth it.
    pub fn is_approved(&self) -> bool {
        self.score() >= THRESHOLD
    }

    /// Returns the event message with the score and its parts.
    pub fn event_text(&self) -> String {
        let (savings, disruption) =
            (self.savings_fraction * 100.0, self.disruption_fraction * 100.0);
        format!(
            "score {:.2} >= threshold {THRESHOLD:.2} (k: {K:.0}, savings {savings:.1}%, \
             disruption {disruption:.1}%)",
            self.score(),
        )
    }
}

impl PoolTotals {
    /// Adds up all candidates, whatever method takes them, and all other nodes of their pools.
    pub(super) fn new(index: &CandidateIndex<'_>) -> Self {
        let mut totals: BTreeMap<String, PoolTotal> = BTreeMap::new();
        for candidate in index.candidates(DisruptionClass::Graceful) {
            totals.entry(candidate.pool.clone()).or_default().cost += candidate.price;
        }
        for &node in index.nodes() {
            let pool = index.context.snapshot.node(node).pool.as_deref();
            let Some(total) = pool.and_then(|pool| totals.get_mut(pool)) else { continue };
            total.disruption += match index.candidate(node, DisruptionClass::Graceful) {
                Ok(candidate) => candidate.reschedule_cost,
                Err(_) => cost::non_candidate_cost(index.pods_on(node)),
            };
        }
        for (pool, total) in &mut totals {
            let tracked = index.context.pool_costs.get(pool).copied();
            total.cost = tracked.filter(|&cost| cost > 0.0).unwrap_or(total.cost);
        }
        Self(totals)
    }

    /// How a move that saves so much scores in each Balanced pool of its candidates.
    pub(super) fn scores(
        &self,
        index: &CandidateIndex<'_>,
        candidates: &[&Candidate],
        savings: f64,
    ) -> Vec<PoolScore> {
        let mut by_pool: BTreeMap<&str, PoolTotal> = BTreeMap::new();
        for candidate in candidates {
            let sum = by_pool.entry(&candidate.pool).or_default();
            sum.cost += candidate.price;
            sum.disruption += candidate.reschedule_cost;
        }
        let source_price: f64 = candidates.iter().map(|candidate| candidate.price).sum();
        let is_split = by_pool.len() > 1 && source_price > 0.0;
        let balanced = by_pool.iter().filter(|(pool, _)| is_balanced(index, pool));
        balanced
            .map(|(&pool, own)| {
                let share = if is_split { savings * (own.cost / source_price) } else { savings };
                self.score(pool, share, own.disruption)
            })
            .collect()
    }

    /// How saving so much at such a disruption scores in a pool.
    pub(super) fn score(&self, pool: &str, savings: f64, disruption: f64) -> PoolScore {
        let total = self.0.get(pool).copied().unwrap_or_default();
        let is_known = total.cost > 0.0 && total.disruption > 0.0;
        let (savings_fraction, disruption_fraction) = if is_known {
            (savings / total.cost, disruption / total.disruption)
        } else {
            (0.0, 0.0)
        };
        PoolScore { pool: pool.to_owned(), savings_fraction, disruption_fraction }
    }

    /// Whether removing a node for at most `savings` may be approved.
    /// True if the policy of its NodePool is not Balanced, or the price of the pool is unknown.
    pub(super) fn may_be_approved(
        &self,
        index: &CandidateIndex<'_>,
        candidate: &Candidate,
        savings: f64,
    ) -> bool {
        let total = self.0.get(&candidate.pool).copied().unwrap_or_default();
        !is_balanced(index, &candidate.pool)
            || total.cost <= 0.0
            || self.score(&candidate.pool, savings, candidate.reschedule_cost).is_approved()
    }
}

fn is_balanced(index: &CandidateIndex<'_>, pool: &str) -> bool {
    let pool = index.context.snapshot.managed_pools.get(pool);
    pool.is_some_and(|pool| pool.policy == ConsolidationPolicy::Balanced)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(cost: f64, disruption: f64) -> PoolTotals {
        PoolTotals([("p".to_owned(), PoolTotal { cost, disruption })].into())
    }

    #[test]
    fn balanced_policy_weighs_savings_against_disruption() {
        let infinite = f64::INFINITY;
        #[rustfmt::skip]
        let cases = [
            // case        pool            move           score     approved
            ("30/BAL-1",  (58.08, 90.0),  (7.26, 4.0),   2.8125,   true),
            ("30/BAL-2",  (58.08, 90.0),  (4.84, 5.0),   1.5,      true),
            ("30/BAL-3",  (58.08, 90.0),  (2.42, 9.0),   0.416_667, false),
            ("30/BAL-4",  (48.40, 90.0),  (2.42, 9.0),   0.5,      true),
            ("30/BAL-5",  (48.40, 90.0),  (0.0, 9.0),    0.0,      false),
            ("30/BAL-5",  (48.40, 90.0),  (-1.0, 9.0),   0.0,      false),
            ("30/BAL-6",  (48.40, 90.0),  (1.0, 0.0),    infinite, true),
            ("30/BAL-7",  (0.0, 90.0),    (1.0, 1.0),    0.0,      false),
            ("30/BAL-16", (580.8, 900.0), (72.6, 40.0),  2.8125,   true),
        ];
        for (case, (cost, all), (savings, disruption), expected, approved) in cases {
            let score = totals(cost, all).score("p", savings, disruption);
            let is_close = match expected {
                expected if expected.is_infinite() => score.score().is_infinite(),
                expected => (score.score() - expected).abs() < 1e-5,
            };
            assert!(is_close, "{case}: {}", score.score());
            assert_eq!(score.is_approved(), approved, "{case}");
        }
        let unknown = totals(1.0, 1.0).score("other", 1.0, 1.0);
        assert!(!unknown.is_approved(), "30/BAL-7");
    }
}
