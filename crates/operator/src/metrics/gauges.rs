//! Gauges of one name: a number for each set of label values.
//!
//! There is at least one series for every pod, so the memory of a series counts: the values of its
//! labels in one text, and a number. The `GaugeVec` of the prometheus crate keeps name and value of
//! each label, which was a ninth of the memory and a sixth of the allocations of a scale-up to
//! 3,000 pods. For the same reason gauges write themselves onto the scraped page: see
//! [`GaugeFamily::write`].

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus::core::Desc;

/// Between two values of a key. No value of a label has it.
const SEPARATOR: char = '\0';

/// The values of labels in their order, in one piece.
pub(super) type SeriesKey = Arc<str>;

/// Gauges of one name. Clones are handles to the same ones.
#[derive(Clone)]
pub(super) struct GaugeFamily(Arc<Inner>);

struct Inner {
    desc: Desc,
    /// Label positions in the order of label names, which is the output order.
    label_order: Vec<usize>,
    series: Mutex<HashMap<SeriesKey, f64>>,
}

impl GaugeFamily {
    pub(super) fn new(name: &str, help: &str, labels: &[String]) -> prometheus::Result<Self> {
        let mut order: Vec<usize> = (0..labels.len()).collect();
        order.sort_by_key(|&at| &labels[at]);
        let desc = Desc::new(name.to_owned(), help.to_owned(), labels.to_vec(), HashMap::new())?;
        Ok(Self(Arc::new(Inner { desc, label_order: order, series: Mutex::default() })))
    }

    pub(super) fn name(&self) -> &str {
        &self.0.desc.fq_name
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn set(&self, key: &str, number: f64) {
        let mut series = self.lock();
        match series.get_mut(key) {
            Some(known) => *known = number,
            None => drop(series.insert(key.into(), number)),
        }
    }

    /// Sets a gauge as [`Self::set`] does, without a copy of the key.
    pub(super) fn set_shared(&self, key: &SeriesKey, number: f64) {
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

    /// How many series there are.
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// The number of the series with these labels, in whatever order they are named.
    pub(super) fn value(&self, labels: &[(&str, &str)]) -> Option<f64> {
        let names = &self.0.desc.variable_labels;
        let value = |name: &String| labels.iter().find(|(named, _)| name == named).map(|of| of.1);
        let values: Vec<&str> = names.iter().map(value).collect::<Option<_>>()?;
        if values.len() != labels.len() {
            return None;
        }
        self.lock().get(series_key(values).as_str()).copied()
    }

    /// Adds the gauges to a page in Prometheus' text format, in the order of their values; nothing
    /// if there are none. The lock is held only for a copy of pointers and numbers, and no other
    /// form of all series is in memory besides the page.
    pub(super) fn write(&self, page: &mut String) {
        let mut series: Vec<(SeriesKey, f64)> =
            self.lock().iter().map(|(key, &number)| (Arc::clone(key), number)).collect();
        if series.is_empty() {
            return;
        }
        series.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let Desc { fq_name: name, help, variable_labels: labels, .. } = &self.0.desc;
        let _ = write!(page, "# HELP {name} ");
        escape(help, false, page);
        let _ = writeln!(page, "\n# TYPE {name} gauge");
        let mut values = Vec::with_capacity(labels.len());
        for (key, number) in &series {
            values.clear();
            values.extend(key.split(SEPARATOR));
            page.push_str(name);
            for (place, &at) in self.0.label_order.iter().enumerate() {
                let _ = write!(page, "{}{}=\"", if place == 0 { '{' } else { ',' }, labels[at]);
                escape(values.get(at).copied().unwrap_or_default(), true, page);
                page.push('"');
            }
            let _ = writeln!(page, "{} {number}", if labels.is_empty() { "" } else { "}" });
        }
    }
}

/// Adds a text to the page, with what would end it or its line escaped.
fn escape(text: &str, is_quoted: bool, page: &mut String) {
    for letter in text.chars() {
        match letter {
            '\\' => page.push_str(r"\\"),
            '\n' => page.push_str(r"\n"),
            '"' if is_quoted => page.push_str(r#"\""#),
            letter => page.push(letter),
        }
    }
}

/// Returns the key of a series with these label values.
pub(super) fn series_key<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
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

/// Returns the key with one more label value.
pub(super) fn extend_key(key: &str, value: &str) -> String {
    format!("{key}{SEPARATOR}{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(family: &GaugeFamily) -> String {
        let mut page = String::new();
        family.write(&mut page);
        page
    }

    #[test]
    fn a_label_value_with_the_separator_stays_one_value() {
        let family = GaugeFamily::new("test", "A test.", &["b".into(), "a".into()]).unwrap();
        family.set(&series_key(["x\0y", ""]), 1.0);
        family.add(&series_key(["xy", ""]), 2.0);
        let expected = "# HELP test A test.\n# TYPE test gauge\ntest{a=\"\",b=\"xy\"} 3\n";
        assert_eq!(page(&family), expected);
    }

    /// The same as the encoder of the prometheus crate writes, whatever the values are.
    #[test]
    fn gauges_are_encoded_like_the_prometheus_crate() {
        use prometheus::{Encoder as _, GaugeVec, Opts, Registry, TextEncoder};

        let help = "One line \\ of \"help\",\nand another.";
        for (name, labels, all) in [
            ("none", &[][..], &[&[][..]][..]),
            ("two", &["b", "a"], &[&["x", "y"], &["x", "\"q\" \\ \n é"], &["", "0"]]),
        ] {
            let owned: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
            let ours = GaugeFamily::new(name, help, &owned).unwrap();
            let theirs = GaugeVec::new(Opts::new(name, help), labels).unwrap();
            let registry = Registry::new();
            registry.register(Box::new(theirs.clone())).unwrap();
            assert_eq!(page(&ours), "", "nothing was recorded");
            for (&values, number) in all.iter().zip([0.1, -2e300, f64::NAN]) {
                ours.set(&series_key(values.iter().copied()), number);
                theirs.with_label_values(values).set(number);
            }
            let mut text = Vec::new();
            TextEncoder::new().encode(&registry.gather(), &mut text).unwrap();
            let mut expected: Vec<_> = std::str::from_utf8(&text).unwrap().lines().collect();
            let page = page(&ours);
            let mut found: Vec<_> = page.lines().collect();
            // Each side has its own order of series.
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected);
        }
    }
}
