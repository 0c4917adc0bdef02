//! Rates whether the nodes of a NodePool register, by recent outcomes (spec 40 §4.5).

use std::collections::VecDeque;

/// The number of recent outcomes that count.
const OUTCOMES_MAX: usize = 4;
/// The number of failures that is too many: half of the outcomes.
const UNHEALTHY_FAILURES: usize = OUTCOMES_MAX / 2;

/// The health that recent outcomes show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// There are none.
    Unknown,
    /// Most nodes register.
    Healthy,
    /// At least half of them did not.
    Unhealthy,
}

/// The last outcomes of a pool, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcomes(VecDeque<bool>);

impl Outcomes {
    /// Records whether a claim became a node.
    pub fn record(&mut self, has_registered: bool) {
        if self.0.len() == OUTCOMES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(has_registered);
    }

    /// Returns the health that the outcomes show.
    pub fn health(&self) -> Health {
        let failures = self.0.iter().filter(|has_registered| !**has_registered).count();
        match failures {
            _ if self.0.is_empty() => Health::Unknown,
            failures if failures >= UNHEALTHY_FAILURES => Health::Unhealthy,
            _ => Health::Healthy,
        }
    }

    /// Returns the health after one more outcome.
    pub fn health_with(&self, has_registered: bool) -> Health {
        let mut next = self.clone();
        next.record(has_registered);
        next.health()
    }

    /// Returns the fewest outcomes with this health.
    pub fn seeded_with(health: Health) -> Self {
        match health {
            Health::Unknown => Self::default(),
            Health::Healthy => Self([true].into()),
            Health::Unhealthy => Self([false; UNHEALTHY_FAILURES].into()),
        }
    }
}

/// What counts for whether the health of a pool is still about what the pool is now.
#[derive(Clone, Copy, Debug)]
pub struct PoolFacts {
    /// The generation that the condition was set for, if there is the condition.
    pub condition_generation: Option<i64>,
    /// The pool's generation.
    pub generation: i64,
    /// The generation of the node class that the condition is about.
    pub class_observed_generation: i64,
    /// The generation of the node class.
    pub class_generation: i64,
}

/// Whether the condition and the outcomes start anew: they are about another pool or node class.
pub fn is_outdated(facts: PoolFacts) -> bool {
    facts.condition_generation != Some(facts.generation)
        || facts.class_observed_generation != facts.class_generation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_last_four_failing_is_unhealthy() {
        #[rustfmt::skip]
        let cases: [(&str, &[bool], Health); 8] = [
            ("nothing",            &[],                                Health::Unknown),
            ("40/NP-11",           &[false],                           Health::Healthy),
            ("40/NP-12",           &[false, false],                    Health::Unhealthy),
            ("40/NP-13",           &[false, false, true],              Health::Unhealthy),
            ("one in four",        &[true, true, false, true],         Health::Healthy),
            ("the oldest goes",    &[false, false, true, true, true],  Health::Healthy),
            ("the newest count",   &[true, true, true, false, false],  Health::Unhealthy),
            ("success",            &[true],                            Health::Healthy),
        ];
        for (case, outcomes, health) in cases {
            let mut all = Outcomes::default();
            for outcome in outcomes {
                all.record(*outcome);
            }
            assert_eq!(all.health(), health, "{case}");
        }
    }

    #[test]
    fn health_with_an_outcome_equals_health_after_recording_it() {
        // Every sequence of six outcomes: upstream loses the order of those that wrapped.
        for bits in 0_u32..64 {
            let mut outcomes = Outcomes::default();
            for position in 0..6 {
                let outcome = bits & (1 << position) != 0;
                let ahead = outcomes.health_with(outcome);
                outcomes.record(outcome);
                assert_eq!(outcomes.health(), ahead, "40/Q3: {bits:06b} at {position}");
            }
        }
    }

    #[test]
    fn seeded_outcomes_have_the_seeded_health() {
        for health in [Health::Unknown, Health::Healthy, Health::Unhealthy] {
            assert_eq!(Outcomes::seeded_with(health).health(), health);
        }
        let seeded = Outcomes::seeded_with(Health::Unhealthy);
        assert_eq!(seeded.health_with(true), Health::Unhealthy, "40/NP-14: after a restart");
        assert_eq!(Outcomes::default().health_with(true), Health::Healthy, "40/NP-14: without");
    }

    #[test]
    fn a_changed_pool_or_node_class_outdates_the_health() {
        let facts =
            |condition_generation, generation, class_observed_generation, class_generation| {
                PoolFacts {
                    condition_generation,
                    generation,
                    class_observed_generation,
                    class_generation,
                }
            };
        #[rustfmt::skip]
        let cases = [
            ("40/NP-15", facts(Some(1), 1, 1, 2), true),
            ("40/NP-16", facts(Some(1), 2, 1, 1), true),
            ("40/NP-17", facts(Some(2), 2, 1, 1), false),
            ("missing",  facts(None, 1, 1, 1),    true),
        ];
        for (case, facts, expected) in cases {
            assert_eq!(is_outdated(facts), expected, "{case}");
        }
    }
}
