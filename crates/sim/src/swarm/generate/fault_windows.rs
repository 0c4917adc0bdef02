//! Generates the faults of a world, its price changes, and when they happen.

use std::time::Duration;

use karpenter_operator::rng::SeededRng;

use super::{no_faults, random_time};
use crate::cloud::{CallFaults, CloudFaults, PriceChange, Shortage};
use crate::faults::{ApiFaults, FaultSpec, RandomDelay};
use crate::swarm::plan::{PlanAction, Step};

/// Adds windows of faults.
/// Where two overlap, the later one replaces the first.
pub(super) fn add_fault_windows(steps: &mut Vec<Step>, rng: &mut SeededRng, last: Duration) {
    for _ in 0..rng.range(2..8) {
        let at = random_time(rng, last);
        let length = rng.duration(Duration::from_mins(2)..last / 12);
        let faults = FaultSpec {
            api: if rng.random_bool(0.6) { random_api_faults(rng) } else { ApiFaults::default() },
            cloud: if rng.random_bool(0.6) {
                random_cloud_faults(rng, last)
            } else {
                CloudFaults::default()
            },
            length: Some(length),
        };
        steps.push(Step { at, action: PlanAction::Faults(Box::new(faults)) });
        if rng.random_bool(0.2) {
            steps.push(Step { at: at + length / 2, action: no_faults() });
        }
    }
}

/// Adds price changes, for a while or for good.
pub(super) fn add_price_changes(steps: &mut Vec<Step>, rng: &mut SeededRng, last: Duration) {
    for _ in 0..rng.range(0..4) {
        let at = random_time(rng, last.mul_f64(0.85));
        let mut other = || {
            let Shortage { instance_type, zone, capacity_type, .. } = random_shortage(rng);
            let factor = if rng.random_bool(0.5) { 1.05 } else { 0.3 };
            let factor = factor + rng.f64() * 1.5 * factor;
            PriceChange { instance_type, zone, capacity_type, factor }
        };
        let changes = vec![other(), other()];
        steps.push(Step { at, action: PlanAction::ChangePrices(changes) });
        if rng.random_bool(0.5) {
            let later = rng.duration(last / 100..last / 8);
            steps.push(Step { at: at + later, action: PlanAction::ChangePrices(Vec::new()) });
        }
    }
}

/// Adds actions in the first half minute of a command.
/// Then there is the most to lose.
pub(super) fn add_actions_during_commands(
    steps: &mut Vec<Step>,
    rng: &mut SeededRng,
    last: Duration,
) {
    for _ in 0..rng.range(2..8) {
        let at = random_time(rng, last);
        let after = rng.duration(Duration::from_millis(1)..Duration::from_secs(30));
        let which = rng.range(0..1000);
        let action = match rng.range(0..4) {
            0 => PlanAction::LoseInstanceOfCommand(which),
            1 => PlanAction::DeleteClaimOfCommand(which),
            _ => {
                PlanAction::Restart { down: rng.duration(Duration::ZERO..Duration::from_secs(30)) }
            }
        };
        steps.push(Step {
            at,
            action: PlanAction::AfterNextCommand { after, action: Box::new(action) },
        });
    }
}

/// Returns zero or a random rate up to `most`, with equal chance.
fn random_rate(rng: &mut SeededRng, most: f64) -> f64 {
    if rng.random_bool(0.5) { rng.f64() * most } else { 0.0 }
}

fn random_delay(rng: &mut SeededRng, most: f64, by: Duration) -> RandomDelay {
    RandomDelay { rate: random_rate(rng, most), by: rng.duration(Duration::from_millis(100)..by) }
}

fn random_api_faults(rng: &mut SeededRng) -> ApiFaults {
    ApiFaults {
        errors: random_rate(rng, 0.3),
        conflicts: random_rate(rng, 0.4),
        slow: random_delay(rng, 0.3, Duration::from_secs(10)),
        lost_answers: random_rate(rng, 0.2),
        timeouts: random_rate(rng, 0.05),
        expired: random_rate(rng, 0.3),
        watch_cuts: random_rate(rng, 0.2),
        watch_delays: random_delay(rng, 0.2, Duration::from_secs(20)),
        duplicates: random_rate(rng, 0.2),
        reorders: random_rate(rng, 0.2),
    }
}

fn random_cloud_faults(rng: &mut SeededRng, last: Duration) -> CloudFaults {
    let delay = Duration::from_secs(1)..Duration::from_mins(8);
    CloudFaults {
        launch_delay: if rng.random_bool(0.4) { rng.duration(delay) } else { Duration::ZERO },
        shortages: if rng.random_bool(0.5) { vec![random_shortage(rng)] } else { Vec::new() },
        lost_instances: RandomDelay {
            rate: random_rate(rng, 0.3),
            by: rng.duration(Duration::from_mins(1)..last / 25),
        },
        failed_registrations: random_rate(rng, 0.4),
        calls: CallFaults {
            errors: random_rate(rng, 0.3),
            slow: random_delay(rng, 0.3, Duration::from_secs(30)),
            lost_answers: random_rate(rng, 0.3),
        },
        methods: std::collections::BTreeMap::new(),
        calls_in_flight: None,
    }
}

/// Returns a shortage of a zone, some types, a capacity type, or everything.
fn random_shortage(rng: &mut SeededRng) -> Shortage {
    let any = Shortage::default();
    let pick =
        |rng: &mut SeededRng, all: &[&str]| rng.pick(all).copied().unwrap_or_default().to_owned();
    match rng.range(0..4) {
        0 => Shortage {
            zone: pick(rng, &["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"]),
            ..any
        },
        1 => Shortage { instance_type: pick(rng, &["*-4x-*", "*-8x-*", "c-*", "s-*"]), ..any },
        2 => Shortage { capacity_type: pick(rng, &["spot", "on-demand"]), ..any },
        _ => any,
    }
}
