//! Metrics and events of status conditions (spec 40 §8.2, spec 45 §15.1).
//!
//! [`diff_status`] compares an object with its last observed status and returns the events and
//! measurements: that is pure. [`ConditionMetrics`] stores the objects of one kind and records.
//! Kinds that upstream had before its metrics carried the kind in their names are recorded under
//! the deprecated names too.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use prometheus::{CounterVec, HistogramVec};

use super::definitions::{default_buckets, exponential_buckets};
use super::gauges::{self, GaugeFamily, SeriesKey};
use super::registry::{MetricOpts, Registry, Stage};
use super::store::{Sample, Store};
use crate::events::Event;

mod status_diff;
#[cfg(test)]
mod tests;

pub use status_diff::{
    ObjectStatus, ObservedCondition, ObservedStatus, StatusDiff, Transition, diff_status,
};

/// What identifies an object of a kind: namespace and name.
type Key = (String, String);

/// A kind, and which labels of its objects its metrics show.
#[derive(Clone, Debug)]
pub struct KindLabels {
    group: String,
    kind: String,
    labels: Vec<String>,
}

impl KindLabels {
    /// A kind with these labels of objects.
    pub fn new(group: &str, kind: &str, labels: &[&str]) -> Self {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        Self { group: group.to_owned(), kind: kind.to_owned(), labels }
    }

    /// Returns the label names as metrics spell them.
    fn metric_label_names(&self) -> Vec<String> {
        self.labels.iter().map(|label| label.replace(['/', '.', '-'], "_")).collect()
    }

    fn label_values(&self, labels: &BTreeMap<String, String>) -> Vec<String> {
        let value = |label: &String| labels.get(label).cloned().unwrap_or_default();
        self.labels.iter().map(value).collect()
    }
}

/// Records what happens to the conditions of one kind. Clones are handles to the same one.
#[derive(Clone)]
pub struct ConditionMetrics(Arc<Inner>);

struct Inner {
    kind: KindLabels,
    own: ConditionFamilies,
    /// The deprecated metrics, with the values of `group` and `kind`.
    deprecated: Option<(ConditionFamilies, Vec<String>)>,
    store: Store<Key>,
    observed: Mutex<BTreeMap<Key, ObservedStatus>>,
}

/// Condition metrics under their deprecated names, which kinds share.
#[derive(Clone)]
pub(super) struct DeprecatedConditionMetrics(ConditionFamilies);

impl DeprecatedConditionMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let extra = ["group".to_owned(), "kind".to_owned()];
        Self(ConditionFamilies::new(registry, "operator", &extra, &default_buckets()))
    }
}

/// The six metrics of a kind, or of all kinds under their deprecated names.
#[derive(Clone)]
struct ConditionFamilies {
    condition_count: GaugeFamily,
    current_status_seconds: GaugeFamily,
    transitions: CounterVec,
    transition_seconds: HistogramVec,
    termination_current_time: GaugeFamily,
    termination_duration: HistogramVec,
}

impl ConditionFamilies {
    fn new(registry: &Registry, prefix: &str, extra: &[String], buckets: &[f64]) -> Self {
        let labels = |own: &[&str]| -> Vec<String> {
            own.iter().map(|&label| label.to_owned()).chain(extra.iter().cloned()).collect()
        };
        let (stage, condition) = (Stage::Stable, ["namespace", "name", "type", "status", "reason"]);
        let name = |rest: &str| format!("{prefix}_{rest}");
        let gauge = |rest: &str, help: &str, own: &[&str]| {
            registry.dynamic_gauge(MetricOpts { name: &name(rest), stage, help }, &labels(own))
        };
        let histogram = |rest: &str, help: &str, own: &[&str]| {
            let describe = MetricOpts { name: &name(rest), stage, help };
            registry.dynamic_histogram(describe, &labels(own), buckets.to_vec())
        };
        let transitions = MetricOpts {
            name: &name("status_condition_transitions_total"),
            stage,
            help: "Changes of the status of conditions.",
        };
        Self {
            condition_count: gauge(
                "status_condition_count",
                "1 for each condition of an object.",
                &condition,
            ),
            current_status_seconds: gauge(
                "status_condition_current_status_seconds",
                "Time for which conditions have had their status.",
                &condition,
            ),
            transitions: registry
                .dynamic_counter(transitions, &labels(&["type", "status", "reason"])),
            transition_seconds: histogram(
                "status_condition_transition_seconds",
                "Time for which conditions had a status before they changed it.",
                &["type", "status", "to_status"],
            ),
            termination_current_time: gauge(
                "termination_current_time_seconds",
                "Time since objects were deleted that are still there.",
                &["namespace", "name"],
            ),
            termination_duration: histogram(
                "termination_duration_seconds",
                "Time from the deletion of objects until they are gone.",
                &[],
            ),
        }
    }

    /// What stands for an object now: a series for each of its [`gauge_values`].
    fn samples(
        &self,
        key: &Key,
        seen: &ObservedStatus,
        extra: &[String],
        now: Timestamp,
    ) -> Vec<Sample> {
        let values = |own: &[&str]| -> SeriesKey {
            let all = [key.0.as_str(), key.1.as_str()].into_iter().chain(own.iter().copied());
            gauges::series_key(all.chain(extra.iter().map(String::as_str))).into()
        };
        let mut series = Vec::with_capacity(2 * seen.conditions.len() + 1);
        for (condition_type, condition) in &seen.conditions {
            let values = values(&[condition_type, &condition.status, &condition.reason]);
            series.push((&self.condition_count, values.clone()));
            series.push((&self.current_status_seconds, values));
        }
        if seen.deletion_timestamp.is_some() {
            series.push((&self.termination_current_time, values(&[])));
        }
        let series = series.into_iter().zip(gauge_values(seen, now));
        series.map(|((family, values), number)| Sample::new(family, values, number)).collect()
    }

