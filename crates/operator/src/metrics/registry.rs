//! A registry of metrics, and typed handles to record with.
//!
//! One per process, never global: a simulated world has several processes. Recording takes a read
//! lock and a hash of the label values.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, HistogramOpts, HistogramVec, Opts, TextEncoder};

use super::gauges::{self, GaugeFamily};
use super::labels::{LabelSet, LabelValues};
use super::store::Sample;
use super::summary::SummaryVec;
use crate::clock::Clock;

/// How finished a metric is: alpha may change, beta may lose labels, stable only gains some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// May change.
    Alpha,
    /// May lose labels.
    Beta,
    /// Only gains labels.
    Stable,
    /// Of a library that upstream uses, which promises nothing.
    Library,
}

impl Stage {
    /// The stage in a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alpha => "alpha",
            Self::Beta => "beta",
            Self::Stable => "stable",
            Self::Library => "-",
        }
    }
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// A number that grows.
    Counter,
    /// A number.
    Gauge,
    /// Counts of observations by size.
    Histogram,
    /// Quantiles of observations.
    Summary,
}

impl MetricType {
    /// The type in a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// Name, stage and help of a new metric.
#[derive(Clone, Copy, Debug)]
pub struct MetricOpts<'a> {
    /// Its name.
    pub name: &'a str,
    /// How finished it is.
    pub stage: Stage,
    /// Its help text for users.
    pub help: &'a str,
}

/// A metric that exists.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Its name.
    pub name: String,
    /// What it measures with.
    pub metric_type: MetricType,
    /// How finished it is.
    pub stage: Stage,
    /// Names of its labels.
    pub labels: Vec<String>,
    /// Upper bounds of a histogram.
    pub buckets: Vec<f64>,
    /// Its help text for users.
    pub help: String,
}

/// All metrics of a process. Clones are handles to the same one.
#[derive(Clone)]
pub struct Registry(Arc<Inner>);

struct Inner {
    /// All but gauges, which write themselves.
    registry: prometheus::Registry,
    /// By name.
    gauges: Mutex<Vec<GaugeFamily>>,
    families: Mutex<Vec<Family>>,
    clock: Arc<dyn Clock>,
    refreshers: Mutex<Vec<Refresher>>,
}

/// Sets gauges that change with time alone.
type Refresher = Box<dyn Fn(Timestamp) + Send + Sync>;

/// Names and labels are constants, or made of labels that are checked before.
const VALID: &str = "names of metrics are valid and made once, which tests say too";

