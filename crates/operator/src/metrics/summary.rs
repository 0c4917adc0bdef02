//! Summaries: quantiles of the observations of the last ten minutes, by the injected clock (spec
//! 40 §8.1).
//!
//! Observations are counted in classes that are 2 % wide, so a quantile is at most 1 % off, and the
//! memory of a series does not depend on how many there are. Time is cut into slices; a whole slice
//! is forgotten at a time, as upstream's library does.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use prometheus::core::{Collector, Desc};
use prometheus::proto;

use crate::clock::Clock;

/// The quantiles that are shown; the first and the last are the least and the greatest.
const QUANTILES: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 1.0];
const SLICES: usize = 5;
const SLICE_SECONDS: i64 = 120;

/// The upper bound of a class as a multiple of its lower bound.
const CLASS_WIDTH: f64 = 1.02;
/// Smaller observations share one class. Observations are in seconds.
const MIN_OBSERVATION: f64 = 1e-6;

/// A summary for each set of label values. Clones are handles to the same one.
#[derive(Clone)]
pub(super) struct SummaryVec(Arc<Inner>);

struct Inner {
    desc: Desc,
    clock: Arc<dyn Clock>,
    series: Mutex<BTreeMap<Vec<String>, Window>>,
}

impl SummaryVec {
    pub(super) fn new(
        name: &str,
        help: &str,
        labels: &[&str],
        clock: Arc<dyn Clock>,
    ) -> prometheus::Result<Self> {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        let desc = Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new())?;
        Ok(Self(Arc::new(Inner { desc, clock, series: Mutex::default() })))
    }

    pub(super) fn observe(&self, values: &[&str], number: f64) {
        let now = self.0.clock.now();
        let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
        self.lock().entry(values).or_default().observe(number, now);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<String>, Window>> {
        self.0.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for SummaryVec {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.0.desc]
    }

    fn collect(&self) -> Vec<proto::MetricFamily> {
        let now = self.0.clock.now();
        let metric = |(values, window): (&Vec<String>, &mut Window)| {
            let mut pairs: Vec<_> = self.0.desc.variable_labels.iter().zip(values).collect();
            pairs.sort();
            let pair = |(name, value): (&String, &String)| {
                let mut pair = proto::LabelPair::default();
                pair.set_name(name.clone());
                pair.set_value(value.clone());
                pair
            };
            let mut metric = proto::Metric::from_label(pairs.into_iter().map(pair).collect());
            metric.set_summary(window.summary(now));
            metric
        };
        let mut family = proto::MetricFamily::default();
        family.set_name(self.0.desc.fq_name.clone());
        family.set_help(self.0.desc.help.clone());
        family.set_field_type(proto::MetricType::SUMMARY);
        family.set_metric(self.lock().iter_mut().map(metric).collect());
        vec![family]
    }
}

/// The observations of one series.
#[derive(Debug, Default)]
struct Window {
    /// Of all time.
    count: u64,
    sum: f64,
    /// The newest last.
    slices: VecDeque<Slice>,
}

#[derive(Debug)]
struct Slice {
    number: i64,
    least: f64,
    greatest: f64,
    classes: BTreeMap<i32, u64>,
}

impl Window {
    fn observe(&mut self, number: f64, now: Timestamp) {
        self.count += 1;
        self.sum += number;
        self.drop_expired_slices(now);
        let slice = now.as_second().div_euclid(SLICE_SECONDS);
        // A clock that went back adds to the newest slice that there is.
        if self.slices.back().is_none_or(|newest| newest.number < slice) {
            let (least, greatest) = (f64::INFINITY, f64::NEG_INFINITY);
            let classes = BTreeMap::new();
            self.slices.push_back(Slice { number: slice, least, greatest, classes });
        }
        let Some(newest) = self.slices.back_mut() else { return };
        newest.least = newest.least.min(number);
        newest.greatest = newest.greatest.max(number);
        *newest.classes.entry(class(number)).or_default() += 1;
    }

    fn drop_expired_slices(&mut self, now: Timestamp) {
        let oldest = now.as_second().div_euclid(SLICE_SECONDS) - i64::try_from(SLICES).unwrap_or(0);
        while self.slices.front().is_some_and(|slice| slice.number <= oldest) {
            self.slices.pop_front();
        }
    }

    fn summary(&mut self, now: Timestamp) -> proto::Summary {
        self.drop_expired_slices(now);
        let mut classes: BTreeMap<i32, u64> = BTreeMap::new();
        for (class, count) in self.slices.iter().flat_map(|slice| &slice.classes) {
            *classes.entry(*class).or_default() += count;
        }
        let least = self.slices.iter().map(|slice| slice.least).fold(f64::INFINITY, f64::min);
        let greatest =
            self.slices.iter().map(|slice| slice.greatest).fold(f64::NEG_INFINITY, f64::max);
        let quantile = |quantile: f64| {
            let mut shown = proto::Quantile::default();
            shown.set_quantile(quantile);
            shown.set_value(if classes.is_empty() {
                f64::NAN
            } else if quantile <= 0.0 {
                least
            } else if quantile >= 1.0 {
                greatest
            } else {
                value_at(&classes, quantile).clamp(least, greatest)
            });
            shown
        };
        let mut summary = proto::Summary::default();
        summary.set_sample_count(self.count);
        summary.set_sample_sum(self.sum);
        summary.set_quantile(QUANTILES.map(quantile).into());
        summary
    }
}

/// Returns the class of a number. NaN is in the smallest one.
#[expect(clippy::cast_possible_truncation, reason = "a float's logarithm is small")]
fn class(number: f64) -> i32 {
    let number = if number > MIN_OBSERVATION { number.min(f64::MAX) } else { MIN_OBSERVATION };
    (number.ln() / CLASS_WIDTH.ln()).floor() as i32
}

/// The middle of the class that the quantile falls into.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank is a count, and not negative"
)]
fn value_at(classes: &BTreeMap<i32, u64>, quantile: f64) -> f64 {
    let total: u64 = classes.values().sum();
    let rank = (quantile * total as f64).ceil() as u64;
    let mut seen = 0;
    for (class, count) in classes {
        seen += count;
        if seen >= rank {
            return CLASS_WIDTH.powf(f64::from(*class) + 0.5);
        }
    }
    f64::NAN
}
