//! Requirements by key.

use std::fmt;
use std::sync::Arc;

use super::{Aliases, BoundError, Requirement, RequirementItem};
use crate::labels::HOSTNAME;

/// What labels a node may have: one set of values per key. A key that is not here may have any
/// value or none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requirements {
    /// Sorted by key. Shared by copies: instance types repeat the same fifty requirements, and
    /// overlays and caches copy them.
    sorted: Vec<Arc<Requirement>>,
}

impl Requirements {
    /// The sets that the items of a spec stand for. Items with one key are intersected.
    pub fn from_items<'a>(
        items: impl IntoIterator<Item = &'a RequirementItem>,
        aliases: &Aliases,
    ) -> Result<Self, BoundError> {
        items.into_iter().map(|item| Requirement::from_item(item, aliases)).collect()
    }

    /// Exactly these labels: of a node, of a template, or a nodeSelector.
    pub fn from_labels<'a>(
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        aliases: &Aliases,
    ) -> Self {
        labels
            .into_iter()
            .map(|(key, value)| {
                let key = aliases.normalize_key(key);
                Requirement::in_values(key, [aliases.normalize_value(key, value)])
            })
            .collect()
    }

    /// Tightens the key by one more requirement.
    pub fn add(&mut self, requirement: impl Into<Arc<Requirement>>) {
        let requirement = requirement.into();
        match self.position(requirement.key()) {
            Ok(found) => {
                if let Some(known) = self.sorted.get_mut(found) {
                    *known = Arc::new(requirement.intersection(known));
                }
            }
            Err(place) => self.sorted.insert(place, requirement),
        }
    }

    /// The requirement on a key, if there is one.
    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.sorted.get(self.position(key).ok()?).map(|known| &**known)
    }

    /// All requirements, by key.
    pub fn iter(&self) -> impl Iterator<Item = &Requirement> {
        self.sorted.iter().map(|known| &**known)
    }

    /// The keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(Requirement::key)
    }

    /// How many keys are constrained.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether nothing is constrained.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Whether some requirement asks for distinct values.
    pub fn has_min_values(&self) -> bool {
        self.iter().any(|requirement| requirement.min_values().is_some())
    }

    /// The items that a NodeClaim carries, by key.
    pub fn items(&self) -> Vec<RequirementItem> {
        self.iter().flat_map(Requirement::items).collect()
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.sorted.binary_search_by(|known| known.key().cmp(key))
    }
}

impl<R: Into<Arc<Requirement>>> FromIterator<R> for Requirements {
    fn from_iter<I: IntoIterator<Item = R>>(requirements: I) -> Self {
        let mut set = Self::default();
        set.extend(requirements);
        set
    }
}

impl<R: Into<Arc<Requirement>>> Extend<R> for Requirements {
    fn extend<I: IntoIterator<Item = R>>(&mut self, requirements: I) {
        requirements.into_iter().for_each(|requirement| self.add(requirement));
    }
}

/// All texts sorted and joined with a comma, without the hostname (spec 10 §10.3.7).
impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The hostname is that of a node that does not exist yet.
        let shown = self.iter().filter(|requirement| requirement.key() != HOSTNAME);
        let mut texts: Vec<_> = shown.map(ToString::to_string).collect();
        texts.sort();
        f.write_str(&texts.join(", "))
    }
}
