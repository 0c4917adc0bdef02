//! Measures the response times of a controller's probes against the timer delay of the host, and
//! the response times of its metrics, which are scraped meanwhile as they are in any cluster.
//!
//! The control plane keeps every core busy, so timers fire late now and then. Each probe follows a
//! sleep, and the result is how much the slowest response exceeds the latest sleep, and how many
//! more responses than sleeps were late.

use std::time::Duration;

/// Response times and sleep delays above this are late.
const LATE_AFTER: Duration = Duration::from_millis(50);

/// The response times of probes, and the delays of the sleeps before them.
#[derive(Debug, Default)]
pub(super) struct ProbeTimes {
    response_times: Vec<Duration>,
    sleep_delays: Vec<Duration>,
    scrape_times: Vec<Duration>,
    /// The size of the largest metrics page, in bytes.
    largest_page_bytes: usize,
}

impl ProbeTimes {
    /// Adds the response time of a probe and the delay of its sleep.
    pub(super) fn add_response(&mut self, answer: Duration, sleep: Duration) {
        self.response_times.push(answer);
        self.sleep_delays.push(sleep);
    }

    /// Adds a scrape by how long it took, and how much came.
    pub(super) fn add_scrape(&mut self, took: Duration, bytes: usize) {
        self.scrape_times.push(took);
        self.largest_page_bytes = self.largest_page_bytes.max(bytes);
    }

    /// Adds what others have seen.
    pub(super) fn extend(&mut self, others: Self) {
        self.response_times.extend(others.response_times);
        self.sleep_delays.extend(others.sleep_delays);
        self.scrape_times.extend(others.scrape_times);
        self.largest_page_bytes = self.largest_page_bytes.max(others.largest_page_bytes);
    }

    /// What the slowest scrape took, in milliseconds.
    pub(super) fn slowest_scrape(&self) -> f64 {
        milliseconds(self.scrape_times.iter().max())
    }

    /// Returns the size of the largest metrics page, in megabytes.
    #[expect(clippy::cast_precision_loss, reason = "some millions")]
    pub(super) fn largest_page_megabytes(&self) -> f64 {
        self.largest_page_bytes as f64 / 1e6
    }

    /// Returns the 99th percentile of the response times, in milliseconds.
    pub(super) fn response_99th_percentile(&mut self) -> f64 {
        self.response_times.sort();
        milliseconds(self.response_times.get(self.response_times.len() * 99 / 100))
    }

    /// Returns the slowest response time, in milliseconds.
    pub(super) fn slowest_response(&self) -> f64 {
        milliseconds(self.response_times.iter().max())
    }

    /// Returns the largest delay of a sleep, in milliseconds.
    pub(super) fn slowest_sleep(&self) -> f64 {
        milliseconds(self.sleep_delays.iter().max())
    }

    /// Returns by how much the slowest response exceeds the latest sleep, in milliseconds.
    pub(super) fn slowest_beyond_sleep(&self) -> f64 {
        (self.slowest_response() - self.slowest_sleep()).max(0.0)
    }

    /// Returns how many of a thousand responses were late, minus the late sleeps.
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    pub(super) fn late_per_thousand(&self) -> f64 {
        let late = |all: &[Duration]| all.iter().filter(|one| **one > LATE_AFTER).count() as f64;
        let beyond = (late(&self.response_times) - late(&self.sleep_delays)).max(0.0);
        1e3 * beyond / (self.response_times.len().max(1) as f64)
    }
}

fn milliseconds(duration: Option<&Duration>) -> f64 {
    duration.map_or(0.0, |duration| 1e3 * duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_timers_of_the_host_are_not_counted() {
        let mut probes = ProbeTimes::default();
        for number in 0..1000 {
            let answer = if number % 100 == 7 { 90 } else { number / 100 };
            let sleep = if number % 500 == 3 { 60 } else { 1 };
            probes.add_response(Duration::from_millis(answer), Duration::from_millis(sleep));
        }
        let most = probes.response_99th_percentile();
        let (slowest, sleep) = (probes.slowest_response(), probes.slowest_sleep());
        let all = [most, slowest, sleep, probes.slowest_beyond_sleep(), probes.late_per_thousand()];
        assert_eq!(all.map(|number| format!("{number:.0}")), ["90", "90", "60", "30", "8"]);
        probes.add_response(Duration::ZERO, Duration::from_millis(200));
        assert!(probes.slowest_beyond_sleep() < 1.0, "the machine was later than any answer");
        assert!(ProbeTimes::default().slowest_beyond_sleep() < 1.0, "none were asked");
    }
}
