//! The devices that one candidate can use: published ones first, then those of its types.

use std::ops::Range;

use super::allocator::{Candidate, CandidateType};
use super::pools::{PoolView, Pools};
use super::types::{Device, DeviceId};
use crate::requirement::Requirements;

/// A device that the search may choose for a candidate.
#[derive(Debug)]
pub(super) struct CandidateDevice<'s> {
    pub(super) id: DeviceId,
    pub(super) device: &'s Device,
    /// The labels that a node needs to use it.
    pub(super) topology: Option<&'s Requirements>,
    /// Whether it is from an instance type's template and not published yet.
    pub(super) is_template: bool,
    /// Whether only this candidate can use it.
    pub(super) is_local: bool,
    /// Whether its pool lacks slices, so that the search does not use it.
    pub(super) is_incomplete: bool,
}

/// The devices of a candidate, in the order in which the search tries them.
///
/// A position counts published devices first and goes on with those of an instance type, so it
/// means nothing without the type.
#[derive(Debug)]
pub(super) struct CandidateDevices<'s> {
    /// The pools that the candidate sees, with the positions of their devices.
    pub(super) pools: Vec<(PoolView<'s>, Range<usize>)>,
    published: Vec<CandidateDevice<'s>>,
    templates: Vec<Vec<CandidateDevice<'s>>>,
}

impl<'s> CandidateDevices<'s> {
    pub(super) fn new(
        pools: &'s Pools<'_>,
        views: Vec<PoolView<'s>>,
        candidate: &'s Candidate<'_>,
    ) -> Self {
        let mut published = Vec::new();
        let mut seen = Vec::new();
        for view in views {
            let start = published.len();
            published.extend(view.devices.iter().map(|at| {
                let device = &pools.devices()[*at];
                CandidateDevice {
                    id: device.id.clone(),
                    device: device.device,
                    topology: device.topology.as_deref(),
                    is_template: false,
                    is_local: device.is_local,
                    is_incomplete: view.is_incomplete,
                }
            }));
            seen.push((view, start..published.len()));
        }
        let templates = candidate.types.iter().map(template_items).collect();
        Self { pools: seen, published, templates }
    }

    /// Returns how many devices there are for the type.
    pub(super) fn len(&self, type_at: usize) -> usize {
        self.published.len() + self.templates[type_at].len()
    }

    pub(super) fn get(&self, type_at: usize, position: usize) -> &CandidateDevice<'s> {
        match position.checked_sub(self.published.len()) {
            None => &self.published[position],
            Some(template) => &self.templates[type_at][template],
        }
    }

    /// Returns the positions of the type's own devices.
    pub(super) fn templates(&self, type_at: usize) -> Range<usize> {
        self.published.len()..self.len(type_at)
    }
}

fn template_items<'s>(candidate_type: &'s CandidateType<'_>) -> Vec<CandidateDevice<'s>> {
    let items = candidate_type.templates.iter().flat_map(|template| {
        template.devices.iter().map(|device| CandidateDevice {
            id: DeviceId {
                driver: template.driver.clone(),
                pool: template.pool.clone(),
                device: device.name.clone(),
            },
            device,
            topology: None,
            is_template: true,
            is_local: true,
            is_incomplete: false,
        })
    });
    items.collect()
}
