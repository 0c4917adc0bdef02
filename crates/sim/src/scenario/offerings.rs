//! Checks that the cloud of a world offers the names that a scenario uses: instance types, zones,
//! capacity types. The built-in catalog offers every type in every zone in both ways, so each name
//! is checked on its own.

use std::collections::BTreeSet;

use karpenter_api::labels;
use karpenter_kwok::catalog;

use super::error_text::suggestion;
use super::{Action, Launch, ScenarioError, Step, problem};
use crate::cloud::{Shortage, glob};
use crate::faults::FaultSpec;

/// The names that can be bought in every world.
pub(super) struct Offerings {
    instance_types: BTreeSet<String>,
    zones: BTreeSet<String>,
    capacity_types: BTreeSet<String>,
}

impl Offerings {
    pub(super) fn built_in() -> Self {
        let types = catalog::built_in();
        let offerings = || types.iter().flat_map(|of| &*of.offerings);
        let values = |key| {
            let requirements = offerings().filter_map(|offering| offering.requirements.get(key));
            requirements.flat_map(|found| found.values().iter().cloned()).collect()
        };
        Self {
            zones: values(labels::ZONE),
            capacity_types: values(labels::CAPACITY_TYPE),
            instance_types: types.iter().map(|of| of.name.clone()).collect(),
        }
    }

    /// Checks all names of a step.
    pub(super) fn check_step(&self, place: &str, step: &Step) -> Result<(), ScenarioError> {
        match &step.action {
            Action::Launch(launch) => self.check_launch(&format!("{place}.launch"), launch),
            Action::Faults(faults) => self.check_faults(&format!("{place}.faults"), faults),
            _ => Ok(()),
        }
    }

    fn check_launch(&self, place: &str, launch: &Launch) -> Result<(), ScenarioError> {
        let is = |name: &str, known: &str| name == known;
        self.check_type(place, &launch.instance_type, is)?;
        if let Some(zone) = &launch.zone {
            self.check_zone(place, zone, is)?;
        }
        self.check_capacity_type(place, &launch.capacity_type, is)
    }

    /// Checks the names of shortages, which are patterns.
    pub(super) fn check_faults(
        &self,
        place: &str,
        faults: &FaultSpec,
    ) -> Result<(), ScenarioError> {
        for (index, shortage) in faults.cloud.shortages.iter().enumerate() {
            let place = &format!("{place}.cloud.shortages[{index}]");
            let Shortage { instance_type, zone, capacity_type, .. } = shortage;
            self.check_type(place, instance_type, glob)?;
            self.check_zone(place, zone, glob)?;
            self.check_capacity_type(place, capacity_type, glob)?;
        }
        Ok(())
    }

    fn check_type(&self, place: &str, name: &str, is: NameMatcher) -> Result<(), ScenarioError> {
        check(&format!("{place}.instanceType"), "instance type", name, &self.instance_types, is)
    }

    fn check_zone(&self, place: &str, name: &str, is: NameMatcher) -> Result<(), ScenarioError> {
        check(&format!("{place}.zone"), "zone", name, &self.zones, is)
    }

    fn check_capacity_type(
        &self,
        place: &str,
        name: &str,
        is: NameMatcher,
    ) -> Result<(), ScenarioError> {
        check(&format!("{place}.capacityType"), "capacity type", name, &self.capacity_types, is)
    }
}

/// Returns whether a name or a pattern matches a known name.
type NameMatcher = fn(&str, &str) -> bool;

fn check(
    place: &str,
    kind: &str,
    name: &str,
    known: &BTreeSet<String>,
    is: NameMatcher,
) -> Result<(), ScenarioError> {
    if known.iter().any(|known| is(name, known)) {
        return Ok(());
    }
    let known: Vec<&String> = known.iter().collect();
    let found = format!("is `{name}`, which is no {kind} of the simulated cloud");
    Err(problem(place, found).with_fix(suggestion(name, &known)))
}