impl Registry {
    /// One without metrics. Summaries forget by the clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Inner {
            registry: prometheus::Registry::new(),
            gauges: Mutex::default(),
            families: Mutex::default(),
            clock,
            refreshers: Mutex::default(),
        }))
    }

    /// Adds a function that each scrape calls first, with the current time. It is for gauges that
    /// change with time alone, such as ages.
    pub(super) fn add_refresher(&self, refresh: impl Fn(Timestamp) + Send + Sync + 'static) {
        let mut all = self.0.refreshers.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Box::new(refresh));
    }

    pub(super) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Returns all recorded metrics by name: gauges, and the others.
    fn gather(&self) -> (Vec<GaugeFamily>, Vec<MetricFamily>) {
        let now = self.now();
        let refreshers = self.0.refreshers.lock().unwrap_or_else(PoisonError::into_inner);
        refreshers.iter().for_each(|refresh| refresh(now));
        drop(refreshers);
        let gauges = self.0.gauges.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (gauges, self.0.registry.gather())
    }

    /// Makes a counter.
    pub fn counter<L: LabelSet>(&self, describe: MetricOpts<'_>) -> Counter<L> {
        Counter(self.dynamic_counter(describe, &owned(L::NAMES)), PhantomData)
    }

    /// Makes a gauge.
    pub fn gauge<L: LabelSet>(&self, describe: MetricOpts<'_>) -> Gauge<L> {
        Gauge(self.dynamic_gauge(describe, &owned(L::NAMES)), PhantomData)
    }

    /// Makes a histogram.
    pub fn histogram<L: LabelSet>(
        &self,
        describe: MetricOpts<'_>,
        buckets: Vec<f64>,
    ) -> Histogram<L> {
        Histogram(self.dynamic_histogram(describe, &owned(L::NAMES), buckets), PhantomData)
    }

    /// Makes a summary.
    pub fn summary<L: LabelSet>(&self, describe: MetricOpts<'_>) -> Summary<L> {
        let vec = SummaryVec::new(describe.name, describe.help, L::NAMES, self.0.clock.clone());
        let vec = vec.expect(VALID);
        self.register(vec.clone());
        self.record_family(describe, MetricType::Summary, &owned(L::NAMES), Vec::new());
        Summary(vec, PhantomData)
    }

    pub(super) fn dynamic_counter(
        &self,
        describe: MetricOpts<'_>,
        labels: &[String],
    ) -> CounterVec {
        let vec = CounterVec::new(Opts::new(describe.name, describe.help), &borrowed(labels));
        let vec = vec.expect(VALID);
        self.register(vec.clone());
        self.record_family(describe, MetricType::Counter, labels, Vec::new());
        vec
    }

    pub(super) fn dynamic_gauge(&self, describe: MetricOpts<'_>, labels: &[String]) -> GaugeFamily {
        let family = GaugeFamily::new(describe.name, describe.help, labels).expect(VALID);
        let mut gauges = self.0.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        let place = gauges.partition_point(|gauge| gauge.name() < family.name());
        gauges.insert(place, family.clone());
        drop(gauges);
        self.record_family(describe, MetricType::Gauge, labels, Vec::new());
        family
    }

    pub(super) fn dynamic_histogram(
        &self,
        describe: MetricOpts<'_>,
        labels: &[String],
        buckets: Vec<f64>,
    ) -> HistogramVec {
        let options = HistogramOpts::new(describe.name, describe.help).buckets(buckets.clone());
        let vec = HistogramVec::new(options, &borrowed(labels)).expect(VALID);
        self.register(vec.clone());
        self.record_family(describe, MetricType::Histogram, labels, buckets);
        vec
    }

    fn register(&self, collector: impl Collector + 'static) {
        self.0.registry.register(Box::new(collector)).expect(VALID);
    }

    fn record_family(
        &self,
        describe: MetricOpts<'_>,
        metric_type: MetricType,
        labels: &[String],
        buckets: Vec<f64>,
    ) {
        let MetricOpts { name, stage, help } = describe;
        let (name, help, labels) = (name.to_owned(), help.to_owned(), labels.to_vec());
        let family = Family { name, metric_type, stage, labels, buckets, help };
        let mut families = self.0.families.lock().unwrap_or_else(PoisonError::into_inner);
        // The two lists are separate, so both are checked.
        let is_new = families.iter().all(|known| known.name != family.name);
        assert!(is_new, "{}: {VALID}", family.name);
        families.push(family);
    }

    /// Every metric, by name, also those that nothing was recorded for.
    pub fn families(&self) -> Vec<Family> {
        let mut all = self.0.families.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Returns all recorded metrics in Prometheus' text format. With many pods it is many
    /// megabytes, so it does not belong on a thread that serves other tasks. Concurrent changes may
    /// be on it or not.
    pub fn text(&self) -> String {
        let (gauges, others) = self.gather();
        let (mut text, mut gauges) = (String::new(), gauges.iter().peekable());
        for family in &others {
            while let Some(gauge) = gauges.next_if(|gauge| gauge.name() < family.name()) {
                gauge.write(&mut text);
            }
            // It fails on metrics without a name or a value alone, and there are none of these.
            let _ = TextEncoder::new().encode_utf8(std::slice::from_ref(family), &mut text);
        }
        gauges.for_each(|gauge| gauge.write(&mut text));
        text
    }

    /// Returns the value of a series: of a counter or gauge its number, of others the count of
    /// observations. All labels have to be named. For tests: it gathers everything.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let (gauges, others) = self.gather();
        if let Some(gauge) = gauges.iter().find(|gauge| gauge.name() == name) {
            return gauge.value(labels);
        }
        let family = others.iter().find(|family| family.name() == name)?;
        let metric = family.get_metric().iter().find(|metric| {
            let pairs = metric.get_label();
            pairs.len() == labels.len()
                && pairs.iter().all(|pair| labels.contains(&(pair.name(), pair.value())))
        })?;
        #[expect(clippy::cast_precision_loss, reason = "counts of a test are small")]
        let count = |count: u64| count as f64;
        Some(match family.get_field_type() {
            prometheus::proto::MetricType::HISTOGRAM => {
                count(metric.get_histogram().get_sample_count())
            }
            prometheus::proto::MetricType::SUMMARY => count(metric.get_summary().sample_count()),
            _ => metric.get_counter().get_value(),
        })
    }

    /// How many series a metric has. For tests, as above.
    pub fn series_count(&self, name: &str) -> usize {
        let (gauges, others) = self.gather();
        let gauge = gauges.iter().find(|gauge| gauge.name() == name).map(GaugeFamily::len);
        let other = others.iter().find(|family| family.name() == name);
        gauge.or(other.map(|family| family.get_metric().len())).unwrap_or(0)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registry({} metrics)", self.families().len())
    }
}

