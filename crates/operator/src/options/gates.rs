//! Feature gates: their registry, and how `--feature-gates` is read (spec 40 §7.3, spec 45 §2).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::flags::go_bool;

/// The gates that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// Nodes whose conditions match a repair policy are replaced or restarted.
    NodeRepair,
    /// Reserved offerings are used.
    ReservedCapacity,
    /// Spot nodes may be replaced by cheaper spot nodes.
    SpotToSpotConsolidation,
    /// NodeOverlays change prices and capacities.
    NodeOverlay,
    /// NodePools with replicas.
    StaticCapacity,
    /// CapacityBuffers keep spare capacity.
    CapacityBuffer,
    /// Drift may end a node before its replacement is there.
    TerminateFirstDrift,
    /// Repair may end a node before its replacement is there.
    TerminateFirstRepair,
    /// Pods get deletion costs, so that workloads that shrink leave nodes that are to go.
    PodDeletionCostManagement,
}

/// A feature gate as the registry lists it.
#[derive(Clone, Copy, Debug)]
pub struct GateEntry {
    /// The gate.
    pub gate: Gate,
    /// Its name in `--feature-gates`.
    pub name: &'static str,
    /// Whether it is enabled by default.
    pub default: bool,
    /// How finished it is: alpha or beta.
    pub stage: &'static str,
    /// What it does, for a person.
    pub help: &'static str,
}

/// Every gate, in the order in which upstream lists them.
pub const GATES: [GateEntry; 9] = [
    alpha(
        Gate::NodeRepair,
        "NodeRepair",
        "Replaces or restarts nodes with a condition that matches a repair policy of the \
         provider, within disruption budgets.",
    ),
    GateEntry {
        gate: Gate::ReservedCapacity,
        name: "ReservedCapacity",
        default: true,
        stage: "beta",
        help: "Launches into capacity reservations, and prefers them to everything else.",
    },
    alpha(
        Gate::SpotToSpotConsolidation,
        "SpotToSpotConsolidation",
        "Lets consolidation replace spot nodes with cheaper spot nodes.",
    ),
    alpha(
        Gate::NodeOverlay,
        "NodeOverlay",
        "Applies the prices and capacities of NodeOverlays to instance types.",
    ),
    alpha(
        Gate::StaticCapacity,
        "StaticCapacity",
        "Keeps NodePools with `spec.replicas` at that number of nodes, whatever pods need.",
    ),
    alpha(
        Gate::CapacityBuffer,
        "CapacityBuffer",
        "Keeps the spare capacity that CapacityBuffers ask for.",
    ),
    alpha(
        Gate::TerminateFirstDrift,
        "TerminateFirstDrift",
        "Ends a drifted node before its replacement is ready where the replacement cannot be \
         launched first, as in a full reservation.",
    ),
    alpha(
        Gate::TerminateFirstRepair,
        "TerminateFirstRepair",
        "The same for unhealthy nodes. Has no effect without NodeRepair.",
    ),
    alpha(
        Gate::PodDeletionCostManagement,
        "PodDeletionCostManagement",
        "Writes `controller.kubernetes.io/pod-deletion-cost`, so that workloads that shrink leave \
         nodes that are to go, and no longer reads it as a disruption cost.",
    ),
];

const fn alpha(gate: Gate, name: &'static str, help: &'static str) -> GateEntry {
    GateEntry { gate, name, default: false, stage: "alpha", help }
}

/// Which gates are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    enabled: BTreeSet<Gate>,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self {
            enabled: GATES.iter().filter(|entry| entry.default).map(|entry| entry.gate).collect(),
        }
    }
}

impl FeatureGates {
    /// Parses `Name=bool,…` on top of the defaults. Unknown names are ignored; the last of several
    /// pairs counts.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut gates = Self::default();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or("malformed pair, expect string=bool")?;
            let (name, value) = (name.trim(), value.trim());
            let value = go_bool(value)
                .ok_or_else(|| format!("invalid value of {name}: {value}, expect a boolean"))?;
            if let Some(entry) = GATES.iter().find(|entry| entry.name == name) {
                gates = gates.with_gate(entry.gate, value);
            }
        }
        Ok(gates)
    }

    /// Returns the names in a text that are not feature gates, each once.
    pub fn unknown_names(text: &str) -> Vec<&str> {
        let names = text.split(',').filter_map(|pair| Some(pair.split_once('=')?.0.trim()));
        let mut unknown = Vec::new();
        for name in names.filter(|name| !GATES.iter().any(|entry| entry.name == *name)) {
            if !unknown.contains(&name) {
                unknown.push(name);
            }
        }
        unknown
    }

    /// All names.
    pub fn names() -> Vec<&'static str> {
        GATES.iter().map(|entry| entry.name).collect()
    }

    /// Returns the text of the defaults.
    pub fn default_text() -> String {
        let mut text = String::new();
        for (index, GateEntry { name, default, .. }) in GATES.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(text, "{comma}{name}={default}");
        }
        text
    }

    /// Whether the feature gate is enabled.
    pub fn is_enabled(&self, gate: Gate) -> bool {
        self.enabled.contains(&gate)
    }

    /// Returns the gates with this one enabled or disabled.
    #[must_use]
    pub fn with_gate(mut self, gate: Gate, is_on: bool) -> Self {
        if is_on {
            self.enabled.insert(gate);
        } else {
            self.enabled.remove(&gate);
        }
        self
    }
}
