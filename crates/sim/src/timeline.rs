//! What happened in a world, in the order in which it happened: for people to read along, and for
//! tests to compare two runs byte for byte.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

/// The kind of thing that an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A step of the scenario.
    Step,
    /// A decision about nodes that are there.
    Plan,
    Node,
    Pods,
    /// Something that the product goes on with, and that is not as it should be.
    Warning,
    /// Something that the product could not do.
    Failure,
}

impl Subject {
    pub fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Plan => "plan",
            Self::Node => "node",
            Self::Pods => "pods",
            Self::Warning => "warn",
            Self::Failure => "fail",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Since the start of the world.
    pub at: SignedDuration,
    pub subject: Subject,
    pub text: String,
}

impl fmt::Display for Entry {
    /// `00:01:05  pods  web: 3 running`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_secs();
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let subject = self.subject.name();
        write!(f, "{hours:02}:{minutes:02}:{seconds:02}  {subject}  {}", self.text)
    }
}

/// The most entries that are kept; beyond it the oldest are dropped.
const MAX_ENTRIES: usize = 100_000;

/// The entries so far. Clones are the same timeline.
#[derive(Debug, Clone)]
pub struct Timeline {
    start: Timestamp,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl Timeline {
    /// Of a world that begins at `start`.
    pub fn new(start: Timestamp) -> Self {
        Self { start, entries: Arc::default() }
    }

    /// Adds a step to the timeline, unless its text is empty.
    pub fn add_step(&self, now: Timestamp, text: &str) {
        if !text.is_empty() {
            self.add(now, Subject::Step, text);
        }
    }

    pub fn add(&self, now: Timestamp, subject: Subject, text: &str) {
        let mut entries = self.lock();
        if entries.len() < MAX_ENTRIES {
            let at = now.duration_since(self.start).max(SignedDuration::ZERO);
            entries.push(Entry { at, subject, text: plain(text) });
        }
    }

    /// The entries from `first` on.
    pub fn since(&self, first: usize) -> Vec<Entry> {
        self.lock().get(first..).unwrap_or_default().to_vec()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Text from a cluster may hold anything; a terminal must not act on it, and a line stays a line.
fn plain(text: &str) -> String {
    if text.chars().any(char::is_control) {
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    } else {
        text.to_owned()
    }
}

/// Formats counts together: `web: 3 running`.
#[derive(Debug, Default)]
pub(crate) struct Counts(BTreeMap<(String, String), u32>);

impl Counts {
    pub(crate) fn add(&mut self, workload: String, state: String) {
        *self.0.entry((workload, state)).or_default() += 1;
    }

    pub(crate) fn into_lines(self) -> impl Iterator<Item = String> {
        self.0.into_iter().map(|((workload, state), count)| format!("{workload}: {count} {state}"))
    }
}
