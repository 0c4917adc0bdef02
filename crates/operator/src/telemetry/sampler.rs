//! Samples log records: of each text and level, the first hundred in a second and then every
//! hundredth are written.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use tracing::Level;

const WINDOW: SignedDuration = SignedDuration::from_secs(1);
const FIRST: u64 = 100;
const THEREAFTER: u64 = 100;

/// Texts that are counted at once. Messages are constants, so there are few; a process that makes
/// them up loses its counts now and then, and logs more.
const MAX_TEXTS: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct LogSampler {
    counts: BTreeMap<(Level, String), (Timestamp, u64)>,
}

impl LogSampler {
    /// Whether a record is written.
    pub(super) fn admits(&mut self, level: Level, message: &str, now: Timestamp) -> bool {
        if self.counts.len() >= MAX_TEXTS {
            self.counts.clear();
        }
        let (since, count) = self.counts.entry((level, message.to_owned())).or_insert((now, 0));
        let passed = now.duration_since(*since);
        if passed >= WINDOW || passed.is_negative() {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count <= FIRST || (*count - FIRST).is_multiple_of(THEREAFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_hundred_and_every_hundredth_of_equal_records_are_kept() {
        let mut sampler = LogSampler::default();
        let at = |millis| Timestamp::from_millisecond(millis).unwrap();
        let mut kept = |count, level, message: &str, millis| {
            (0..count).filter(|_| sampler.admits(level, message, at(millis))).count()
        };
        assert_eq!(kept(1000, Level::INFO, "a", 0), 109);
        assert_eq!(kept(10, Level::INFO, "a", 999), 0);
        assert_eq!(kept(10, Level::INFO, "b", 999), 10, "another text");
        assert_eq!(kept(10, Level::ERROR, "a", 999), 10, "another level");
        assert_eq!(kept(200, Level::INFO, "a", 1000), 101, "another second");
    }

    #[test]
    fn sampler_memory_is_bounded() {
        let mut sampler = LogSampler::default();
        for n in 0..3 * MAX_TEXTS {
            assert!(sampler.admits(Level::INFO, &n.to_string(), Timestamp::UNIX_EPOCH));
        }
        assert!(sampler.counts.len() <= MAX_TEXTS);
    }
}
