//! Stores the gauge series of objects and removes stale ones (spec 40 §8.1, end).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::gauges::{GaugeFamily, SeriesKey};

/// A number of a gauge, with the labels that it is to have.
#[derive(Clone)]
pub struct Sample {
    series: Series,
    number: f64,
}

impl Sample {
    pub(super) fn new(family: &GaugeFamily, key: SeriesKey, number: f64) -> Self {
        Self { series: Series { family: family.clone(), key }, number }
    }
}

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Series { family, key } = &self.series;
        write!(f, "{}{key:?} = {}", family.name(), self.number)
    }
}

/// The series of objects with keys of type `K`.
///
/// Invariant: a series is here from its first update until it is removed from its gauge.
pub struct Store<K> {
    series: Mutex<HashMap<K, Vec<Series>>>,
}

/// A series that stands.
#[derive(Clone)]
struct Series {
    family: GaugeFamily,
    key: SeriesKey,
}

impl Series {
    fn is_same(&self, other: &Self) -> bool {
        self.family.is_same(&other.family) && self.key == other.key
    }
}

impl<K: Ord + Hash + Clone> Store<K> {
    /// No series yet.
    pub fn new() -> Self {
        Self { series: Mutex::default() }
    }

    /// Sets what an object has now, and removes what it had and has no longer.
    pub fn update(&self, key: &K, samples: Vec<Sample>) {
        let mut series = self.lock();
        let Some(own) = series.get_mut(key) else {
            let after = replace_series(Vec::new(), samples);
            if !after.is_empty() {
                series.insert(key.clone(), after);
            }
            return;
        };
        *own = replace_series(std::mem::take(own), samples);
        if own.is_empty() {
            series.remove(key);
        }
    }

    /// Sets new values for the series of an object, in the order of its last update.
    pub fn set_values(&self, key: &K, numbers: impl IntoIterator<Item = f64>) {
        let series = self.lock();
        let own = series.get(key).into_iter().flatten();
        own.zip(numbers).for_each(|(series, number)| series.family.set(&series.key, number));
    }

    /// Removes all that an object has.
    pub fn delete(&self, key: &K) {
        self.update(key, Vec::new());
    }

    /// Sets what all objects have now. The series of objects that are not among them are removed.
    pub fn replace_all(&self, samples: BTreeMap<K, Vec<Sample>>) {
        let mut series = self.lock();
        let mut before = std::mem::take(&mut *series);
        // What goes is removed first, as another object may have the same series from now on.
        let gone: Vec<_> =
            before.keys().filter(|key| !samples.contains_key(key)).cloned().collect();
        for key in gone {
            replace_series(before.remove(&key).unwrap_or_default(), Vec::new());
        }
        for (key, samples) in samples {
            let after = replace_series(before.remove(&key).unwrap_or_default(), samples);
            series.insert(key, after);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Vec<Series>>> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets the samples and removes the old series that are not among them. Most updates change numbers
/// alone, so the search for a series starts at its old position.
fn replace_series(before: Vec<Series>, samples: Vec<Sample>) -> Vec<Series> {
    let mut old: Vec<Option<Series>> = before.into_iter().map(Some).collect();
    let mut after = Vec::with_capacity(samples.len());
    for (place, Sample { series, number }) in samples.into_iter().enumerate() {
        let same = |old: &mut Series| old.is_same(&series);
        let kept = old.get_mut(place).and_then(|series| series.take_if(same));
        // The key of a series that stands is the one that its family has.
        let series = kept.unwrap_or(series);
        series.family.set_shared(&series.key, number);
        after.push(series);
    }
    for stale in old.into_iter().flatten() {
        if !after.iter().any(|series| series.is_same(&stale)) {
            stale.family.remove(&stale.key);
        }
    }
    after
}

impl<K: Ord + Hash + Clone> Default for Store<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        write!(f, "Store({} objects)", series.len())
    }
}
