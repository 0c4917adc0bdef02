//! How long a decision may go on, without a clock.

use std::fmt;

/// Asked at fixed points (before each attempt to place a pod, and before each reason is worked out)
/// whether to go on. Production answers
/// from a deadline, tests from a counter. Once it said no it is not asked again.
pub struct Fuel<'a> {
    may_continue: Box<dyn FnMut() -> bool + 'a>,
    is_used_up: bool,
}

impl<'a> Fuel<'a> {
    /// Never runs dry.
    pub fn unlimited() -> Self {
        Self::limited_by(|| true)
    }

    /// Says yes so many times.
    pub fn after_steps(mut steps: u64) -> Self {
        Self::limited_by(move || {
            let is_left = steps > 0;
            steps = steps.saturating_sub(1);
            is_left
        })
    }

    /// Runs dry when `may_go_on` first says no.
    pub fn limited_by(may_go_on: impl FnMut() -> bool + 'a) -> Self {
        Self { may_continue: Box::new(may_go_on), is_used_up: false }
    }

    /// Whether to go on.
    pub fn may_continue(&mut self) -> bool {
        self.is_used_up = self.is_used_up || !(self.may_continue)();
        !self.is_used_up
    }

    /// Whether it said no.
    pub fn is_used_up(&self) -> bool {
        self.is_used_up
    }
}

impl fmt::Debug for Fuel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fuel").field("is_dry", &self.is_used_up).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_fuel_allows_exactly_the_given_steps() {
        for steps in 0..4 {
            let mut fuel = Fuel::after_steps(steps);
            let granted = (0..10).filter(|_| fuel.may_continue()).count();
            assert_eq!((granted as u64, fuel.is_used_up()), (steps, true), "{steps}");
        }
    }

    #[test]
    fn used_up_fuel_is_not_checked_again() {
        let mut answers = [true, false, true].into_iter();
        let mut fuel = Fuel::limited_by(|| answers.next().expect("asked too often"));
        let granted: Vec<_> = (0..5).map(|_| fuel.may_continue()).collect();
        assert_eq!(granted, [true, false, false, false, false]);
    }
}
