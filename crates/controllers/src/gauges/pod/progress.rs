//! Compares a pod with its earlier measurements, to find what started or ended.

use jiff::Timestamp;
use karpenter_cluster::mirror::PodTimes;

/// The facts of a pod that its measurements depend on.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) is_pending: bool,
    pub(super) is_terminal: bool,
    pub(super) has_node: bool,
    pub(super) created: Timestamp,
    /// Since when it is ready, if it is.
    pub(super) ready: Option<Timestamp>,
    /// Since when it has a place, if it has.
    pub(super) scheduled: Option<Timestamp>,
    /// What the provisioner knows about it.
    pub(super) times: PodTimes,
}

/// The measurements of a pod that have begun. Only those are observed when they end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PendingMeasurements {
    is_starting: bool,
    is_binding: bool,
}

/// The measurements of a pod after a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) measurements: PendingMeasurements,
    /// Whether it has yet to start.
    pub(super) is_unstarted: bool,
    /// Whether it has yet to get a place.
    pub(super) is_unbound: bool,
    /// Since when the provisioner owes a decision, if it does.
    pub(super) undecided: Option<Timestamp>,
    /// When it became ready, if that was not measured yet.
    pub(super) started: Option<Timestamp>,
    /// When it got its node, if that was not measured yet.
    pub(super) bound: Option<Timestamp>,
    /// Whether the provisioner's times of it are not needed any more.
    pub(super) is_over: bool,
}

pub(super) fn progress(before: PendingMeasurements, pod: &Facts) -> Progress {
    let mut progress = Progress { undecided: undecided(pod), ..Progress::default() };
    let PendingMeasurements { is_starting, is_binding } = before;
    if pod.is_pending {
        progress.measurements = PendingMeasurements { is_starting: true, is_binding: true };
        progress.is_unstarted = true;
        // Upstream leaves the last number until the pod runs.
        progress.is_unbound = pod.scheduled.is_none();
        return progress;
    }
    if is_starting {
        progress.started = pod.ready;
        progress.is_over = pod.ready.is_some() || pod.is_terminal;
        progress.is_unstarted = !progress.is_over;
        progress.measurements.is_starting = !progress.is_over;
    }
    if is_binding {
        progress.bound = pod.scheduled;
        progress.measurements.is_binding = pod.scheduled.is_none() && !pod.is_terminal;
    }
    progress
}

fn undecided(pod: &Facts) -> Option<Timestamp> {
    let is_settled = pod.times.decided_at.is_some()
        || pod.scheduled.is_some()
        || pod.has_node
        || pod.is_terminal;
    pod.times.acknowledged_at.filter(|_| !is_settled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pending() -> Facts {
        Facts {
            is_pending: true,
            is_terminal: false,
            has_node: false,
            created: at(0),
            ready: None,
            scheduled: None,
            times: PodTimes { acknowledged_at: Some(at(1)), ..PodTimes::default() },
        }
    }

    fn running() -> Facts {
        Facts { is_pending: false, has_node: true, scheduled: Some(at(5)), ..pending() }
    }

    const NEW: PendingMeasurements = PendingMeasurements { is_starting: false, is_binding: false };
    const SEEN: PendingMeasurements = PendingMeasurements { is_starting: true, is_binding: true };

    #[test]
    fn a_pod_is_measured_from_pending_to_its_end() {
        let waits = Progress {
            measurements: SEEN,
            is_unstarted: true,
            is_unbound: true,
            undecided: Some(at(1)),
            ..Progress::default()
        };
        let decided = PodTimes { decided_at: Some(at(2)), ..pending().times };
        let bound = Progress {
            measurements: PendingMeasurements { is_starting: true, is_binding: false },
            is_unstarted: true,
            bound: Some(at(5)),
            ..Progress::default()
        };
        let started = Progress {
            started: Some(at(9)),
            bound: Some(at(5)),
            is_over: true,
            ..Progress::default()
        };
        let over = Progress { is_over: true, ..Progress::default() };
        let failed = || Facts { is_pending: false, is_terminal: true, ..pending() };
        #[rustfmt::skip]
        let cases = [
            ("pending",                NEW,  pending(), waits.clone()),
            ("decided",                SEEN, Facts { times: decided, ..pending() },              Progress { undecided: None, ..waits.clone() }),
            ("bound, still pending",   SEEN, Facts { scheduled: Some(at(5)), ..pending() },      Progress { undecided: None, is_unbound: false, ..waits.clone() }),
            ("40/OB-12 node, no condition", SEEN, Facts { has_node: true, ..pending() },         Progress { undecided: None, ..waits }),
            ("runs, not ready",        SEEN, running(),                                          bound),
            ("40/OB-10",               SEEN, Facts { ready: Some(at(9)), ..running() },          started),
            ("40/OB-11",               SEEN, failed(),                                           over),
            ("40/OB-12 terminal",      NEW,  failed(),                                           Progress::default()),
            ("first seen running",     NEW,  Facts { ready: Some(at(9)), ..running() },          Progress::default()),
        ];
        for (case, before, facts, expected) in cases {
            assert_eq!(progress(before, &facts), expected, "{case}");
        }
    }
}
