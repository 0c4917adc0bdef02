//! The queue of pods (spec 20 §3.5): largest first, and round again while there is progress.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use crate::id::PodId;
use crate::resources::{CPU, MEMORY};
use crate::snapshot::Snapshot;

/// The pods that wait for placement.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: VecDeque<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    pod: PodId,
    /// The length of the queue when the pod was last pushed, and the learned domains by then; 0 for
    /// a pod that was not tried yet.
    when_pushed: (usize, usize),
}

impl Queue {
    pub(super) fn new(snapshot: &Snapshot, pods: &[PodId]) -> Self {
        // Most pods have one of a few sizes.
        let mut by_size: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for &id in pods {
            let pod = snapshot.pod(id);
            let requests = &pod.spec.requests;
            let size = (Reverse(requests.amount(CPU)), Reverse(requests.amount(MEMORY)));
            by_size.entry(size).or_default().push((pod.created, pod.uid.as_str(), id));
        }
        let mut waiting = VecDeque::with_capacity(pods.len());
        for mut alike in by_size.into_values() {
            alike.sort_unstable();
            let entry = |(_, _, pod)| Entry { pod, when_pushed: (0, 0) };
            waiting.extend(alike.into_iter().map(entry));
        }
        Self { waiting }
    }

    /// Returns the next pod, or none after a whole round without progress.
    ///
    /// That a group `learned` of a domain is progress too.
    pub(super) fn pop(&mut self, learned: usize) -> Option<PodId> {
        let head = self.waiting.front()?;
        if head.when_pushed == (self.waiting.len(), learned) {
            return None;
        }
        self.waiting.pop_front().map(|entry| entry.pod)
    }

    /// Puts a rejected pod at the end.
    pub(super) fn push(&mut self, pod: PodId, learned: usize) {
        let when_pushed = (self.waiting.len() + 1, learned);
        self.waiting.push_back(Entry { pod, when_pushed });
    }
}
