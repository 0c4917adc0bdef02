//! NodeClaims that were opened in this solve (spec 20 §3.9).

use std::collections::BTreeSet;

use super::ask::Ask;
use super::reservations::Reservations;
use super::templates::Template;
use super::topology::Topology;
use super::types::{self, Filter, Kept};
use super::world::{Attachments, World, union};
use crate::host_port::HostPort;
use crate::id::PodId;
use crate::labels::HOSTNAME;
use crate::reason::{VolumeLimit, Why};
use crate::requirement::{Requirement, Requirements};
use crate::resources::Resources;
use crate::taint::untolerated;

/// A NodeClaim to be.
pub(super) struct Claim {
    /// The position of its template.
    pub template: usize,
    /// A name that no node has, for hostname topology.
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

/// What a NodeClaim becomes if it takes a pod.
pub(super) struct Change {
    pub requirements: Requirements,
    pub types: Vec<usize>,
    pub reservations: BTreeSet<String>,
}

impl Claim {
    /// The `number`-th NodeClaim of the solve, still empty.
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

    /// What it becomes with the pod, or the first check that fails. Of several places for the pod's
    /// volumes the first that passes is taken, and the last refusal counts.
    pub(super) fn with_pod(
        &self,
        world: &World<'_>,
        template: &Template<'_>,
        topology: &Topology<'_>,
        reservations: &Reservations,
        ask: &Ask<'_>,
        may_relax: bool,
    ) -> Result<Change, Why> {
        let untolerated = untolerated(&template.pool.taints, &ask.spec.tolerations);
        if !untolerated.is_empty() {
            return Err(Why::Taints(untolerated.into_iter().cloned().collect()));
        }
        let candidates = self.attaching(template, &ask.attachments)?;
        // A preference that contradicts a requirement must not make the label look unwanted.
        for asked in [&ask.all, &ask.strict] {
            self.requirements.compatible(asked, world.well_known()).map_err(Why::Requirements)?;
        }
        let mut with_pod = self.requirements.clone();
        with_pod.extend(ask.all.iter().cloned());

        let total = self.requests.merge(&ask.spec.requests);
        let filter = Filter {
            world,
            list: template.list,
            groups: &template.groups,
            taken_ports: &self.ports,
            ports: &ask.spec.host_ports,
            requests: &ask.spec.requests,
            total: &total,
        };
        let try_volumes = |volumes: &Requirements| -> Result<Change, Why> {
            let Kept { types, requirements } =
                narrowed(topology, ask, &filter, &candidates, &with_pod, volumes, may_relax)?;
            let kept = types.iter().map(|&position| &*template.list[position]);
            let reservations = reservations
                .offered(world, &self.reservations, kept, &requirements)
                .map_err(Why::Reserved)?;
            Ok(Change { requirements, types, reservations })
        };
        let mut result = try_volumes(ask.alternatives.first().unwrap_or(&Requirements::default()));
        for volumes in ask.alternatives.iter().skip(1) {
            if result.is_err() {
                result = try_volumes(volumes);
            }
        }
        result
    }

    /// The types that can attach the volumes of the NodeClaim and of the pod (spec 45 §11.2).
    fn attaching(
        &self,
        template: &Template<'_>,
        attachments: &Attachments,
    ) -> Result<Vec<usize>, Why> {
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
        Err(Why::VolumeLimit(culprit.map(|(driver, claims)| VolumeLimit {
            driver: driver.clone(),
            count: claims.len(),
            limit: self.types.iter().filter_map(|&p| limit(p, driver)).max().unwrap_or(0),
        })))
    }

    /// Places the pod.
    pub(super) fn add(&mut self, ask: &Ask<'_>, change: Change) {
        self.pods.push(ask.id);
        self.requirements = change.requirements;
        self.types = change.types;
        self.reservations = change.reservations;
        self.requests.add(&ask.spec.requests);
        self.ports.extend(ask.spec.host_ports.iter().cloned());
        self.attachments = union(&self.attachments, &ask.attachments);
    }
}

/// Volumes, then topology, then instance types. Topology comes after everything that narrows the
/// requirements, since it may collapse them to one domain.
fn narrowed(
    topology: &Topology<'_>,
    ask: &Ask<'_>,
    filter: &Filter<'_>,
    candidates: &[usize],
    with_pod: &Requirements,
    volumes: &Requirements,
    may_relax: bool,
) -> Result<Kept, Why> {
    let well_known = filter.world.well_known();
    with_pod.compatible(volumes, well_known).map_err(Why::VolumeTopology)?;
    let mut requirements = with_pod.clone();
    requirements.extend(volumes.iter().cloned());

    let price = |key: &str, domain: &str| {
        let mut there = requirements.clone();
        there.add(Requirement::in_values(key, [domain]));
        filter.cheapest(candidates, &there)
    };
    let domains = topology.narrow(ask, &requirements, &price).map_err(Why::Topology)?;
    requirements.takes_domains(&domains, well_known).map_err(Why::TopologyResult)?;
    requirements.extend(domains.iter().cloned());

    types::filter(filter, candidates, &requirements, may_relax).map_err(Why::InstanceTypes)
}
