//! How soon a controller answers probes, beside how soon the machine wakes anybody at all.
//!
//! The control plane keeps every core busy, and whoever sleeps is woken late now and then. So each
//! probe follows a sleep, and what counts is how much more often an answer is late than its sleep was.

use std::time::Duration;

/// What is late.
const LATE: Duration = Duration::from_millis(50);

/// Probes that were asked, each after a sleep.
#[derive(Debug, Default)]
pub(super) struct Probes {
    answers: Vec<Duration>,
    sleeps: Vec<Duration>,
}

impl Probes {
    /// Adds an answer by how long it took, and the sleep before by how late it ended.
    pub(super) fn add(&mut self, answer: Duration, sleep: Duration) {
        self.answers.push(answer);
        self.sleeps.push(sleep);
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
            // Ten answers are late, and two sleeps.
            let answer = if number % 100 == 7 { 90 } else { number / 100 };
            let sleep = if number % 500 == 3 { 120 } else { 1 };
            probes.add(Duration::from_millis(answer), Duration::from_millis(sleep));
        }
        let all = (probes.most(), probes.slowest(), probes.slowest_sleep(), probes.late());
        assert_eq!(all, (90.0, 90.0, 120.0, 8.0));
        assert!(Probes::default().late() < 1.0, "none were asked");
    }
}
