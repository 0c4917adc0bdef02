//! The result of validating a value against one node of a schema.

use std::collections::HashSet;

use crate::admission::FieldError;

#[derive(Debug, Default)]
pub(crate) struct ValidationResult {
    pub(crate) errors: Vec<FieldError>,
    /// The number of passed checks of this node and the nodes below it.
    ///
    /// Only comparisons between the branches of `anyOf` and `oneOf` read it, so it counts exactly
    /// what the API server does.
    pub(crate) match_count: usize,
}

impl ValidationResult {
    pub(crate) fn one_match() -> Self {
        Self { errors: Vec::new(), match_count: 1 }
    }

    pub(crate) fn error(error: FieldError) -> Self {
        Self { errors: vec![error], match_count: 0 }
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    pub(crate) fn merge(&mut self, mut other: Self) {
        self.errors.append(&mut other.errors);
        self.match_count += other.match_count;
    }

    /// Merges the result of one check, and counts one match for the check itself.
    pub(crate) fn merge_and_count(&mut self, other: Self) {
        self.merge(other);
        self.match_count += 1;
    }

    /// Returns the branch to report: valid, else most matches, else the earlier.
    pub(crate) fn best_branch(best: Option<Self>, next: Self) -> Self {
        match best {
            None => next,
            Some(best) if best.is_valid() => best,
            Some(_) if next.is_valid() => next,
            Some(best) if next.match_count > best.match_count => next,
            Some(best) => best,
        }
    }

    /// Removes repeated errors, since several branches may find the same fault.
    pub(crate) fn deduplicate_errors(&mut self) {
        if self.errors.len() > 1 {
            let mut seen = HashSet::new();
            self.errors.retain(|error| seen.insert(error.to_string()));
        }
    }
}
