//! Logs unschedulable pods, grouped by reason (spec 20 §2.6).
//!
//! Upstream writes a line for each pod in each pass, so a backlog of 15,000 pods fills disks. Here
//! pods that are rejected for the same reason share a line. It is repeated only when their number
//! has changed or after five minutes, as often as the event of the pod.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use karpenter_core::plan::Plan;
use karpenter_core::pod::Pod;
use karpenter_operator::metrics::labels::Controller;
use karpenter_operator::telemetry::json;
use tracing::{debug, error};

use super::decision::Decision;
use super::events::{MAX_NAMED_PODS, PROVISIONER, join_names, publish_failure};
use crate::Context;
use crate::ttl_cache::TtlCache;

/// How long an unchanged line is not repeated.
const REPEAT_INTERVAL: SignedDuration = SignedDuration::from_mins(5);
/// How many lines one pass logs at most. One more line sums up the rest.
const LINES: usize = 100;

/// The number of pods of each logged line, by reason.
#[derive(Debug)]
pub(super) struct UnschedulableLog(TtlCache<usize>);

impl UnschedulableLog {
    pub(super) fn new() -> Self {
        Self(TtlCache::new(REPEAT_INTERVAL))
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of pods")]
    pub(super) fn report(&self, context: &Context, decision: &Decision, plan: &Plan) {
        let mut waiting = Vec::new();
        let mut by_reason: BTreeMap<String, Vec<&Pod>> = BTreeMap::new();
        for (id, rejection) in &plan.rejected {
            let pod = decision.snapshot.pod(*id);
            if rejection.waits_for_reservation() {
                waiting.push(pod.full_name());
                continue;
            }
            let text = rejection.to_string();
            publish_failure(context, pod, &text);
            by_reason.entry(text).or_default().push(pod);
        }
        if !waiting.is_empty() {
            let pods =
                join_names(waiting.iter().map(String::as_str), MAX_NAMED_PODS, waiting.len());
            debug!(
                Pods = ?json(&pods),
                "deferring scheduling decision for pod(s) to future simulation due to limited \
                 reserved offering capacity"
            );
        }
        self.log(by_reason, context.clock.now());
        let count = plan.rejected.len() - waiting.len();
        let labels = Controller { controller: PROVISIONER };
        context.metrics.scheduler_unschedulable_pods_count.set(&labels, count as f64);
    }

    fn log(&self, by_reason: BTreeMap<String, Vec<&Pod>>, now: Timestamp) {
        let (lines, left_out) = self.lines(by_reason, now);
        for Line { pods, count, reason } in lines {
            // The key and the text of a single pod are upstream's.
            if count == 1 {
                error!(Pod = pods, error = reason, "could not schedule pod");
            } else {
                error!(Pods = ?json(&pods), count, error = reason, "could not schedule pod(s)");
            }
        }
        if left_out > 0 {
            error!(count = left_out, "could not schedule pod(s), for many other reasons");
        }
    }

    /// Returns the new lines, and the number of pods beyond the limit.
    fn lines(&self, by_reason: BTreeMap<String, Vec<&Pod>>, now: Timestamp) -> (Vec<Line>, usize) {
        let (mut lines, mut left_out) = (Vec::new(), 0);
        for (reason, pods) in by_reason {
            if self.0.get(&reason, now) == Some(pods.len()) {
                continue;
            }
            if lines.len() == LINES {
                left_out += pods.len();
                continue;
            }
            self.0.insert(&reason, pods.len(), now);
            let first: Vec<String> =
                pods.iter().take(MAX_NAMED_PODS).map(|pod| pod.full_name()).collect();
            let names = join_names(first.iter().map(String::as_str), MAX_NAMED_PODS, pods.len());
            lines.push(Line { pods: names, count: pods.len(), reason });
        }
        (lines, left_out)
    }
}

#[derive(Debug, PartialEq)]
struct Line {
    pods: String,
    count: usize,
    reason: String,
}

#[cfg(test)]
mod tests {
    use karpenter_core::testing;

    use super::*;

    fn lines(
        log: &UnschedulableLog,
        groups: &[(&str, usize)],
        minute: i64,
    ) -> Vec<(String, usize)> {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute);
        let pods = testing::pod("web").replicas(20_000).build();
        let group = |&(reason, count): &(&str, usize)| {
            (reason.to_owned(), pods.iter().take(count).collect::<Vec<_>>())
        };
        let (lines, _) = log.lines(groups.iter().map(group).collect(), now);
        lines.into_iter().map(|line| (line.reason, line.count)).collect()
    }

    #[test]
    fn pods_with_the_same_reason_share_one_log_line() {
        let log = UnschedulableLog::new();
        let logged = |groups: &[(&str, usize)], minute| lines(&log, groups, minute);
        let backlog = [("no room", 15_000), ("taint", 1)];
        let both = [("no room".to_owned(), 15_000), ("taint".to_owned(), 1)];
        assert_eq!(logged(&backlog, 0), both);
        assert_eq!(logged(&backlog, 1), [], "nothing new");
        assert_eq!(
            logged(&[("no room", 15_001), ("taint", 1)], 2),
            [("no room".to_owned(), 15_001)]
        );
        assert_eq!(logged(&backlog, 6).len(), 2, "in time it comes back");
    }

    #[test]
    fn log_lines_per_pass_are_limited() {
        let names: Vec<String> = (0..500).map(|n| format!("reason {n}")).collect();
        let groups: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 2)).collect();
        let log = UnschedulableLog::new();
        assert_eq!(lines(&log, &groups, 0).len(), LINES);
        assert_eq!(lines(&log, &groups, 1).len(), LINES, "others have their turn");
    }
}
