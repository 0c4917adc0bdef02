//! Limits how long a decision may run, without a clock.

use std::fmt;

/// The steps that a decision may take.
///
/// The solver checks it at fixed points: before each attempt to place a pod, and before each
/// rejection is calculated. In production a deadline limits it, in tests a counter. Once it is used
/// up, the limit is not checked again.
pub struct Fuel<'a> {
    may_continue: Box<dyn FnMut() -> bool + 'a>,
    is_used_up: bool,
}

impl<'a> Fuel<'a> {
    /// Returns fuel that is never used up.
    pub fn unlimited() -> Self {
        Self::limited_by(|| true)
    }

    /// Returns fuel for this many steps.
    pub fn after_steps(mut steps: u64) -> Self {
        Self::limited_by(move || {
            let is_left = steps > 0;
            steps = steps.saturating_sub(1);
            is_left
        })
    }

    /// Returns fuel that is used up when `may_continue` first returns false.
    pub fn limited_by(may_continue: impl FnMut() -> bool + 'a) -> Self {
        Self { may_continue: Box::new(may_continue), is_used_up: false }
    }

    /// Takes a step. Returns whether the decision may continue.
    pub fn may_continue(&mut self) -> bool {
        self.is_used_up = self.is_used_up || !(self.may_continue)();
        !self.is_used_up
    }

    /// Returns whether the fuel is used up.
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
