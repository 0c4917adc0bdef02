//! The result of validating one node.

use std::collections::HashSet;

use crate::admission::FieldError;

#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) errors: Vec<FieldError>,
    /// How many checks this node and those below it agreed with. Only comparisons between the
    /// branches of `anyOf` and `oneOf` look at it, so it counts exactly what the API server does.
    pub(crate) agreements: usize,
}

impl Outcome {
    pub(crate) fn agreement() -> Self {
        Self { errors: Vec::new(), agreements: 1 }
    }

    pub(crate) fn error(error: FieldError) -> Self {
        Self { errors: vec![error], agreements: 0 }
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    pub(crate) fn merge(&mut self, mut other: Self) {
        self.errors.append(&mut other.errors);
        self.agreements += other.agreements;
    }

    /// Merges the result of one check, which counts once for having been made.
    pub(crate) fn merge_check(&mut self, other: Self) {
        self.merge(other);
        self.agreements += 1;
    }

    /// The branch to report: a valid one, else the one that agreed most, else the earlier one.
    pub(crate) fn better(best: Option<Self>, next: Self) -> Self {
        match best {
            None => next,
            Some(best) if best.is_valid() => best,
            Some(_) if next.is_valid() => next,
            Some(best) if next.agreements > best.agreements => next,
            Some(best) => best,
        }
    }

    /// Several branches may find the same fault; it is told once.
    pub(crate) fn drop_repeated(&mut self) {
        if self.errors.len() > 1 {
            let mut seen = HashSet::new();
            self.errors.retain(|error| seen.insert(error.to_string()));
        }
    }
}
