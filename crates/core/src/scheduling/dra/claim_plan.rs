//! Reads a ResourceClaim into device requests to satisfy (rule 8), or reports why it is invalid.

use std::collections::{BTreeMap, BTreeSet};

use super::constraints::MatchAttribute;
use super::devices::CandidateDevices;
use super::matches::SelectorMatches;
use super::types::{
    Claim, ClaimKey, Constraint, ConstraintRule, Count, DeviceQuery, DeviceRequestKind,
    DeviceSelector, DynamicResourceState,
};
use crate::resources::Quantity;

/// The most devices that the API allows for a claim.
pub(super) const MAX_DEVICES: usize = 32;

/// A claim, with its requests resolved to devices of a candidate.
#[derive(Debug)]
pub(super) struct ClaimPlan<'a> {
    pub(super) key: &'a ClaimKey,
    pub(super) constraints: Vec<MatchAttribute<'a>>,
    /// Each request's alternatives in order; one for `Exactly`.
    pub(super) requests: Vec<Vec<Alternative<'a>>>,
    /// Positions of instance types with so many devices of their own that the claim gets too many.
    pub(super) pruned: BTreeSet<usize>,
    /// Whether every type with requested devices of its own is pruned.
    all_pruned: bool,
}

/// One way to meet a request.
#[derive(Debug)]
pub(super) struct Alternative<'a> {
    pub(super) request: &'a str,
    /// The name, for `FirstAvailable`.
    pub(super) name: Option<&'a str>,
    pub(super) selectors: Vec<&'a str>,
    pub(super) capacity: &'a BTreeMap<String, Quantity>,
    pub(super) selection: DeviceSelection,
}

/// The devices that one alternative of a request selects.
#[derive(Debug)]
pub(super) enum DeviceSelection {
    /// This many matching devices.
    Exact(usize),
    /// These: published ones, and by position of the instance type its own.
    All { published: Vec<usize>, templates: Vec<Vec<usize>> },
}

impl Alternative<'_> {
    /// Returns how many devices the alternative needs on the type.
    pub(super) fn slots(&self, type_at: usize) -> usize {
        match &self.selection {
            DeviceSelection::Exact(count) => *count,
            DeviceSelection::All { published, templates } => {
                published.len() + templates[type_at].len()
            }
        }
    }

    /// Returns whether it selects all matching devices and the type has none.
    pub(super) fn has_no_devices(&self, type_at: usize) -> bool {
        matches!(self.selection, DeviceSelection::All { .. }) && self.slots(type_at) == 0
    }

    /// Returns the request's name, with the alternative after a slash.
    pub(super) fn full_name(&self) -> String {
        match self.name {
            Some(name) => format!("{}/{name}", self.request),
            None => self.request.to_owned(),
        }
    }

    /// Returns how many devices the alternative needs on every type.
    fn published_slots(&self) -> usize {
        match &self.selection {
            DeviceSelection::Exact(count) => *count,
            DeviceSelection::All { published, .. } => published.len(),
        }
    }

    fn template_slots(&self, type_at: usize) -> usize {
        self.slots(type_at) - self.published_slots()
    }
}

impl<'a> ClaimPlan<'a> {
    /// Reads a claim for a candidate with `type_count` types.
    pub(super) fn new(
        state: &'a DynamicResourceState,
        key: &'a ClaimKey,
        claim: &'a Claim,
        devices: &CandidateDevices<'_>,
        type_count: usize,
    ) -> Result<Self, String> {
        let read = || {
            let constraints = claim.constraints.iter().map(constraint).collect::<Result<_, _>>()?;
            let requests = claim
                .requests
                .iter()
                .map(|request| {
                    let name = &request.name;
                    let reader = RequestReader { state, request: name, devices, type_count };
                    match &request.kind {
                        DeviceRequestKind::Exactly(query) => Ok(vec![reader.read(query, None)?]),
                        DeviceRequestKind::FirstAvailable(queries) if !queries.is_empty() => {
                            queries
                                .iter()
                                .map(|query| reader.read(query, Some(query.name.as_str())))
                                .collect()
                        }
                        DeviceRequestKind::FirstAvailable(_) | DeviceRequestKind::Unsupported => {
                            Err(format!(
                                " request {:?}: only Exactly and FirstAvailable requests are supported",
                                request.name
                            ))
                        }
                    }
                })
                .collect::<Result<_, _>>()?;
            let pruned = BTreeSet::new();
            let plan = Self { key, constraints, requests, pruned, all_pruned: false };
            plan.within_limit(devices, type_count)
        };
        read().map_err(|why: String| claim_error(key, &why))
    }

    /// Returns an error if every instance type has too many devices for the claim.
    pub(super) fn too_many_devices(&self) -> Option<String> {
        let why = format!(
            ": all instance types pruned, no instance type can satisfy this claim without exceeding \
             the maximum of {MAX_DEVICES} devices"
        );
        self.all_pruned.then(|| claim_error(self.key, &why))
    }

