//! The plan of a swarm world: its options, initial objects and steps.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::cloud::PriceChange;
use crate::faults::FaultSpec;
use crate::objects;

/// What all worlds of a swarm have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `consolidateAfter` of every pool; if it does not say, that is drawn.
    pub consolidate_after: Option<String>,
    /// How long things happen.
    pub busy: Duration,
    /// How long the world then has to come to rest.
    pub rest: Duration,
    /// How long it must be quiet after that.
    pub quiet: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            consolidate_after: None,
            busy: Duration::from_hours(20),
            rest: Duration::from_hours(3),
            quiet: Duration::from_hours(1),
        }
    }
}

impl Options {
    /// The arguments of `cargo xtask swarm` that give these, each after a space.
    pub fn arguments(&self) -> String {
        let usual = Self::default();
        let length = if self.busy == Self::short().busy {
            " --short".to_owned()
        } else if self.busy == usual.busy {
            String::new()
        } else {
            format!(" --hours {}", self.busy.as_secs() / 3600)
        };
        match &self.consolidate_after {
            None => length,
            Some(after) => format!("{length} --consolidate-after {after}"),
        }
    }

    /// For a quick run: two hours instead of a day.
    pub fn short() -> Self {
        Self {
            busy: Duration::from_hours(1),
            rest: Duration::from_mins(40),
            quiet: Duration::from_mins(20),
            ..Self::default()
        }
    }
}

/// The plan of a world: its initial objects and its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub objects: Vec<Value>,
    /// In the order of their times.
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Since the start.
    pub at: Duration,
    pub action: PlanAction,
}

/// An action of a plan on the world, its faults or the product.
/// Numbers choose among the objects that exist at that time: the object at that position, modulo
/// their count.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanAction {
    Apply(Value),
    Delete(Value),
    Scale {
        kind: &'static str,
        name: String,
        replicas: u64,
    },
    /// Deletes a Node.
    DeleteNode(u64),
    DeleteClaim(u64),
    /// Deletes so many pods in a row.
    DeletePods {
        first: u64,
        count: u64,
    },
    /// A kubelet falls silent.
    Silence(u64),
    /// Deletes the Nodes whose kubelets are silent.
    DeleteSilentNodes,
    /// The cloud takes an instance away.
    LoseInstance(u64),
    /// Removes an instance of the product's last command from the cloud.
    LoseInstanceOfCommand(u64),
    /// Deletes a NodeClaim of the product's last command.
    DeleteClaimOfCommand(u64),
    /// Replaces all price changes by these.
    ChangePrices(Vec<PriceChange>),
    /// Runs the action this long after the product's next command has started.
    AfterNextCommand {
        after: Duration,
        action: Box<PlanAction>,
    },
    /// Replaces all faults by these.
    Faults(Box<FaultSpec>),
    /// The product's process is killed, and started again after a while.
    Restart {
        down: Duration,
    },
}

impl fmt::Display for PlanAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apply(object) => write!(f, "apply {}", objects::describe(object)),
            Self::Delete(object) => write!(f, "delete {}", objects::describe(object)),
            Self::Scale { kind, name, replicas } => write!(f, "scale {kind} {name} to {replicas}"),
            Self::DeleteNode(_) => f.write_str("delete a Node"),
            Self::DeleteClaim(_) => f.write_str("delete a NodeClaim"),
            Self::DeletePods { count, .. } => write!(f, "delete {count} pods"),
            Self::Silence(_) => f.write_str("a kubelet falls silent"),
            Self::DeleteSilentNodes => f.write_str("delete silent Nodes"),
            Self::LoseInstance(_) => f.write_str("an instance is lost"),
            Self::LoseInstanceOfCommand(_) => {
                f.write_str("an instance of the last command is lost")
            }
            Self::DeleteClaimOfCommand(_) => f.write_str("delete a NodeClaim of the last command"),
            Self::ChangePrices(changes) if changes.is_empty() => f.write_str("prices are as usual"),
            Self::ChangePrices(changes) => {
                let shown: Vec<String> = changes.iter().map(changed).collect();
                write!(f, "prices: {}", shown.join(", "))
            }
            Self::AfterNextCommand { after, action } => {
                write!(f, "{}s after the next command begins: {action}", after.as_secs())
            }
            Self::Faults(faults) if **faults == FaultSpec::default() => {
                f.write_str("no more faults")
            }
            Self::Faults(faults) => write!(f, "faults: {}", shown(faults)),
            Self::Restart { down } => write!(f, "the product is killed for {}s", down.as_secs()),
        }
    }
}

fn changed(change: &PriceChange) -> String {
    let PriceChange { instance_type, zone, capacity_type, factor } = change;
    format!("{capacity_type} {instance_type} in {zone} × {factor:.2}")
}

/// What of it is on.
fn shown(faults: &FaultSpec) -> String {
    let FaultSpec { api, cloud, length } = faults;
    let mut on = Vec::new();
    let mut add = |name: &str, rate: f64| {
        if rate > 0.0 {
            on.push(format!("{name} {rate:.2}"));
        }
    };
    add("errors", api.errors);
    add("conflicts", api.conflicts);
    add("slow", api.slow.rate);
    add("lost answers", api.lost_answers);
    add("timeouts", api.timeouts);
    add("expired", api.expired);
    add("watch cuts", api.watch_cuts);
    add("watch delays", api.watch_delays.rate);
    add("duplicates", api.duplicates);
    add("reorders", api.reorders);
    add("cloud errors", cloud.calls.errors);
    add("cloud slow", cloud.calls.slow.rate);
    add("cloud lost answers", cloud.calls.lost_answers);
    add("lost instances", cloud.lost_instances.rate);
    add("failed registrations", cloud.failed_registrations);
    if !cloud.launch_delay.is_zero() {
        on.push(format!("launches take {}s longer", cloud.launch_delay.as_secs()));
    }
    for short in &cloud.shortages {
        on.push(format!("no {} {} in {}", short.capacity_type, short.instance_type, short.zone));
    }
    let minutes = length.map(|length| format!(" for {}m", length.as_secs() / 60));
    format!("{}{}", on.join(", "), minutes.unwrap_or_default())
}
