//! Which troubles are news. It goes by the world's clock, so that two runs tell the same.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// What is heard again within this time still lasts. Longer than the five minutes after which
/// controllers repeat themselves.
const LASTS: SignedDuration = SignedDuration::from_mins(10);
/// So many lines are told in a minute; nobody reads more.
pub(super) const LINES_PER_MINUTE: usize = 20;
const MINUTE: SignedDuration = SignedDuration::from_mins(1);
/// So many troubles are known at once; of more, those that were not heard for longest go.
const MOST_KNOWN: usize = 1000;

/// What was told lately.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// When each was heard last.
    heard: BTreeMap<String, Timestamp>,
    minute: Option<Timestamp>,
    told: usize,
    left_out: usize,
}

/// Whether a line is to be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    No,
    Yes {
        /// How many were not told of those in the minute before.
        left_out: usize,
    },
}

impl Repeats {
    pub(super) fn admit(&mut self, key: &str, now: Timestamp) -> Admitted {
        if let Some(before) = self.heard.insert(key.to_owned(), now)
            && now.duration_since(before) <= LASTS
        {
            return Admitted::No;
        }
        self.forget_oldest();
        if self.minute.is_none_or(|begin| now.duration_since(begin) >= MINUTE) {
            (self.minute, self.told) = (Some(now), 0);
        }
        if self.told == LINES_PER_MINUTE {
            self.left_out += 1;
            return Admitted::No;
        }
        self.told += 1;
        Admitted::Yes { left_out: std::mem::take(&mut self.left_out) }
    }

    fn forget_oldest(&mut self) {
        if self.heard.len() > MOST_KNOWN
            && let Some((key, _)) = self.heard.iter().min_by_key(|(_, at)| **at)
        {
            let key = key.clone();
            self.heard.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_bounded() {
        let mut repeats = Repeats::default();
        for second in 0..5000 {
            let now = Timestamp::from_second(second).unwrap();
            repeats.admit(&second.to_string(), now);
        }
        assert_eq!(repeats.heard.len(), MOST_KNOWN);
    }
}
