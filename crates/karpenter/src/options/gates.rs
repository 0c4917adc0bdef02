//! Feature gates: names, defaults, and how `--feature-gates` is read.

use std::collections::BTreeSet;

use super::go_bool;

/// The gates that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gate {
    NodeRepair,
    ReservedCapacity,
    SpotToSpotConsolidation,
    NodeOverlay,
    StaticCapacity,
    CapacityBuffer,
    TerminateFirstDrift,
    TerminateFirstRepair,
    PodDeletionCostManagement,
}

/// Name and default of each gate, in the order in which upstream lists them.
const GATES: [(Gate, &str, bool); 9] = [
    (Gate::NodeRepair, "NodeRepair", false),
    (Gate::ReservedCapacity, "ReservedCapacity", true),
    (Gate::SpotToSpotConsolidation, "SpotToSpotConsolidation", false),
    (Gate::NodeOverlay, "NodeOverlay", false),
    (Gate::StaticCapacity, "StaticCapacity", false),
    (Gate::CapacityBuffer, "CapacityBuffer", false),
    (Gate::TerminateFirstDrift, "TerminateFirstDrift", false),
    (Gate::TerminateFirstRepair, "TerminateFirstRepair", false),
    (Gate::PodDeletionCostManagement, "PodDeletionCostManagement", false),
];

/// Which gates are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FeatureGates {
    on: BTreeSet<Gate>,
}

impl Default for FeatureGates {
    fn default() -> Self {
        let on = GATES.iter().filter(|(.., default)| *default).map(|(gate, ..)| *gate).collect();
        Self { on }
    }
}

impl FeatureGates {
    /// Reads `Name=bool,…` on top of the defaults. Names that nobody knows are ignored; the last
    /// of several pairs counts.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut gates = Self::default();
        for pair in text.split(',').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or("malformed pair, expect string=bool")?;
            let (name, value) = (name.trim(), value.trim());
            let value = go_bool(value)
                .ok_or_else(|| format!("invalid value of {name}: {value}, expect a boolean"))?;
            let Some((gate, ..)) = GATES.iter().find(|(_, known, _)| *known == name) else {
                continue;
            };
            if value {
                gates.on.insert(*gate);
            } else {
                gates.on.remove(gate);
            }
        }
        Ok(gates)
    }

    /// The names in a text that are no gates.
    pub(crate) fn unknown(text: &str) -> Vec<&str> {
        let names = text.split(',').filter_map(|pair| Some(pair.split_once('=')?.0.trim()));
        names.filter(|name| !GATES.iter().any(|(_, known, _)| known == name)).collect()
    }

    /// All names.
    pub(crate) fn names() -> Vec<&'static str> {
        GATES.iter().map(|(_, name, _)| *name).collect()
    }

    pub(crate) fn is_on(&self, gate: Gate) -> bool {
        self.on.contains(&gate)
    }
}
