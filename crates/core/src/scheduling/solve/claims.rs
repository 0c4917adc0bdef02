//! NodeClaims that were opened in this solve.

use super::amounts::{Amounts, add};
use super::requirement_store::SetId;
use super::templates::Template;
use super::types::InstanceTypeIndex;
use crate::bit_set::BitSet;
use crate::host_port::HostPort;
use crate::id::PodId;
use crate::volume::Attachments;

/// A NodeClaim in the making.
#[derive(Clone, Debug)]
pub(super) struct InFlightClaim {
    pub(super) template: usize,
    /// Requirements without the hostname.
    pub(super) set: SetId,
    pub(super) host: usize,
    /// Types that it may still become.
    pub(super) variants: BitSet,
    pub(super) pods: Vec<PodId>,
    /// Requests of its pods; daemons are not in it.
    pub(super) total: Amounts,
    /// At most this much fits in addition, resource by resource.
    pub(super) remaining: Amounts,
    /// The largest type of each resource, so that the room need not be searched for each time.
    largest: Vec<Option<usize>>,
    pub(super) ports: Vec<HostPort>,
    pub(super) attached: Attachments,
    pub(super) min_values_relaxed: bool,
    /// Whether devices are held for it.
    pub(super) has_devices: bool,
}

impl InFlightClaim {
    pub(super) fn new(template: usize, set: SetId, host: usize, total: Amounts) -> Self {
        Self {
            template,
            set,
            host,
            variants: BitSet::default(),
            pods: Vec::new(),
            remaining: total.clone(),
            largest: Vec::new(),
            total,
            ports: Vec::new(),
            attached: Attachments::new(),
            min_values_relaxed: false,
            has_devices: false,
        }
    }

    /// Takes a pod, and becomes narrower.
    pub(super) fn take(&mut self, pod: PodId, need: &Amounts, set: SetId, variants: BitSet) {
        self.pods.push(pod);
        add(&mut self.total, need);
        self.set = set;
        self.variants = variants;
    }

    /// Works out the room anew. Which type is the largest changes seldom: only when it drops out is
    /// it searched for.
    pub(super) fn update_remaining(&mut self, template: &Template<'_>, types: &InstanceTypeIndex) {
        if self.largest.is_empty() {
            self.largest = vec![None; self.total.len()];
        }
        for column in 0..self.total.len() {
            let free = |variant: usize| {
                let overhead = template.overhead_of(variant, column);
                types.variants[variant].allocatable[column].saturating_sub(overhead)
            };
            if !self.largest[column].is_some_and(|variant| self.variants.contains(variant)) {
                self.largest[column] = self.variants.iter().max_by_key(|&variant| free(variant));
            }
            self.remaining[column] = match self.largest[column] {
                None => i128::MIN,
                Some(variant) => free(variant).saturating_sub(self.total[column]),
            };
        }
    }
}
