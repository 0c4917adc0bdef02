//! Worlds from numbers.
//!
//! What a purpose draws does not depend on the others (see [`Chance::fork`]): a change of how pools
//! are made leaves the faults of a seed as they are.
//!
//! Whatever is drawn, every pod can run in the end: the pool `base` takes all that has no special
//! wishes, no budget forbids every eviction for ever, and what is lost or broken is cleared away by
//! somebody.

mod apps;
mod pools;
mod troubles;

use std::time::Duration;

use karpenter_operator::chance::Chance;

use self::apps::App;
use super::plan::{Options, Plan, Step, What};

/// The world of a seed.
pub fn generate(seed: u64, options: &Options) -> Plan {
    let chance = Chance::new(seed).fork("swarm");
    let pools = pools::draw(&mut chance.fork("pools"), options);
    let mut apps = apps::draw(&mut chance.fork("apps"), &pools);
    let unprotected = apps::protect(&mut chance.fork("protect"), &mut apps);
    let mut objects: Vec<_> = pools.iter().map(|pool| pool.manifest.clone()).collect();
    objects.push(apps::storage_class());
    objects.extend(apps.iter().flat_map(|app| app.manifests.iter().cloned()));
    // Nothing begins in the last part of the busy time: what lasts has to end.
    let last = options.busy.mul_f64(0.95);
    let mut steps = Vec::new();
    scale(&mut steps, &mut chance.fork("scale"), &apps, last);
    pools::edits(&mut steps, &mut chance.fork("edits"), &pools, last);
    apps::jobs(&mut steps, &mut chance.fork("jobs"), last);
    by_hand(&mut steps, &mut chance.fork("by hand"), last);
    waves(&mut steps, &mut chance.fork("waves"), &apps, last);
    apps::blocks(&mut steps, &mut chance.fork("blocks"), &apps, last);
    troubles::draw(&mut steps, &mut chance.fork("troubles"), last);
    troubles::prices(&mut steps, &mut chance.fork("prices"), last);
    troubles::in_commands(&mut steps, &mut chance.fork("in commands"), last);
    restarts(&mut steps, &mut chance.fork("restarts"), last);
    let rest = options.busy;
    steps.push(Step { at: rest, what: What::Trouble(Box::default()) });
    steps.push(Step { at: rest, what: What::DeleteSilent });
    // What was to expire expires once more, and then no more. Nothing keeps nodes for ever.
    let last_words = pools.iter().filter_map(pools::at_rest).chain(unprotected);
    let last_words = last_words.chain(apps::loosened(&apps));
    steps.extend(last_words.map(|object| Step { at: rest, what: What::Apply(object) }));
    steps.sort_by_key(|step| step.at);
    Plan { objects, steps }
}

/// Some time of the day, in whole milliseconds.
fn some_time(chance: &mut Chance, last: Duration) -> Duration {
    let millis = u64::try_from(last.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(chance.range(1_000..millis.max(1_001)))
}

fn scale(steps: &mut Vec<Step>, chance: &mut Chance, apps: &[App], last: Duration) {
    for app in apps.iter().filter(|app| app.most > 0) {
        for _ in 0..chance.range(1..5) {
            // Mostly somewhere, sometimes to nothing or to all.
            let replicas = match chance.range(0..6) {
                0 => 0,
                1 => app.most,
                _ => chance.range(0..app.most + 1),
            };
            let what = What::Scale { kind: app.kind, name: app.name.clone(), replicas };
            steps.push(Step { at: some_time(chance, last), what });
        }
        if chance.happens(0.3) {
            let what = What::Apply(app.rolled(chance.range(1..1000)));
            steps.push(Step { at: some_time(chance, last), what });
        }
    }
}

/// Everything grows, and shrinks again: what is left is spread over too many nodes.
fn waves(steps: &mut Vec<Step>, chance: &mut Chance, apps: &[App], last: Duration) {
    for _ in 0..chance.range(0..4) {
        let at = some_time(chance, last.mul_f64(0.9));
        let until = at + chance.duration(last / 100..last / 12);
        for app in apps.iter().filter(|app| app.most > 0) {
            let (name, kind) = (app.name.clone(), app.kind);
            let up = What::Scale { kind, name: name.clone(), replicas: app.most };
            let down = What::Scale { kind, name, replicas: chance.range(0..app.most / 2 + 1) };
            steps.push(Step { at, what: up });
            steps.push(Step { at: until, what: down });
        }
    }
}

/// What people do with `kubectl delete`, and what machines do by themselves.
fn by_hand(steps: &mut Vec<Step>, chance: &mut Chance, last: Duration) {
    for _ in 0..chance.range(3..12) {
        let at = some_time(chance, last);
        let which = chance.range(0..1000);
        let what = match chance.range(0..6) {
            0 => What::DeleteNode(which),
            1 => What::DeleteClaim(which),
            2 | 3 => What::DeletePods { first: which, count: chance.range(1..10) },
            4 => What::LoseInstance(which),
            _ => {
                let later = chance.duration(last / 200..last / 12);
                steps.push(Step { at: at + later, what: What::DeleteSilent });
                What::Silence(which)
            }
        };
        steps.push(Step { at, what });
    }
}

/// Half of the restarts come when something has just begun: then there is something to lose.
fn restarts(steps: &mut Vec<Step>, chance: &mut Chance, last: Duration) {
    let begun: Vec<Duration> = steps
        .iter()
        .filter(|step| !matches!(step.what, What::Trouble(_)) && step.at < last)
        .map(|step| step.at)
        .collect();
    for _ in 0..chance.range(2..10) {
        let at = match chance.pick(&begun) {
            Some(begun) if chance.happens(0.6) => {
                *begun + Duration::from_millis(chance.range(1..60_000))
            }
            _ => some_time(chance, last),
        };
        let down = match chance.range(0..4) {
            0 => Duration::ZERO,
            1 => chance.duration(last / 1000..last / 60),
            _ => chance.duration(Duration::from_secs(1)..Duration::from_secs(30)),
        };
        steps.push(Step { at, what: What::Restart { down } });
    }
}

/// The end of faults, to be said when a window of them is over.
fn no_trouble() -> What {
    What::Trouble(Box::default())
}
