//! Generates the NodePools of a world, and the changes that people make to them.

use std::time::Duration;

use karpenter_api::labels::{self, kwok};
use karpenter_operator::rng::SeededRng;
use serde_json::{Value, json};

use super::random_time;
use crate::swarm::plan::{Options, PlanAction, Step};

/// The label by which apps select nodes of their own.
pub(super) const TEAM: &str = "example.com/team";
const TAINT: &str = "example.com/dedicated";

#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) kind: Kind,
    pub(super) manifest: Value,
}

/// What a pool is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Takes everything, always.
    Base,
    /// Has a higher weight, and limits.
    Limited,
    /// Has a higher weight, and spot capacity alone.
    Spot,
    /// Has arm64 nodes.
    Arm,
    /// Has tainted nodes, for one team.
    Dedicated,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Limited => "limited",
            Self::Spot => "spot",
            Self::Arm => "arm",
            Self::Dedicated => "dedicated",
        }
    }
}

pub(super) fn random_pools(rng: &mut SeededRng, options: &Options) -> Vec<Pool> {
    let optional = [Kind::Limited, Kind::Spot, Kind::Arm, Kind::Dedicated];
    let mut kinds = vec![Kind::Base];
    kinds.extend(optional.into_iter().filter(|_| rng.random_bool(0.5)));
    let mut of_disruption = rng.fork("disruption");
    // In some worlds nodes do not expire.
    let never = of_disruption.random_bool(1.0 / 3.0).then(|| "Never".to_owned());
    let after = options.consolidate_after.clone().or(never);
    let mut pool = |kind| {
        let mut manifest = manifest(kind, rng, options);
        manifest["spec"]["disruption"] = disruption(&mut of_disruption, after.as_deref());
        Pool { kind, manifest }
    };
    kinds.into_iter().map(&mut pool).collect()
}

/// When and how fast nodes of a pool may go. Drift gets its turn under all of it.
fn disruption(rng: &mut SeededRng, after: Option<&str>) -> Value {
    let drawn = *rng.pick(&["30s", "2m", "15m"]).expect("there are times");
    let policies =
        ["WhenEmpty", "WhenEmptyOrUnderutilized", "WhenEmptyOrUnderutilized", "Balanced"];
    let mut disruption = json!({
        "consolidationPolicy": rng.pick(&policies),
        "consolidateAfter": after.unwrap_or(drawn),
    });
    let budgets = match rng.range(0..7) {
        0 => json!([{"nodes": "1"}]),
        1 => json!([{"nodes": "100%"}]),
        2 => {
            json!([{"nodes": "50%"}, {"nodes": "0", "schedule": "*/20 * * * *", "duration": "10m"}])
        }
        3 => json!([{"nodes": "2"}, {"nodes": "0", "schedule": "0 */2 * * *", "duration": "1h"}]),
        4 => json!([{"nodes": "50%"}, {"nodes": "1", "reasons": ["Underutilized"]}]),
        5 => {
            json!([{"nodes": "34%", "reasons": ["Drifted"]}, {"nodes": "3", "reasons": ["Empty"]}])
        }
        _ => return disruption,
    };
    disruption["budgets"] = budgets;
    disruption
}

fn manifest(kind: Kind, rng: &mut SeededRng, options: &Options) -> Value {
    let is_in =
        |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let sizes: &[&[&str]] = &[&["4", "8"], &["2", "4", "8", "16"], &["8", "16"]];
    let sizes = rng.pick(sizes).copied().unwrap_or(&["8"]);
    let arch = if kind == Kind::Arm { labels::ARM64 } else { labels::AMD64 };
    let mut requirements = vec![
        is_in(labels::OS, &[labels::LINUX]),
        is_in(labels::ARCH, &[arch]),
        is_in(kwok::INSTANCE_CPU, sizes),
    ];
    if kind == Kind::Spot {
        requirements.push(is_in(labels::CAPACITY_TYPE, &["spot"]));
    }
    let mut template = json!({
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "requirements": requirements,
        "expireAfter": "Never",
    });
    if rng.random_bool(0.4) {
        // Some expire several times a day.
        let minutes = options.busy.as_secs() / 60;
        template["expireAfter"] = format!("{}m", rng.range(minutes / 10..minutes / 2)).into();
    }
    if rng.random_bool(0.3) {
        template["terminationGracePeriod"] = format!("{}m", rng.range(2..30)).into();
    }
    let mut spec = json!({});
    let mut metadata = json!({});
    match kind {
        Kind::Base => {}
        Kind::Limited => {
            spec["weight"] = 50.into();
            spec["limits"] = json!({"cpu": rng.range(4..40).to_string()});
        }
        Kind::Spot => spec["weight"] = 80.into(),
        Kind::Arm => spec["weight"] = 1.into(),
        Kind::Dedicated => {
            template["taints"] = json!([{"key": TAINT, "value": "a", "effect": "NoSchedule"}]);
            metadata = json!({"labels": {TEAM: "a"}});
        }
    }
    spec["template"] = json!({"metadata": metadata, "spec": template});
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": kind.name()},
        "spec": spec,
    })
}

/// Adds the node selector and toleration that let pods onto the team's nodes.
pub(super) fn select_team_nodes(spec: &mut Value) {
    spec["nodeSelector"] = json!({TEAM: "a"});
    spec["tolerations"] = json!([{"key": TAINT, "operator": "Exists"}]);
}

/// Returns the pool without expiration and scheduled budgets, if it has any.
pub(super) fn without_timed_disruption(pool: &Pool) -> Option<Value> {
    let mut manifest = pool.manifest.clone();
    manifest["spec"]["template"]["spec"]["expireAfter"] = "Never".into();
    if let Some(budgets) = manifest["spec"]["disruption"]["budgets"].as_array_mut() {
        budgets.retain(|budget| budget.get("schedule").is_none());
    }
    (manifest != pool.manifest).then_some(manifest)
}

pub(super) fn add_edits(
    steps: &mut Vec<Step>,
    rng: &mut SeededRng,
    pools: &[Pool],
    last: Duration,
) {
    for pool in pools {
        for _ in 0..rng.range(0..3) {
            let mut edited = pool.manifest.clone();
            if pool.kind == Kind::Limited {
                edited["spec"]["limits"]["cpu"] = rng.range(4..60).to_string().into();
            } else {
                let label = format!("v{}", rng.range(1..100));
                edited["spec"]["template"]["metadata"]["labels"]["example.com/release"] =
                    label.into();
            }
            steps.push(Step { at: random_time(rng, last), action: PlanAction::Apply(edited) });
        }
        // No pod depends on these two pools.
        if matches!(pool.kind, Kind::Limited | Kind::Spot) && rng.random_bool(0.3) {
            let at = random_time(rng, last);
            steps.push(Step { at, action: PlanAction::Delete(pool.manifest.clone()) });
            if rng.random_bool(0.7) {
                let later = rng.duration(Duration::from_secs(1)..Duration::from_hours(1));
                let again = PlanAction::Apply(pool.manifest.clone());
                steps.push(Step { at: at + later, action: again });
            }
        }
    }
}
