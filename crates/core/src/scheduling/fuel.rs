//! How long a decision may go on, without a clock.

use std::fmt;

/// Asked at fixed points (before each attempt to place a pod) whether to go on. Production answers
/// from a deadline, tests from a counter. Once it said no it is not asked again.
pub struct Fuel<'a> {
    may_go_on: Box<dyn FnMut() -> bool + 'a>,
    is_dry: bool,
}

impl<'a> Fuel<'a> {
    /// Never runs dry.
    pub fn unlimited() -> Self {
        Self::asking(|| true)
    }

    /// Runs dry after so many questions.
    pub fn steps(mut steps: u64) -> Self {
        Self::asking(move || {
            steps = steps.saturating_sub(1);
            steps > 0
        })
    }

    /// Runs dry when `may_go_on` first says no.
    pub fn asking(may_go_on: impl FnMut() -> bool + 'a) -> Self {
        Self { may_go_on: Box::new(may_go_on), is_dry: false }
    }

    /// Whether to go on.
    pub fn may_go_on(&mut self) -> bool {
        self.is_dry = self.is_dry || !(self.may_go_on)();
        !self.is_dry
    }

    /// Whether it said no.
    pub fn is_dry(&self) -> bool {
        self.is_dry
    }
}

impl fmt::Debug for Fuel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fuel").field("is_dry", &self.is_dry).finish_non_exhaustive()
    }
}
