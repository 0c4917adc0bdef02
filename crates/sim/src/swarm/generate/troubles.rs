//! What goes wrong in a world, and when.

use std::time::Duration;

use karpenter_operator::chance::Chance;

use super::{no_trouble, some_time};
use crate::cloud::{CallFaults, CloudFaults, PriceChange, Shortage};
use crate::faults::{ApiFaults, Late, Trouble};
use crate::swarm::plan::{Step, What};

/// Windows of faults, one after the other. Where two overlap, the later one replaces the first.
pub(super) fn draw(steps: &mut Vec<Step>, chance: &mut Chance, last: Duration) {
    for _ in 0..chance.range(2..8) {
        let at = some_time(chance, last);
        let length = chance.duration(Duration::from_mins(2)..last / 12);
        let trouble = Trouble {
            api: if chance.happens(0.6) { api(chance) } else { ApiFaults::default() },
            cloud: if chance.happens(0.6) { cloud(chance, last) } else { CloudFaults::default() },
            length: Some(length),
        };
        steps.push(Step { at, what: What::Trouble(Box::new(trouble)) });
        if chance.happens(0.2) {
            steps.push(Step { at: at + length / 2, what: no_trouble() });
        }
    }
}

/// Prices that change, for a while or for good.
pub(super) fn prices(steps: &mut Vec<Step>, chance: &mut Chance, last: Duration) {
    for _ in 0..chance.range(0..4) {
        let at = some_time(chance, last.mul_f64(0.85));
        let mut other = || {
            let Shortage { instance_type, zone, capacity_type, .. } = shortage(chance);
            let factor = if chance.happens(0.5) { 1.05 } else { 0.3 };
            let factor = factor + chance.f64() * 1.5 * factor;
            PriceChange { instance_type, zone, capacity_type, factor }
        };
        let changes = vec![other(), other()];
        steps.push(Step { at, what: What::Prices(changes) });
        if chance.happens(0.5) {
            let later = chance.duration(last / 100..last / 8);
            steps.push(Step { at: at + later, what: What::Prices(Vec::new()) });
        }
    }
}

/// What happens in the first half minute of a command: then there is the most to lose.
pub(super) fn in_commands(steps: &mut Vec<Step>, chance: &mut Chance, last: Duration) {
    for _ in 0..chance.range(2..8) {
        let at = some_time(chance, last);
        let after = chance.duration(Duration::from_millis(1)..Duration::from_secs(30));
        let which = chance.range(0..1000);
        let what = match chance.range(0..4) {
            0 => What::LoseOfCommand(which),
            1 => What::DeleteOfCommand(which),
            _ => What::Restart { down: chance.duration(Duration::ZERO..Duration::from_secs(30)) },
        };
        steps.push(Step { at, what: What::WhenDisrupting { after, what: Box::new(what) } });
    }
}

/// Some of the faults, each up to this rate.
fn some(chance: &mut Chance, most: f64) -> f64 {
    if chance.happens(0.5) { chance.f64() * most } else { 0.0 }
}

fn late(chance: &mut Chance, most: f64, by: Duration) -> Late {
    Late { rate: some(chance, most), by: chance.duration(Duration::from_millis(100)..by) }
}

fn api(chance: &mut Chance) -> ApiFaults {
    ApiFaults {
        errors: some(chance, 0.3),
        conflicts: some(chance, 0.4),
        slow: late(chance, 0.3, Duration::from_secs(10)),
        lost_answers: some(chance, 0.2),
        timeouts: some(chance, 0.05),
        expired: some(chance, 0.3),
        watch_cuts: some(chance, 0.2),
        watch_delays: late(chance, 0.2, Duration::from_secs(20)),
        duplicates: some(chance, 0.2),
        reorders: some(chance, 0.2),
    }
}

fn cloud(chance: &mut Chance, last: Duration) -> CloudFaults {
    let delay = Duration::from_secs(1)..Duration::from_mins(8);
    CloudFaults {
        launch_delay: if chance.happens(0.4) { chance.duration(delay) } else { Duration::ZERO },
        shortages: if chance.happens(0.5) { vec![shortage(chance)] } else { Vec::new() },
        lost_instances: Late {
            rate: some(chance, 0.3),
            by: chance.duration(Duration::from_mins(1)..last / 25),
        },
        failed_registrations: some(chance, 0.4),
        calls: CallFaults {
            errors: some(chance, 0.3),
            slow: late(chance, 0.3, Duration::from_secs(30)),
            lost_answers: some(chance, 0.3),
        },
        methods: std::collections::BTreeMap::new(),
        calls_in_flight: None,
    }
}

/// A zone, a size or a kind of capacity; now and then everything.
fn shortage(chance: &mut Chance) -> Shortage {
    let any = Shortage::default();
    let pick = |chance: &mut Chance, all: &[&str]| {
        chance.pick(all).copied().unwrap_or_default().to_owned()
    };
    match chance.range(0..4) {
        0 => Shortage {
            zone: pick(chance, &["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"]),
            ..any
        },
        1 => Shortage { instance_type: pick(chance, &["*-4x-*", "*-8x-*", "c-*", "s-*"]), ..any },
        2 => Shortage { capacity_type: pick(chance, &["spot", "on-demand"]), ..any },
        _ => any,
    }
}
