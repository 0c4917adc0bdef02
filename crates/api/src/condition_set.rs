//! How conditions change and how the root `Ready` follows from them (spec 10 §8).
//!
//! ```text
//! dependents ──▶ Ready        any False at this generation      → False
//!                             else any Unknown or out of date   → Unknown
//!                             else                              → True
//! independents                never touch Ready
//! ```
//!
//! [`ConditionSet`] is for writers: making one adds missing conditions. Readers that must not
//! change anything, such as metrics, use [`find`] and [`is_true`] on the plain list
//! ([`HasConditions::conditions`]).

use std::cmp::Reverse;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};

mod kinds;

use crate::conditions::READY;
use crate::reasons;

pub use kinds::HasConditions;

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known yet.
    Unknown,
}

impl Status {
    /// The text in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// The condition of that type, if there is one.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of that type is there and True.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| has_status(condition, Status::True))
}

fn has_status(condition: &Condition, status: Status) -> bool {
    condition.status == status.as_str()
}

/// What the set has to know about the object that the conditions belong to.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.creationTimestamp`; absent on an object that no server has seen.
    pub created: Option<Timestamp>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}

impl From<&ObjectMeta> for Subject {
    fn from(meta: &ObjectMeta) -> Self {
        Self {
            generation: meta.generation.unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            deleting: meta.deletion_timestamp.is_some(),
        }
    }
}

/// Only independents can be cleared: `Ready` and its dependents always exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("condition {0} cannot be cleared, Ready depends on it")]
pub struct ClearError(String);

/// The conditions of one object, ready to be changed.
///
/// Invariant: `Ready` and every dependent exist, and `Ready` says what the dependents say.
#[derive(Debug)]
pub struct ConditionSet<'a> {
    conditions: &'a mut Vec<Condition>,
    dependents: &'a [&'a str],
    subject: Subject,
    now: Timestamp,
}

impl<'a> ConditionSet<'a> {
    /// Takes hold of the conditions and fills in those that are missing, the root first.
    pub fn new(
        conditions: &'a mut Vec<Condition>,
        dependents: &'a [&'a str],
        subject: Subject,
        now: Timestamp,
    ) -> Self {
        // The API keeps whole seconds; finer times would compare differently after a round trip.
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let mut set = Self { conditions, dependents, subject, now };
        for type_ in [&[READY], dependents].concat() {
            if set.get(type_).is_none() {
                set.set_unknown(type_);
            }
        }
        set
    }

    /// The condition of that type, if there is one.
    pub fn get(&self, type_: &str) -> Option<&Condition> {
        find(self.conditions, type_)
    }

    /// Whether the condition of that type is there and True.
    pub fn is_true(&self, type_: &str) -> bool {
        is_true(self.conditions, type_)
    }

    /// Sets a condition True; its own type is the reason. Returns whether anything changed.
    pub fn set_true(&mut self, type_: &str) -> bool {
        self.set(type_, Status::True, type_, "")
    }

    /// Sets a condition False. Returns whether anything changed.
    pub fn set_false(&mut self, type_: &str, reason: &str, message: &str) -> bool {
        self.set(type_, Status::False, reason, message)
    }

    /// Sets a condition Unknown, awaiting reconciliation.
    /// Returns whether anything changed.
    pub fn set_unknown(&mut self, type_: &str) -> bool {
        let (reason, message) =
            (reasons::AWAITING_RECONCILIATION, reasons::messages::AWAITING_RECONCILIATION);
        self.set(type_, Status::Unknown, reason, message)
    }

    /// Sets a condition and then the root. Returns whether anything changed.
    pub fn set(&mut self, type_: &str, status: Status, reason: &str, message: &str) -> bool {
        let changed = self.upsert(type_, status, reason, message);
        if changed && type_ != READY {
            self.recompute_root();
        }
        changed
    }

    /// Removes an independent condition. Returns whether it was there.
    pub fn clear(&mut self, type_: &str) -> Result<bool, ClearError> {
        if self.is_tracked(type_) {
            return Err(ClearError(type_.to_owned()));
        }
        if self.get(type_).is_none() {
            return Ok(false);
        }
        self.conditions.retain(|condition| condition.type_ != type_);
        self.conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
        Ok(true)
    }

    /// Whether the condition is the root or a dependent, which exist from creation on.
    fn is_tracked(&self, type_: &str) -> bool {
        type_ == READY || self.dependents.contains(&type_)
    }

    fn upsert(&mut self, type_: &str, status: Status, reason: &str, message: &str) -> bool {
        let old = self.conditions.iter().position(|condition| condition.type_ == type_);
        let last_transition_time = match old.map(|index| &self.conditions[index]) {
            Some(old) if has_status(old, status) => old.last_transition_time.clone(),
            None if self.is_tracked(type_) => Time(self.subject.created.unwrap_or(self.now)),
            _ => Time(self.now),
        };
        let condition = Condition {
            type_: type_.to_owned(),
            status: status.as_str().to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: Some(self.subject.generation),
            last_transition_time,
        };
        if old.is_some_and(|index| self.conditions[index] == condition) {
            return false;
        }
        if let Some(index) = old {
            self.conditions.remove(index);
        }
        if self.subject.deleting {
            // A controller that no longer runs on deleted objects would leave them stale for ever.
            for other in self.conditions.iter_mut() {
                other.observed_generation = Some(self.subject.generation);
            }
        }
        self.conditions.push(condition);
        self.conditions.sort_by_key(|c| (c.type_ == READY, c.last_transition_time.0));
        true
    }

    fn recompute_root(&mut self) {
        let unhealthy = self.unhealthy_dependents();
        if unhealthy.is_empty() {
            self.set_true(READY);
            return;
        }
        let is_false = |c: &&Condition| has_status(c, Status::False) && self.is_current(c);
        let (status, reason) = if unhealthy.iter().any(is_false) {
            (Status::False, reasons::UNHEALTHY_DEPENDENTS)
        } else {
            (Status::Unknown, reasons::RECONCILING_DEPENDENTS)
        };
        let message =
            unhealthy.iter().map(|c| format!("{}={}", c.type_, c.status)).collect::<Vec<_>>();
        self.upsert(READY, status, reason, &message.join(", "));
    }

    /// Dependents that keep the root from being True, those that changed last first.
    fn unhealthy_dependents(&self) -> Vec<&Condition> {
        let mut unhealthy: Vec<_> = self
            .conditions
            .iter()
            .filter(|c| self.dependents.contains(&c.type_.as_str()))
            .filter(|c| !has_status(c, Status::True) || !self.is_current(c))
            .collect();
        unhealthy.sort_by_key(|condition| Reverse(condition.last_transition_time.0));
        unhealthy
    }

    fn is_current(&self, condition: &Condition) -> bool {
        condition.observed_generation.unwrap_or_default() == self.subject.generation
    }
}

#[cfg(test)]
mod tests;
