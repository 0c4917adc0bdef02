//! Injects faults between a client and the API, and between the product and the cloud.
//!
//! ```text
//! client ─▶ ApiFaultLayer ─▶ embedded API          errors, conflicts; slow, lost, unanswered calls
//!              └─ watch ─▶ lines                   cuts, delays, events twice or overtaken
//! product ─▶ cloud::FaultyCloud ─▶ CloudProvider   see there
//! ```
//!
//! Both are always in place and do nothing until a [`Switch`] is turned on. What happens is drawn
//! from a source of its own for each call, so that one seed gives one sequence of faults, and a
//! higher rate of one kind does not move the others. Nothing is spawned: waiting is part of the
//! call that waits. Each fault is written into a [`Journal`].
//!
//! The death of the product's process is not here: see [`crate::world::World::restart_product`].

mod call;
mod layer;
mod watch;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_operator::clock::Clock;

pub use self::layer::{ApiFaultLayer, FaultyService, ResponseBody};
use crate::cloud::CloudFaults;

#[cfg(test)]
mod tests;

/// How often each fault of the API happens, from 0 (never) to 1 (always).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApiFaults {
    /// Calls that are rejected with 429 and Retry-After, 500 or 503, without any effect.
    pub errors: f64,
    /// Updates and patches that are rejected with 409, as if another client had been faster.
    pub conflicts: f64,
    /// Calls that take longer, on the way there or on the way back.
    pub slow: RandomDelay,
    /// Calls that happen, but whose answer is lost with the connection.
    pub lost_answers: f64,
    /// Calls that get no answer until the server (504) or the client gives up. Half of them happen.
    pub timeouts: f64,
    /// Watches of a version that the server says to have forgotten (410).
    pub expired: f64,
    /// Events of a watch instead of which it ends: as it should, in the middle of a line, or with
    /// an error of the connection.
    pub watch_cuts: f64,
    /// Events that come later, with all that follow.
    pub watch_delays: RandomDelay,
    /// Events that come twice.
    pub duplicates: f64,
    /// Events that the next event of another object overtakes.
    pub reorders: f64,
}

/// The rate and length of a random delay.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RandomDelay {
    pub rate: f64,
    pub by: Duration,
}

/// The faults of a world's API and cloud, and their duration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FaultSpec {
    pub api: ApiFaults,
    pub cloud: CloudFaults,
    /// From when it is turned on; without end if it does not say.
    pub length: Option<Duration>,
}

/// The faults of a world. Clones are the same.
#[derive(Debug, Clone)]
pub struct Faults {
    pub api: Switch<ApiFaults>,
    pub cloud: Switch<CloudFaults>,
    pub journal: Journal,
}

impl Faults {
    /// None yet.
    pub fn new(clock: &Arc<dyn Clock>) -> Self {
        Self {
            api: Switch::new(clock),
            cloud: Switch::new(clock),
            journal: Journal { clock: Arc::clone(clock), state: Arc::default() },
        }
    }

    /// Replaces all faults by these, from now on.
    pub fn set(&self, spec: &FaultSpec) {
        let FaultSpec { api, cloud, length } = spec;
        // Nothing is not something that is on.
        if *api == ApiFaults::default() {
            self.api.off();
        } else {
            self.api.set(api.clone(), *length);
        }
        if *cloud == CloudFaults::default() {
            self.cloud.off();
        } else {
            self.cloud.set(cloud.clone(), *length);
        }
    }
}

/// Something that is on for a while. Clones are the same switch.
#[derive(Debug)]
pub struct Switch<T> {
    clock: Arc<dyn Clock>,
    window: Arc<Mutex<Option<ActiveFaults<T>>>>,
}

/// The faults that are active, and since when.
#[derive(Debug)]
pub struct ActiveFaults<T> {
    pub since: Timestamp,
    until: Option<Timestamp>,
    pub faults: Arc<T>,
}

impl<T> Switch<T> {
    /// A switch that is off.
    pub fn new(clock: &Arc<dyn Clock>) -> Self {
        Self { clock: Arc::clone(clock), window: Arc::default() }
    }

    /// On, for this long or until it is switched again.
    pub fn set(&self, fault: T, length: Option<Duration>) {
        let since = self.clock.now();
        let until = length.map(|length| since.checked_add(length).unwrap_or(Timestamp::MAX));
        *self.lock() = Some(ActiveFaults { since, until, faults: Arc::new(fault) });
    }

    pub fn off(&self) {
        *self.lock() = None;
    }

    /// Returns the faults that are active now.
    pub fn active_faults(&self) -> Option<ActiveFaults<T>> {
        let now = self.clock.now();
        let window = self.lock().clone()?;
        window.until.is_none_or(|until| now < until).then_some(window)
    }

    fn lock(&self) -> MutexGuard<'_, Option<ActiveFaults<T>>> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Switch<T> {
    fn clone(&self) -> Self {
        Self { clock: Arc::clone(&self.clock), window: Arc::clone(&self.window) }
    }
}

impl<T> Clone for ActiveFaults<T> {
    fn clone(&self) -> Self {
        Self { since: self.since, until: self.until, faults: Arc::clone(&self.faults) }
    }
}

/// More faults than these are counted and not kept.
const MOST_KEPT: usize = 100_000;

/// The faults that have happened. Clones are the same journal.
#[derive(Debug, Clone)]
pub struct Journal {
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<(u64, Vec<InjectedFault>)>>,
}

/// A fault that was injected, with its time and its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InjectedFault {
    pub at: Timestamp,
    pub fault: &'static str,
    /// What it happened to: `PATCH /api/v1/nodes/a`, `create NodeClaim a`.
    pub call: String,
}

impl fmt::Display for InjectedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.fault, self.call)
    }
}

impl Journal {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.lock().0
    }

    /// Those from `first` on, in their order.
    pub fn since(&self, first: usize) -> Vec<InjectedFault> {
        self.lock().1.get(first..).unwrap_or_default().to_vec()
    }

    pub(crate) fn record(&self, fault: &'static str, call: impl Into<String>) {
        let at = self.clock.now();
        let mut state = self.lock();
        state.0 += 1;
        if state.1.len() < MOST_KEPT {
            state.1.push(InjectedFault { at, fault, call: call.into() });
        }
    }

    fn lock(&self) -> MutexGuard<'_, (u64, Vec<InjectedFault>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
