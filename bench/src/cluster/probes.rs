//! How soon a controller answers probes, beside how soon the machine wakes anybody at all; and what its
//! metrics take, which are scraped meanwhile as they are in any cluster.
//!
//! The control plane keeps every core busy, and whoever sleeps is woken late now and then. So each
//! probe follows a sleep, and what counts is how much longer the slowest answer took than the latest
//! sleep was late, and how many more answers were late than sleeps.

use std::time::Duration;

/// What is late.
const LATE: Duration = Duration::from_millis(50);

/// Probes that were asked, each after a sleep.
#[derive(Debug, Default)]
pub(super) struct Probes {
    answers: Vec<Duration>,
    sleeps: Vec<Duration>,
    scrapes: Vec<Duration>,
    /// The largest page of metrics, in bytes.
    page: usize,
}

impl Probes {
    /// Adds an answer by how long it took, and the sleep before by how late it ended.
    pub(super) fn add(&mut self, answer: Duration, sleep: Duration) {
        self.answers.push(answer);
        self.sleeps.push(sleep);
    }

    /// Adds a scrape by how long it took, and how much came.
    pub(super) fn add_scrape(&mut self, took: Duration, bytes: usize) {
        self.scrapes.push(took);
        self.page = self.page.max(bytes);
    }

    /// Adds what others have seen.
    pub(super) fn extend(&mut self, others: Self) {
        self.answers.extend(others.answers);
        self.sleeps.extend(others.sleeps);
        self.scrapes.extend(others.scrapes);
        self.page = self.page.max(others.page);
    }

    /// What the slowest scrape took, in milliseconds.
    pub(super) fn slowest_scrape(&self) -> f64 {
        milliseconds(self.scrapes.iter().max())
    }

    /// The largest page of metrics, in megabytes.
    #[expect(clippy::cast_precision_loss, reason = "some millions")]
    pub(super) fn page(&self) -> f64 {
        self.page as f64 / 1e6
    }

    /// Within how many milliseconds 99 of 100 were answered.
    pub(super) fn most(&mut self) -> f64 {
        self.answers.sort();
        milliseconds(self.answers.get(self.answers.len() * 99 / 100))
    }

    /// What the slowest answer took, in milliseconds.
    pub(super) fn slowest(&self) -> f64 {
        milliseconds(self.answers.iter().max())
    }

    /// How late the machine was at worst, in milliseconds.
    pub(super) fn slowest_sleep(&self) -> f64 {
        milliseconds(self.sleeps.iter().max())
    }

    /// How much longer the slowest answer took than the machine was late at worst, in milliseconds.
    pub(super) fn beyond(&self) -> f64 {
        (self.slowest() - self.slowest_sleep()).max(0.0)
    }

    /// How many of a thousand answers were late, beyond the sleeps that were.
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    pub(super) fn late(&self) -> f64 {
        let late = |all: &[Duration]| all.iter().filter(|one| **one > LATE).count() as f64;
        let beyond = (late(&self.answers) - late(&self.sleeps)).max(0.0);
        1e3 * beyond / (self.answers.len().max(1) as f64)
    }
}

fn milliseconds(duration: Option<&Duration>) -> f64 {
    duration.map_or(0.0, |duration| 1e3 * duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_is_late_by_is_not_counted() {
        let mut probes = Probes::default();
        for number in 0..1000 {
            let answer = if number % 100 == 7 { 90 } else { number / 100 };
            let sleep = if number % 500 == 3 { 60 } else { 1 };
            probes.add(Duration::from_millis(answer), Duration::from_millis(sleep));
        }
        let most = probes.most();
        let (slowest, sleep) = (probes.slowest(), probes.slowest_sleep());
        let all = [most, slowest, sleep, probes.beyond(), probes.late()];
        assert_eq!(all.map(|number| format!("{number:.0}")), ["90", "90", "60", "30", "8"]);
        probes.add(Duration::ZERO, Duration::from_millis(200));
        assert!(probes.beyond() < 1.0, "the machine was later than any answer");
        assert!(Probes::default().beyond() < 1.0, "none were asked");
    }
}
