//! Tracks the constraints of a pod while its preferences are relaxed (spec 20 §1.7, §3.7).

use super::input::{Attachments, SolverInput};
use crate::id::PodId;
use crate::pod::{Pod, PodSpec};
use crate::rejection::PodRejection;
use crate::requirement::Requirements;
use crate::scheduling::{PreferencePolicy, default_spread};

/// A pod with its own copy of the spec, which relaxation edits.
#[derive(Clone)]
pub(super) struct RelaxablePod<'a> {
    pub id: PodId,
    pub pod: &'a Pod,
    pub spec: PodSpec,
    /// Requirements of its volumes, of which one must hold; empty allows any node.
    pub volume_topologies: Vec<Requirements>,
    /// The volumes that it attaches.
    pub attachments: Attachments,
    /// Why no node and no NodeClaim can take it.
    pub rejection: Option<PodRejection>,
    /// Requirements, the heaviest preference included unless preferences are ignored.
    pub all: Requirements,
    /// Requirements without preferences.
    pub strict: Requirements,
}

impl<'a> RelaxablePod<'a> {
    /// Returns the pod before relaxation, with default spread constraints (spec 20 §3.18).
    pub(super) fn new(input: &SolverInput<'a>, id: PodId) -> Self {
        let pod = input.snapshot.pod(id);
        let mut spec = PodSpec::clone(&pod.spec);
        spec.topology_spread =
            default_spread::spread_constraints(input.snapshot, pod, &input.options.default_spread);
        let volume_topologies = input.snapshot.volumes.node_requirement_alternatives(pod);
        let attachments = input.snapshot.volumes.attachments(pod);
        let lost = volume_topologies.as_ref().err().or(attachments.as_ref().err());
        let rejection = dynamic_resources(pod).or_else(|| lost.cloned().map(PodRejection::Volumes));
        let volume_topologies = volume_topologies.unwrap_or_default();
        let attachments = attachments.unwrap_or_default();
        let (all, strict) = (Requirements::default(), Requirements::default());
        let mut relaxable =
            Self { id, pod, spec, volume_topologies, attachments, rejection, all, strict };
        relaxable.recompute(input);
        relaxable
    }

    /// Recalculates the requirements after the spec changed.
    pub(super) fn recompute(&mut self, input: &SolverInput<'_>) {
        self.strict = self.spec.node_selector.clone();
        if let Some(first) = self.spec.node_affinity.first() {
            self.strict.extend(first.iter().cloned());
        }
        self.all = self.strict.clone();
        if input.options.preferences == PreferencePolicy::Respect {
            // `max_by_key` takes the last of equals, and the first one is meant.
            let preferred = self.spec.preferred_node_affinity.iter().rev();
            if let Some(heaviest) = preferred.max_by_key(|preference| preference.weight) {
                self.all.extend(heaviest.term.iter().cloned());
            }
        }
    }
}

/// Rejects pods that request dynamic resources (spec 20 §3.19).
///
/// The reference solver does not allocate devices, so it acts as if they were switched off.
fn dynamic_resources(pod: &Pod) -> Option<PodRejection> {
    pod.spec.requests_dynamic_resources.then_some(PodRejection::DynamicResourcesIgnored)
}