    /// Rejects the claim, and prunes types, that need more than [`MAX_DEVICES`].
    fn within_limit(
        mut self,
        devices: &CandidateDevices<'_>,
        type_count: usize,
    ) -> Result<Self, String> {
        let least = |count: &dyn Fn(&Alternative<'_>) -> usize| {
            let of_request = |request: &Vec<Alternative<'_>>| request.iter().map(count).min();
            let all = self.requests.iter().filter_map(of_request);
            all.fold(0_usize, usize::saturating_add)
        };
        let base = least(&|alternative| alternative.published_slots());
        if base > MAX_DEVICES {
            return Err(format!(
                " requests {base} total devices, exceeding maximum of {MAX_DEVICES}"
            ));
        }
        let is_pruned =
            |at: &usize| base + least(&|choice| choice.template_slots(*at)) > MAX_DEVICES;
        let pruned: BTreeSet<_> = (0..type_count).filter(is_pruned).collect();
        let has_requested_devices = |at: &usize| {
            let wants_all =
                |choice: &Alternative<'_>| matches!(choice.selection, DeviceSelection::All { .. });
            let mut choices = self.requests.iter().flatten().filter(|choice| wants_all(choice));
            !devices.templates(*at).is_empty() && choices.any(|choice| choice.slots(*at) > 0)
        };
        self.all_pruned = !pruned.is_empty()
            && (0..type_count).filter(has_requested_devices).all(|at| pruned.contains(&at));
        self.pruned = pruned;
        Ok(self)
    }
}

fn claim_error(key: &ClaimKey, why: &str) -> String {
    format!("validating claim {:?}: claim {:?}{why}", key.name, key.name)
}

fn constraint(constraint: &Constraint) -> Result<MatchAttribute<'_>, String> {
    match &constraint.rule {
        ConstraintRule::MatchAttribute(attribute) => {
            Ok(MatchAttribute::new(&constraint.requests, attribute))
        }
        ConstraintRule::DistinctAttribute => {
            Err(": DistinctAttribute constraints not done yet".to_owned())
        }
        ConstraintRule::Unsupported => Err(": unsupported constraint type".to_owned()),
    }
}

/// Resolves the alternatives of one request to devices.
struct RequestReader<'a, 's> {
    state: &'a DynamicResourceState,
    request: &'a str,
    devices: &'s CandidateDevices<'s>,
    type_count: usize,
}

impl<'a> RequestReader<'a, '_> {
    fn read(
        &self,
        query: &'a DeviceQuery,
        name: Option<&'a str>,
    ) -> Result<Alternative<'a>, String> {
        let in_request =
            |why: String| format!(" request {:?}: {why}", name.unwrap_or(self.request));
        let selectors = self.selectors(query).map_err(in_request)?;
        let selection = match query.count {
            Count::Exact(count) => {
                DeviceSelection::Exact(usize::try_from(count).unwrap_or(usize::MAX))
            }
            Count::All => self.all(&selectors).map_err(in_request)?,
        };
        let capacity = &query.capacity;
        Ok(Alternative { request: self.request, name, selectors, capacity, selection })
    }

    /// Returns the selectors of class and request.
    fn selectors(&self, query: &'a DeviceQuery) -> Result<Vec<&'a str>, String> {
        let name = &query.class;
        let Some(class) = self.state.classes.get(name) else {
            return Err(format!(
                "DeviceClass {name:?} not found: DeviceClass.resource.k8s.io {name:?} not found"
            ));
        };
        let unsupported = "unsupported selector type (only CEL is supported)";
        let of_class = texts(&class.selectors)
            .ok_or_else(|| format!("DeviceClass {name:?} has {unsupported}"))?;
        let of_request = texts(&query.selectors).ok_or_else(|| unsupported.to_owned())?;
        let selectors: Vec<_> = of_class.into_iter().chain(of_request).collect();
        let broken = selectors.iter().find_map(|text| {
            let why = self.matches().compile_error(text)?;
            Some(format!("CEL expression {text:?} {why}"))
        });
        broken.map_or(Ok(selectors), Err)
    }

    /// Returns every device that matches.
    ///
    /// A pool that is invalid or incomplete is an error, whether its devices match or not.
    fn all(&self, selectors: &[&str]) -> Result<DeviceSelection, String> {
        let mut published = Vec::new();
        for (pool, positions) in &self.devices.pools {
            let (driver, name) = (pool.driver, pool.name);
            if pool.is_invalid {
                return Err(format!("pool {driver}/{name} is invalid (duplicate device names)"));
            }
            if pool.is_incomplete {
                return Err(format!("pool {driver}/{name} is incomplete (missing slices)"));
            }
            // Positions of published devices are the same for every type.
            published.extend(self.matching(selectors, 0, positions.clone())?);
        }
        let templates = (0..self.type_count)
            .map(|at| self.matching(selectors, at, self.devices.templates(at)))
            .collect::<Result<_, _>>()?;
        Ok(DeviceSelection::All { published, templates })
    }

    fn matching(
        &self,
        selectors: &[&str],
        type_at: usize,
        positions: impl Iterator<Item = usize>,
    ) -> Result<Vec<usize>, String> {
        let mut matching = Vec::new();
        for position in positions {
            let shape = &self.devices.get(type_at, position).device.shape;
            if self.matches().all(selectors, shape)? {
                matching.push(position);
            }
        }
        Ok(matching)
    }

    fn matches(&self) -> &'a SelectorMatches {
        &self.state.matches
    }
}

fn texts(selectors: &[DeviceSelector]) -> Option<Vec<&str>> {
    selectors.iter().map(DeviceSelector::cel).collect()
}
