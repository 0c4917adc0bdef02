//! Warns of pod preferences that can prevent consolidation later (spec 20 §2.3).

use jiff::{SignedDuration, Timestamp};
use karpenter_core::pod::{Pod, PodSpec};
use karpenter_core::scheduling::PreferencePolicy;
use karpenter_operator::telemetry::json;
use tracing::info;

use super::decision::Decision;
use super::events::join_names;
use crate::Context;
use crate::ttl_cache::TtlCache;

/// How many pods a log line names.
const MAX_NAMED_PODS: usize = 10;
/// A pod is named once in this time for each of its preferences.
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// A line of the log, and which pods it is about.
type Kind = (&'static str, fn(&PodSpec) -> bool);

/// Preferences that can keep nodes alive, and the line of the log that says so.
const KINDS: [Kind; 2] = [
    ("pod(s) have a preferred Anti-Affinity which can prevent consolidation", |spec| {
        !spec.preferred_pod_anti_affinity.is_empty()
    }),
    ("pod(s) have a preferred TopologySpreadConstraint which can prevent consolidation", |spec| {
        spec.topology_spread.iter().any(|constraint| !constraint.is_required)
    }),
];

/// The pods that were logged, by kind of preference.
#[derive(Debug)]
pub(super) struct PreferenceWarnings([TtlCache<()>; 2]);

impl PreferenceWarnings {
    pub(super) fn new() -> Self {
        Self([TtlCache::new(DAY), TtlCache::new(DAY)])
    }

    /// Logs pending pods whose preferences can prevent consolidation, once a day.
    pub(super) fn log_new(&self, context: &Context, decision: &Decision) {
        if context.options.preference_policy == PreferencePolicy::Ignore {
            return;
        }
        let place = decision.demand.to_place.iter().map(|id| decision.snapshot.pod(*id));
        let pending: Vec<&Pod> =
            place.filter(|pod| !pod.is_virtual && pod.node.is_none()).collect();
        for ((message, is_of_kind), named) in KINDS.iter().zip(&self.0) {
            let pods = unnamed(&pending, *is_of_kind, named, context.clock.now());
            if !pods.is_empty() {
                let pods = join_names(pods.iter().map(String::as_str), MAX_NAMED_PODS, pods.len());
                info!(pods = ?json(&pods), "{message}");
            }
        }
    }
}

/// Returns the pods of a kind that were not logged today, and remembers them.
fn unnamed(
    pods: &[&Pod],
    is_of_kind: fn(&PodSpec) -> bool,
    named: &TtlCache<()>,
    now: Timestamp,
) -> Vec<String> {
    let of_kind = pods.iter().filter(|pod| is_of_kind(&pod.spec));
    let new = of_kind.filter(|pod| named.get(&pod.uid, now).is_none());
    new.map(|pod| {
        named.insert(&pod.uid, (), now);
        pod.full_name()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use karpenter_core::testing;

    use super::*;

    #[test]
    fn a_preference_is_logged_once_a_day() {
        let hour = |n| Timestamp::UNIX_EPOCH + SignedDuration::from_hours(n);
        let apart = || testing::term("hostname");
        let anyway = || testing::spread("zone", 1).schedule_anyway();
        let pods = [
            testing::pod("apart").prefer_pod_anti_affinity(1, apart()),
            testing::pod("spread").spread(anyway()),
            testing::pod("both").prefer_pod_anti_affinity(1, apart()).spread(anyway()),
            testing::pod("plain").zone_spread(1),
        ];
        let pods: Vec<Pod> = pods.into_iter().flat_map(testing::PodBuilder::build).collect();
        let pods: Vec<&Pod> = pods.iter().collect();
        let warnings = PreferenceWarnings::new();
        let logged = |now: Timestamp| {
            [0, 1].map(|kind| unnamed(&pods, KINDS[kind].1, &warnings.0[kind], now))
        };
        let first = [["default/apart", "default/both"], ["default/spread", "default/both"]];
        assert_eq!(logged(hour(0)), first, "20/B26, 20/Q20 each kind for itself");
        assert_eq!(logged(hour(23)), [vec![], Vec::<String>::new()], "20/B26");
        assert_eq!(logged(hour(24)), first, "20/B26");
    }
}
