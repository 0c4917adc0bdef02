//! Which troubles are news. It goes by the world's clock, so that two runs tell the same.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// What is heard again within this time still lasts. Longer than the five minutes after which
/// controllers repeat themselves.
const REPEAT_WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// So many lines are told in a minute; nobody reads more.
pub(super) const LINES_PER_MINUTE: usize = 20;
const MINUTE: SignedDuration = SignedDuration::from_mins(1);
/// So many troubles are known at once; of more, those that were not heard for longest go.
const KEYS_MAX: usize = 1000;

/// What was told lately.
#[derive(Debug, Default)]
pub(super) struct LogDeduplicator {
    /// When each was heard last.
    last_seen: BTreeMap<String, Timestamp>,
    minute: Option<Timestamp>,
    emitted: usize,
    dropped: usize,
}

/// Whether a line is to be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LogDecision {
    Drop,
    Emit {
        /// How many were not told of those in the minute before.
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
