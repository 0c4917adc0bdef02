//! NodeClaims that were opened in this solve.

use super::amounts::{Amounts, add};
use super::requirement_store::SetId;
use super::templates::Template;
use super::types::InstanceTypeIndex;
use crate::bit_set::BitSet;
use crate::host_port::HostPort;
use crate::id::PodId;
use crate::volume::Attachments;

/// A NodeClaim that was opened in this solve.
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
    /// An upper bound of the resources that further pods can request.
    pub(super) remaining: Amounts,
    /// By resource: the largest type, kept to avoid a search for each pod.
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

    /// Adds a pod and narrows the requirements and types.
    pub(super) fn take(&mut self, pod: PodId, need: &Amounts, set: SetId, variants: BitSet) {
        self.pods.push(pod);
        add(&mut self.total, need);
        self.set = set;
        self.variants = variants;
    }

    /// Recalculates the remaining resources.
    ///
    /// The largest type of a resource changes seldom: it is searched for only when it drops out.
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
