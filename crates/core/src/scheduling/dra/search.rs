//! Searches for devices on one instance type: depth first over claims, requests and slots (rule 9).
//!
//! The search keeps its own stack, so claims of any size cannot exhaust the thread's. Each frame is
//! a decision: which alternative of a request, or which device for a slot. When the search returns
//! to a frame, it undoes the last choice of the frame and goes on with the next.

use std::collections::BTreeMap;

use super::allocator::{Allocator, Candidate, CandidateType};
use super::available_devices::AvailableDevices;
use super::claim_plan::{Alternative, ClaimPlan, DeviceSelection, MAX_DEVICES};
use super::constraints::MatchAttribute;
use super::counters::Usage;
use super::devices::{CandidateDevice, CandidateDevices};
use super::tracker::{ChosenDevice, TypeHold};
use crate::requirement::Requirements;
use crate::resources::Quantity;

/// The search for devices, with the data that all types of a candidate share.
#[derive(Debug)]
pub(super) struct DeviceSearch<'s, 'a> {
    pub(super) allocator: &'s Allocator<'a>,
    pub(super) candidate: &'s Candidate<'s>,
    pub(super) devices: &'s CandidateDevices<'s>,
    pub(super) claims: &'s [ClaimPlan<'s>],
}

/// The devices found for all claims on one instance type.
#[derive(Debug)]
pub(super) struct FoundAllocation {
    /// The requirements of the candidate, narrowed by the devices.
    pub(super) requirements: Requirements,
    pub(super) hold: TypeHold,
    /// By claim.
    pub(super) chosen: Vec<FoundDevices>,
}

/// The devices found for one claim on one instance type.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundDevices {
    pub(super) requirements: Requirements,
    pub(super) is_local: bool,
    pub(super) devices: Vec<ChosenDevice>,
}

impl DeviceSearch<'_, '_> {
    /// Searches on one type, with the requirements that earlier types left.
    ///
    /// Every alternative and device that it tries costs a step; without steps left it finds
    /// nothing.
    pub(super) fn run(
        &self,
        type_at: usize,
        requirements: &Requirements,
        steps: &mut u64,
    ) -> Option<FoundAllocation> {
        let candidate_type = &self.candidate.types[type_at];
        let attempt = Attempt {
            search: self,
            type_at,
            candidate_type,
            available: AvailableDevices::new(self.allocator, self.candidate.id, candidate_type),
            constraints: self.claims.iter().map(|claim| claim.constraints.clone()).collect(),
            requirements: requirements.clone(),
            path: Vec::new(),
            matching: BTreeMap::new(),
        };
        attempt.run(steps)
    }
}

/// A decision that is open.
#[derive(Debug)]
struct Frame {
    decision: Decision,
    /// The option to try next.
    next: usize,
    /// Whether a device was placed that has to be taken back first.
    has_placed: bool,
}

/// A decision of the search, as positions.
#[derive(Clone, Copy, Debug)]
enum Decision {
    /// Which alternative of a request.
    Choose { claim: usize, request: usize },
    /// Which device for a slot.
    Fill { claim: usize, request: usize, alternative: usize, slot: usize },
}

/// A device that the search has taken, with the data to put it back.
#[derive(Debug)]
struct Pick {
    claim: usize,
    position: usize,
    request: String,
    consumed: BTreeMap<String, Quantity>,
    usage: Usage,
    /// The requirements before it, if it narrowed them.
    before: Option<Requirements>,
    /// The constraints that it is a member of.
    constraints: Vec<usize>,
}

#[derive(Debug)]
struct Attempt<'s, 'a> {
    search: &'s DeviceSearch<'s, 'a>,
    type_at: usize,
    candidate_type: &'s CandidateType<'s>,
    available: AvailableDevices<'s, 'a>,
    /// By claim.
    constraints: Vec<Vec<MatchAttribute<'s>>>,
    requirements: Requirements,
    path: Vec<Pick>,
    /// Results of selectors, by claim, request, alternative and position of the device.
    matching: BTreeMap<[usize; 4], bool>,
}

