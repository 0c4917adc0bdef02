//! Checks whether a node side meets requirements (spec 10 §10.4).

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;

use super::{Requirement, Requirements};

impl Requirements {
    /// Whether these, as the node side, can meet what `incoming` asks.
    ///
    /// A key that only `incoming` has must be in `allow_undefined` (the well-known labels for
    /// templates and offerings, nothing for existing nodes) or be satisfied by absence. Keys that
    /// both have must [intersect](Self::intersects).
    pub fn compatible(
        &self,
        incoming: &Self,
        allow_undefined: &BTreeSet<String>,
    ) -> Result<(), IncompatibleRequirements> {
        let unknown = incoming.iter().find(|requirement| {
            !allow_undefined.contains(requirement.key())
                && self.get(requirement.key()).is_none()
                && !requirement.allows_absence()
        });
        match unknown {
            Some(requirement) => Err(IncompatibleRequirements::UnknownLabel {
                key: requirement.key().to_owned(),
                typo_of: self.similar_label(requirement.key(), allow_undefined),
            }),
            None => self.intersects(incoming),
        }
    }

    /// Checks that these requirements meet the domains that topology groups picked.
    ///
    /// `self` is the node side, and `narrowed` are the picked domains.
    ///
    /// Groups that leave no common domain of a key collapse it to DoesNotExist, which a node that
    /// lacks the label, or may lack it, would satisfy. But a node in no domain satisfies none of
    /// them.
    pub fn compatible_with_domains(
        &self,
        narrowed: &Self,
        allow_undefined: &BTreeSet<String>,
    ) -> Result<(), IncompatibleRequirements> {
        let mut question = Self::default();
        for requirement in narrowed.iter() {
            match self.get(requirement.key()) {
                None if requirement.is_empty() => {
                    question.add(Requirement::exists(requirement.key()));
                }
                Some(own) if requirement.is_empty() && !own.is_empty() => {
                    let (incoming, existing) = (requirement.clone(), own.clone());
                    return Err(IncompatibleRequirements::Conflicts(vec![RequirementConflict {
                        incoming,
                        existing,
                    }]));
                }
                _ => question.add(requirement.clone()),
            }
        }
        self.compatible(&question, allow_undefined)
    }

    /// Whether every key that both have leaves some value. Keys of one side only are fine.
    ///
    /// Two requirements that a node without the label satisfies agree even without a common value.
    pub fn intersects(&self, incoming: &Self) -> Result<(), IncompatibleRequirements> {
        let agree = |existing: &Requirement, requirement: &Requirement| {
            existing.has_intersection(requirement)
                || (existing.allows_absence() && requirement.allows_absence())
        };
        let conflicts: Vec<_> = incoming
            .iter()
            .filter_map(|requirement| Some((self.get(requirement.key())?, requirement)))
            .filter(|(existing, requirement)| !agree(existing, requirement))
            .map(|(existing, requirement)| RequirementConflict {
                incoming: requirement.clone(),
                existing: existing.clone(),
            })
            .collect();
        if conflicts.is_empty() {
            Ok(())
        } else {
            Err(IncompatibleRequirements::Conflicts(conflicts))
        }
    }

    /// The label that the unknown `key` may be a misspelling of: one that contains it, or ends with
    /// its name part. Allowed labels come before own ones, the same name part before others.
    fn similar_label(&self, key: &str, allow_undefined: &BTreeSet<String>) -> Option<String> {
        let best = |labels: &mut dyn Iterator<Item = &str>| {
            labels
                .filter(|label| label.contains(key) || label.ends_with(key_name(key)))
                .min_by_key(|label| (key_name(label) != key_name(key), *label))
                .map(str::to_owned)
        };
        best(&mut allow_undefined.iter().map(String::as_str)).or_else(|| best(&mut self.keys()))
    }
}

/// Returns the part after the first slash, or the whole key without one.
fn key_name(key: &str) -> &str {
    key.split_once('/').map_or(key, |(_, name)| name)
}

/// The reason why a node side does not meet the requirements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IncompatibleRequirements {
    /// A label that neither NodePool nor provider defines.
    UnknownLabel {
        /// The required label.
        key: String,
        /// A label that it may have been meant to be.
        typo_of: Option<String>,
    },
    /// Keys whose values do not meet; at least one, by key.
    Conflicts(Vec<RequirementConflict>),
}

/// Two requirements on one key that have no value in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequirementConflict {
    /// The requirement that the node side has to meet.
    pub incoming: Requirement,
    /// What the node side has.
    pub existing: Requirement,
}

impl fmt::Display for RequirementConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { incoming, existing } = self;
        write!(f, "key {}, {incoming} not in {existing}", incoming.key())
    }
}

impl fmt::Display for IncompatibleRequirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownLabel { key, typo_of } => {
                write!(f, "label {key:?} does not have known values")?;
                match typo_of {
                    Some(label) => write!(f, " (typo of {label:?}?)"),
                    None => Ok(()),
                }
            }
            Self::Conflicts(conflicts) => {
                let texts: Vec<_> = conflicts.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join("; "))
            }
        }
    }
}

impl Error for IncompatibleRequirements {}