fn owned(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|&label| label.to_owned()).collect()
}

fn borrowed(labels: &[String]) -> Vec<&str> {
    labels.iter().map(String::as_str).collect()
}

/// Label values always are as many as the names, so this is how a series is reached.
const COMPLETE: &str = "a label set has a value for each of its names";

/// A number that grows.
#[derive(Clone)]
pub struct Counter<L>(CounterVec, PhantomData<fn(L)>);

impl<L: LabelSet> Counter<L> {
    /// Adds one.
    pub fn inc(&self, labels: &L::With<'_>) {
        self.add(labels, 1.0);
    }

    /// Adds a number that is not negative; nothing otherwise. Adding 0 creates the series.
    pub fn add(&self, labels: &L::With<'_>, number: f64) {
        let series = self.series(labels);
        if number >= 0.0 {
            series.inc_by(number);
        }
    }

    /// The series, from now on there.
    pub(super) fn series(&self, labels: &L::With<'_>) -> prometheus::Counter {
        labels.with(|values| self.0.get_metric_with_label_values(values)).expect(COMPLETE)
    }
}

/// A number.
#[derive(Clone)]
pub struct Gauge<L>(GaugeFamily, PhantomData<fn(L)>);

impl<L: LabelSet> Gauge<L> {
    /// Sets the number.
    pub fn set(&self, labels: &L::With<'_>, number: f64) {
        self.0.set(&series_key::<L>(labels), number);
    }

    /// Adds to the number.
    pub fn add(&self, labels: &L::With<'_>, number: f64) {
        self.0.add(&series_key::<L>(labels), number);
    }

    /// Removes the series, if it is there.
    pub fn remove(&self, labels: &L::With<'_>) {
        self.0.remove(&series_key::<L>(labels));
    }

    /// Removes all series.
    pub fn clear(&self) {
        self.0.clear();
    }

    /// The number for a [`super::Store`], which removes it when it is stale.
    pub fn sample(&self, labels: &L::With<'_>, number: f64) -> Sample {
        Sample::new(&self.0, series_key::<L>(labels).into(), number)
    }
}

fn series_key<L: LabelSet>(labels: &L::With<'_>) -> String {
    labels.with(|values| gauges::series_key(values.iter().copied()))
}

/// Counts of observations by size.
#[derive(Clone)]
pub struct Histogram<L>(HistogramVec, PhantomData<fn(L)>);

impl<L: LabelSet> Histogram<L> {
    /// Counts an observation.
    pub fn observe(&self, labels: &L::With<'_>, number: f64) {
        self.series(labels).observe(number);
    }

    /// The series, from now on there.
    pub(super) fn series(&self, labels: &L::With<'_>) -> prometheus::Histogram {
        labels.with(|values| self.0.get_metric_with_label_values(values)).expect(COMPLETE)
    }
}

/// Quantiles of observations.
#[derive(Clone)]
pub struct Summary<L>(SummaryVec, PhantomData<fn(L)>);

impl<L: LabelSet> Summary<L> {
    /// Counts an observation.
    pub fn observe(&self, labels: &L::With<'_>, number: f64) {
        labels.with(|values| self.0.observe(values, number));
    }
}

macro_rules! debug {
    ($($name:ident)+) => {$(
        impl<L> fmt::Debug for $name<L> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )+};
}

debug!(Counter Gauge Histogram Summary);