    fn count_transition(&self, transition: &Transition, extra: &[String]) {
        let Transition { condition_type, status, reason, from } = transition;
        let values = |own: [&str; 3]| -> Vec<String> {
            own.into_iter().map(str::to_owned).chain(extra.iter().cloned()).collect()
        };
        // The number of values is that of the labels, so there is an answer.
        let counted = values([condition_type, status, reason]);
        if let Ok(counter) = self.transitions.get_metric_with_label_values(&counted) {
            counter.inc();
        }
        let Some((from, lasted)) = from else { return };
        let observed = values([condition_type, from, status]);
        if let Ok(histogram) = self.transition_seconds.get_metric_with_label_values(&observed) {
            histogram.observe(lasted.as_secs_f64());
        }
    }

    fn observe_termination(&self, deleted: Timestamp, extra: &[String], now: Timestamp) {
        if let Ok(histogram) = self.termination_duration.get_metric_with_label_values(extra) {
            histogram.observe(now.duration_since(deleted).as_secs_f64());
        }
    }
}

/// Returns the gauge values of an object, in the order of its series.
fn gauge_values(seen: &ObservedStatus, now: Timestamp) -> impl Iterator<Item = f64> + Clone {
    let age = move |since: Timestamp| now.duration_since(since).as_secs_f64();
    let conditions = seen.conditions.values();
    conditions
        .flat_map(move |condition| [1.0, age(condition.last_transition)])
        .chain(seen.deletion_timestamp.map(age))
}

impl ConditionMetrics {
    pub(super) fn new(
        registry: &Registry,
        kind: KindLabels,
        deprecated: Option<&DeprecatedConditionMetrics>,
    ) -> Self {
        let prefix = format!("operator_{}", kind.kind.to_lowercase());
        let own = ConditionFamilies::new(
            registry,
            &prefix,
            &kind.metric_label_names(),
            &exponential_buckets(0.5, 2.0, 15),
        );
        let deprecated = deprecated
            .map(|deprecated| (deprecated.0.clone(), vec![kind.group.clone(), kind.kind.clone()]));
        let (store, seen) = (Store::new(), Mutex::default());
        Self(Arc::new(Inner { kind, own, deprecated, store, observed: seen }))
    }

    /// Records an object as it is now, and answers with what to publish.
    pub fn observe(&self, object: &ObjectStatus, now: Timestamp) -> Vec<Event> {
        let key = object.key();
        let is_another = self.lock().get(&key).is_some_and(|seen| seen.is_replaced_by(object));
        let mut ended =
            if is_another { self.record_deletion(&key.0, &key.1, now) } else { Vec::new() };
        let mut seen = self.lock();
        let StatusDiff { observed: after, transitions, events } =
            diff_status(seen.get(&key), object);
        ended.extend(events);
        let extra = self.0.kind.label_values(&after.labels);
        let mut samples = Vec::new();
        for (metrics, extra) in self.family_sets(&extra) {
            samples.extend(metrics.samples(&key, &after, extra, now));
            for transition in &transitions {
                metrics.count_transition(transition, extra);
            }
        }
        self.0.store.update(&key, samples);
        seen.insert(key, after);
        ended
    }

    /// Lets the gauges of all objects show the time that has passed.
    pub fn refresh(&self, now: Timestamp) {
        let seen = self.lock();
        let faces = self.family_sets(&[]).count();
        for (key, seen) in seen.iter() {
            let numbers = std::iter::repeat_n(gauge_values(seen, now), faces);
            self.0.store.set_values(key, numbers.flatten());
        }
    }

    /// Records the deletion of an object and returns the events to publish.
    pub fn record_deletion(&self, namespace: &str, name: &str, now: Timestamp) -> Vec<Event> {
        let key = (namespace.to_owned(), name.to_owned());
        let Some(seen) = self.lock().remove(&key) else { return Vec::new() };
        self.0.store.delete(&key);
        if let Some(deleted) = seen.deletion_timestamp {
            let extra = self.0.kind.label_values(&seen.labels);
            for (metrics, extra) in self.family_sets(&extra) {
                metrics.observe_termination(deleted, extra, now);
            }
        }
        seen.finalized_events()
    }

    /// Returns the metrics of the kind, and the deprecated ones if it has them.
    fn family_sets<'a>(
        &'a self,
        extra: &'a [String],
    ) -> impl Iterator<Item = (&'a ConditionFamilies, &'a [String])> {
        let deprecated =
            self.0.deprecated.as_ref().map(|(metrics, extra)| (metrics, extra.as_slice()));
        std::iter::once((&self.0.own, extra)).chain(deprecated)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, ObservedStatus>> {
        self.0.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ConditionMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConditionMetrics({})", self.0.kind.kind)
    }
}

impl fmt::Debug for DeprecatedConditionMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeprecatedConditionMetrics")
    }
}
