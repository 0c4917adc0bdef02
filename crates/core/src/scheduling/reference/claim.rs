//! NodeClaims that were opened in this solve (spec 20 §3.9).

use std::collections::BTreeSet;

use super::input::{Attachments, SolverInput, union};
use super::relaxable_pod::RelaxablePod;
use super::reservations::Reservations;
use super::templates::Template;
use super::topology::Topology;
use super::types::{self, FilteredTypes, TypeFilter};
use crate::host_port::HostPort;
use crate::id::PodId;
use crate::labels::HOSTNAME;
use crate::rejection::{RejectionReason, VolumeLimitExceeded};
use crate::requirement::{Requirement, Requirements};
use crate::resources::Resources;
use crate::taint::untolerated_taints;

/// A NodeClaim that was opened in this solve.
pub(super) struct InFlightClaim {
    /// The position of its template.
    pub template: usize,
    /// A placeholder that is no name of a node, for hostname topology.
    pub hostname: String,
    pub requirements: Requirements,
    /// Positions in the pool's list.
    pub types: Vec<usize>,
    /// Requests of its pods, without daemons.
    pub requests: Resources,
    pub pods: Vec<PodId>,
    pub reservations: BTreeSet<String>,
    pub min_values_relaxed: bool,
    ports: Vec<HostPort>,
    attachments: Attachments,
}

/// The new state of a NodeClaim that takes a pod.
pub(super) struct Change {
    pub requirements: Requirements,
    pub types: Vec<usize>,
    pub reservations: BTreeSet<String>,
}

impl InFlightClaim {
    /// Opens the `number`-th NodeClaim of the solve, still empty.
    pub(super) fn new(
        position: usize,
        template: &Template<'_>,
        types: Vec<usize>,
        number: usize,
    ) -> Self {
        let hostname = format!("hostname-placeholder-{number:04}");
        let mut requirements = template.requirements.clone();
        requirements.add(Requirement::in_values(HOSTNAME, [hostname.as_str()]));
        Self {
            template: position,
            hostname,
            requirements,
            types,
            requests: Resources::default(),
            pods: Vec::new(),
            reservations: BTreeSet::new(),
            min_values_relaxed: false,
            ports: Vec::new(),
            attachments: Attachments::new(),
        }
    }

    /// Returns the NodeClaim's new state with the pod, or the first check that fails.
    ///
    /// Of several topologies for the pod's volumes the first that passes is used. If none passes,
    /// the last rejection is returned.
    pub(super) fn with_pod(
        &self,
        input: &SolverInput<'_>,
        template: &Template<'_>,
        topology: &Topology<'_>,
        reservations: &Reservations,
        relaxable: &RelaxablePod<'_>,
        may_relax: bool,
    ) -> Result<Change, RejectionReason> {
        let untolerated = untolerated_taints(&template.pool.taints, &relaxable.spec.tolerations);
        if !untolerated.is_empty() {
            return Err(RejectionReason::Taints(untolerated.into_iter().cloned().collect()));
        }
        let candidates = self.attachable_types(template, &relaxable.attachments)?;
        // A preference that contradicts a requirement must not make the label look unwanted.
        for required in [&relaxable.all, &relaxable.strict] {
            self.requirements
                .compatible(required, input.well_known())
                .map_err(RejectionReason::Requirements)?;
        }
        let mut with_pod = self.requirements.clone();
        with_pod.extend(relaxable.all.iter().cloned());

        let total = self.requests.merge(&relaxable.spec.requests);
        let filter = TypeFilter {
            input,
            list: template.list,
            groups: &template.groups,
            taken_ports: &self.ports,
            ports: &relaxable.spec.host_ports,
            requests: &relaxable.spec.requests,
            total: &total,
        };
        let try_volumes = |volumes: &Requirements| -> Result<Change, RejectionReason> {
            let FilteredTypes { types, requirements } =
                narrowed(topology, relaxable, &filter, &candidates, &with_pod, volumes, may_relax)?;
            let kept = types.iter().map(|&position| &*template.list[position]);
            let reservations = reservations
                .reservations_to_hold(input, &self.reservations, kept, &requirements)
                .map_err(RejectionReason::Reserved)?;
            Ok(Change { requirements, types, reservations })
        };
        let mut result =
            try_volumes(relaxable.volume_topologies.first().unwrap_or(&Requirements::default()));
        for volumes in relaxable.volume_topologies.iter().skip(1) {
            if result.is_err() {
                result = try_volumes(volumes);
            }
        }
        result
    }

    /// Returns the types that can attach the volumes of NodeClaim and pod (spec 45 §11.2).
    fn attachable_types(
        &self,
        template: &Template<'_>,
        attachments: &Attachments,
    ) -> Result<Vec<usize>, RejectionReason> {
        if attachments.is_empty() {
            return Ok(self.types.clone());
        }
        let all = union(&self.attachments, attachments);
        let limit = |position: usize, driver: &str| {
            template.list[position].volume_limits.get(driver).copied()
        };
        let exceeds = |position: usize, driver: &str, count: usize| {
            limit(position, driver).is_some_and(|limit| count > limit as usize)
        };
        let mut left = self.types.clone();
        left.retain(|&position| {
            !all.iter().any(|(driver, claims)| exceeds(position, driver, claims.len()))
        });
        if !left.is_empty() {
            return Ok(left);
        }
        let culprit = all.iter().find(|(driver, claims)| {
            self.types.iter().all(|&position| exceeds(position, driver, claims.len()))
        });
        Err(RejectionReason::VolumeLimit(culprit.map(|(driver, claims)| VolumeLimitExceeded {
            driver: driver.clone(),
            count: claims.len(),
            limit: self.types.iter().filter_map(|&p| limit(p, driver)).max().unwrap_or(0),
        })))
    }

    /// Adds the pod.
    pub(super) fn add(&mut self, relaxable: &RelaxablePod<'_>, change: Change) {
        self.pods.push(relaxable.id);
        self.requirements = change.requirements;
        self.types = change.types;
        self.reservations = change.reservations;
        self.requests.add(&relaxable.spec.requests);
        self.ports.extend(relaxable.spec.host_ports.iter().cloned());
        self.attachments = union(&self.attachments, &relaxable.attachments);
    }
}

/// Narrows by volumes, then topology, then instance types.
///
/// Topology comes after everything that narrows the requirements, since it may collapse them to one
/// domain.
fn narrowed(
    topology: &Topology<'_>,
    relaxable: &RelaxablePod<'_>,
    filter: &TypeFilter<'_>,
    candidates: &[usize],
    with_pod: &Requirements,
    volumes: &Requirements,
    may_relax: bool,
) -> Result<FilteredTypes, RejectionReason> {
    let well_known = filter.input.well_known();
    with_pod.compatible(volumes, well_known).map_err(RejectionReason::VolumeTopology)?;
    let mut requirements = with_pod.clone();
    requirements.extend(volumes.iter().cloned());

    let price = |key: &str, domain: &str| {
        let mut there = requirements.clone();
        there.add(Requirement::in_values(key, [domain]));
        filter.cheapest(candidates, &there)
    };
    let domains =
        topology.narrow(relaxable, &requirements, &price).map_err(RejectionReason::Topology)?;
    requirements
        .compatible_with_domains(&domains, well_known)
        .map_err(RejectionReason::TopologyResult)?;
    requirements.extend(domains.iter().cloned());

    types::filter(filter, candidates, &requirements, may_relax)
        .map_err(RejectionReason::InstanceTypes)
}
