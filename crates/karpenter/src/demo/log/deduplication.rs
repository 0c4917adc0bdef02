//! Drops repeated log lines. Uses the world's clock, so that two runs give the same lines.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// How long a line suppresses equal ones: longer than the five minutes after which controllers
/// repeat themselves.
const REPEAT_WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// The most lines per minute that the timeline takes.
pub(super) const LINES_PER_MINUTE: usize = 20;
const MINUTE: SignedDuration = SignedDuration::from_mins(1);
/// The most keys that are kept; beyond it the longest unseen are dropped.
const KEYS_MAX: usize = 1000;

/// The recently seen lines and the count of the current minute.
#[derive(Debug, Default)]
pub(super) struct LogDeduplicator {
    /// When each key was seen last.
    last_seen: BTreeMap<String, Timestamp>,
    minute: Option<Timestamp>,
    emitted: usize,
    dropped: usize,
}

/// Whether to emit a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LogDecision {
    Drop,
    Emit {
        /// How many lines of the previous minute were dropped.
        dropped: usize,
    },
}

impl LogDeduplicator {
    pub(super) fn decide(&mut self, key: &str, now: Timestamp) -> LogDecision {
        if let Some(before) = self.last_seen.insert(key.to_owned(), now)
            && now.duration_since(before) <= REPEAT_WINDOW
        {
            return LogDecision::Drop;
        }
        self.evict_oldest();
        if self.minute.is_none_or(|begin| now.duration_since(begin) >= MINUTE) {
            (self.minute, self.emitted) = (Some(now), 0);
        }
        if self.emitted == LINES_PER_MINUTE {
            self.dropped += 1;
            return LogDecision::Drop;
        }
        self.emitted += 1;
        LogDecision::Emit { dropped: std::mem::take(&mut self.dropped) }
    }

    fn evict_oldest(&mut self) {
        if self.last_seen.len() > KEYS_MAX
            && let Some((key, _)) = self.last_seen.iter().min_by_key(|(_, at)| **at)
        {
            let key = key.clone();
            self.last_seen.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_remembered_keys_is_limited() {
        let mut deduplicator = LogDeduplicator::default();
        for second in 0..5000 {
            let now = Timestamp::from_second(second).unwrap();
            deduplicator.decide(&second.to_string(), now);
        }
        assert_eq!(deduplicator.last_seen.len(), KEYS_MAX);
    }
}
