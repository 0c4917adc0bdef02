//! Pools of a world, and what people change about them.

use std::time::Duration;

use karpenter_api::labels::{self, kwok};
use karpenter_operator::chance::Chance;
use serde_json::{Value, json};

use super::some_time;
use crate::swarm::plan::{Options, Step, What};

/// The label by which apps ask for nodes of their own.
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
    /// Is asked first, and has limits.
    Limited,
    /// Is asked first, and has spot capacity alone.
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

pub(super) fn draw(chance: &mut Chance, options: &Options) -> Vec<Pool> {
    let optional = [Kind::Limited, Kind::Spot, Kind::Arm, Kind::Dedicated];
    let mut kinds = vec![Kind::Base];
    kinds.extend(optional.into_iter().filter(|_| chance.happens(0.5)));
    let mut pool = |kind| Pool { kind, manifest: manifest(kind, chance, options) };
    kinds.into_iter().map(&mut pool).collect()
}

fn manifest(kind: Kind, chance: &mut Chance, options: &Options) -> Value {
    let is_in =
        |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let sizes: &[&[&str]] = &[&["4", "8"], &["2", "4", "8", "16"], &["8", "16"]];
    let sizes = chance.pick(sizes).copied().unwrap_or(&["8"]);
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
    if chance.happens(0.4) {
        // Some expire several times a day.
        let minutes = options.busy.as_secs() / 60;
        template["expireAfter"] = format!("{}m", chance.range(minutes / 10..minutes / 2)).into();
    }
    if chance.happens(0.3) {
        template["terminationGracePeriod"] = format!("{}m", chance.range(2..30)).into();
    }
    let mut spec = json!({
        "disruption": {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": options.consolidate_after,
        },
    });
    let mut metadata = json!({});
    match kind {
        Kind::Base => {}
        Kind::Limited => {
            spec["weight"] = 50.into();
            spec["limits"] = json!({"cpu": chance.range(4..40).to_string()});
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

/// What lets pods onto nodes of the team.
pub(super) fn team_of(spec: &mut Value) {
    spec["nodeSelector"] = json!({TEAM: "a"});
    spec["tolerations"] = json!([{"key": TAINT, "operator": "Exists"}]);
}

/// The pool without an end of its nodes, if it has one.
pub(super) fn without_expiry(pool: &Pool) -> Option<Value> {
    let mut manifest = pool.manifest.clone();
    let expiry = &mut manifest["spec"]["template"]["spec"]["expireAfter"];
    if *expiry == "Never" {
        return None;
    }
    *expiry = "Never".into();
    Some(manifest)
}

pub(super) fn edits(steps: &mut Vec<Step>, chance: &mut Chance, pools: &[Pool], last: Duration) {
    for pool in pools {
        for _ in 0..chance.range(0..3) {
            let mut edited = pool.manifest.clone();
            if pool.kind == Kind::Limited {
                edited["spec"]["limits"]["cpu"] = chance.range(4..60).to_string().into();
            } else {
                let label = format!("v{}", chance.range(1..100));
                edited["spec"]["template"]["metadata"]["labels"]["example.com/release"] =
                    label.into();
            }
            steps.push(Step { at: some_time(chance, last), what: What::Apply(edited) });
        }
        // Nobody depends on these two.
        if matches!(pool.kind, Kind::Limited | Kind::Spot) && chance.happens(0.3) {
            let at = some_time(chance, last);
            steps.push(Step { at, what: What::Delete(pool.manifest.clone()) });
            if chance.happens(0.7) {
                let later = chance.duration(Duration::from_secs(1)..Duration::from_hours(1));
                let again = What::Apply(pool.manifest.clone());
                steps.push(Step { at: at + later, what: again });
            }
        }
    }
}
