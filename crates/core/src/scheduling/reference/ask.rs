//! What a pod asks for at one moment of its relaxation (spec 20 §1.7, §3.7).

use super::world::{Attachments, World};
use crate::id::PodId;
use crate::pod::{Pod, PodSpec};
use crate::reason::Refusal;
use crate::requirement::Requirements;
use crate::scheduling::{PreferencePolicy, default_spread};

/// A pod with its own copy of the spec, which relaxation edits.
#[derive(Clone)]
pub(super) struct Ask<'a> {
    pub id: PodId,
    pub pod: &'a Pod,
    pub spec: PodSpec,
    /// Where its volumes allow it to be: one of these. Empty: anywhere.
    pub alternatives: Vec<Requirements>,
    /// The volumes that it attaches.
    pub attachments: Attachments,
    /// Why it cannot be placed wherever it goes.
    pub refusal: Option<Refusal>,
    /// Requirements, the heaviest preference included unless preferences are ignored.
    pub all: Requirements,
    /// Requirements without preferences.
    pub strict: Requirements,
}

impl<'a> Ask<'a> {
    /// The pod as it was written, with default spread constraints (spec 20 §3.18).
    pub(super) fn new(world: &World<'a>, id: PodId) -> Self {
        let pod = world.snapshot.pod(id);
        let mut spec = PodSpec::clone(&pod.spec);
        spec.spread = default_spread::applied(world.snapshot, pod, &world.options.default_spread);
        let alternatives = world.snapshot.volumes.alternatives(pod);
        let attachments = world.snapshot.volumes.attachments(pod);
        let lost = alternatives.as_ref().err().or(attachments.as_ref().err());
        let refusal = dynamic_resources(pod).or_else(|| lost.cloned().map(Refusal::Volumes));
        let alternatives = alternatives.unwrap_or_default();
        let attachments = attachments.unwrap_or_default();
        let (all, strict) = (Requirements::default(), Requirements::default());
        let mut ask = Self { id, pod, spec, alternatives, attachments, refusal, all, strict };
        ask.recompute(world);
        ask
    }

    /// Works the requirements out again after the spec changed.
    pub(super) fn recompute(&mut self, world: &World<'_>) {
        self.strict = self.spec.node_selector.clone();
        if let Some(first) = self.spec.node_affinity.first() {
            self.strict.extend(first.iter().cloned());
        }
        self.all = self.strict.clone();
        if world.options.preferences == PreferencePolicy::Respect {
            // `max_by_key` takes the last of equals, and the first one is meant.
            let preferred = self.spec.preferred_node_affinity.iter().rev();
            if let Some(heaviest) = preferred.max_by_key(|preference| preference.weight) {
                self.all.extend(heaviest.term.iter().cloned());
            }
        }
    }
}

/// The seam for dynamic resource allocation (spec 20 §3.19): until the reference allocates devices,
/// pods that ask for them are refused as if they were switched off.
fn dynamic_resources(pod: &Pod) -> Option<Refusal> {
    pod.spec.asks_dynamic_resources.then_some(Refusal::DynamicResourcesIgnored)
}