impl<'s> Attempt<'s, '_> {
    fn run(mut self, steps: &mut u64) -> Option<FoundAllocation> {
        let Some(first) = self.request_from(0, 0) else { return Some(self.found()) };
        let mut stack = vec![first];
        while let Some(mut frame) = stack.pop() {
            if frame.has_placed {
                self.take_back();
                frame.has_placed = false;
            }
            if *steps == 0 {
                continue;
            }
            match self.advance(&mut frame, steps) {
                SearchStep::NoMore => {}
                SearchStep::Done => return Some(self.found()),
                SearchStep::Next(next) => stack.extend([frame, next]),
            }
        }
        None
    }

    /// Tries options of a decision until one leads on.
    fn advance(&mut self, frame: &mut Frame, steps: &mut u64) -> SearchStep {
        let options = self.options(frame.decision);
        while frame.next < options && *steps > 0 {
            *steps -= 1;
            let option = frame.next;
            frame.next += 1;
            let next = match frame.decision {
                Decision::Choose { claim, request } => {
                    if !self.can_choose(claim, request, option) {
                        continue;
                    }
                    self.slot_from(claim, request, option, 0)
                }
                Decision::Fill { claim, request, alternative, slot } => {
                    let position = self.position(frame.decision, option);
                    if !self.place([claim, request, alternative], position) {
                        continue;
                    }
                    frame.has_placed = true;
                    self.slot_from(claim, request, alternative, slot + 1)
                }
            };
            return next.map_or(SearchStep::Done, SearchStep::Next);
        }
        SearchStep::NoMore
    }

    fn alternative(&self, claim: usize, request: usize, alternative: usize) -> &'s Alternative<'s> {
        &self.search.claims[claim].requests[request][alternative]
    }

    fn item(&self, position: usize) -> &'s CandidateDevice<'s> {
        self.search.devices.get(self.type_at, position)
    }

    /// Returns how many options a decision has.
    fn options(&self, at: Decision) -> usize {
        match at {
            Decision::Choose { claim, request } => {
                self.search.claims[claim].requests[request].len()
            }
            Decision::Fill { claim, request, alternative, .. } => {
                match self.alternative(claim, request, alternative).selection {
                    DeviceSelection::Exact(_) => self.search.devices.len(self.type_at),
                    DeviceSelection::All { .. } => 1,
                }
            }
        }
    }

    /// Returns the device that an option of a slot stands for.
    fn position(&self, at: Decision, option: usize) -> usize {
        let Decision::Fill { claim, request, alternative, slot } = at else { return option };
        match &self.alternative(claim, request, alternative).selection {
            DeviceSelection::Exact(_) => option,
            DeviceSelection::All { published, templates } => {
                match slot.checked_sub(published.len()) {
                    None => published[slot],
                    Some(template) => templates[self.type_at][template],
                }
            }
        }
    }

    /// Returns the decision about a request, or about the next request that exists.
    fn request_from(&self, mut claim: usize, mut request: usize) -> Option<Frame> {
        while request >= self.search.claims.get(claim)?.requests.len() {
            (claim, request) = (claim + 1, 0);
        }
        Some(Frame { decision: Decision::Choose { claim, request }, next: 0, has_placed: false })
    }

    /// Returns the decision about a slot, or about the next request when all slots are filled.
    ///
    /// The devices of an exact request are interchangeable, so they are taken in their order: a set
    /// of devices is tried once, not once for each of its arrangements. A device that several
    /// claims can share may be taken again.
    fn slot_from(
        &self,
        claim: usize,
        request: usize,
        alternative: usize,
        slot: usize,
    ) -> Option<Frame> {
        let plan = self.alternative(claim, request, alternative);
        if slot >= plan.slots(self.type_at) {
            return self.request_from(claim, request + 1);
        }
        let next = match (&plan.selection, self.path.last()) {
            (DeviceSelection::Exact(_), Some(pick)) if slot > 0 => {
                let is_shared = self.item(pick.position).device.shape.allows_multiple;
                pick.position + usize::from(!is_shared)
            }
            _ => 0,
        };
        let at = Decision::Fill { claim, request, alternative, slot };
        Some(Frame { decision: at, next, has_placed: false })
    }

    /// Returns whether an alternative has devices, and not too many for the claim.
    fn can_choose(&self, claim: usize, request: usize, alternative: usize) -> bool {
        let plan = self.alternative(claim, request, alternative);
        let placed = self.path.iter().filter(|pick| pick.claim == claim).count();
        !plan.has_no_devices(self.type_at)
            && placed.saturating_add(plan.slots(self.type_at)) <= MAX_DEVICES
    }

    /// Takes a device if everything allows it. Returns whether it does.
    fn place(&mut self, at: [usize; 3], position: usize) -> bool {
        let [claim, request, alternative] = at;
        let plan = self.alternative(claim, request, alternative);
        let item = self.item(position);
        if item.is_incomplete || !self.matches(at, position, plan, item) {
            return false;
        }
        let Some((usage, consumed)) = self.available.usage(plan.capacity, item) else {
            return false;
        };
        let well_known = self.search.allocator.well_known();
        if let Some(topology) = item.topology
            && self.requirements.compatible(topology, well_known).is_err()
        {
            return false;
        }
        let Some(constraints) = self.join_constraints(claim, plan, item) else { return false };
        let before = item.topology.map(|topology| {
            let before = self.requirements.clone();
            self.requirements.extend(topology.iter().cloned());
            before
        });
        self.available.take(item, &usage);
        let request = plan.full_name();
        self.path.push(Pick { claim, position, request, consumed, usage, before, constraints });
        true
    }

    /// Puts back the device that was taken last.
    fn take_back(&mut self) {
        let Some(pick) = self.path.pop() else { return };
        self.available.put_back(self.item(pick.position), &pick.usage);
        if let Some(before) = pick.before {
            self.requirements = before;
        }
        for at in pick.constraints {
            self.constraints[pick.claim][at].remove();
        }
    }

    /// Returns whether the selectors match. A selector that cannot be evaluated does not.
    fn matches(
        &mut self,
        [claim, request, alternative]: [usize; 3],
        position: usize,
        plan: &Alternative<'_>,
        item: &CandidateDevice<'_>,
    ) -> bool {
        let matches = self.search.allocator.matches();
        *self
            .matching
            .entry([claim, request, alternative, position])
            .or_insert_with(|| matches.all(&plan.selectors, &item.device.shape).unwrap_or(false))
    }

    /// Makes the device a member of its claim's constraints, of all or of none. Returns which.
    fn join_constraints(
        &mut self,
        claim: usize,
        plan: &Alternative<'_>,
        item: &CandidateDevice<'_>,
    ) -> Option<Vec<usize>> {
        let bindings = self.candidate_type.bindings;
        let mut joined = Vec::new();
        let constraints = &mut self.constraints[claim];
        for at in 0..constraints.len() {
            if !constraints[at].applies_to(plan.request, plan.name) {
                continue;
            }
            if !constraints[at].add(&item.id, &item.device.shape, bindings) {
                for at in joined {
                    let joined: &mut MatchAttribute<'_> = &mut constraints[at];
                    joined.remove();
                }
                return None;
            }
            joined.push(at);
        }
        Some(joined)
    }

    fn found(self) -> FoundAllocation {
        let mut chosen = vec![FoundDevices::default(); self.search.claims.len()];
        for pick in &self.path {
            let item = self.item(pick.position);
            let found = &mut chosen[pick.claim];
            found
                .requirements
                .extend(item.topology.into_iter().flat_map(Requirements::iter).cloned());
            found.is_local |= item.is_local;
            found.devices.push(ChosenDevice {
                id: item.id.clone(),
                is_template: item.is_template,
                request: pick.request.clone(),
                consumed: pick.consumed.clone(),
            });
        }
        FoundAllocation {
            requirements: self.requirements,
            hold: self.available.into_hold(),
            chosen,
        }
    }
}

/// The next step of the search after a decision.
#[derive(Debug)]
enum SearchStep {
    /// No option is left: go back to the decision before.
    NoMore,
    /// Go on with another decision.
    Next(Frame),
    /// Every claim has its devices.
    Done,
}
