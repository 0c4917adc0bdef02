//! Gauges of one name: a number for each set of label values.
//!
//! There is a series and more for every pod, so what a series takes is what counts: the values of its
//! labels in one piece, and a number. The `GaugeVec` of the prometheus crate keeps name and value of
//! each label, which was a ninth of the memory and a sixth of the allocations of a scale-up to 3,000
//! pods.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto;

/// Between two values of a key. No value of a label has it.
const SEPARATOR: char = '\0';

/// The values of labels in their order, in one piece.
pub(super) type SeriesKey = Arc<str>;

/// Gauges of one name. Clones are handles to the same ones.
#[derive(Clone)]
pub(super) struct GaugeFamily(Arc<Inner>);

struct Inner {
    desc: Desc,
    /// Positions of labels by name, which is how they are shown.
    order: Vec<usize>,
    series: Mutex<HashMap<SeriesKey, f64>>,
}

impl GaugeFamily {
    pub(super) fn new(name: &str, help: &str, labels: &[String]) -> prometheus::Result<Self> {
        let mut order: Vec<usize> = (0..labels.len()).collect();
        order.sort_by_key(|&at| &labels[at]);
        let desc = Desc::new(name.to_owned(), help.to_owned(), labels.to_vec(), HashMap::new())?;
        Ok(Self(Arc::new(Inner { desc, order, series: Mutex::default() })))
    }

    pub(super) fn name(&self) -> &str {
        &self.0.desc.fq_name
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn set(&self, key: &str, number: f64) {
        let mut series = self.lock();
        match series.get_mut(key) {
            Some(known) => *known = number,
            None => drop(series.insert(key.into(), number)),
        }
    }

    /// As [`Self::set`], without a copy of the key.
    pub(super) fn put(&self, key: &SeriesKey, number: f64) {
        self.lock().insert(Arc::clone(key), number);
    }

    pub(super) fn add(&self, key: &str, number: f64) {
        let mut series = self.lock();
        match series.get_mut(key) {
            Some(known) => *known += number,
            None => drop(series.insert(key.into(), number)),
        }
    }

    pub(super) fn remove(&self, key: &str) {
        self.lock().remove(key);
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SeriesKey, f64>> {
        self.0.series.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn metric(&self, key: &str, number: f64) -> proto::Metric {
        let (names, values): (_, Vec<&str>) =
            (&self.0.desc.variable_labels, key.split(SEPARATOR).collect());
        let pair = |&at: &usize| {
            let mut pair = proto::LabelPair::default();
            pair.set_name(names[at].clone());
            pair.set_value(values.get(at).copied().unwrap_or_default().to_owned());
            pair
        };
        let mut metric = proto::Metric::from_label(self.0.order.iter().map(pair).collect());
        let mut gauge = proto::Gauge::default();
        gauge.set_value(number);
        metric.set_gauge(gauge);
        metric
    }
}

/// The key of a series with these values.
pub(super) fn key<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    let mut key = String::new();
    for (at, value) in values.into_iter().enumerate() {
        if at > 0 {
            key.push(SEPARATOR);
        }
        if value.contains(SEPARATOR) {
            key.extend(value.chars().filter(|&letter| letter != SEPARATOR));
        } else {
            key.push_str(value);
        }
    }
    key
}

/// The key with one more value.
pub(super) fn with(key: &str, value: &str) -> String {
    format!("{key}{SEPARATOR}{value}")
}

impl Collector for GaugeFamily {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.0.desc]
    }

    fn collect(&self) -> Vec<proto::MetricFamily> {
        let mut family = proto::MetricFamily::default();
        family.set_name(self.0.desc.fq_name.clone());
        family.set_help(self.0.desc.help.clone());
        family.set_field_type(proto::MetricType::GAUGE);
        let series = self.lock();
        family.set_metric(series.iter().map(|(key, &number)| self.metric(key, number)).collect());
        vec![family]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_be_taken_for_two() {
        let family = GaugeFamily::new("test", "A test.", &["b".into(), "a".into()]).unwrap();
        family.set(&key(["x\0y", ""]), 1.0);
        family.add(&key(["xy", ""]), 2.0);
        let found = family.collect();
        let [metric] = found[0].get_metric() else { panic!("one series: {found:?}") };
        let labels: Vec<_> =
            metric.get_label().iter().map(|pair| (pair.name(), pair.value())).collect();
        assert_eq!(labels, [("a", ""), ("b", "xy")]);
        assert_eq!(metric.get_gauge().get_value().to_bits(), 3.0_f64.to_bits());
    }
}
