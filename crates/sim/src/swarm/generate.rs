//! Generates the plan of a world from its seed.
//!
//! What a purpose draws does not depend on the others (see [`SeededRng::fork`]): a change of how
//! pools are made leaves the faults of a seed as they are.
//!
//! Whatever is drawn, every pod can run in the end: the pool `base` takes all pods without special
//! requirements, no budget forbids every eviction for ever, and later steps delete all that is lost
//! or broken.

mod apps;
mod fault_windows;
mod pools;

use std::time::Duration;

use karpenter_operator::rng::SeededRng;

use self::apps::App;
use super::plan::{Options, Plan, PlanAction, Step};

/// The world of a seed.
pub fn generate(seed: u64, options: &Options) -> Plan {
    let rng = SeededRng::new(seed).fork("swarm");
    let pools = pools::random_pools(&mut rng.fork("pools"), options);
    let mut apps = apps::random_apps(&mut rng.fork("apps"), &pools);
    let unprotected = apps::add_do_not_disrupt(&mut rng.fork("protect"), &mut apps);
    let mut objects: Vec<_> = pools.iter().map(|pool| pool.manifest.clone()).collect();
    objects.push(apps::storage_class());
    objects.extend(apps.iter().flat_map(|app| app.manifests.iter().cloned()));
    // Nothing begins in the last part of the busy time: what lasts has to end.
    let last = options.busy.mul_f64(0.95);
    let mut steps = Vec::new();
    add_scaling(&mut steps, &mut rng.fork("scale"), &apps, last);
    pools::add_edits(&mut steps, &mut rng.fork("edits"), &pools, last);
    apps::add_jobs(&mut steps, &mut rng.fork("jobs"), last);
    add_manual_deletions(&mut steps, &mut rng.fork("by hand"), last);
    add_scale_waves(&mut steps, &mut rng.fork("waves"), &apps, last);
    apps::add_blocking_budgets(&mut steps, &mut rng.fork("blocks"), &apps, last);
    fault_windows::add_fault_windows(&mut steps, &mut rng.fork("troubles"), last);
    fault_windows::add_price_changes(&mut steps, &mut rng.fork("prices"), last);
    fault_windows::add_actions_during_commands(&mut steps, &mut rng.fork("in commands"), last);
    add_restarts(&mut steps, &mut rng.fork("restarts"), last);
    let rest = options.busy;
    steps.push(Step { at: rest, action: PlanAction::Faults(Box::default()) });
    steps.push(Step { at: rest, action: PlanAction::DeleteSilentNodes });
    // What was to expire expires once more, and then no more. Nothing keeps nodes for ever.
    let last_words = pools.iter().filter_map(pools::without_timed_disruption).chain(unprotected);
    let last_words = last_words.chain(apps::relaxed_budgets(&apps));
    steps.extend(last_words.map(|object| Step { at: rest, action: PlanAction::Apply(object) }));
    steps.sort_by_key(|step| step.at);
    Plan { objects, steps }
}

/// Returns a random time up to `last`, in whole milliseconds.
fn random_time(rng: &mut SeededRng, last: Duration) -> Duration {
    let millis = u64::try_from(last.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(rng.range(1_000..millis.max(1_001)))
}

fn add_scaling(steps: &mut Vec<Step>, rng: &mut SeededRng, apps: &[App], last: Duration) {
    for app in apps.iter().filter(|app| app.max_replicas > 0) {
        for _ in 0..rng.range(1..5) {
            // Mostly somewhere, sometimes to nothing or to all.
            let replicas = match rng.range(0..6) {
                0 => 0,
                1 => app.max_replicas,
                _ => rng.range(0..app.max_replicas + 1),
            };
            let action = PlanAction::Scale { kind: app.kind, name: app.name.clone(), replicas };
            steps.push(Step { at: random_time(rng, last), action });
        }
        if rng.random_bool(0.3) {
            let action = PlanAction::Apply(app.with_release(rng.range(1..1000)));
            steps.push(Step { at: random_time(rng, last), action });
        }
    }
}

/// Adds steps that scale all apps up and later down.
/// The remaining pods are then spread over too many nodes.
fn add_scale_waves(steps: &mut Vec<Step>, rng: &mut SeededRng, apps: &[App], last: Duration) {
    for _ in 0..rng.range(0..4) {
        let at = random_time(rng, last.mul_f64(0.9));
        let until = at + rng.duration(last / 100..last / 12);
        for app in apps.iter().filter(|app| app.max_replicas > 0) {
            let (name, kind) = (app.name.clone(), app.kind);
            let up = PlanAction::Scale { kind, name: name.clone(), replicas: app.max_replicas };
            let down =
                PlanAction::Scale { kind, name, replicas: rng.range(0..app.max_replicas / 2 + 1) };
            steps.push(Step { at, action: up });
            steps.push(Step { at: until, action: down });
        }
    }
}

/// Adds manual deletions of objects, lost instances and silent kubelets.
fn add_manual_deletions(steps: &mut Vec<Step>, rng: &mut SeededRng, last: Duration) {
    for _ in 0..rng.range(3..12) {
        let at = random_time(rng, last);
        let which = rng.range(0..1000);
        let action = match rng.range(0..6) {
            0 => PlanAction::DeleteNode(which),
            1 => PlanAction::DeleteClaim(which),
            2 | 3 => PlanAction::DeletePods { first: which, count: rng.range(1..10) },
            4 => PlanAction::LoseInstance(which),
            _ => {
                let later = rng.duration(last / 200..last / 12);
                steps.push(Step { at: at + later, action: PlanAction::DeleteSilentNodes });
                PlanAction::Silence(which)
            }
        };
        steps.push(Step { at, action });
    }
}

/// Adds restarts of the product, many of them right after another step.
fn add_restarts(steps: &mut Vec<Step>, rng: &mut SeededRng, last: Duration) {
    let begun: Vec<Duration> = steps
        .iter()
        .filter(|step| !matches!(step.action, PlanAction::Faults(_)) && step.at < last)
        .map(|step| step.at)
        .collect();
    for _ in 0..rng.range(2..10) {
        let at = match rng.pick(&begun) {
            Some(begun) if rng.random_bool(0.6) => {
                *begun + Duration::from_millis(rng.range(1..60_000))
            }
            _ => random_time(rng, last),
        };
        let down = match rng.range(0..4) {
            0 => Duration::ZERO,
            1 => rng.duration(last / 1000..last / 60),
            _ => rng.duration(Duration::from_secs(1)..Duration::from_secs(30)),
        };
        steps.push(Step { at, action: PlanAction::Restart { down } });
    }
}

/// Returns the action that ends all faults.
fn no_faults() -> PlanAction {
    PlanAction::Faults(Box::default())
}
